"""The operations that execute atoms.

An atom of the target tables names the operation that executes it; this module builds each such operation.  The other
modules determine the operands of dots and copies, and no instruction: one more atom is a row there, and a function here
if its operation is new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileiras.dialects import llvm, nvvm
from tileiras.ir import Attribute, IntegerAttr, StringAttr, Value, VectorType, VerifyError, i16, i32
from tileiras.targets import CopyAtom, MmaAtom, ScaledMmaAtom, find_copy_atom, mma_atom

from ..emit.function import FunctionLowering

# ---- dots -----------------------------------------------------------------------------------------------------------

_PTX_TYPES = {"i32": "s32", "f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "f4E2M1FN": "e2m1"}


def _ptx_type(name: str) -> nvvm.MMATypeAttr:
    return nvvm.MMATypeAttr(_PTX_TYPES.get(name, name))


def _mma_sync(atom: MmaAtom, operands: Sequence[list[Value]], result: llvm.LLVMStructType) -> Any:
    rows, columns, acc = operands
    saturating = nvvm.MMAIntOverflowAttr("satfinite") if atom.c_type == "i32" else None
    return nvvm.MmaOp(
        rows,
        columns,
        acc,
        shape=atom.shape,
        res=result,
        multiplicandAPtxType=_ptx_type(atom.a_type),
        multiplicandBPtxType=_ptx_type(atom.b_type),
        accumulatorPtxType=_ptx_type(atom.c_type),
        intOverflowBehavior=saturating,
    )


def _mma_block_scale(atom: ScaledMmaAtom, operands: Sequence[list[Value]], result: llvm.LLVMStructType) -> Any:
    rows, columns, acc, (left,), (right,) = operands
    return nvvm.MmaBlockScaleOp(
        rows,
        columns,
        acc,
        left,
        right,
        shape=atom.shape,
        res=result,
        multiplicandAPtxType=_ptx_type(atom.a_type),
        multiplicandBPtxType=_ptx_type(atom.b_type),
        kind=nvvm.MMABlockScaleKindAttr(atom.kind),
        scaleVecSize=nvvm.ScaleVecSizeAttr(atom.vector),
        blockScaleFormat=nvvm.BlockScaleFormatAttr(atom.scale_ptx),
    )


DOTS: dict[str, Callable[[Any, Sequence[list[Value]], Any], Any]] = {
    "nvvm.mma.sync": _mma_sync,
    "nvvm.mma.block_scale": _mma_block_scale,
}
"""Operation -> how it is made of an atom, the registers of its operands (A, B, C, scales), and its type."""

_MADE: dict[str, tuple[Any, dict[str, Attribute], Any]] = {}
"""Class, attributes and result type of the operation that executes an atom, by the atom's name: a dot executes it
hundreds of times."""


def _in_halves(atom: MmaAtom | ScaledMmaAtom, lowering: FunctionLowering) -> bool:
    return bool(getattr(atom, "halves", "")) and not lowering.target.has("fp8_products")


def atom_operands(
    atom: MmaAtom | ScaledMmaAtom, type: str, words: list[Value], lowering: FunctionLowering
) -> list[Value]:
    """The operands of multiply() for a fragment of an operand, elements of `type` in words: these words, or those of
    the two halves of the atom, one after the other."""
    if not _in_halves(atom, lowering):
        return words
    emit, kind = lowering.emit, StringAttr(_PTX_TYPES[type])
    pairs = [emit.insert(llvm.BitcastOp(word, res=VectorType((2,), i16))) for word in words]
    return [emit.insert(nvvm.CvtUnpackF8Op(emit.extract(pair, half), kind=kind)) for half in (0, 1) for pair in pairs]


def multiply(
    atom: MmaAtom | ScaledMmaAtom, operands: Sequence[list[Value]], lowering: FunctionLowering
) -> list[Value]:
    """The accumulator, which is the third operand, after one execution of an atom.

    Elements of A and B that meet along K are in the same half of their words, so that halves can be multiplied one
    by one.
    """
    acc = operands[2]
    if _in_halves(atom, lowering):
        half = mma_atom(atom.halves)  # type: ignore[union-attr]
        rows, columns = operands[:2]
        for part in (0, 1):
            mine = (side[part * len(side) // 2 : (part + 1) * len(side) // 2] for side in (rows, columns))
            acc = multiply(half, (*mine, acc), lowering)
        return acc
    made = _MADE.get(atom.name)
    if made is None:
        result = llvm.LLVMStructType([v.type for v in acc])
        op = DOTS[atom.op](atom, operands, result)
        _MADE[atom.name] = type(op), dict(op.attributes), result
    else:
        kind, attributes, result = made
        op = kind.create([value for operand in operands for value in operand], (result,), dict(attributes))
    out = lowering.emit.insert(op)
    return [lowering.emit.member(out, i) for i in range(len(acc))]


# ---- movements ------------------------------------------------------------------------------------------------------


def moves_matrices(source: str, destination: str, lowering: FunctionLowering) -> bool:
    """Whether warps of the target move whole matrices in this direction at once."""
    return find_copy_atom(lowering.target, source, destination, matrices=True) is not None


def _asynchronous(lowering: FunctionLowering) -> CopyAtom:
    atom = find_copy_atom(lowering.target, "global", "shared", asynchronous=True)
    if atom is None:
        raise VerifyError(f"{lowering.target.name} has no asynchronous copies")
    return atom


def load_matrices(pointer: Value, count: int, transposed: bool, lowering: FunctionLowering) -> list[Value]:
    """`count` matrices of 8 rows of 16 bytes from shared memory, a word of each in every thread."""
    result = i32 if count == 1 else llvm.LLVMStructType([i32] * count)
    layout = nvvm.MMALayoutAttr("col" if transposed else "row")
    loaded = lowering.emit.insert(nvvm.LdMatrixOp(pointer, num=IntegerAttr(count, i32), layout=layout, res=result))
    return [loaded] if count == 1 else [lowering.emit.member(loaded, i) for i in range(count)]


def store_matrices(pointer: Value, words: list[Value], transposed: bool, lowering: FunctionLowering) -> None:
    """The inverse of load_matrices()."""
    layout = nvvm.MMALayoutAttr("col" if transposed else "row")
    lowering.emit.insert(nvvm.StMatrixOp(ptr=pointer, sources=words, layout=layout))


def copy_async(
    lowering: FunctionLowering,
    target: Value,
    source: Value,
    size: int,
    kept: Value | None = None,
    predicate: Value | None = None,
) -> None:
    """Starts a copy of `size` bytes from global to shared memory where `predicate` holds; only the first `kept` bytes
    are read, the rest becomes zero."""
    # Tiles are read once by a CTA: the first-level cache has no use for them where it can be left out.
    modifier = nvvm.LoadCacheModifierAttr("cg" if size == 16 else "ca")
    if predicate is None:
        copy = nvvm.CpAsyncOp(dst=target, src=source, cpSize=kept, size=IntegerAttr(size, i32), modifier=modifier)
        lowering.emit.insert(copy)
        return
    text = f"cp.async.{modifier.value}.shared.global [$1], [$2], {size}"
    args, letters = [predicate, target, source], "b,r,l"
    if kept is not None:
        text += ", $3"
        args.append(kept)
        letters += ",r"
    lowering.emit.assembly(f"@$0 {text};", f"{letters},~{{memory}}", args)


_GROUPS: dict[str, Callable[[Any], Any]] = {
    "nvvm.cp.async.commit.group": lambda pending: nvvm.CpAsyncCommitGroupOp(),
    "nvvm.cp.async.wait.group": lambda pending: nvvm.CpAsyncWaitGroupOp(n=pending),
}


def commit_copies(lowering: FunctionLowering) -> None:
    """Closes the group of the copies started since the last one."""
    lowering.emit.insert(_GROUPS[_asynchronous(lowering).commit](None))


def wait_for_copies(pending: IntegerAttr, lowering: FunctionLowering) -> None:
    """Waits for this thread's copies but for those of the last `pending` groups."""
    lowering.emit.insert(_GROUPS[_asynchronous(lowering).wait](pending))


MOVEMENTS = {
    "nvvm.ldmatrix": load_matrices,
    "nvvm.stmatrix": store_matrices,
    "nvvm.cp.async.shared.global": copy_async,
}
"""Operation -> its builder, for other instructions than a load or a store."""
