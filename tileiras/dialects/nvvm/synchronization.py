"""Barriers, fences and warp-level exchange (PTX ISA, "Parallel Synchronization and Communication Instructions")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.dialects.llvm.base import llvm_type, pointer
from tileiras.ir import (
    Attribute,
    AttrSizedOperandSegments,
    Convergent,
    FloatType,
    IntegerAttr,
    MemoryRead,
    MemoryWrite,
    UnitAttr,
    VerifyError,
    attribute,
    i1,
    i32,
    i64,
    operand,
    optional_operand,
    result,
)

from .attributes import ReductionKindAttr, SetMaxRegisterActionAttr, ShflKindAttr, VoteSyncKindAttr
from .base import Assembly, NVVMOp, intrinsic
from .intrinsics import PTX80, Intrinsic

_BARRIER = (MemoryRead, MemoryWrite)


class BarrierOp(NVVMOp, name="nvvm.barrier", traits=(*_BARRIER, AttrSizedOperandSegments)):
    """`bar.sync`: all threads of the CTA, or `numberOfThreads` of them, wait on barrier `barrierId` (0..15).

    Every warp that takes part executes it as a whole.
    """

    barrierId = optional_operand(i32)
    numberOfThreads = optional_operand(i32)
    assembly_format = "(`id` `=` $barrierId^)? (`number_of_threads` `=` $numberOfThreads^)? attr-dict"

    def target(self) -> Intrinsic:
        if self.numberOfThreads is not None:
            if self.barrierId is None:
                raise VerifyError("barrier id is missing, it should be set between 0 to 15")
            return intrinsic("barrier.cta.sync.aligned.count")
        return intrinsic("barrier.cta.sync.aligned.all")

    def call_operands(self) -> list[Any]:
        return list(self.operands) if self.barrierId is not None else ["0"]


class BarrierArriveOp(NVVMOp, name="nvvm.barrier.arrive", traits=_BARRIER):
    """`bar.arrive`: counts this warp's threads as arrived, without a wait."""

    barrierId = operand(i32)
    numberOfThreads = operand(i32)
    assembly_format = "`id` `=` $barrierId `number_of_threads` `=` $numberOfThreads attr-dict"

    def target(self) -> Intrinsic:
        return intrinsic("barrier.cta.arrive.aligned.count")


class SyncWarpOp(NVVMOp, name="nvvm.bar.warp.sync", traits=_BARRIER):
    """`bar.warp.sync`: the threads of the mask wait for each other."""

    mask = operand(i32)
    assembly_format = "$mask attr-dict `:` type($mask)"

    def target(self) -> Intrinsic:
        return intrinsic("bar.warp.sync")


class ShflOp(NVVMOp, name="nvvm.shfl.sync", traits=(Convergent,)):
    """`shfl.sync`: a value of another lane of the warp.

    `mask_and_clamp` is 31 for whole-warp `bfly`, `idx` and `down`, 0 for `up`.
    """

    thread_mask = operand(i32)
    val = operand(llvm_type)
    offset = operand(i32)
    mask_and_clamp = operand(i32)
    kind = attribute(ShflKindAttr)
    res = result(llvm_type)
    assembly_format = (
        "$kind $thread_mask `,` $val `,` $offset `,` $mask_and_clamp attr-dict `:` type($val) `->` type($res)"
    )
    typed_as = 1

    def target(self) -> Intrinsic:
        if self.val.type is not self.res.type:
            raise VerifyError("requires the value and the result to have one type")
        return intrinsic(f"shfl.sync.{self.kind.value}.{self.val.type}")


class VoteSyncOp(NVVMOp, name="nvvm.vote.sync", traits=(Convergent,)):
    """`vote.sync`: the combined predicates of the lanes of the mask; a 32-bit mask of them for `ballot`."""

    mask = operand(i32)
    pred = operand(i1)
    kind = attribute(VoteSyncKindAttr)
    res = result(llvm_type)
    assembly_format = "$kind $mask `,` $pred attr-dict `->` type($res)"

    @classmethod
    def infer_result_types(cls, operands: Sequence[Any], attributes: dict[str, Attribute]) -> list[Any]:
        return [i32 if attributes["kind"].value == "ballot" else i1]  # type: ignore[attr-defined]

    def target(self) -> Intrinsic:
        if self.res.type is not (i32 if self.kind.value == "ballot" else i1):
            raise VerifyError("ballot gives i32, the other kinds i1")
        return intrinsic(f"vote.{self.kind.value}.sync")


