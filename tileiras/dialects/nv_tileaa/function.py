"""Kernels, globals, the grid, and statements about values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tileiras.dialects.arith import bool_like, integer_like
from tileiras.ir import (
    AllTypesMatch,
    AttrSizedOperandSegments,
    DenseElementsAttr,
    FunctionType,
    HasParent,
    IntegerAttr,
    IsolatedFromAbove,
    MemoryWrite,
    Operation,
    Pure,
    ReturnLike,
    StringAttr,
    Symbol,
    SymbolRefAttr,
    Terminator,
    UnitAttr,
    VerifyError,
    attribute,
    i32,
    operand,
    optional_operand,
    region,
    result,
    variadic_operand,
)

from .attributes import AxisAttr, BoundedAttr, DivByAttr, KernelSpecAttr, SameElementsAttr
from .memory import verify_alignment
from .types import MemTokenType, PtrType

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer

LAUNCH_HINTS = ("nvvm.minctasm", "nvvm.maxnreg", "nvvm.maxclusterrank", "nvvm.cluster_max_blocks")
"""Attributes of a kernel that are copied to the launch, in the place of chosen values."""

_TARGET = re.compile(r"sm_(\d+)[af]?|cpu[-\w]*")
_SOURCE_DIALECT = "cuda_tile."


class FuncOp(Operation, name="nv_tileaa.func", traits=(IsolatedFromAbove, Symbol)):
    """A kernel: every argument is a pointer or a scalar, nothing is returned."""

    sym_name = attribute(StringAttr, "the entry's name")
    function_type = attribute(FunctionType)
    kernel_spec = attribute(KernelSpecAttr, "requirements of a launch")
    target_spec = attribute(StringAttr, "the target, as in sm_90")
    body = region()

    def verify_op(self) -> None:
        if self.function_type.results:
            raise VerifyError("Kernel functions do not support return with operands")
        entry = self.body.entry
        if entry is None:
            raise VerifyError("expects a body")
        if [a.type for a in entry.arguments] != list(self.function_type.inputs):
            raise VerifyError("expects the entry block's arguments to match the function type")
        if not _TARGET.fullmatch(self.target_spec.value):
            raise VerifyError("failed to get the target spec")
        for name in self.attributes:
            if name.startswith("nvvm.") and name not in LAUNCH_HINTS:
                raise VerifyError(f"has '{name}', which is decided by kernel_spec or not known")
        for op in self.walk():
            if op.name.startswith(_SOURCE_DIALECT):
                raise VerifyError(f"'{op.name}' op is left over from cuda_tile", op.location, prefix=False)

    @property
    def compute_capability(self) -> int:
        """10 times the major version and the minor one: 90 of sm_90."""
        return int(_TARGET.fullmatch(self.target_spec.value).group(1))  # type: ignore[union-attr]

    def print_custom(self, printer: Printer) -> None:
        printer.write(" ")
        printer.print_symbol_name(self.sym_name.value)
        printer.write("(")
        for number, argument in enumerate(self.body.blocks[0].arguments):
            printer.write(", " if number else "")
            printer.print_operand(argument)
            printer.write(": ")
            printer.print_type(argument.type)
        printer.write(")")
        elided = ("sym_name", "function_type")
        if any(key not in elided for key in self.attributes):
            printer.write(" attributes")
            printer.print_optional_attr_dict(self.attributes, elided=elided)
        printer.write(" ")
        printer.print_region(self.body, entry_arguments=False)

    @classmethod
    def parse_custom(cls, parser: Parser) -> "FuncOp":
        symbol = parser.parse_symbol_name()
        arguments = parser.parse_comma_separated(lambda: parser.parse_argument(with_type=True), "(", ")")
        attributes = parser.parse_optional_attr_dict() if parser.parse_optional_keyword("attributes") else {}
        attributes["sym_name"] = StringAttr(symbol)
        attributes["function_type"] = FunctionType([argument.type for argument in arguments])
        body = parser.parse_region(arguments)
        return cls.create((), (), attributes, (body,), location=parser.location)


def function_of(op: Operation) -> FuncOp | None:
    """The function that an operation is, or is in."""
    around: Operation | None = op
    while around is not None and not isinstance(around, FuncOp):
        around = around.parent_op
    return around


class ReturnOp(Operation, name="nv_tileaa.return", traits=(Pure, ReturnLike, Terminator, HasParent("nv_tileaa.func"))):
    assembly_format = "attr-dict"


MAX_GLOBAL_ELEMENTS = 1 << 24


class GlobalOp(Operation, name="nv_tileaa.global", traits=(Symbol, HasParent("builtin.module"))):
    """Memory that lives as long as the module is loaded; the host can reach it by name unless it is private."""

    sym_name = attribute(StringAttr)
    value = attribute(DenseElementsAttr, "the initial contents")
    alignment = attribute(IntegerAttr, "in bytes", optional=True)
    constant = attribute(UnitAttr, "no kernel writes it", optional=True)
    sym_visibility = attribute(StringAttr, "`private`: only kernels of the module can see it", optional=True)
    assembly_format = "$sym_name attr-dict"

    def verify_op(self) -> None:
        # The limit is that of a tile; a splat is stored in few bytes, but would take many when expanded.
        if self.value.type.num_elements > MAX_GLOBAL_ELEMENTS:
            raise VerifyError(f"expected at most {MAX_GLOBAL_ELEMENTS} elements, got {self.value.type}")
        if self.alignment is not None:
            verify_alignment(self.alignment)

    @property
    def is_private(self) -> bool:
        return self.sym_visibility is not None and self.sym_visibility.value == "private"


class GetGlobalOp(Operation, name="nv_tileaa.get_global", traits=(Pure,)):
    """The address of a global."""

    symbol = attribute(SymbolRefAttr)
    result = result(PtrType)
    assembly_format = "$symbol attr-dict `:` type($result)"


class GetProgramIdOp(Operation, name="nv_tileaa.get_program_id", traits=(Pure,)):
    """The tile block's coordinate in the grid; `neighbor`: along x, that of the tile block of this rank, from 0, among
    those that are launched with it as a cluster, and its own where none are."""

    axis = attribute(AxisAttr)
    neighbor = attribute(IntegerAttr, optional=True)
    result = result(integer_like)
    assembly_format = "$axis (`neighbor` `=` $neighbor^)? attr-dict `:` type($result)"


class GetNumProgramsOp(Operation, name="nv_tileaa.get_num_programs", traits=(Pure,)):
    """The number of tile blocks along an axis of the grid."""

    axis = attribute(AxisAttr)
    result = result(integer_like)
    assembly_format = "$axis attr-dict `:` type($result)"


class GetCtaRankOp(Operation, name="nv_tileaa.get_cta_rank", traits=(Pure,)):
    """The number of this CTA in the cluster that is the tile block, from 0."""

    result = result(i32)
    assembly_format = "attr-dict `:` type($result)"


class AssumeOp(Operation, name="nv_tileaa.assume", traits=(Pure, AllTypesMatch("operand", "result"))):
    """The operand, which satisfies `predicate`."""

    operand = operand()
    predicate = attribute(doc="div_by, bounded or same_elements")
    result = result()
    assembly_format = "$predicate `,` $operand attr-dict `:` type($result)"

    verifies_locally = True

    def verify_op(self) -> None:
        if not isinstance(self.predicate, (BoundedAttr, DivByAttr, SameElementsAttr)):
            raise VerifyError(f"expects div_by, bounded or same_elements, got {self.predicate}")


class AssertOp(Operation, name="nv_tileaa.assert", traits=(MemoryWrite,)):
    """Stops the kernel with the message when an element of the condition is false."""

    condition = operand(bool_like)
    message = attribute(StringAttr)
    assembly_format = "$condition `,` $message attr-dict `:` type($condition)"


class PrintOp(Operation, name="nv_tileaa.print", traits=(MemoryWrite, AttrSizedOperandSegments)):
    """Formatted output from the device: each conversion of the format stands for one of `args`."""

    format = attribute(StringAttr)
    args = variadic_operand()
    token = optional_operand(MemTokenType)
    result_token = result(MemTokenType)
    assembly_format = (
        "$format (`,` $args^ `:` type($args))? (`token` `=` $token^)? attr-dict `->` type($result_token)"
    )
