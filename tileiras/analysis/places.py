"""Verifies shared-memory placement of buffers and scratch areas, presence and thread counts of barriers, and launch
attributes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.llvm.layout import SHARED
from tileiras.ir import Operation, Value
from tileiras.layout.accumulators import is_of_tensor_memory
from tileiras.layout.arena import AREA_ALIGNMENT
from tileiras.layout.matrix_descriptor import ADDRESS_MASK
from tileiras.layout.scratch import EXCHANGING, Exchange, Warps, exchanges
from tileiras.targets import Target
from tileiras.targets.launch_facts import fact_error
from tileiras.targets.sm import MAX_THREADS_PER_CTA, WARP_SIZE

PLACED = frozenset(
    (*EXCHANGING, tileas.AllocTensorOp, tileas.DeallocTensorOp, tileas.DeallocOp, tileas.BarrierOp)
)  # fmt: skip
"""Operations that have a place in shared memory, end one, or wait for other threads."""


class Places:
    """The places of a function, checked one operation after the other."""

    def __init__(self, func: Any, gpu: Target) -> None:
        self._gpu = gpu
        self._limit = shared_limit(func, gpu)
        self._live: dict[Value, tuple[int, int]] = {}
        self._shared = tileas.number_of(func, tileas.SHARED_MEMORY)
        """Bytes of shared memory; None before allocation, when scratch areas are not checked."""
        self._barriers = tileas.number_of(func, tileas.NAMED_BARRIERS)
        self._block_warps = tileas.number_of(func, tileas.BLOCK_WARPS)
        self._warps = Warps.of(func, gpu.name)

    def error(self, op: Any, warps: int) -> str:
        """The error in the places of an operation that `warps` warps execute, or ""."""
        kind = type(op)
        if kind in EXCHANGING:
            wrong = self._areas_error(op, warps) if self._shared is not None else ""
            return wrong or (self._buffer_error(op) if kind is tileas.AllocaOp else "")
        if kind is tileas.AllocTensorOp:
            return self._buffer_error(op)
        if kind in (tileas.DeallocTensorOp, tileas.DeallocOp):
            self._live.pop(op.operands[0], None)
        elif kind is tileas.BarrierOp:
            return self._barrier_error(op.id.value, None if op.threads is None else op.threads.value)
        return ""

    def place_error(self, start: int, end: int, alignment: int = AREA_ALIGNMENT) -> str:
        """The error in a place in shared memory, or ""."""
        if start < 0 or start % alignment:
            return f"expects an offset that is a multiple of {alignment}, got {start}"
        if end > self._limit:
            return f"ends at byte {end} of shared memory, {self._gpu.name} has {self._limit}"
        if self._shared is not None and end > self._shared:
            return f"ends at byte {end} of shared memory, the function has {self._shared}"
        if any(start < other_end and other < end for other, other_end in self._live.values()):
            return f"lies at byte {start} of shared memory, where another buffer lives"
        return ""

    def take(self, value: Value, start: int, end: int) -> None:
        """Record that a value occupies these bytes from here on."""
        self._live[value] = start, end

    def _buffer_error(self, op: Any) -> str:
        if op.offset is None:
            return ""
        if isinstance(op, tileas.AllocaOp) and op.result.type.address_space != SHARED:
            return "has a place in shared memory, and is not there"
        size = op.bytes if isinstance(op, tileas.AllocaOp) else op.result.type.bytes
        start, end = op.offset.value, op.offset.value + size
        wrong = self.place_error(start, end)
        if not wrong:
            self.take(op.result, start, end)
        return wrong

    def give_back(self, buffers: Iterable[Value]) -> None:
        """Record that the places of buffers are free from here on."""
        for buffer in buffers:
            self._live.pop(buffer, None)

    # -- scratch areas -------------------------------------------------------------------------------------------------

    def _areas_error(self, op: Operation, warps: int) -> str:
        result = exchanges(op, self._warps if warps == self._warps.count else self._warps._replace(count=warps))
        scratch_areas = tileas.scratch_areas(op)
        if len(scratch_areas) != len(result):
            return f"has {len(scratch_areas)} areas of scratch memory and needs {len(result)}"
        for number, (exchange, area) in enumerate(zip(result, scratch_areas)):
            wrong = _size_error(exchange, area) or self.place_error(area.offset, area.offset + area.bytes)
            if not wrong and area.joins:
                wrong = _joined_error(op, scratch_areas, number)
            if not wrong and area.barrier is not None:
                wrong = self._barrier_error(area.barrier, area.threads)
            if wrong:
                return wrong
        return ""

    def _barrier_error(self, number: int, threads: int | None) -> str:
        if self._barriers is not None and number >= self._barriers:
            return f"waits at barrier {number}, the function has {self._barriers}"
        if threads is not None and self._block_warps is not None and threads > WARP_SIZE * self._block_warps:
            return f"waits for {threads} threads, a CTA has {WARP_SIZE * self._block_warps}"
        return ""


def shared_limit(func: Operation, target: Target) -> int:
    """Maximum bytes of shared memory of a CTA: sm_107 has more than the address of a matrix descriptor reaches, which
    counts from the memory that the system reserves."""
    reach = ADDRESS_MASK + 1 - target.shared_reserved
    if target.shared_per_cta <= reach:
        return target.shared_per_cta
    reads = any(isinstance(op, tileas.TensorDotOp) or is_of_tensor_memory(op) for op in func.walk())
    return reach if reads else target.shared_per_cta


def stage_error(buffer: Value, alignment: int, user: str) -> str:
    """The error if a stage of a buffer does not begin at a multiple of `alignment` bytes, as the hardware requires, or
    "".  Before allocation, offsets in the buffer are checked.  `user`: the requirement in words, part of the message.
    """
    op, type = buffer.defining_op, buffer.type
    has_offset = isinstance(op, tileas.AllocTensorOp) and op.offset is not None
    start = op.offset.value if has_offset else 0  # type: ignore[union-attr]
    for stage in range(type.stages):
        at = start + stage * type.stage_bytes
        if at % alignment:
            where = "of shared memory" if has_offset else "of its buffer"
            return f"finds stage {stage} at byte {at} {where}, {user} at multiples of {alignment}"
    return ""


def _size_error(exchange: Exchange, area: tileas.ScratchAttr) -> str:
    size, rounds = exchange.within(area.bytes, area.bytes)
    if (size, rounds) == (area.bytes, area.rounds):
        return ""
    return f"takes {exchange.bytes} bytes through {area.bytes} bytes of scratch memory in {area.rounds} rounds"


def _joined_error(op: Operation, areas: tuple[tileas.ScratchAttr, ...], number: int) -> str:
    """Whether the area that another one joins exists, and the two do not overlap."""
    group: list[tileas.ScratchAttr] = []
    before = op
    while number == 0 and isinstance(before, tileas.ConvertLayoutOp) and before.prev is not None:
        before = before.prev
        scratch_areas = tileas.scratch_areas(before) if isinstance(before, tileas.ConvertLayoutOp) else ()
        if not scratch_areas:
            break
        group.append(scratch_areas[0])
        if not group[-1].joins:
            break
    for other in reversed(areas[:number]):
        group.append(other)
        if not other.joins:
            break
    if not group or group[-1].joins or group[-1].rounds > 1:
        return "joins an area of scratch memory that is not there"
    area = areas[number]
    if any(area.offset < each.offset + each.bytes and each.offset < area.offset + area.bytes for each in group):
        return f"lies at byte {area.offset} of shared memory, in an area that it joins"
    return ""


def launch_error(func: Any, gpu: Target) -> str:
    """The error in the shape of a function's launch, or ""."""
    warps, spec = tileas.number_of(func, tileas.BLOCK_WARPS), func.kernel_spec
    if warps is not None and not spec.num_warps <= warps <= MAX_THREADS_PER_CTA // WARP_SIZE:
        return f"has {warps} warps in a CTA, and {spec.num_warps} that compute tiles"
    ctas = tileas.number_of(func, tileas.CLUSTER_CTAS)
    if ctas is not None and ctas not in (1, spec.num_ctas):
        return f"has {ctas} CTAs in a cluster, and {spec.num_ctas or 1} in a tile block"
    if tileas.PAIRS_OF in func.attributes and (spec.num_ctas or 1) > 1:
        return f"is launched for pairs of tile blocks with {spec.num_ctas} CTAs each"
    if tileas.PAIRS_OF in func.attributes and not gpu.has("cluster"):
        return f"is launched for pairs of tile blocks, in clusters, which {gpu.name} does not have"
    hidden = func.attributes.get(tileas.TENSOR_MAPS, ())
    parameters = len(func.function_type.inputs) - len(hidden)
    for fact in tileas.facts_of_pairs(func):
        wrong = fact_error(fact, parameters)
        if wrong:
            return f"is launched for pairs of tile blocks where '{fact}', which {wrong}"
    if ctas is not None and ctas > 1 and not gpu.has("cluster"):
        return f"has {ctas} CTAs in a cluster, which {gpu.name} does not have"
    return ""
