"""A module of `llvm.func` and `llvm.mlir.global` to LLVM IR text.

The text is a function of the module alone: functions and globals in order, declarations in order of first use, then
metadata.  Locations are included as far as the debug level requests them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tileiras import lowering
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity
from tileiras.dialects import llvm
from tileiras.dialects.gpu import GPUModuleOp
from tileiras.dialects.llvm.types import llvm_text
from tileiras.dialects.nvvm.attributes import NVVMTargetAttr
from tileiras.ir import (
    ArrayAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    Location,
    Operation,
    StringAttr,
    UnitAttr,
    VerifyError,
    i8,
)
from tileiras.targets.nvptx import (
    BLOBS_METADATA,
    INLINED_METADATA,
    KERNELS_METADATA,
    MIN_PTX_METADATA,
    MODULE_HEADER,
    OPT_LEVEL_METADATA,
    ORDER_METADATA,
    PAIRS_METADATA,
    REFLECTION_METADATA,
    REQUIREMENTS_METADATA,
)

from .function import FunctionTranslation, checked_symbol
from .literals import constant_text, escape

if TYPE_CHECKING:
    from .debug_info import DebugLevel, DebugMetadata

DEBUG_FLAG = 'i32 2, !"Debug Info Version", i32 3'
"""LLVM drops the debug metadata of modules without it (LLVM source level debugging guide, "Debug info version")."""

REFLECT_FTZ = "nvvm.reflect_ftz"
"""Unit attribute of the module: libdevice takes its flushing variants."""

REFLECT_APPROX = "nvvm.reflect_approx"
"""Unit attribute of the module: libraries approximate division and square root."""

BLOB_LINKED_LIB = "blobLinkedLib"
"""Attribute of the module: bitcode to link as needed, as an array of i8 or the path of a file; or several of them."""


class ModuleTranslation:
    """The state of one module's translation."""

    __slots__ = (
        "_declarations", "_defined", "_metadata", "_min_ptx", "_newest", "_requirements", "_signatures", "_symbols",
        "chip", "debug", "opt_level",
    )  # fmt: skip

    def __init__(self, chip: str | None = None, debug: DebugLevel | None = None) -> None:
        self.chip = chip
        self.opt_level: int | None = None
        """The highest optimization level of the module, or None."""
        self.debug: DebugMetadata | None = None
        if debug is not None:
            self.debug = lowering.llvm_to_ir.debug_info.DebugMetadata(debug, self.node)
        self._declarations: dict[str, str] = {}
        self._signatures: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._defined: set[str] = set()
        self._symbols: set[str] = set()
        self._metadata: dict[str, int] = {}
        self._min_ptx: tuple[int, int] = (0, 0)
        self._newest = ""
        self._requirements: dict[str, None] = {}

    # ---- used by the writers -----------------------------------------------------------------------------------------

    def declare(self, name: str, result: str, types: Sequence[str]) -> None:
        """Make sure that the module declares a function."""
        if name in self._defined:
            return
        signature = (result, tuple(types))
        earlier = self._signatures.setdefault(name, signature)
        if earlier != signature:
            raise VerifyError(f"calls '{name}' as {_spell(signature)}, which is elsewhere {_spell(earlier)}")
        self._declarations.setdefault(name, f"declare {result} @{name}({', '.join(types)})")

    def require_function(self, name: str, result: str, types: Sequence[str]) -> None:
        """Check a call against the function's declaration in the module and declare it in the text."""
        earlier = self._signatures.get(name)
        if earlier is None:
            raise VerifyError(f"'{name}' does not reference a valid function")
        if earlier != (result, tuple(types)):
            raise VerifyError(f"calls '{name}' as {_spell((result, tuple(types)))}, which is {_spell(earlier)}")
        self.declare(name, result, types)

    def require_symbol(self, name: str, location: Location) -> None:
        if name not in self._symbols:
            raise VerifyError(f"'{name}' does not name a global or function", location=location, prefix=False)

    def metadata(self, content: str) -> str:
        """The number of the metadata node `!{content}`."""
        return self.node(f"!{{{content}}}")

    def loop(self, *properties: str) -> str:
        """The number of a node that identifies a loop, and has properties (LLVM language reference,
        "llvm.loop")."""
        listed = [self.metadata(f'!"{name}"') for name in properties]
        return self.node(f"distinct !{{!{len(self._metadata)}, {', '.join(listed)}}}")

    def node(self, text: str) -> str:
        """The number of a metadata node."""
        return f"!{self._metadata.setdefault(text, len(self._metadata))}"

    def require(self, version: tuple[int, int], feature: str, requirement: str = "") -> None:
        """Record a requirement of inline assembly, which LLVM cannot derive from it: a PTX version, a form of the
        target.  `feature` is the instruction, for messages."""
        if version > self._min_ptx:
            self._min_ptx, self._newest = version, feature
        if requirement.startswith("="):
            self._requirements[requirement] = None

    # ---- the module --------------------------------------------------------------------------------------------------

    def run(
        self,
        operations: Iterable[Operation],
        flush_to_zero: bool,
        approximate: bool = False,
        blobs: Sequence[str] = (),
    ) -> str:
        operations = list(operations)
        functions = [op for op in operations if isinstance(op, llvm.LLVMFuncOp)]
        for op in operations:
            if not isinstance(op, (llvm.LLVMFuncOp, llvm.GlobalOp)):
                raise VerifyError(f"'{op.name}' op cannot stand in an LLVM module", location=op.location, prefix=False)
            self._symbols.add(op.sym_name.value)
        for function in functions:
            kind = function.function_type
            signature = (llvm_text(kind.result), tuple(map(llvm_text, kind.inputs)))
            self._signatures[function.sym_name.value] = signature
            if not function.is_declaration:
                self._defined.add(function.sym_name.value)
        parts = [MODULE_HEADER]
        variables = [op for op in operations if isinstance(op, llvm.GlobalOp)]
        parts += [_global_text(op) + "\n" for op in variables]
        parts += _used_elsewhere(variables)
        for function in functions:
            if not function.is_declaration:
                parts.append("\n" + FunctionTranslation(self, function).run() + "\n")
        if self._declarations:
            parts.append("\n")
        parts += [text + "\n" for text in self._declarations.values()]
        flags = [self.metadata('i32 4, !"nvvm-reflect-ftz", i32 1')] if flush_to_zero else []
        metadata = []
        if self.debug is not None and self.debug.unit is not None:
            flags.append(self.metadata(DEBUG_FLAG))
            metadata.append(f"!llvm.dbg.cu = !{{{self.debug.unit}}}\n")
            if self.debug.inlined:
                metadata.append(f"!{INLINED_METADATA} = !{{{', '.join(map(self.metadata, self.debug.inlined))}}}\n")
        if flags:
            metadata.append(f"!llvm.module.flags = !{{{', '.join(flags)}}}\n")
        if approximate:
            keys = (self.metadata(f'!"{key}", i32 0') for key in ("__CUDA_PREC_DIV", "__CUDA_PREC_SQRT"))
            metadata.append(f"!{REFLECTION_METADATA} = !{{{', '.join(keys)}}}\n")
        if self._min_ptx > (0, 0):
            node = self.metadata('i32 {}, i32 {}, !"{}"'.format(*self._min_ptx, self._newest))
            metadata.append(f"!{MIN_PTX_METADATA} = !{{{node}}}\n")
        if self.opt_level is not None:
            metadata.append(f"!{OPT_LEVEL_METADATA} = !{{{self.metadata(f'i32 {self.opt_level}')}}}\n")
        if self._requirements:
            node = self.metadata(", ".join(f'!"{requirement}"' for requirement in self._requirements))
            metadata.append(f"!{REQUIREMENTS_METADATA} = !{{{node}}}\n")
        if blobs:
            metadata.append(f"!{BLOBS_METADATA} = !{{{', '.join(map(self.metadata, blobs))}}}\n")
        kernels = [self.metadata(_kernel_metadata(f)) for f in functions if f.is_kernel and not f.is_declaration]
        if kernels:
            metadata.append(f"!{KERNELS_METADATA} = !{{{', '.join(kernels)}}}\n")
        pairs = [self.metadata(_pairs_metadata(f)) for f in functions if llvm.PAIRS_OF in f.attributes]
        if pairs:
            metadata.append(f"!{PAIRS_METADATA} = !{{{', '.join(pairs)}}}\n")
        orders = [self.metadata(_order_metadata(f)) for f in functions if llvm.ORDER in f.attributes]
        if orders:
            metadata.append(f"!{ORDER_METADATA} = !{{{', '.join(orders)}}}\n")
        if self._metadata:
            parts.append("\n")
            parts += metadata
            parts += [f"!{number} = {text}\n" for text, number in self._metadata.items()]
        return "".join(parts)


