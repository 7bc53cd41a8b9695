"""Slicing: tiles that do not fit in registers are processed slice by slice.

    %x = tiled_load %v[%i]     : tensor<65536xf32>          for %s in 0 .. 8:
    %y = addf %x, %x           : tensor<65536xf32>     ->     %x = tiled_load %w[8 * %i + %s] : tensor<8192xf32>
    tiled_store %y, %v[%i]                                    %y = addf %x, %x
                                                              tiled_store %y, %w[8 * %i + %s]

A scan along the dimension continues from the last element of the previous slice.

The loop around a dot is executed for each slice of the rows, or columns, of its result; the operand that is not sliced
is loaded again.
"""

from __future__ import annotations

from collections.abc import Callable

from tileiras.analysis.alias import AliasAnalysis, data_of
from tileiras.analysis.tensor_map_rules import contiguous_dim
from tileiras.assignment.asynchronous_limits import registers_of_warpgroups
from tileiras.assignment.dot_plans import DotPlans
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation, TensorType, Value
from tileiras.layout.tensor_memory import LANES
from tileiras.reasons import Reason
from tileiras.resources.limits import SMALL_TILE, WHOLE_LIMIT, registers_for_tiles

from .dimensions import DOTS, WRITES, RematerializedValues, Unsliceable, operand_dims
from .groups import Group, words
from .held_accumulators import HeldAccumulators
from .loops import SlicedLoops

SLICED_LIMIT = 64
"""Registers for slices: sixteen accesses of 16 bytes in flight in each thread."""

MIN_RUN = 128
"""Elements that stay together along the fastest dimension: 16 bytes for each thread of a warp, of most types."""


BOX_SLICE_BYTES = 32 * 1024
"""Bytes of a slice of an accumulator that goes to memory in boxes of a tensor map: while one is copied, at 64 bytes a
cycle of an SM, the next one is written to shared memory at 128, with two barriers and the latency of tensor memory."""


BOX_ROW_BYTES = 128
"""Bytes of the rows of such slices: those of a box with the widest swizzle."""


def slice_tiles(
    func: aa.FuncOp, num_warps: int, dots: DotPlans, engine: DiagnosticEngine | None = None, in_boxes: bool = False
) -> None:
    """Cut the tiles of a function of nv_tileaa that take too many registers, in place; a remark says which.

    `in_boxes`: accumulators in tensor memory that are stored once are read in slices that copies in boxes follow.
    """
    accumulators = HeldAccumulators(func, num_warps, dots)
    slicing = _Slicing(32 * num_warps, func.kernel_spec.occupancy or 1, dots, accumulators)
    once = {func.body.blocks[0]} if in_boxes else set()
    """Blocks that are executed once, and the bodies of loops over slices in them."""
    pending = [block for op in func.walk() for region in op.regions for block in region.blocks]
    while pending:
        block = pending.pop(0)
        if not func.is_ancestor_of(block.parent_op):
            continue  # of a loop that has been cut
        ops: set[Operation] = set()
        for op in list(block.operations):
            seed = slicing.seed(op) if op not in ops else None
            if seed is None:
                continue
            group = slicing.choose(seed, op) or (slicing.box_slices(seed, op) if block in once else None)
            if group is None:
                continue
            ops.update(group.ops)
            if engine is not None:
                shape = "x".join(map(str, seed.type.shape))
                reason = Reason("slices.tile", shape=shape, parts=group.parts, registers=slicing.registers(group))
                engine.emit(Remark(reason, op.location))
            # Slices along one dimension may still be too large.
            bodies = SlicedLoops(group).run()
            pending += bodies
            if block in once:
                once.update(bodies)


_Make = Callable[[Value, Operation, int, int], Group | None]


