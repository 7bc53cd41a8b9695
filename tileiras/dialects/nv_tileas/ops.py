"""Operations of nv_tileas.

Most are those of nv_tileaa under another name, with the same fields, rules and text.  `COUNTERPARTS` maps one to the
other.
"""

from __future__ import annotations

from typing import Any

from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.tensor import verify_product
from tileiras.ir import (
    AllShapesMatch,
    AllTypesMatch,
    ArrayAttr,
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    Operation,
    Pure,
    TensorType,
    Type,
    TypedAttribute,
    UnitAttr,
    Value,
    VerifyError,
    attribute,
    element_type_of,
    f32,
    i32,
    operand,
    result,
    tf32,
)

from .attributes import CopyAtomAttr, LinearLayoutAttr, MmaAtomAttr
from .buffers import SharedLayoutAttr

# ---- element-wise ----------------------------------------------------------------------------------------------------


class AddFOp(aa.AddFOp, name="nv_tileas.addf"): ...
class SubFOp(aa.SubFOp, name="nv_tileas.subf"): ...
class MulFOp(aa.MulFOp, name="nv_tileas.mulf"): ...
class DivFOp(aa.DivFOp, name="nv_tileas.divf"): ...
class FmaOp(aa.FmaOp, name="nv_tileas.fma"): ...
class SqrtOp(aa.SqrtOp, name="nv_tileas.sqrt"): ...
class FpToFpOp(aa.FpToFpOp, name="nv_tileas.fp_to_fp"): ...
class MulhUIOp(aa.MulhUIOp, name="nv_tileas.mulhiui"): ...
class MulhSIOp(aa.MulhSIOp, name="nv_tileas.mulhisi"): ...


# ---- tokens, pointers, memrefs ---------------------------------------------------------------------------------------


class CreateMemTokenOp(aa.CreateMemTokenOp, name="nv_tileas.create_mem_token"): ...
class JoinMemTokenOp(aa.JoinMemTokenOp, name="nv_tileas.join_mem_token"): ...
class GdcWaitOp(aa.GdcWaitOp, name="nv_tileas.gdc_wait"): ...
class GdcLaunchDependentsOp(aa.GdcLaunchDependentsOp, name="nv_tileas.gdc_launch_dependents"): ...
class FenceAliasOp(aa.FenceAliasOp, name="nv_tileas.fence_alias"): ...
class AddPtrOp(aa.AddPtrOp, name="nv_tileas.addptr"): ...
class IntToPtrOp(aa.IntToPtrOp, name="nv_tileas.int_to_ptr"): ...
class PtrToIntOp(aa.PtrToIntOp, name="nv_tileas.ptr_to_int"): ...
class PtrBitcastOp(aa.PtrBitcastOp, name="nv_tileas.bitcast"): ...
class MakeMemRefOp(aa.MakeMemRefOp, name="nv_tileas.make_memref"): ...
class GetDimSizeOp(aa.GetDimSizeOp, name="nv_tileas.get_dim_size"): ...
class BlockTileOp(aa.BlockTileOp, name="nv_tileas.block_tile"): ...


# ---- memory operations: the atom that moves the data; its layout, until types have one -------------------------------


class TiledLoadOp(aa.TiledLoadOp, name="nv_tileas.tiled_load"):
    """As the counterpart.  In a load of tf32 through a view of f32 the elements are rounded to nearest, ties to
    even."""

    atom = attribute(CopyAtomAttr, optional=True)
    layout = attribute(LinearLayoutAttr, optional=True)

    @staticmethod
    def converts(memory: Type, element: Type) -> bool:
        return (memory, element) == (f32, tf32)

    @property
    def rounds(self) -> bool:
        """Whether the load rounds its elements to another type."""
        return element_type_of(self.data.type) is not self.view.type.element_type


class TiledStoreOp(aa.TiledStoreOp, name="nv_tileas.tiled_store"):
    atom = attribute(CopyAtomAttr, optional=True)
    layout = attribute(LinearLayoutAttr, optional=True)


class TiledAtomicRMWOp(aa.TiledAtomicRMWOp, name="nv_tileas.tiled_atomic_rmw"):
    atom = attribute(CopyAtomAttr, optional=True)
    layout = attribute(LinearLayoutAttr, optional=True)


class LoadOp(aa.LoadOp, name="nv_tileas.load"):
    atom = attribute(CopyAtomAttr, optional=True)
    layout = attribute(LinearLayoutAttr, optional=True)


Load = LoadOp | TiledLoadOp


class StoreOp(aa.StoreOp, name="nv_tileas.store"):
    atom = attribute(CopyAtomAttr, optional=True)
    layout = attribute(LinearLayoutAttr, optional=True)


class AtomicRMWOp(aa.AtomicRMWOp, name="nv_tileas.atomic_rmw"):
    atom = attribute(CopyAtomAttr, optional=True)
    layout = attribute(LinearLayoutAttr, optional=True)