def _kernel_metadata(function: llvm.LLVMFuncOp) -> str:
    """The fields of NAME.json for a kernel that its PTX does not contain."""
    shared: Any = function.attributes.get(llvm.SHARED_MEMORY)
    group: Any = function.attributes.get(llvm.BLOCK_GROUP)
    blocks: Any = function.attributes.get(llvm.CLUSTER_BLOCKS)
    fields = [f'!"{function.sym_name.value}"', f"i64 {shared.value if shared is not None else 0}"]
    if group is not None or blocks is not None:
        fields.append(f"i64 {group.value if group is not None else 0}")
    fields += [f"i64 {blocks.value}"] if blocks is not None else []
    for number in range(len(function.function_type.inputs)):
        attributes: dict[str, Any] = function.argument_attributes(number)
        for key in (llvm.PARAMETER_NAME, llvm.PARAMETER_TYPE, llvm.HIDDEN_PARAMETER):
            fields.append(f'!"{escape(attributes[key].value) if key in attributes else ""}"')
    return ", ".join(fields)


def _pairs_metadata(function: llvm.LLVMFuncOp) -> str:
    """A kernel, the kernel that it replaces in launches, and the conditions of such a launch."""
    instead_of: Any = function.attributes[llvm.PAIRS_OF]
    facts: Any = function.attributes.get(llvm.PAIRS_WHERE, ())
    return ", ".join(f'!"{escape(each.value)}"' for each in (function.sym_name, instead_of, *facts))