class _Slicing:
    """The choice of cuts, for one number of threads."""

    def __init__(self, threads: int, ctas: int, dots: DotPlans, accumulators: HeldAccumulators) -> None:
        self.threads = threads
        self._dots = dots
        self._held = accumulators
        self._available = max(1, registers_for_tiles(threads, ctas))
        self._alone = max(1, registers_for_tiles(threads))
        self._aliases, self._rematerialized = AliasAnalysis(), RematerializedValues()

    def seed(self, op: Operation) -> Value | None:
        """The large tensor that an operation consumes."""
        if not isinstance(op, (*WRITES, aa.ReduceOp)):
            return None
        value = op.inputs[0] if isinstance(op, aa.ReduceOp) else data_of(op)
        type = value.type
        if not isinstance(type, TensorType) or type.num_elements <= SMALL_TILE * self.threads:
            return None
        if value in self._rematerialized or value in self._held:
            return value
        return value if value.defining_op is not None and value.defining_op.parent is op.parent else None

    def choose(self, seed: Value, consumer: Operation) -> Group | None:
        """The group around a tensor, cut so that its slices fit; None when it fits as it is or cannot be cut.

        Along a slow dimension slices are whole rows, so of equal ways the first is taken.  Of dots the longer side is
        cut, whose slices load the shorter one again.  Accumulators in tensor memory are read in slices where that can
        be.
        """
        for make in (self._held_group, self._group) if self._held.plans else (self._group,):
            first = [(dim, group) for dim in range(seed.type.rank) if (group := make(seed, consumer, dim, 2))]
            if any(registers <= most for registers, most, _ in (self._registers(group) for _, group in first)):
                return None
            result = [cut for dim, group in first if (cut := self._cut(seed, consumer, dim, group, make)) is not None]
            if result:
                return min(result, key=lambda g: (g.phase_count, len(g.scans), _loaded_again(g), -g.parts))
        return None

    def box_slices(self, seed: Value, store: Operation) -> Group | None:
        """The group around the part of an accumulator in tensor memory that a store reads, cut so that a copy of one
        slice continues while the next one is read; None if other tiles are read, no boxes have the shape of the slices,
        the tile is small, or has half of the lanes: a pair of CTAs has half of its columns in the others."""
        type, dim = seed.type, seed.type.rank - 1
        width = type.element_type.width
        parts = type.num_elements * width // (8 * BOX_SLICE_BYTES)
        if not isinstance(store, aa.TiledStoreOp) or parts < 2 or type.shape[dim] * width < parts * 8 * BOX_ROW_BYTES:
            return None
        if aa.NO_TMA in store.attributes or contiguous_dim(store.view.type) != dim:
            return None
        group = self._held_group(seed, store, dim, parts) if self._held.plans else None
        if group is None or list(group.accesses) != [store] or group.phase_count > 1:
            return None
        return group if all(value.type.shape[-2] >= LANES for value in group.extracted) else None

    def _cut(self, seed: Value, consumer: Operation, dim: int, group: Group, make: _Make) -> Group | None:
        """A group in two parts, or in as many as its registers require."""
        registers, _, aim = self._registers(group)
        extent = seed.type.shape[dim]
        if dim == seed.type.rank - 1 and not group.dots and not group.extracted:
            extent //= MIN_RUN
        parts = min(1 << (-(-registers // aim) - 1).bit_length(), extent)
        while parts > 2 and (finer := make(seed, consumer, dim, parts)) is None:
            parts //= 2
        if parts <= 1:
            return None
        return finer if parts > 2 else group  # type: ignore[return-value]

    def registers(self, group: Group) -> int:
        """Registers of a thread for the tiles of a group."""
        return self._registers(group)[0]

    def _held_group(self, seed: Value, consumer: Operation, dim: int, parts: int) -> Group | None:
        """The group that reads slices of accumulators in tensor memory instead of multiplying for each slice; None when
        nothing is read there, dots are cut beside it, or a loop of the group has the dot: it would run for each slice.
        """
        try:
            group = Group(
                seed, dim, parts, self._aliases, self._rematerialized, consumer=consumer, accumulators=self._held
            )
        except Unsliceable:
            return None
        readable = all(self._held.can_read(v, d, parts) for v, dims in group.extracted.items() for d in dims)
        again = any(loop.is_ancestor_of(v.defining_op) for loop in group.loops for v in group.extracted)
        return group if group.extracted and not group.dots and readable and not again else None

    def _group(self, seed: Value, consumer: Operation, dim: int, parts: int) -> Group | None:
        try:
            return Group(seed, dim, parts, self._aliases, self._rematerialized, consumer=consumer)
        except Unsliceable:
            return None

    def _registers(self, group: Group) -> tuple[int, int, int]:
        """Registers that a group takes, above how many it is cut, and how many its slices should take.

        Of dots only the accumulators count: loading operands twice costs more than a few registers that are spilled,
        and more than having an SM to itself.  Warpgroups whose accumulators are spilled multiply one after the other.
        """
        available = self._available
        if group.dots:
            available = self._alone
            together = registers_of_warpgroups(group.dots, self._dots, self.threads)
            return max(together, *map(self._accumulators, group.dots)), available, available
        return group.registers(self.threads), min(WHOLE_LIMIT, available), min(SLICED_LIMIT, available)

    def _accumulators(self, dot: aa.DotOp) -> int:
        """Registers of a thread for a dot's accumulators; one that is scaled run by run has those of the run, and the
        two scales of each, beside them."""
        by_run = isinstance(dot, aa.BlockScaledMmaOp) and self._dots.scales_runs_by_themselves(dot)
        return words(dot.result, self.threads) * (4 if by_run else 1)


def _loaded_again(group: Group) -> tuple[int, int]:
    """Dots that all slices multiply again, and elements of operands that all but the first load again."""
    repeated = sum(op not in group.dots for unit in group.ops for op in unit.walk() if isinstance(op, DOTS))
    dims_of_dots = ((op, operand_dims(op, group.dims[op.result], group.parts)) for op in group.dots)
    whole = {value for op, dims in dims_of_dots for value, dim in zip(op.operands, dims) if dim is None}
    return repeated, (group.parts - 1) * sum(value.type.num_elements for value in whole)