class AtomicCASOp(aa.AtomicCASOp, name="nv_tileas.atomic_cas"):
    layout = attribute(LinearLayoutAttr, optional=True)


Access = TiledLoadOp | TiledStoreOp | TiledAtomicRMWOp | LoadOp | StoreOp | AtomicRMWOp | AtomicCASOp


# ---- tensors ---------------------------------------------------------------------------------------------------------


class SplatOp(aa.SplatOp, name="nv_tileas.splat"): ...
class UnsplatOp(aa.UnsplatOp, name="nv_tileas.unsplat"): ...
class MakeRangeOp(aa.MakeRangeOp, name="nv_tileas.make_range"): ...
class ViewOp(aa.ViewOp, name="nv_tileas.view"): ...
class BroadcastOp(aa.BroadcastOp, name="nv_tileas.broadcast"): ...
class PermuteOp(aa.PermuteOp, name="nv_tileas.permute"): ...


class UnpackOp(Operation, name="nv_tileas.unpack", traits=(Pure,)):
    """The 4-bit elements stored in the bytes of a tile in shared memory: a byte holds two neighbours along `dim`, the
    one with the even index in the lower half."""

    operand = operand(TensorType)
    dim = attribute(IntegerAttr)
    result = result(TensorType)
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    verifies_locally = True

    def verify_op(self) -> None:
        source, target, dim = self.operand.type, self.result.type, self.dim.value
        if source.element_type.width != 8 or target.element_type.width != 4:
            raise VerifyError(f"expects elements of 4 bits in those of 8, got {target} in {source}")
        doubled = tuple(n * 2 if d == dim else n for d, n in enumerate(source.shape))
        if not 0 <= dim < len(doubled) or target.shape != doubled:
            raise VerifyError(f"expects twice as many elements along dimension {dim}, got {target} in {source}")


class ShiftedOp(Operation, name="nv_tileas.shifted", traits=(Pure, AllTypesMatch("known", "rest", "result"))):
    """Element i along `dim` is element i + `by` of `known` where the thread that holds the one holds the other too, and
    element i of `rest` elsewhere."""

    known = operand(TensorType)
    rest = operand(TensorType)
    dim = attribute(IntegerAttr)
    by = attribute(IntegerAttr)
    result = result(TensorType)
    assembly_format = "$known `,` $rest attr-dict `:` type($result)"

    verifies_locally = True

    def verify_op(self) -> None:
        if not 0 <= self.dim.value < self.result.type.rank:
            raise VerifyError(f"expects one of {self.result.type.rank} dimensions, got {self.dim.value}")


VIEW_LIKE = (ViewOp, PermuteOp, UnpackOp)
"""Operations that only change the coordinates of elements."""


class CatOp(aa.CatOp, name="nv_tileas.cat"): ...
class ExtractSliceOp(aa.ExtractSliceOp, name="nv_tileas.extract_slice"): ...
class InsertSliceOp(aa.InsertSliceOp, name="nv_tileas.insert_slice"): ...
class YieldOp(aa.YieldOp, name="nv_tileas.yield"): ...
class ReduceOp(aa.ReduceOp, name="nv_tileas.reduce", terminator=YieldOp.name): ...
class ScanOp(aa.ScanOp, name="nv_tileas.scan", terminator=YieldOp.name): ...


class DotOp(aa.DotOp, name="nv_tileas.dot"):
    """As the counterpart.  Where the atom is one of a pair of CTAs, B is the half of the columns that this CTA has (the
    first half in the CTA of even rank), and the result has all columns, multiplied with this CTA's A."""

    atom = attribute(MmaAtomAttr, optional=True)
    operand_layouts = attribute(ArrayAttr, optional=True)
    exchanged = attribute(UnitAttr, "the instruction's A is the transposed B", optional=True)
    promoted = attribute(
        IntegerAttr, "elements along K that the instructions sum before the sum is added to C in f32", optional=True
    )

    def verify_shapes(self) -> None:
        verify_product(self.a.type, all_columns(self.b.type, self.atom), self.c.type, self.result.type)


def all_columns(b: TensorType, atom: MmaAtomAttr | None) -> TensorType:
    """The type of B of a dot with the columns of all CTAs that multiply together."""
    if atom is None or not atom.is_of_pair:
        return b
    *lead, depth, columns = b.shape
    return TensorType((*lead, depth, 2 * columns), b.element_type)


class BlockScaledMmaOp(aa.BlockScaledMmaOp, name="nv_tileas.block_scaled_mma"):
    """As the counterpart.  In a pair of CTAs, B is half of the columns, as for `dot`, and each CTA has the scales of
    all columns."""

    atom = attribute(MmaAtomAttr, optional=True)
    operand_layouts = attribute(ArrayAttr, optional=True)
    exchanged = attribute(UnitAttr, "the instruction's A is the transposed B", optional=True)

    @property
    def all_columns(self) -> TensorType:
        return all_columns(self.b.type, self.atom)