def _order_metadata(function: llvm.LLVMFuncOp) -> str:
    """A kernel and the lines of its certificate of order."""
    lines: Any = function.attributes[llvm.ORDER]
    return ", ".join(f'!"{escape(each.value)}"' for each in (function.sym_name, *lines))


def _blobs(module: Operation) -> list[str]:
    """The metadata of the module's blobs."""
    entry = module.attributes.get(BLOB_LINKED_LIB)
    nodes = []
    for blob in entry if isinstance(entry, ArrayAttr) else [entry] if entry is not None else []:
        if isinstance(blob, StringAttr):
            nodes.append(f'!"path", !"{escape(blob.value)}"')
        elif isinstance(blob, DenseArrayAttr) and blob.element_type is i8:
            data = bytes(number & 0xFF for number in blob.elements)
            nodes.append('!"inline", !"' + "".join(f"\\{byte:02X}" for byte in data) + '"')
        elif isinstance(blob, DenseElementsAttr) and blob.element_type is i8:
            data = blob.data * (blob.type.num_elements if blob.is_splat else 1)
            nodes.append('!"inline", !"' + "".join(f"\\{byte:02X}" for byte in data) + '"')
        else:
            raise VerifyError(f"'{BLOB_LINKED_LIB}' must be a path or an array of i8", location=module.location)
    return nodes


def _flag(module: Operation, name: str) -> bool:
    value = module.attributes.get(name)
    if value is not None and not isinstance(value, UnitAttr):
        raise VerifyError(f"'{name}' must be a unit attribute, got {value}", location=module.location)
    return value is not None


def _spell(signature: tuple[str, tuple[str, ...]]) -> str:
    return f"{signature[0]} ({', '.join(signature[1])})"


def _global_text(op: llvm.GlobalOp) -> str:
    name = checked_symbol(op.sym_name.value, op)
    linkage = op.linkage.value
    if linkage == "external":
        linkage = "external" if op.value is None else ""
    space = f"addrspace({op.address_space})" if op.address_space else ""
    keyword = "constant" if op.constant is not None else "global"
    kind = llvm_text(op.global_type)
    value: Any = op.value
    initial = ""
    if value is not None:
        initial = " " + _initial_value(value)
    elif op.linkage.value != "external":
        # Shared memory has no initial value; LLVM requires one for a definition.
        initial = " undef"
    words = " ".join(word for word in (linkage, space, keyword, kind) if word)
    alignment = f", align {op.alignment.value}" if op.alignment is not None else ""
    return f"@{name} = {words}{initial}{alignment}"


