"""Slicing: tiles that do not fit in registers are worked on slice by slice.

    %x = tiled_load %v[%i]     : tensor<65536xf32>          for %s in 0 .. 8:
    %y = addf %x, %x           : tensor<65536xf32>     ->     %x = tiled_load %w[8 * %i + %s] : tensor<8192xf32>
    tiled_store %y, %v[%i]                                    %y = addf %x, %x
                                                              tiled_store %y, %w[8 * %i + %s]

A *group* is what hangs together through tensors that are cut along one dimension: loads, stores, whatever does the same
to each element, reductions and scans along other dimensions.  A reduction along the dimension itself ends a *stage*: it
is complete when its loop is, and whoever wants both its result and the tile makes the tile again, in the loop of a
later stage.  Constants, ranges and what is computed of them are no part of a group, but made again in each slice.

Tokens order whole tiles.  Cutting two accesses that one token orders is right if they cannot meet, if their loops come
one after the other, or if each element of the one meets the same element of the other.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.alias import AliasAnalysis, address_of
from tileiras.diagnostics import DiagnosticEngine
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Block, MemoryWrite, Operation, Pure, TensorType, Value

from .anchors import data_of
from .slice_dimensions import (
    ACCESSES,
    COLLECTIVES,
    SHAPES,
    STORES,
    Remade,
    Unsliceable,
    is_elementwise,
    operand_dims,
    result_dim,
)
from .sliced_loops import SlicedLoops

REGISTERS_PER_CTA = 65536
"""32-bit registers that the CTAs of an SM share (CUDA C++ Programming Guide, "Compute Capabilities", every SM)."""

REGISTERS_PER_THREAD = 255

OTHER_REGISTERS = 32
"""Left for addresses, masks and counters."""

WHOLE_LIMIT = 128
"""Most registers of a thread that tiles of one group may take at a time before they are cut: with half of what a thread
can have, ptxas spills none and an SM still holds two CTAs of 256 threads."""

SLICED_LIMIT = 64
"""Registers that slices take: sixteen accesses of 16 bytes under way in each thread."""

SMALL_TILE = 32
"""Elements of a thread up to which nobody looks for groups."""

NEVER = 1 << 30
"""The stage of what waits for something that cannot be in a loop of the group."""

MIN_RUN = 128
"""Elements that stay together along the fastest dimension: 16 bytes for each thread of a warp, of most types."""

# ---- groups ----------------------------------------------------------------------------------------------------------


class Group:
    """The operations of one block that are cut together when `seed` is cut along `dim` into `parts`.

    `dims` has the dimension of each tensor that is cut, `stages` the loop in which each operation is completed and
    `runs` all in which it is executed.  Raises Unsliceable.
    """

    def __init__(self, seed: Value, dim: int, parts: int, aliases: AliasAnalysis, remade: Remade) -> None:
        assert seed.defining_op is not None and seed.defining_op.parent is not None
        self.block: Block = seed.defining_op.parent
        self.parts = parts
        self.dims: dict[Value, int] = {}
        self.sinks: set[Operation] = set()
        self.remade = remade
        self._whole: set[Value] = set()
        self._checked: set[tuple[Value, int]] = set()
        self._aliases = aliases
        found: dict[Operation, None] = {}
        pending = [seed]
        self._cut(seed, dim, pending)
        while pending:
            value = pending.pop()
            for op in (value.defining_op, *value.users):
                if op not in found:
                    found[op] = None
                    self._add(op, value, pending)
        if self._whole & self.dims.keys() or not self.sinks:
            raise Unsliceable
        self.ops = [op for op in self.block.operations if op in found]
        self.stages = self._find_stages()
        self.stage_count = 1 + max(self.stages[op] for op in self.sinks)
        self.runs: dict[Operation, list[int]] = {op: [] for op in self.ops}
        for stage in range(self.stage_count):
            for op in self._needed(stage):
                self.runs[op].append(stage)
        self._check_order()

    def _cut(self, value: Value, dim: int, pending: list[Value]) -> None:
        known = self.dims.get(value)
        op = value.defining_op
        if known is None:
            if op is None or op.parent is not self.block or value.type.shape[dim] % self.parts:
                raise Unsliceable
            self.dims[value] = dim
            pending.append(value)
        elif known != dim:
            raise Unsliceable

    def _add(self, op: Any, value: Value, pending: list[Value]) -> None:
        """Adds an operation that makes or takes `value`, which is cut, and asks for its other tensors."""
        if op.parent is not self.block:
            raise Unsliceable
        if isinstance(op, ACCESSES):
            _check_access(op)
        elif not (isinstance(op, (*SHAPES, *COLLECTIVES)) or is_elementwise(op)):
            raise Unsliceable
        dim: int | None = self.dims[value]
        if value.defining_op is not op:
            dim = result_dim(op, self.dims[value], self.parts)
        if dim is None:
            _check_combiner(op)
            self.sinks.add(op)
            dims: list[int | None] = [op.dim.value] * len(op.operands)
        else:
            if isinstance(op, STORES):
                self.sinks.add(op)
            for result in op.results:
                if isinstance(result.type, TensorType):
                    self._cut(result, dim, pending)
            dims = operand_dims(op, dim, self.parts)
        for operand, cut in zip(op.operands, dims):
            if not isinstance(operand.type, TensorType):
                continue
            if operand in self.remade:
                if cut is not None:
                    self._check_remade(operand, cut)
            elif cut is None:
                self._whole.add(operand)
            else:
                self._cut(operand, cut, pending)

    def _check_remade(self, value: Value, dim: int) -> None:
        """Raises Unsliceable unless every operation on the way can make a slice."""
        if (value, dim) in self._checked:
            return
        self._checked.add((value, dim))
        op: Any = value.defining_op
        if value.type.shape[dim] % self.parts:
            raise Unsliceable
        if isinstance(op, SHAPES) or is_elementwise(op):
            for operand, cut in zip(op.operands, operand_dims(op, dim, self.parts)):
                if cut is not None:
                    self._check_remade(operand, cut)

    # -- stages --------------------------------------------------------------------------------------------------------

    def _find_stages(self) -> dict[Operation, int]:
        """The first stage in which each operation of the group can be executed."""
        stages: dict[Operation, int] = {}
        others: dict[Operation, int] = {}
        group = set(self.ops)

        def ready(value: Value, joins: bool) -> int:
            op = value.defining_op
            if op not in stages:
                return others.get(op, 0)  # type: ignore[arg-type]
            if isinstance(value.type, aa.MemTokenType):
                # A token that comes back through something else than the group would put that into the loop.
                return stages[op] if joins else NEVER
            return stages[op] + (op in self.sinks)

        for op in self.block.operations:
            if op in group:
                stages[op] = max((ready(v, True) for v in op.operands), default=0)
                if stages[op] >= NEVER:
                    raise Unsliceable
                if len(stages) == len(group):
                    break
            else:
                joins = isinstance(op, aa.JoinMemTokenOp)
                others[op] = max((ready(v, joins) for inner in op.walk() for v in inner.operands), default=0)
        return stages

    def _needed(self, stage: int) -> list[Operation]:
        """What the loop of a stage executes, in the order of the block."""
        found: set[Operation] = set()
        pending = [op for op in self.sinks if self.stages[op] == stage]
        while pending:
            op = pending.pop()
            if op not in found:
                found.add(op)
                pending += [v.defining_op for v in op.operands if v in self.dims]  # type: ignore[misc]
        return [op for op in self.ops if op in found]

    # -- order ---------------------------------------------------------------------------------------------------------

    def _check_order(self) -> None:
        accesses = [op for op in self.ops if isinstance(op, ACCESSES)]
        if not all(self.runs[op] for op in accesses):
            raise Unsliceable
        for second in accesses:
            for first in self.ordered_before(second):
                writes = first.has_trait(MemoryWrite) or second.has_trait(MemoryWrite)
                if not writes or not self._aliases.may_alias(address_of(first), address_of(second)):
                    continue
                last, next = self.runs[first][-1], self.runs[second][0]
                if last > next or last == next and not self._same_place(first, second):
                    raise Unsliceable

    def ordered_before(self, op: Any) -> list[Any]:
        """The accesses of the group that the token of an access comes from, directly or not."""
        found: dict[Operation, None] = {}
        pending = [op.token] if op.token is not None else []
        seen = set()
        while pending:
            token = pending.pop()
            source = token.defining_op
            if token in seen or source is None or source.parent is not self.block:
                continue
            seen.add(token)
            if source in self.runs:
                found[source] = None
            pending += [v for v in source.operands if isinstance(v.type, aa.MemTokenType)]
        return list(found)

    def _same_place(self, first: Any, second: Any) -> bool:
        """Whether two accesses that are cut alike touch the same address for the same element."""
        if hasattr(first, "pointer") and hasattr(second, "pointer"):
            return first.pointer is second.pointer
        if not (hasattr(first, "view") and hasattr(second, "view")):
            return False
        one, other = first.view.type, second.view.type
        tilings = (one.shape, one.dim_map, one.traversal_strides), (other.shape, other.dim_map, other.traversal_strides)
        cut = {self.dims.get(data_of(op)) for op in (first, second)}
        if tilings[0] != tilings[1] or len(cut) != 1 or list(first.coords) != list(second.coords):
            return False
        a, b = first.view.defining_op.source, second.view.defining_op.source
        same = a.type is b.type and list(a.defining_op.operands) == list(b.defining_op.operands)
        return a is b or same

    # -- registers -----------------------------------------------------------------------------------------------------

    def registers(self, threads: int) -> int:
        """32-bit registers of a thread for the tiles that are there at a time, executed in the order of the block."""
        last: dict[Value, Operation] = {}
        for op in self.ops:
            for value in op.operands:
                last[value] = op
        live = most = 0
        for op in self.ops:
            # Elements are worked on one after the other, so results take the places of operands.
            live -= sum(_words(v, threads) for v in set(op.operands) if v in self.dims and last[v] is op)
            live += sum(_words(v, threads) for v in op.results if v in self.dims)
            most = max(most, live)
        return most


def _check_access(op: Any) -> None:
    """Raises Unsliceable for accesses with an order, and for those whose addresses are not known by their place."""
    if op.mem_semantic.value != "weak" or getattr(op, "reduction", None) or getattr(op, "multicast", None):
        raise Unsliceable
    if isinstance(op, (aa.TiledLoadOp, aa.TiledStoreOp)):
        if op.view.type.sparse_dim is not None or not isinstance(op.view.defining_op, aa.BlockTileOp):
            raise Unsliceable
        if not isinstance(op.view.defining_op.source.defining_op, aa.MakeMemRefOp):
            raise Unsliceable


def _check_combiner(op: Any) -> None:
    """Raises Unsliceable for a reduction that cannot combine whole slices, element by element."""
    for inner in op.body.block.operations:
        if inner.regions or not inner.has_trait(Pure):
            raise Unsliceable
    if any(isinstance(v.type.element_type, aa.PtrType) for v in op.inputs):
        raise Unsliceable


def _words(value: Value, threads: int) -> int:
    type = value.type
    width = max(1, getattr(type.element_type, "width", 64))
    return -(-type.num_elements * width // (32 * threads)) or 1


# ---- choice ----------------------------------------------------------------------------------------------------------


def slice_tiles(func: Any, num_warps: int, engine: DiagnosticEngine | None = None) -> None:
    """Cuts the tiles of a function of nv_tileaa that take too many registers, in place; a remark says which."""
    threads = 32 * num_warps
    share = REGISTERS_PER_CTA // (threads * max(1, func.kernel_spec.occupancy or 1))
    limit = max(1, min(WHOLE_LIMIT, share - OTHER_REGISTERS))
    aliases, remade = AliasAnalysis(), Remade()
    for block in [block for op in func.walk() for region in op.regions for block in region.blocks]:
        met: set[Operation] = set()
        for op in list(block.operations):
            seed = _seed(op, threads, remade) if op not in met else None
            if seed is None:
                continue
            group = _choose(seed, threads, limit, aliases, remade)
            if group is None:
                continue
            met.update(group.ops)
            if engine is not None:
                shape = "x".join(map(str, seed.type.shape))
                engine.remark(
                    op.location,
                    f"the {shape} tile is worked on in {group.parts} slices:"
                    f" a thread would need {group.registers(threads)} registers for what is there at a time",
                )
            SlicedLoops(group).run()


def _seed(op: Operation, threads: int, remade: Remade) -> Value | None:
    """The large tensor that an operation consumes."""
    if not isinstance(op, (*STORES, aa.ReduceOp)):
        return None
    value = op.inputs[0] if isinstance(op, aa.ReduceOp) else data_of(op)
    type = value.type
    if not isinstance(type, TensorType) or type.num_elements <= SMALL_TILE * threads or value in remade:
        return None
    return value if value.defining_op is not None and value.defining_op.parent is op.parent else None


def _choose(seed: Value, threads: int, limit: int, aliases: AliasAnalysis, remade: Remade) -> Group | None:
    """The group around a tensor, cut so that its slices fit; None when it fits as it is or cannot be cut.

    Along a slow dimension slices are whole rows, so of equal ways the first is taken.
    """
    found: list[Group] = []
    rank = seed.type.rank
    for dim, extent in enumerate(seed.type.shape):
        try:
            taken = Group(seed, dim, 2, aliases, remade).registers(threads)
            if taken <= limit:
                return None
            parts = 1 << (-(-taken // min(limit, SLICED_LIMIT)) - 1).bit_length()
            parts = min(parts, extent if dim != rank - 1 else extent // MIN_RUN)
            if parts > 1:
                found.append(Group(seed, dim, parts, aliases, remade))
        except Unsliceable:
            continue
    return min(found, key=lambda group: (group.stage_count, -group.parts), default=None)
