"""Functions, globals and calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tileiras.ir import (
    ArrayAttr,
    Attribute,
    Block,
    DictAttr,
    HasParent,
    IntegerAttr,
    IsolatedFromAbove,
    Location,
    Region,
    ReturnLike,
    StringAttr,
    Symbol,
    SymbolRefAttr,
    Type,
    UnitAttr,
    VerifyError,
    attribute,
    i1,
    i8,
    i32,
    optional_operand,
    optional_result,
    region,
    variadic_operand,
)

from .attributes import FastmathFlagsAttr, LinkageAttr
from .base import LLVMOp, alignment_attribute, check_alignment, llvm_type
from .types import LLVMArrayType, LLVMFunctionType, LLVMVoidType, is_llvm_type, void

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer


KERNEL = "nvvm.kernel"
"""Unit attribute that makes a function an entry."""

SHARED_MEMORY = "tileiras.shared_memory"
"""Integer attribute of a kernel: bytes of dynamic shared memory that the launch provides."""

BLOCK_GROUP = "tileiras.block_group"
"""Integer attribute of a kernel: tile blocks of a group of the grid's rows, in which those with more work start first;
it goes to NAME.json."""

CLUSTER_BLOCKS = "tileiras.cluster_blocks"
"""Integer attribute of a kernel: tile blocks along x that a launch should put in one cluster; it goes to NAME.json.
"""

PAIRS_OF = "tileiras.pairs_of"
"""String attribute of a kernel: the name of the kernel that it replaces in launches whose grid can be divided into
clusters of as many tile blocks as its own; it goes to NAME.json."""

PAIRS_WHERE = "tileiras.pairs_where"
"""Array attribute of a kernel with the previous attribute: further conditions of a launch, as texts in the words of
`targets/launch_facts.py`; they go to NAME.json."""

ORDER = "tileiras.order"
"""Array attribute of a kernel: its certificate of order, lines in the text form of `order/certificate.py`, for
NAME.json."""

PARAMETER_NAME, PARAMETER_TYPE = "tileiras.name", "tileiras.type"
"""String attributes of a kernel's arguments, as the source has them; they go to NAME.json."""

GRID_CONSTANT = "nvvm.grid_constant"
"""Unit attribute of a kernel's by-value argument that nothing writes: it is used where the launch put it, in parameter
space.  Without it, LLVM copies an aggregate whose address is taken to local memory, which no tensor map may be in."""

HIDDEN_PARAMETER = "tileiras.hidden"
"""String attribute of an argument that the host fills by itself; describes how."""


DENORMAL_MODES = ("denormal_fp_math", "denormal_fp_math_f32")
"""String attributes of a function: the treatment of denormals, of f32 alone for the second."""

_DENORMAL_WORD = "(?:ieee|preserve-sign|positive-zero|dynamic)"
_DENORMAL_MODE = f"{_DENORMAL_WORD}(?:,{_DENORMAL_WORD})?"

_FLAGS = ("llvm.noalias", "llvm.readonly", GRID_CONSTANT)
_STRINGS = (PARAMETER_NAME, PARAMETER_TYPE, HIDDEN_PARAMETER)


def _check_argument(attributes: dict[str, Attribute]) -> None:
    """Raise VerifyError for an argument attribute that does not have its form."""
    for name, value in attributes.items():
        if name == "llvm.align":
            number = value.value if isinstance(value, IntegerAttr) and value.type is not i1 else 0
            # LLVM's largest alignment.
            right, expects = 0 < number <= 1 << 32 and not number & number - 1, "a power of two of at most 4294967296"
        elif name == "llvm.byval":
            right, expects = is_llvm_type(value), "an LLVM type"
        elif name in _FLAGS:
            right, expects = isinstance(value, UnitAttr), "a unit attribute"
        else:
            right, expects = name not in _STRINGS or isinstance(value, StringAttr), "a string"
        if not right:
            raise VerifyError(f"argument attribute '{name}' must be {expects}, got {value}")


