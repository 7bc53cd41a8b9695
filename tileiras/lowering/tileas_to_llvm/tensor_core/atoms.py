"""The operations that execute atoms.

An atom of the target tables names the operation that executes it; this module builds each such operation.  The other
modules determine the operands of dots and copies, and no instruction: one more atom is a row there, and a function here
if its operation is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects import llvm, nvvm
from tileiras.dialects.nv_tileas.thread import THREAD
from tileiras.ir import (
    Attribute,
    DenseArrayAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    Value,
    VectorType,
    VerifyError,
    i1,
    i16,
    i32,
)
from tileiras.ir.operation import OPERAND_SEGMENTS
from tileiras.lowering.tileas_to_nvgpu import PTX_TYPES
from tileiras.targets import CopyAtom, MatrixForm, MmaAtom, ScaledMmaAtom, find_copy_atom, mma_atom

from ..emit.function import FunctionLowering

# ---- dots -----------------------------------------------------------------------------------------------------------

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
    emit, kind = lowering.emit, StringAttr(PTX_TYPES[type])
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
    entry = _MADE.get(atom.name)
    if entry is None:
        scaled = len(operands) > 3
        sizes = DenseArrayAttr(i32, [len(operand) for operand in operands])
        attributes = {OPERAND_SEGMENTS: sizes, "atom": StringAttr(atom.name)}
        result = llvm.LLVMStructType([v.type for v in acc])
        entry = _MADE[atom.name] = THREAD["mma.scaled" if scaled else "mma"], attributes, result
    kind, attributes, result = entry
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


def load_matrices(pointer: Value, count: int, form: MatrixForm, lowering: FunctionLowering) -> list[Value]:
    """`count` matrices from shared memory: the words of each in every thread."""
    words = count * form.words
    result = i32 if words == 1 else llvm.LLVMStructType([i32] * words)
    attributes = {"numTiles": IntegerAttr(count, i32), "transpose": IntegerAttr(int(form.transposed), i1)}
    type = nvvm.LdStMatrixEltTypeAttr(form.type)
    loaded = lowering.emit.insert(THREAD["ldmatrix"](pointer, res=result, eltType=type, **attributes))
    return [loaded] if words == 1 else [lowering.emit.member(loaded, i) for i in range(words)]


def store_matrices(pointer: Value, words: list[Value], transposed: bool, lowering: FunctionLowering) -> None:
    """The inverse of load_matrices()."""
    transpose = IntegerAttr(int(transposed), i1)
    lowering.emit.insert(THREAD["stmatrix"](ptr=pointer, sources=words, transpose=transpose))


def copy_async(
    lowering: FunctionLowering,
    target: Value,
    source: Value,
    size: int,
    count: Value | None = None,
    predicate: Value | None = None,
) -> None:
    """Start a copy of `size` bytes from global to shared memory where `predicate` holds; only the first `count` bytes
    are read, the rest becomes zero."""
    # Tiles are read once by a CTA: the first-level cache has no use for them where it can be left out.
    bypass = UnitAttr() if size == 16 else None
    copy = THREAD["device_async_copy"](
        dst=target, src=source, srcBytes=count, predicate=predicate, dstBytes=IntegerAttr(size, i32), bypassL1=bypass
    )
    lowering.emit.insert(copy)


def _operation(name: str) -> str:
    """The thread's operation for one of nvgpu that an atom names."""
    return name.removeprefix("nvgpu.")


def commit_copies(lowering: FunctionLowering) -> None:
    """Close the group of the copies started since the last one."""
    lowering.emit.insert(THREAD[_operation(_asynchronous(lowering).commit)]())


def wait_for_copies(pending: IntegerAttr, lowering: FunctionLowering) -> None:
    """Wait for this thread's copies but for those of the last `pending` groups."""
    lowering.emit.insert(THREAD[_operation(_asynchronous(lowering).wait)](numGroups=pending))


MOVEMENTS = {
    "nvgpu.ldmatrix": load_matrices,
    "nvgpu.stmatrix": store_matrices,
    "nvgpu.device_async_copy": copy_async,
}
"""Operation -> its builder, for other instructions than a load or a store."""