class ReduxOp(NVVMOp, name="nvvm.redux.sync", traits=(Convergent,)):
    """`redux.sync`: a reduction over the lanes of the mask, the same result in all of them."""

    val = operand(llvm_type)
    mask_and_clamp = operand(i32)
    kind = attribute(ReductionKindAttr)
    res = result(llvm_type)
    assembly_format = "$kind $val `,` $mask_and_clamp attr-dict `:` type($val) `->` type($res)"
    typed_as = 0

    def target(self) -> Intrinsic:
        kind = self.val.type
        if kind is not self.res.type or isinstance(kind, FloatType) != self.kind.value.startswith("f"):
            raise VerifyError("requires an operand and a result of the kind's type")
        row = intrinsic(f"redux.sync.{self.kind.value}")
        if str(kind) not in ("i32", "f32"):
            raise VerifyError("reduces i32 and f32 only")
        return row


class ActiveMaskOp(NVVMOp, name="nvvm.activemask", traits=(Convergent,)):
    res = result(i32)
    assembly_format = "attr-dict `:` type($res)"

    def target(self) -> Intrinsic:
        return intrinsic("activemask")


SHARED = 3
"""Address space of shared memory."""


class _FixedOp(NVVMOp):
    """An operation whose instruction is always the one of its name."""

    __slots__ = ()
    intrinsic_name = ""

    def target(self) -> Intrinsic:
        return intrinsic(self.intrinsic_name or self.name.removeprefix("nvvm."))


class ClusterArriveOp(_FixedOp, name="nvvm.cluster.arrive", traits=_BARRIER):
    """Counts the thread as arrived at the cluster's barrier, releasing its writes."""

    intrinsic_name = "barrier.cluster.arrive.aligned"
    assembly_format = "attr-dict"


class ClusterArriveRelaxedOp(_FixedOp, name="nvvm.cluster.arrive.relaxed", traits=_BARRIER):
    intrinsic_name = "barrier.cluster.arrive.relaxed.aligned"
    assembly_format = "attr-dict"


class ClusterWaitOp(_FixedOp, name="nvvm.cluster.wait", traits=_BARRIER):
    intrinsic_name = "barrier.cluster.wait.aligned"
    assembly_format = "attr-dict"


class GriddepcontrolWaitOp(_FixedOp, name="nvvm.griddepcontrol.wait", traits=_BARRIER, assembly_format="attr-dict"):
    """Waits for the grids this one depends on (programmatic dependent launch)."""


class GriddepcontrolLaunchDependentsOp(_FixedOp, name="nvvm.griddepcontrol.launch.dependents", traits=_BARRIER):
    assembly_format = "attr-dict"


class FenceProxyAsyncOp(_FixedOp, name="nvvm.fence.proxy.async.shared_cta", traits=_BARRIER):
    """Makes generic-proxy writes to shared memory visible to the async proxy."""

    assembly_format = "attr-dict"


class FenceProxyAsyncEverywhereOp(_FixedOp, name="nvvm.fence.proxy.async", traits=_BARRIER):
    """Orders generic-proxy accesses of shared and of global memory before those of the async proxy."""

    assembly_format = "attr-dict"


class FenceMbarrierInitOp(_FixedOp, name="nvvm.fence.mbarrier.init", traits=_BARRIER):
    intrinsic_name = "fence.mbarrier_init.release.cluster"
    assembly_format = "attr-dict"


class _MBarrierOp(_FixedOp):
    """An operation on a barrier object, which lies in shared memory."""

    __slots__ = ()

    def verify_op(self) -> None:
        super().verify_op()
        if self.addr.type.address_space != SHARED:
            raise VerifyError("mbarrier requires shared-memory operand")


class MBarrierInitSharedOp(_MBarrierOp, name="nvvm.mbarrier.init.shared", traits=_BARRIER):
    """Prepares an 8-byte barrier object in shared memory for `count` arrivals."""

    addr = operand(pointer)
    count = operand(i32)
    assembly_format = "$addr `,` $count attr-dict `:` type(operands)"


class MBarrierInvalSharedOp(_MBarrierOp, name="nvvm.mbarrier.inval.shared", traits=_BARRIER):
    addr = operand(pointer)
    assembly_format = "$addr attr-dict `:` type(operands)"


class MBarrierArriveSharedOp(_MBarrierOp, name="nvvm.mbarrier.arrive.shared", traits=_BARRIER):
    addr = operand(pointer)
    res = result(i64)
    assembly_format = "$addr attr-dict `:` type($addr) `->` type($res)"