class LLVMFuncOp(LLVMOp, name="llvm.func", traits=(IsolatedFromAbove, Symbol)):
    """A function; without a body it is declared only.

    Kernel attributes are nvvm's: `nvvm.kernel`, `nvvm.reqntid`, `nvvm.minctasm`, `nvvm.maxnreg`, `nvvm.cluster_dim`,
    `nvvm.blocksareclusters`.  Argument attributes: `llvm.align`, `llvm.noalias`, `llvm.readonly`, `llvm.byval`,
    `nvvm.grid_constant`.
    """

    sym_name = attribute(StringAttr)
    function_type = attribute(LLVMFunctionType)
    linkage = attribute(LinkageAttr, optional=True)
    arg_attrs = attribute(ArrayAttr, "one dictionary per argument", optional=True)
    body = region("without a block: only a declaration")

    @classmethod
    def define(
        cls,
        sym_name: str,
        inputs: Sequence[Any],
        result: Type = void,
        *,
        arg_attrs: Sequence[dict[str, Attribute]] | None = None,
        attributes: dict[str, Attribute] | None = None,
        **by_name: object,
    ) -> LLVMFuncOp:
        """A function with an empty entry block that has the arguments."""
        op = cls(
            sym_name=StringAttr(sym_name),
            function_type=LLVMFunctionType(result, inputs),
            arg_attrs=ArrayAttr([DictAttr(a) for a in arg_attrs]) if arg_attrs and any(arg_attrs) else None,
            body=Region([Block(inputs)]),
            **by_name,
        )
        op.attributes.update(attributes or {})
        return op

    @classmethod
    def declare(cls, sym_name: str, inputs: Sequence[Any], result: Type = void, **by_name: object) -> LLVMFuncOp:
        """A function that is defined elsewhere, such as in libdevice."""
        return cls(sym_name=StringAttr(sym_name), function_type=LLVMFunctionType(result, inputs), **by_name)

    @property
    def is_declaration(self) -> bool:
        return not self.regions or not self.regions[0].blocks

    @property
    def is_kernel(self) -> bool:
        return KERNEL in self.attributes

    def argument_attributes(self, number: int) -> dict[str, Attribute]:
        """The attributes of one argument."""
        return dict(self.arg_attrs.elements[number].items) if self.arg_attrs is not None else {}

    def verify_op(self) -> None:
        inputs = self.function_type.inputs
        if self.arg_attrs is not None and len(self.arg_attrs) != len(inputs):
            raise VerifyError(f"expects argument attribute array to have {len(inputs)} elements")
        if self.is_kernel and not isinstance(self.function_type.result, LLVMVoidType):
            raise VerifyError("Kernel functions do not support return with operands")
        for name in DENORMAL_MODES:
            mode = self.attributes.get(name)
            if mode is not None and not (isinstance(mode, StringAttr) and re.fullmatch(_DENORMAL_MODE, mode.value)):
                raise VerifyError(f"'{name}' must be one or two modes of denormals, got {mode}")
        for number in range(len(inputs)):
            result = self.argument_attributes(number)
            _check_argument(result)
            if GRID_CONSTANT in result and not self.is_kernel:
                raise VerifyError(f"'{GRID_CONSTANT}' attribute must be present only on kernel arguments")
            if GRID_CONSTANT in result and "llvm.byval" not in result:
                raise VerifyError(f"'{GRID_CONSTANT}' attribute requires the argument to also have 'llvm.byval'")
        if self.is_declaration:
            return
        entry = self.regions[0].blocks[0]
        types = tuple(argument.type for argument in entry.arguments)
        if types != inputs:
            raise VerifyError("entry block arguments do not match the function type")

    def print_custom(self, printer: Printer) -> None:
        if self.linkage is not None and self.linkage.value != "external":
            printer.write(f" {self.linkage.value}")
        printer.write(" ")
        printer.print_symbol_name(self.sym_name.value)
        printer.write("(")
        arguments = () if self.is_declaration else self.regions[0].blocks[0].arguments
        for number, type in enumerate(self.function_type.inputs):
            if number:
                printer.write(", ")
            if arguments:
                printer.print_operand(arguments[number])
                printer.write(": ")
            printer.print_type(type)
            printer.print_optional_attr_dict(self.argument_attributes(number))
        printer.write(")")
        if not isinstance(self.function_type.result, LLVMVoidType):
            printer.write(" -> ")
            printer.print_type(self.function_type.result)
        elided = ("sym_name", "function_type", "linkage", "arg_attrs")
        if any(name not in elided for name in self.attributes):
            printer.write(" attributes")
            printer.print_optional_attr_dict(self.attributes, elided)
        if not self.is_declaration:
            printer.write(" ")
            printer.print_region(self.regions[0], entry_arguments=False)

    @classmethod
    def parse_custom(cls, parser: Parser) -> LLVMFuncOp:
        linkage = next((LinkageAttr(word) for word in LinkageAttr.cases if parser.parse_optional_keyword(word)), None)
        sym_name = parser.parse_symbol_name()
        arguments: list[Any] = []
        types: list[Any] = []
        dictionaries: list[dict[str, Attribute]] = []

        def parameter() -> None:
            if parser.peek("%"):
                argument = parser.parse_argument(with_type=True)
                arguments.append(argument)
                types.append(argument.type)
                dictionaries.append(argument.attributes)
            else:
                types.append(parser.parse_type())
                dictionaries.append(parser.parse_optional_attr_dict())

        parser.parse_comma_separated(parameter, "(", ")")
        result = parser.parse_type() if parser.parse_optional_punctuation("->") else void
        attributes: dict[str, Attribute] = {
            "sym_name": StringAttr(sym_name),
            "function_type": LLVMFunctionType(result, types),
        }
        if linkage is not None:
            attributes["linkage"] = linkage
        if any(dictionaries):
            attributes["arg_attrs"] = ArrayAttr([DictAttr(d) for d in dictionaries])
        if parser.parse_optional_keyword("attributes"):
            attributes.update(parser.parse_optional_attr_dict())
        regions = [parser.parse_region(arguments)] if parser.peek("{") else [Region()]
        return cls.create((), (), attributes, regions, location=parser.location)


