"""One `llvm.func` to the text of its LLVM IR function.

Values get LLVM's own numbers in the order of their definition; blocks are `entry`, `bb1`, `bb2` in order; a block's
arguments become its phis.  Constants have no instruction: they stand where they are used.  Blocks that cannot be
reached are left out, since their phis would have no incoming value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tileiras.dialects import llvm
from tileiras.dialects.llvm.types import llvm_text
from tileiras.ir import (
    Block,
    DenseArrayAttr,
    IntegerAttr,
    Operation,
    StringAttr,
    Type,
    UnitAttr,
    Value,
    VerifyError,
)
from tileiras.targets.launch import LAUNCH_ATTRIBUTES

from .instructions import write
from .literals import constant_text

if TYPE_CHECKING:
    from .module import ModuleTranslation

BLOCKS_ARE_CLUSTERS_PTX = (9, 0)
"""PTX ISA, "Cluster Dimension Directives: .blocksareclusters"."""


class FunctionTranslation:
    """The state of one function's translation."""

    __slots__ = ("_names", "_labels", "_temporaries", "lines", "module", "op")

    def __init__(self, module: ModuleTranslation, op: llvm.LLVMFuncOp) -> None:
        self.module = module
        self.op = op
        self.lines: list[str] = []
        self._names: dict[Value, str] = {}
        self._labels: dict[Block, str] = {}
        self._temporaries = 0

    # ---- used by the writers -----------------------------------------------------------------------------------------

    def name(self, value: Value) -> str:
        """The value as an operand, without its type."""
        return self._names[value]

    def typed(self, value: Value) -> str:
        return f"{llvm_text(value.type)} {self._names[value]}"

    def arguments(self, values: Iterable[Value]) -> str:
        return ", ".join(map(self.typed, values))

    def label(self, block: Block) -> str:
        return self._labels[block]

    def emit(self, instruction: str) -> str:
        """Write an instruction whose value belongs to no operation; return its name."""
        name = f"%t{self._temporaries}"
        self._temporaries += 1
        self.lines.append(f"  {name} = {instruction}")
        return name

    # ---- the function ------------------------------------------------------------------------------------------------

    def run(self) -> str:
        """The function's text; raises VerifyError with the operation's location for an operation that LLVM lacks."""
        op = self.op
        if op.is_declaration:
            raise VerifyError("a declaration has no text of its own")
        if "nvvm.blocksareclusters" in op.attributes:
            self.module.require(BLOCKS_ARE_CLUSTERS_PTX, "'nvvm.blocksareclusters'")
        blocks = _reachable(op.regions[0].blocks)
        self._number(blocks)
        debug = self.module.debug
        subprogram = debug.enter(op.location) if debug is not None else None
        self.lines.append(f"define {self._signature()}{f' !dbg {subprogram}' if subprogram is not None else ''} {{")
        translate = self._instruction if subprogram is None else self._located_instruction
        predecessors = _predecessors(blocks)
        for block in blocks:
            self.lines.append(self._labels[block][1:] + ":")
            if block is not blocks[0]:
                self._phis(block, predecessors.get(block, []))
            for inner in block.operations:
                if not isinstance(inner, _INLINED):
                    translate(inner)
        self.lines.append("}")
        return "\n".join(self.lines)

    def _instruction(self, op: Operation) -> None:
        try:
            text = write(self, op)
        except VerifyError as error:
            if error.location is None:
                error.location = op.location
            if error.prefix:
                error.message, error.prefix = f"'{op.name}' op {error.message}", False
            raise
        if text is None:
            return
        if op.results:
            self.lines.append(f"  {self._names[op.results[0]]} = {text}")
        else:
            self.lines.append("  " + text)

    def _located_instruction(self, op: Operation) -> None:
        """The operation's instructions, each with its location."""
        if isinstance(op, llvm.DebugRecordOp):
            record = self.module.debug.record(op, self.typed(op.operands[0]))  # type: ignore[union-attr]
            if record is not None:
                self.lines.append("    " + record)
            return
        start = len(self.lines)
        self._instruction(op)
        node = self.module.debug.location(op.location)  # type: ignore[union-attr]
        if node is not None:
            self.lines[start:] = [f"{line}, !dbg {node}" for line in self.lines[start:]]

    def _number(self, blocks: list[Block]) -> None:
        names = self._names
        count = 0
        for number, block in enumerate(blocks):
            self._labels[block] = f"%bb{number}" if number else "%entry"
            for argument in block.arguments:
                names[argument] = f"%{count}"
                count += 1
            for op in block.operations:
                if isinstance(op, _INLINED):
                    names[op.results[0]] = self._inline(op)
                elif op.results:
                    names[op.results[0]] = f"%{count}"
                    count += 1

    def _inline(self, op: llvm.LLVMOp) -> str:
        if isinstance(op, llvm.ConstantOp):
            return constant_text(op.value)
        if isinstance(op, llvm.ZeroOp):
            return "null" if isinstance(op.res.type, llvm.LLVMPointerType) else "zeroinitializer"
        if isinstance(op, llvm.PoisonOp):
            return "poison"
        if isinstance(op, llvm.UndefOp):
            return "undef"
        self.module.require_symbol(op.global_name.root, op.location)
        return f"@{op.global_name.root}"

    def _phis(self, block: Block, edges: list[tuple[Operation, int, Block]]) -> None:
        for number, argument in enumerate(block.arguments):
            incoming = ", ".join(
                f"[{self.name(branch.successor_operands(index)[number])}, {self._labels[origin]}]"  # type: ignore[attr-defined]
                for branch, index, origin in edges
            )
            self.lines.append(f"  {self._names[argument]} = phi {llvm_text(argument.type)} {incoming}")

    def _signature(self) -> str:
        op = self.op
        function_type = op.function_type
        linkage = "" if op.linkage is None or op.linkage.value == "external" else op.linkage.value + " "
        convention = "ptx_kernel " if op.is_kernel else ""
        entry = op.regions[0].blocks[0]
        parameters = ", ".join(
            f"{_parameter(kind, op.argument_attributes(n))} {self._names[entry.arguments[n]]}"
            for n, kind in enumerate(function_type.inputs)
        )
        name = checked_symbol(op.sym_name.value, op)
        attributes = "".join(" " + text for text in _function_attributes(op))
        return f"{linkage}{convention}{llvm_text(function_type.result)} @{name}({parameters}){attributes}"


