"""Instructions of nvgpu to operations of nvvm, or to inline assembly of llvm.

    nvgpu.ldmatrix %p {numTiles = 4, transpose = true}      ->   nvvm.ldmatrix %p {num = 4, layout = col}
    nvgpu.device_async_copy %dst, %src if %p                ->   llvm.inline_asm "@$0 cp.async..."

The table of facts (`dialects/nvgpu/rows.py`) says how LLVM gets each instruction, the atoms of the target tables have
the instructions of products and of copies of boxes.  The rules here are for operations without a counterpart in nvvm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tileiras.dialects import llvm, nvvm
from tileiras.dialects.nvgpu import ROWS
from tileiras.ir import Attribute, IntegerAttr, Operation, StringAttr, UnitAttr, Value, VerifyError, i32
from tileiras.targets.atoms.bulk_copies import BULK_COPY_ATOMS
from tileiras.targets.atoms.choice import known_mma_atom
from tileiras.targets.sm import WARP_SIZE

FULL_WARP = -1

Facts = dict[str, Attribute]

_lowered: dict[tuple, Facts] = {}
"""Operation and attributes of nvgpu -> attributes of nvvm: a kernel has hundreds of equal ones."""


def convert(op: Operation) -> None:
    """Convert an operation in place; raises VerifyError for an unknown atom."""
    key = op.name.removeprefix("nvgpu.")
    rule = RULES.get(key)
    if rule is not None:
        rule(op)
        return
    row = ROWS[key]
    if row.lowered is not None:
        value = (key, *op.attributes.items())
        result = _lowered.get(value)
        if result is None:
            result = _lowered[value] = row.lowered(op.attributes)
        op.attributes = dict(result)
    op.become(getattr(nvvm, row.nvvm))


def _assembly(op: Operation, text: str, constraints: str, min_ptx: str = "") -> None:
    op.attributes = {
        "asm_string": StringAttr(text), "constraints": StringAttr(constraints), "has_side_effects": UnitAttr(),
    }  # fmt: skip
    if min_ptx:
        op.attributes["min_ptx"] = StringAttr(min_ptx)
    op.become(llvm.InlineAsmOp)


def _fixed(text: str, min_ptx: str) -> Callable[[Operation], None]:
    """Inline PTX that clobbers memory: LLVM takes the intrinsics of dependent launch for operations that touch no
    memory, and would move loads over them."""
    return lambda op: _assembly(op, text, "~{memory}", min_ptx)


def _device_async_copy(op: Any) -> None:
    """An intrinsic, and assembly where a predicate guards the copy: a branch would cost more."""
    modifier, size = "ca" if op.bypassL1 is None else "cg", op.dstBytes
    source_bytes, predicate = op.srcBytes, op.predicate
    if predicate is None:
        op.attributes = {"size": size, "modifier": nvvm.LoadCacheModifierAttr(modifier)}
        op.become(nvvm.CpAsyncOp)
        return
    text = f"cp.async.{modifier}.shared.global [$1], [$2], {size.value}"
    operands, letters = [predicate, op.dst, op.src], "b,r,l"
    if source_bytes is not None:
        text += ", $3"
        operands.append(source_bytes)
        letters += ",r"
    op.operands = operands
    _assembly(op, f"@$0 {text};", f"{letters},~{{memory}}")


def _barrier(op: Any) -> None:
    """The threads of a single warp use none of the CTA's barriers."""
    count = op.numberOfThreads
    if count is None or _number(count) != WARP_SIZE:
        op.become(nvvm.BarrierOp)
        return
    mask = llvm.ConstantOp(IntegerAttr(FULL_WARP, i32), i32, location=op.location)
    op.parent.insert_before(mask, op)
    op.operands, op.attributes = (mask.results[0],), {}
    op.become(nvvm.SyncWarpOp)


def _number(value: Value) -> int | None:
    op = value.defining_op
    return op.value.value if isinstance(op, llvm.ConstantOp) and isinstance(op.value, IntegerAttr) else None


def _cluster_barrier(op: Any) -> None:
    arrive = nvvm.ClusterArriveOp if op.relaxed is None else nvvm.ClusterArriveRelaxedOp
    op.parent.insert_before(arrive(location=op.location), op)
    op.attributes = {}
    op.become(nvvm.ClusterWaitOp)


def _by_atom(*names: str) -> Callable[[Operation], None]:
    """A product whose instruction is that of its atom; `names`: the facts of the atom that the operation has."""

    def rule(op: Operation) -> None:
        name = op.attributes.pop("atom").value  # type: ignore[attr-defined]
        atom = known_mma_atom(name)
        if atom is None:
            raise VerifyError(f"has an unknown atom '{name}'")
        key = op.name.removeprefix("nvgpu.")
        op.attributes.update((fact, StringAttr(getattr(atom, fact))) for fact in names)
        op.become(getattr(nvvm, ROWS[key].nvvm))

    return rule


def _boxes(parameter: str, attribute: str, *names: str) -> Callable[[Operation], None]:
    """A copy of a box, by the instruction of its atom; `attribute` has the text of a parameter of its operands."""

    def rule(op: Operation) -> None:
        name = op.attributes.pop("atom").value  # type: ignore[attr-defined]
        atom = BULK_COPY_ATOMS.get(name)
        if atom is None:
            raise VerifyError(f"has an unknown atom '{name}'")
        entry: Any = op.attributes.pop(attribute, None)
        syntax = atom.syntax if entry is None else atom.syntax.replace(f"{{{parameter}}}", str(entry.value))
        op.attributes.update((fact, StringAttr(getattr(atom, fact))) for fact in names)
        op.attributes["syntax"] = StringAttr(syntax)
        op.become(getattr(nvvm, ROWS[op.name.removeprefix("nvgpu.")].nvvm))

    return rule


RULES: Mapping[str, Callable[[Operation], None]] = {
    "barrier": _barrier,
    "cluster.barrier": _cluster_barrier,
    "device_async_copy": _device_async_copy,
    "fence.proxy.alias": _fixed("fence.proxy.alias;", "7.5"),
    "grid_dependency.launch": _fixed("griddepcontrol.launch_dependents;", "7.8"),
    "grid_dependency.wait": _fixed("griddepcontrol.wait;", "7.8"),
    "tcgen05.mma": _by_atom("instruction", "syntax", "requires"),
    "tcgen05.mma.block_scale": _by_atom("instruction", "syntax", "requires"),
    "tma.async.load": _boxes("ctas", "multicastMask", "instruction", "requires"),
    "tma.async.store": _boxes("operation", "operation", "instruction"),
    "warpgroup.mma": _by_atom("instruction", "syntax"),
}