class ReturnOp(LLVMOp, name="llvm.return", traits=(ReturnLike, HasParent("llvm.func"))):
    arg = optional_operand(llvm_type)
    assembly_format = "attr-dict ($arg^ `:` type($arg))?"
    verifies_locally = False

    def verify_op(self) -> None:
        function = self.parent_op
        if not isinstance(function, LLVMFuncOp):
            return
        required = function.function_type.result
        result = self.arg.type if self.arg is not None else void
        if result is not required:
            raise VerifyError(f"expected '{required}' to be returned, got '{result}'")


class GlobalOp(LLVMOp, name="llvm.mlir.global", traits=(Symbol,)):
    """A variable of the module, in address space `addr_space`; without a value it is external.

    Dynamic shared memory is `llvm.mlir.global external @smem() {addr_space = 3 : i32, alignment = 1024 : i64} :
    !llvm.array<0 x i8>`: its size comes from the launch.
    """

    sym_name = attribute(StringAttr)
    global_type = attribute(Type)
    linkage = attribute(LinkageAttr)
    constant = attribute(UnitAttr, "never written", optional=True)
    value = attribute(doc="initial value; a string for bytes", optional=True)
    addr_space = attribute(IntegerAttr, optional=True)
    alignment = attribute(IntegerAttr, "in bytes", optional=True)

    def __init__(self, *, addr_space: int | None = None, alignment: int | None = None, **by_name: object) -> None:
        if isinstance(addr_space, int):
            addr_space = IntegerAttr(addr_space, i32)
        super().__init__(addr_space=addr_space, alignment=alignment_attribute(alignment), **by_name)

    @property
    def address_space(self) -> int:
        return self.addr_space.value if self.addr_space is not None else 0

    def verify_op(self) -> None:
        check_alignment(self.alignment)
        if not 0 <= self.address_space < 1 << 24:  # LLVM has 24 bits for it
            raise VerifyError(f"has no address space {self.address_space}")
        if self.value is None and self.constant is not None:
            raise VerifyError("a constant needs a value")

    def print_custom(self, printer: Printer) -> None:
        printer.write(f" {self.linkage.value} ")
        if self.constant is not None:
            printer.write("constant ")
        printer.print_symbol_name(self.sym_name.value)
        printer.write("(")
        if self.value is not None:
            printer.print_attribute(self.value)
        printer.write(")")
        printer.print_optional_attr_dict(
            self.attributes, ("sym_name", "global_type", "linkage", "constant", "value")
        )
        printer.write(" : ")
        printer.print_type(self.global_type)

    @classmethod
    def parse_custom(cls, parser: Parser) -> GlobalOp:
        linkage = next((word for word in LinkageAttr.cases if parser.parse_optional_keyword(word)), "external")
        attributes: dict[str, Attribute] = {"linkage": LinkageAttr(linkage)}
        if parser.parse_optional_keyword("constant"):
            attributes["constant"] = UnitAttr()
        attributes["sym_name"] = StringAttr(parser.parse_symbol_name())
        parser.parse_punctuation("(")
        if not parser.parse_optional_punctuation(")"):
            attributes["value"] = parser.parse_attribute()
            parser.parse_punctuation(")")
        attributes.update(parser.parse_optional_attr_dict())
        parser.parse_punctuation(":")
        attributes["global_type"] = parser.parse_type()
        return cls.create((), (), attributes, location=parser.location)