Dot = DotOp | BlockScaledMmaOp


def instruction_a(op: Any) -> Value:
    """The operand of a dot, asynchronous or not, that its instruction takes as A: transposed, B of an exchanged one."""
    return op.b if op.exchanged is not None else op.a


DOTS = (DotOp, BlockScaledMmaOp)
"""Operations with the operands `a` and `b`, the accumulator `c`, and optionally scales of `a` and `b`."""


class ConvertLayoutOp(Operation, name="nv_tileas.convert_layout", traits=(Pure, AllShapesMatch("operand", "result"))):
    """The same tensor in another layout: in other threads or registers, or in shared memory."""

    operand = operand(TensorType)
    result = result(TensorType)
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"

    verifies_locally = True

    def verify_op(self) -> None:
        source, target = self.operand.type, self.result.type
        if source.element_type is not target.element_type:
            raise VerifyError(f"expects one element type, but got {source.element_type} and {target.element_type}")
        for type in (source, target):
            kinds = LinearLayoutAttr if type is source else (LinearLayoutAttr, SharedLayoutAttr)
            if not isinstance(type.encoding, kinds):
                raise VerifyError("missing source layout" if type is source else "fails to assign layout")


# ---- barriers --------------------------------------------------------------------------------------------------------

_NUMBER = TypedAttribute(IntegerAttr, i32, "32-bit signless integer attribute")

LAST_BARRIER = 15
"""The barriers of a CTA are 0 to 15; they count arrivals in warps (PTX ISA, "bar{.cta}")."""

_WARP_THREADS, _MOST_THREADS = 32, 1024


class BarrierOp(Operation, name="nv_tileas.barrier", traits=(MemoryRead, MemoryWrite)):
    """Waits until `threads` threads have arrived at barrier `id`; each then sees all earlier writes of these threads to
    shared or global memory.

    Barrier 0 is the barrier of the whole CTA and has no thread count; 1 to 15 are barriers of agents, which have one.
    `cluster`: all threads of all CTAs of the cluster wait for each other; `relaxed`: of the writes of other threads,
    only the initialisation of mbarriers becomes visible.
    """

    id = attribute(_NUMBER)
    threads = attribute(_NUMBER, optional=True)
    cluster = attribute(UnitAttr, optional=True)
    relaxed = attribute(UnitAttr, optional=True)
    assembly_format = "`id` `=` $id (`threads` `=` $threads^)? attr-dict"

    verifies_locally = True

    def verify_op(self) -> None:
        number, threads = self.id.value, self.threads
        if not 0 <= number <= LAST_BARRIER:
            raise VerifyError(f"expects one of barriers 0 to {LAST_BARRIER}, but got {number}")
        if self.relaxed is not None and self.cluster is None:
            raise VerifyError("is relaxed for the threads of the CTA, which have to see each other's writes")
        if number == 0:
            if threads is not None:
                raise VerifyError("expects all threads of the CTA at barrier 0, not a number of them")
        elif self.cluster is not None:
            raise VerifyError(f"expects all threads of the cluster, not those at barrier {number}")
        elif threads is None:
            raise VerifyError(f"expects a number of threads for barrier {number}")
        elif threads.value % _WARP_THREADS or not 0 < threads.value <= _MOST_THREADS:
            raise VerifyError(
                f"expects a multiple of {_WARP_THREADS} threads up to {_MOST_THREADS}, but got {threads.value}"
            )


# ---- values, grid, globals -------------------------------------------------------------------------------------------


class AssumeOp(aa.AssumeOp, name="nv_tileas.assume"): ...
class AssertOp(aa.AssertOp, name="nv_tileas.assert"): ...
class PrintOp(aa.PrintOp, name="nv_tileas.print"): ...
class ExternElementwiseOp(aa.ExternElementwiseOp, name="nv_tileas.extern_elementwise"): ...
class ExternCallOp(aa.ExternCallOp, name="nv_tileas.extern_call"): ...


class AllocaOp(aa.AllocaOp, name="nv_tileas.alloca"):
    offset = attribute(IntegerAttr, "bytes from the start of the arena, of one in shared memory", optional=True)


class DeallocOp(aa.DeallocOp, name="nv_tileas.dealloc"): ...
class GetProgramIdOp(aa.GetProgramIdOp, name="nv_tileas.get_program_id"): ...
class GetNumProgramsOp(aa.GetNumProgramsOp, name="nv_tileas.get_num_programs"): ...
class GetCtaRankOp(aa.GetCtaRankOp, name="nv_tileas.get_cta_rank"): ...
class GetGlobalOp(aa.GetGlobalOp, name="nv_tileas.get_global"): ...


COUNTERPARTS: dict[type[Operation], type[Operation]] = {
    cls.__base__: cls
    for cls in list(globals().values())
    if isinstance(cls, type) and getattr(cls.__base__, "name", "").startswith("nv_tileaa.")
}
"""nv_tileaa operation -> the nv_tileas operation of the same name."""