class MBarrierArriveClusterOp(_MBarrierOp, name="nvvm.mbarrier.arrive.cluster", traits=_BARRIER):
    """Arrives at the barrier of CTA `cta` of the cluster that lies where `addr` is in this CTA.

    It is relaxed, behind a fence, or with `reads` of the default semantics, a release at the scope of the own CTA: with
    a release at the scope of the cluster ptxas 13.5 puts a `MEMBAR` of the GPU before every single one.
    """

    addr = operand(pointer)
    cta = operand(i32)
    reads = attribute(UnitAttr, "it says that memory of this CTA has been read", optional=True)
    assembly_format = "$addr `,` $cta attr-dict `:` type(operands)"

    def target(self) -> Assembly:  # type: ignore[override]
        semantics = ".relaxed.cluster" if self.reads is None else ""
        text = (
            "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; "
            f"mbarrier.arrive{semantics}.shared::cluster.b64 _, [there]; }}"
        )
        return Assembly(text, "r,r,~{memory}", "90", PTX80, side_effects=True)


class MBarrierArriveExpectTxOp(_MBarrierOp, name="nvvm.mbarrier.arrive.expect_tx.shared", traits=_BARRIER):
    """Arrives, and has the phase wait for `txcount` bytes of asynchronous copies as well."""

    intrinsic_name = "mbarrier.arrive.expect.tx.scope.cta.space.cta"
    addr = operand(pointer)
    txcount = operand(i32)
    res = result(i64)
    assembly_format = "$addr `,` $txcount attr-dict `:` type(operands) `->` type($res)"


class CpAsyncMBarrierArriveOp(_MBarrierOp, name="nvvm.cp.async.mbarrier.arrive.noinc.shared", traits=_BARRIER):
    """An arrival, among those that the phase counts, once all copies that the thread has started so far have landed."""

    intrinsic_name = "cp.async.mbarrier.arrive.noinc.shared"
    addr = operand(pointer)
    assembly_format = "$addr attr-dict `:` type(operands)"


class _WaitParity(_MBarrierOp):
    """Whether the phase with this parity has completed."""

    __slots__ = ()


class MBarrierTestWaitParityOp(_WaitParity, name="nvvm.mbarrier.test_wait.parity.shared", traits=_BARRIER):
    """Whether the phase with this parity has completed; never suspends."""

    intrinsic_name = "mbarrier.test.wait.parity.scope.cta.space.cta"
    addr = operand(pointer)
    phase = operand(i32)
    res = result(i1)
    assembly_format = "$addr `,` $phase attr-dict `:` type(operands) `->` type($res)"


class MBarrierTryWaitParityOp(_WaitParity, name="nvvm.mbarrier.try_wait.parity.shared", traits=_BARRIER):
    """Whether the phase with this parity has completed; may return false too early, so it is used in a loop.

    `cluster`: it acquires writes that threads of other CTAs of the cluster released.
    """

    intrinsic_name = "mbarrier.try.wait.parity.scope.cta.space.cta"
    addr = operand(pointer)
    phase = operand(i32)
    cluster = attribute(UnitAttr, optional=True)
    res = result(i1)
    assembly_format = "$addr `,` $phase attr-dict `:` type(operands) `->` type($res)"

    def target(self) -> Intrinsic:
        if self.cluster is None:
            return super().target()
        return intrinsic("mbarrier.try.wait.parity.scope.cluster.space.cta")


SETMAXNREG = range(24, 257, 8)
"""Numbers of registers that `setmaxnreg` takes (PTX ISA, "setmaxnreg")."""

_SETMAXNREG_TARGETS = "=90a,100f,110f,120f"


class SetMaxRegisterOp(NVVMOp, name="nvvm.setmaxregister", traits=_BARRIER):
    """`setmaxnreg`: registers of each thread of the warpgroup from here on, taken from or given back to the CTA's pool.

    All warps of the warpgroup execute it; an increase waits until the pool has them (PTX ISA, "setmaxnreg").
    """

    action = attribute(SetMaxRegisterActionAttr)
    regCount = attribute(IntegerAttr)
    assembly_format = "$action $regCount attr-dict"

    def target(self) -> Assembly:
        count = self.regCount.value
        if count not in SETMAXNREG:
            raise VerifyError(f"expects a multiple of 8 registers from 24 to 256, but got {count}")
        direction = "inc" if self.action.value == "increase" else "dec"
        text = f"setmaxnreg.{direction}.sync.aligned.u32 {count};"
        return Assembly(text, "~{memory}", _SETMAXNREG_TARGETS, PTX80, side_effects=True)