def _used_elsewhere(variables: Iterable[llvm.GlobalOp]) -> list[str]:
    """Keep LLVM from concluding that internal memory keeps its initial value, or is never read: the other entries of
    the file, each a module of its own, share it."""
    internal = [op for op in variables if op.linkage.value == "internal" and op.address_space == 1]
    shared = [op for op in internal if op.constant is None]
    if not shared:
        return []
    addresses = [f"ptr addrspacecast (ptr addrspace(1) @{op.sym_name.value} to ptr)" for op in shared]
    kind = f"[{len(addresses)} x ptr]"
    values = ", ".join(addresses)
    return [f'@llvm.compiler.used = appending global {kind} [{values}], section "llvm.metadata"\n']


def _initial_value(value: DenseElementsAttr | StringAttr) -> str:
    if isinstance(value, DenseElementsAttr) and not value.is_splat:
        # An array constant; its vector spelling differs only in the brackets.
        return "[" + constant_text(value)[1:-1] + "]"
    if isinstance(value, DenseElementsAttr):
        element = constant_text(value)
        if element == "zeroinitializer":
            return element
        inner = element[len("splat (") : -1]
        return "[" + ", ".join([inner] * value.type.num_elements) + "]"
    return constant_text(value)


def _targeted(module: Operation, chip: str | None) -> Operation:
    """The gpu.module inside, if the code is there; raises CompileError for one of another target."""
    inner = [op for op in (module.regions[0].blocks[0].operations if module.regions[0].blocks else ())]
    if not any(isinstance(op, GPUModuleOp) for op in inner):
        return module
    result: Any = next(op for op in inner if isinstance(op, GPUModuleOp))
    if len(inner) > 1:
        other = next(op for op in inner if op is not result)
        raise CompileError.at_operation(other, "stands beside the gpu.module that is translated")
    targets = result.targets.elements if result.targets is not None else ()
    if len(targets) > 1:
        raise CompileError.at(result.location, f"gpu.module has {len(targets)} targets; it is compiled for one")
    if not targets or not isinstance(targets[0], NVVMTargetAttr):
        raise CompileError.at(result.location, "no target attribute")
    if chip is not None and targets[0].chip != chip:
        note = Diagnostic.note(None, f"it is for {targets[0].chip}, the compilation for {chip}")
        raise CompileError.at(result.location, "gpu.module already carries a conflicting target", notes=[note])
    return result


def translate_module(
    module: Operation, chip: str | None = None, debug: DebugLevel | None = None, opt_level: int = 0
) -> str:
    """LLVM IR text of a module (an operation with one region of one block).

    With a `chip`, operations that it lacks are errors at their location.  With a `debug` level, functions whose
    locations have a scope get debug metadata.  The text states the module's target only where it differs from the
    compilation at `opt_level`: a lower level, a PTX version.  Raises CompileError.
    """
    module = _targeted(module, chip)
    operations = module.regions[0].blocks[0].operations if module.regions[0].blocks else ()
    try:
        flush_to_zero, approximate = (_flag(module, name) for name in (REFLECT_FTZ, REFLECT_APPROX))
        translation = ModuleTranslation(chip, debug)
        target = module.targets.elements[0] if isinstance(module, GPUModuleOp) else None
        if isinstance(target, NVVMTargetAttr):
            translation.require(target.ptx_version, "#nvvm.target")
            if target.O < opt_level:
                translation.opt_level = target.O
        return translation.run(operations, flush_to_zero, approximate, _blobs(module))
    except VerifyError as error:
        notes = [Diagnostic.note(location, text) for location, text in error.notes]
        location = error.location if error.location is not None else module.location
        raise CompileError(
            [Diagnostic(Severity.ERROR, location, error.message, notes)], ExitCode.COMPILE_FAILURE
        ) from None