class CallOp(LLVMOp, name="llvm.call"):
    """A direct call."""

    callee = attribute(SymbolRefAttr)
    callee_operands = variadic_operand()
    fastmathFlags = attribute(FastmathFlagsAttr, optional=True)
    no_memory = attribute(UnitAttr, "reads and writes nothing: a pure function of its operands", optional=True)
    convergent = attribute(UnitAttr, "executed by all threads of the tile block together", optional=True)
    res = optional_result(llvm_type)
    assembly_format = "$callee `(` $callee_operands `)` attr-dict `:` functional-type($callee_operands, $res)"


class CallIntrinsicOp(LLVMOp, name="llvm.call_intrinsic"):
    """A call of an LLVM intrinsic by its full name."""

    intrin = attribute(StringAttr)
    args = variadic_operand()
    fastmathFlags = attribute(FastmathFlagsAttr, optional=True)
    res = optional_result(llvm_type)
    assembly_format = "$intrin `(` $args `)` attr-dict `:` functional-type($args, $res)"

    def verify_op(self) -> None:
        if not self.intrin.value.startswith("llvm."):
            raise VerifyError("intrinsic name must start with 'llvm.'")


class InlineAsmOp(LLVMOp, name="llvm.inline_asm", traits=()):
    """PTX written out.  `$0` is the first output, then the inputs; several outputs make a struct.

    Constraints (LLVM NVPTX): h 16 bit, r 32, l 64, q 128, f float, d double, b predicate, n immediate; `=x` an output,
    a number ties an input to that output, `~{memory}` clobbers memory.
    """

    asm_string = attribute(StringAttr)
    constraints = attribute(StringAttr)
    asm_operands = variadic_operand()
    has_side_effects = attribute(UnitAttr, optional=True)
    min_ptx = attribute(StringAttr, "lowest PTX version of the instructions, such as \"8.1\"", optional=True)
    res = optional_result(llvm_type)
    assembly_format = (
        "(`has_side_effects` $has_side_effects^)? attr-dict $asm_string `,` $constraints $asm_operands"
        " `:` functional-type($asm_operands, $res)"
    )

    def verify_op(self) -> None:
        if self.min_ptx is not None and not re.fullmatch(_PTX_VERSION, self.min_ptx.value):
            raise VerifyError(f"expects a PTX version, got '{self.min_ptx.value}'")
        letters = [c.strip() for c in self.constraints.value.split(",")] if self.constraints.value else []
        inputs = [c for c in letters if not c.startswith(("=", "~"))]
        outputs = [c for c in letters if c.startswith("=")]
        if len(inputs) != len(self.asm_operands):
            raise VerifyError(f"has {len(self.asm_operands)} operands for {len(inputs)} input constraints")
        members = getattr(self.res.type, "elements", (self.res.type,)) if self.res is not None else ()
        if len(outputs) != len(members):
            raise VerifyError(f"has {len(members)} results for {len(outputs)} output constraints")
        for constraint in letters:
            # An unknown letter ends LLVM's process.
            body = constraint.lstrip("=&")
            if not (body in _ASM_LETTERS or body.isdigit() and int(body) < len(outputs) or body == "~{memory}"):
                raise VerifyError(f"unknown asm constraint '{constraint}'")


_PTX_VERSION = r"(?a:\d{1,2}\.\d{1,2})"
_ASM_LETTERS = frozenset("hrlqfdbnci")


def string_constant(name: str, text: str, location: Location) -> GlobalOp:
    """A zero-terminated string of the module in global memory."""
    data = text + "\0"
    return GlobalOp(
        sym_name=StringAttr(name),
        global_type=LLVMArrayType(len(data.encode("utf-8", "surrogateescape")), i8),
        linkage=LinkageAttr("internal"),
        constant=UnitAttr(),
        value=StringAttr(data),
        addr_space=1,
        alignment=1,
        location=location,
    )