_INLINED = (llvm.ConstantOp, llvm.ZeroOp, llvm.PoisonOp, llvm.UndefOp, llvm.AddressOfOp)


def checked_symbol(name: str, op: Operation) -> str:
    """The symbol; raises VerifyError for a name that PTX cannot spell (PTX ISA, "Identifiers")."""
    if not name or name[0].isdigit() or not all(c.isascii() and (c.isalnum() or c in "_$") for c in name):
        raise VerifyError(f"symbol '{name}' is not a PTX identifier", location=op.location)
    return name


def _parameter(kind: Type, attributes: dict[str, Any]) -> str:
    words = [llvm_text(kind)]
    if "llvm.noalias" in attributes:
        words.append("noalias")
    if "llvm.readonly" in attributes:
        words.append("readonly")
    if "llvm.byval" in attributes:
        words.append(f"byval({llvm_text(attributes['llvm.byval'])})")
    if "llvm.align" in attributes:
        words.append(f"align {attributes['llvm.align'].value}")
    if "nvvm.grid_constant" in attributes:
        words.append('"nvvm.grid_constant"')
    return " ".join(words)


def _function_attributes(op: llvm.LLVMFuncOp) -> list[str]:
    attributes = op.attributes
    texts: list[str] = []
    for name, row in LAUNCH_ATTRIBUTES.items():
        value: Any = attributes.get(name)
        if isinstance(value, DenseArrayAttr):
            texts.append(f'"{row.llvm_name}"="{",".join(map(str, value))}"')
        elif isinstance(value, IntegerAttr):
            texts.append(f'"{row.llvm_name}"="{value.value}"')
        elif isinstance(value, UnitAttr):
            texts.append(f'"{row.llvm_name}"')
    for name, spelled in (("denormal_fp_math", "denormal-fp-math"), ("denormal_fp_math_f32", "denormal-fp-math-f32")):
        value = attributes.get(name)
        if isinstance(value, StringAttr):
            texts.append(f'"{spelled}"="{value.value}"')
    return texts


def _reachable(blocks: list[Block]) -> list[Block]:
    seen = {blocks[0]}
    stack = [blocks[0]]
    while stack:
        last = stack.pop().last
        for block in last.successors if last is not None else ():
            if block not in seen:
                seen.add(block)
                stack.append(block)
    return [block for block in blocks if block in seen]


def _predecessors(blocks: list[Block]) -> dict[Block, list[tuple[Operation, int, Block]]]:
    """For every block its incoming edges: (branch, number of the successor, block of the branch)."""
    edges: dict[Block, list[tuple[Operation, int, Block]]] = {}
    for block in blocks:
        branch = block.last
        if branch is None:
            continue
        for index, target in enumerate(branch.successors):
            edges.setdefault(target, []).append((branch, index, block))
    return edges
