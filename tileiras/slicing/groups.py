"""Determines which operations are cut together, and in which loops they are executed.

A *group* is operations connected by tensors sliced along one dimension: loads, stores, atomic updates, element-wise
operations, reductions and scans along other dimensions, rows or columns of dots, loops that carry such tensors.  A
reduction along the dimension itself ends a *phase*: its result exists after its loop, and consumers of both the result
and the tile recompute the tile in the loop of a later phase.  So does a dot whose operands are cut along K, which is
done only on request.  An atomic update is in one phase only.  A scan along the dimension continues from the previous
slice, so that all scans of a group have one direction, which is that of its loops.  Constants, ranges and values
computed from them belong to no group: they are rematerialized in each slice, as are other operations in one of its
loops.

Accumulators that a tensor memory *holds* belong to no group either: each slice is read from there when it is processed.

Tokens order whole tiles.  Cutting two accesses that one token orders is right if they cannot meet, if their loops come
one after the other, or if each element of the one meets the same element of the other.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from tileiras.analysis.alias import AliasAnalysis, address_of
from tileiras.analysis.incoming import incoming
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import (
    Block,
    BlockArgument,
    Convergent,
    MemoryWrite,
    NoMemoryEffect,
    Operation,
    Pure,
    TensorType,
    Value,
)

from .dimensions import (
    ACCESSES,
    COLLECTIVES,
    DOTS,
    SHAPES,
    UPDATES,
    WRITES,
    Access,
    RematerializedValues,
    Unsliceable,
    is_elementwise,
    k_dims,
    operand_dims,
    result_dim,
)

NEVER = 1 << 30
"""Phase of operations that can run only after the group."""


class Group:
    """The operations that are cut together when `seed` is cut along `dim` into `parts`.

    A seed that can be rematerialized, or is one of those `held`, belongs to no group itself: the group then begins with
    `consumer`, a store or reduction of it.

    `dims` has the dimension of each tensor that is cut, `accesses` that of the tile of each access, and `loops` the
    loops around some of them; `ops` are the operations of the seed's block that are or contain some, `phases` the loop
    in which each is completed and `runs` all in which it is executed; `extracted` has the dimensions along which tiles
    held are read in slices.  With `along_k` all dots are cut along K, without it none.  Raises Unsliceable.
    """

    def __init__(
        self,
        seed: Value,
        dim: int,
        parts: int,
        aliases: AliasAnalysis,
        rematerialized: RematerializedValues,
        along_k: bool = False,
        consumer: Operation | None = None,
        accumulators: Container[Value] = (),
    ) -> None:
        begin = consumer if seed in rematerialized or seed in accumulators else seed.defining_op
        assert begin is not None and begin.parent is not None
        self.block: Block = begin.parent
        self.seed = seed
        self.parts = parts
        self.rematerialized = rematerialized
        self.along_k = along_k
        self.extracted: dict[Value, set[int]] = {}
        self._held = accumulators
        self.dims: dict[Value, int] = {}
        self.accesses: dict[Operation, int] = {}
        self.loops: dict[Any, None] = {}
        self.roots: set[Operation] = set()
        self.dots: list[Any] = []
        self.scans: list[Any] = []
        """The scans along the dimension that is cut."""
        self._whole: set[Value] = set()
        self._checked: set[tuple[Value, int]] = set()
        self._aliases = aliases
        self._found: set[Operation] = set()
        self._pending: list[Value] = []
        if seed in accumulators:
            self._add(begin, seed, dim)
        elif seed in rematerialized:
            self._check_rematerialized(seed, dim)
            self._add(begin, seed, dim)
        else:
            self._cut(seed, dim)
        while self._pending:
            self._follow(self._pending.pop())
            if not self._pending:
                self._widen()
        if self._whole & self.dims.keys() or not self.roots:
            raise Unsliceable
        if len({scan.reverse is not None for scan in self.scans}) > 1:
            raise Unsliceable
        for loop in self.loops:
            self._check_loop(loop)
        ops = {self._unit(op) for op in self._found} | {self._unit(loop) for loop in self.loops}
        self.ops = [op for op in self.block.operations if op in ops]
        self.phases = self._find_phases()
        self.phase_count = 1 + max(self.phases[op] for op in self.roots)
        self.runs: dict[Operation, list[int]] = {op: [] for op in self.ops}
        for phase in range(self.phase_count):
            for op in self._phase_operations(phase):
                self.runs[op].append(phase)
        if any(len(self.runs[self._unit(op)]) > 1 for op in self.accesses if isinstance(op, UPDATES)):
            raise Unsliceable  # a loop of a later phase would update memory again
        self._check_order()

    def is_reduced(self, op: Operation) -> bool:
        """Whether an operation is a reduction along the dimension that is cut, or a dot along K."""
        return op in self.roots and isinstance(op, (aa.ReduceOp, *DOTS))

    @property
    def crosses_slices(self) -> bool:
        """Whether a slice needs elements of another one: of a reduction's tile, or of a scan's before it."""
        return bool(self.scans) or any(map(self.is_reduced, self.roots))

    # -- members of the group ------------------------------------------------------------------------------------------

    def _unit(self, op: Operation) -> Operation:
        """The operation of the block that is `op` or contains it."""
        unit = self.block.find_ancestor_op(op)
        assert unit is not None
        return unit

    def _enter(self, block: Block | None) -> None:
        """Add the loops between the group's block and `block`, which holds an operation of the group."""
        while block is not self.block:
            loop = None if block is None else block.parent_op
            if not isinstance(loop, scf.ForOp):
                raise Unsliceable
            self.loops[loop] = None
            block = loop.parent

    def _cut(self, value: Value, dim: int) -> None:
        earlier = self.dims.get(value)
        if earlier is None:
            if value.type.shape[dim] % self.parts:
                raise Unsliceable
            self._enter(value.parent_block)
            if isinstance(value, BlockArgument) and value.block is self.block:
                raise Unsliceable
            self.dims[value] = dim
            self._pending.append(value)
        elif earlier != dim:
            raise Unsliceable

    def _want(self, value: Value, dim: int | None) -> None:
        """Record that a slice of a tensor is needed, or, without a dimension, all of it."""
        if value in self._held:
            if dim is not None:
                self.extracted.setdefault(value, set()).add(dim)
        elif value in self.rematerialized:
            if dim is not None:
                self._check_rematerialized(value, dim)
        elif dim is None:
            self._whole.add(value)
        else:
            self._cut(value, dim)

    def _follow(self, value: Value) -> None:
        """Add the defining operation and the users of a tensor that is cut."""
        dim = self.dims[value]
        if isinstance(value, BlockArgument):
            self._carry(value.block.parent_op, value.index - 1, dim)
        elif isinstance(value.defining_op, scf.ForOp):
            self._carry(value.defining_op, value.index, dim)  # type: ignore[attr-defined]
        else:
            self._add(value.defining_op, value, dim)
        for user in value.users:
            if isinstance(user, scf.ForOp):
                self._carry_all(user, user.init_args, value)
            elif isinstance(user, scf.YieldOp) and isinstance(user.parent_op, scf.ForOp):
                self._carry_all(user.parent_op, user.operands, value)
            else:
                self._add(user, value, dim)

    def _carry_all(self, loop: scf.ForOp, carried: Sequence[Value], value: Value) -> None:
        for number, other in enumerate(carried):
            if other is value:
                self._carry(loop, number, self.dims[value])

    def _carry(self, loop: scf.ForOp, number: int, dim: int) -> None:
        """Make a loop-carried tensor one that is carried in slices: initial value, iteration argument and result."""
        self._enter(loop.body.block)
        for value in (loop.init_args[number], loop.iter_args[number], loop.yield_op.operands[number]):
            self._want(value, dim)
        self._cut(loop.results[number], dim)

    def _widen(self) -> None:
        """A loop carries all of its tensors in slices: those with the shape of one that is cut are cut alike."""
        for loop in self.loops:
            alike = {result.type.shape: self.dims[result] for result in loop.results if result in self.dims}
            for result in loop.results:
                if result not in self.dims and result.has_uses and getattr(result.type, "shape", None) in alike:
                    self._cut(result, alike[result.type.shape])

    def _add(self, op: Operation, value: Value, along: int) -> None:
        """Add an operation that defines or uses `value`, which is cut `along` a dimension, and cut its other
        tensors."""
        if op in self._found:
            return
        self._found.add(op)
        self._enter(op.parent)
        if isinstance(op, ACCESSES):
            _check_access(op)
        elif isinstance(op, DOTS):
            self.dots.append(op)
        elif not (isinstance(op, (*SHAPES, *COLLECTIVES)) or is_elementwise(op)):
            raise Unsliceable
        dim: int | None = along
        if value.defining_op is not op:
            dim = result_dim(op, value, along, self.parts)
        if isinstance(op, DOTS) and self.along_k != (dim is None):
            raise Unsliceable
        dims: list[int | None]
        if dim is None:
            if op.parent is not self.block:
                raise Unsliceable
            self.roots.add(op)
            if isinstance(op, DOTS):
                dims = k_dims(op)
            else:
                _check_combiner(op)
                dims = [op.dim.value] * len(op.operands)
        else:
            if isinstance(op, ACCESSES):
                self.accesses[op] = dim
            if isinstance(op, WRITES):
                self.roots.add(self._unit(op))
            if isinstance(op, aa.ScanOp) and dim == op.dim.value:
                self._go_on(op)
            for result in op.results:
                if isinstance(result.type, TensorType):
                    self._cut(result, dim)
            dims = operand_dims(op, dim, self.parts)
        for operand, cut in zip(op.operands, dims):
            if isinstance(operand.type, TensorType):
                self._want(operand, cut)

    def _go_on(self, scan: aa.ScanOp) -> None:
        """Add a scan along the dimension that is cut: the loop over slices carries its last elements."""
        _check_combiner(scan)
        if scan.parent is not self.block:
            raise Unsliceable
        self.scans.append(scan)

    @property
    def backwards(self) -> bool:
        """Whether the loops start with the last slice."""
        return any(scan.reverse is not None for scan in self.scans)

    def _check_rematerialized(self, value: Value, dim: int) -> None:
        """Raise Unsliceable unless every operation on the way can be rematerialized for a slice."""
        if (value, dim) in self._checked:
            return
        self._checked.add((value, dim))
        op: Any = value.defining_op
        if value.type.shape[dim] % self.parts or isinstance(op, arith.ConstantOp) and not op.value.is_splat:
            raise Unsliceable
        if isinstance(op, SHAPES) or is_elementwise(op):
            for operand, cut in zip(op.operands, operand_dims(op, dim, self.parts)):
                if cut is not None:
                    self._check_rematerialized(operand, cut)

    def _check_loop(self, loop: scf.ForOp) -> None:
        """Raise Unsliceable unless a loop can be executed for each slice."""
        for op in loop.body.block.operations:
            if op in self._found or op in self.loops:
                continue
            for inner in op.walk():
                if isinstance(inner, ACCESSES):
                    _check_access(inner)
                    harmless = not isinstance(inner, WRITES)
                else:
                    harmless = inner.has_trait(NoMemoryEffect) and not inner.has_trait(Convergent)
                if not harmless and not isinstance(inner, (scf.ForOp, scf.IfOp)):
                    raise Unsliceable
        if loop.parent is self.block:
            for result in loop.results:
                if result not in self.dims and result.has_uses and not isinstance(result.type, aa.MemTokenType):
                    raise Unsliceable

    # -- phases --------------------------------------------------------------------------------------------------------

    def _find_phases(self) -> dict[Operation, int]:
        """The first phase in which each unit can be executed."""
        phases: dict[Operation, int] = {}
        others: dict[Operation, int] = {}
        group = set(self.ops)

        def ready(value: Value, joins: bool) -> int:
            op = value.defining_op
            if op not in phases:
                return others.get(op, 0)  # type: ignore[arg-type]
            if isinstance(value.type, aa.MemTokenType):
                # A token that returns through an operation outside the group would put that into the loop.
                return phases[op] if joins else NEVER
            return phases[op] + self.is_reduced(op)

        for op in self.block.operations:
            inside = op in group
            joins = inside or isinstance(op, aa.JoinMemTokenOp)
            phase = max((ready(v, joins) for inner in op.walk() for v in inner.operands), default=0)
            if not inside:
                others[op] = phase
            elif phase >= NEVER:
                raise Unsliceable
            else:
                phases[op] = phase
                if len(phases) == len(group):
                    break
        return phases

    def _phase_operations(self, phase: int) -> list[Operation]:
        """The ops that the loop of a phase executes, in order."""
        units: set[Operation] = set()
        pending = [op for op in self.roots if self.phases[op] == phase]
        while pending:
            unit = pending.pop()
            if unit not in units:
                units.add(unit)
                operands = (v for inner in unit.walk() for v in inner.operands if v in self.dims)
                pending += [self._unit(v.defining_op) for v in operands if v.defining_op is not None]
        return [op for op in self.ops if op in units]

    # -- order ---------------------------------------------------------------------------------------------------------

    def _check_order(self) -> None:
        accesses = {op: self._unit(op) for unit in self.ops for op in unit.walk() if isinstance(op, ACCESSES)}
        if not all(self.runs[unit] for unit in accesses.values()):
            raise Unsliceable
        for second, later in accesses.items():
            for first in accesses_before(second, self.block.parent_op):
                if first not in accesses:
                    continue
                writes = first.has_trait(MemoryWrite) or second.has_trait(MemoryWrite)
                if not writes or not self._aliases.may_alias(address_of(first), address_of(second)):
                    continue
                last, next = self.runs[accesses[first]][-1], self.runs[later][0]
                if last > next or last == next and not self._same_place(first, second):
                    raise Unsliceable

    def _same_place(self, first: Access, second: Access) -> bool:
        """Whether two accesses that are cut alike touch the same address for the same element."""
        cuts = {self.accesses.get(op) for op in (first, second)}
        if len(cuts) != 1 or None in cuts or first.parent is not self.block or second.parent is not self.block:
            return False
        if hasattr(first, "pointer") and hasattr(second, "pointer"):
            return first.pointer is second.pointer
        return tile_alike(first, second) and list(first.coords) == list(second.coords)

    # -- registers -----------------------------------------------------------------------------------------------------

    def registers(self, threads: int) -> int:
        """32-bit registers of a thread for the tiles that are live at a time, executed in order.

        A seed that is rematerialized counts as if it were held: it takes as many instructions.
        """
        rematerialized = words(self.seed, threads) if self.seed not in self.dims else 0
        of_extracted = sum(words(value, threads) for value in self.extracted)
        return max(rematerialized, of_extracted, self._most(self.ops, threads))

    def _most(self, ops: list[Operation], threads: int) -> int:
        last: dict[Value, Operation] = {}
        for op in ops:
            for inner in op.walk():
                for value in inner.operands:
                    last[value] = op
        here = ops[0].parent
        arguments = [v for v in here.arguments if v in self.dims]  # type: ignore[union-attr]
        live = most = sum(words(v, threads) for v in arguments)
        for op in ops:
            if isinstance(op, scf.ForOp):
                # Loop-carried tensors are counted inside.
                carried = sum(words(v, threads) for v in set(op.init_args) if v in self.dims and last[v] is op)
                most = max(most, live - carried + self._most(list(op.body.block.operations), threads))
            # Elements are processed one after the other, so results take the places of operands.
            ending = {v for inner in op.walk() for v in inner.operands if v in self.dims and last[v] is op}
            live -= sum(words(v, threads) for v in ending if v.parent_block is here)
            live += sum(words(v, threads) for v in op.results if v in self.dims)
            apart = 0
            if isinstance(op, aa.ScanOp):
                # One after the other, each in a register of its own.
                apart = sum(max(0, v.type.num_elements // threads - words(v, threads)) for v in op.results)
            most = max(most, live + apart)
        return most


def accesses_before(op: Access, scope: Operation) -> list[Access]:
    """The accesses inside `scope` that the token of an access comes from, directly or not."""
    accesses: dict[Access, None] = {}
    pending = [] if op.token is None else [op.token]
    seen = set()
    while pending:
        token = pending.pop()
        if token in seen:
            continue
        seen.add(token)
        source = token.block.parent_op if isinstance(token, BlockArgument) else token.defining_op
        if source is scope or not scope.is_ancestor_of(source):
            continue
        if isinstance(source, ACCESSES):
            accesses[source] = None
        handed_on = incoming(token)
        if handed_on is None:
            pending += [v for v in source.operands if isinstance(v.type, aa.MemTokenType)]
        else:
            pending += [each.value for each in handed_on]
    return list(accesses)


def tile_alike(first: aa.TiledLoadOp, second: aa.TiledStoreOp) -> bool:
    """Whether two accesses go through views that cut the same memory into the same tiles."""
    if not (hasattr(first, "view") and hasattr(second, "view")):
        return False
    one, other = first.view.type, second.view.type
    tilings = (one.shape, one.dim_map, one.traversal_strides), (other.shape, other.dim_map, other.traversal_strides)
    if tilings[0] != tilings[1]:
        return False
    a, b = first.view.defining_op.source, second.view.defining_op.source
    return a is b or a.type is b.type and list(a.defining_op.operands) == list(b.defining_op.operands)


def _check_access(op: Access) -> None:
    """Raise Unsliceable for accesses with an order, and for those whose addresses are not known by their place."""
    # The updates of a tile are not ordered among each other, so slices may be made one after the other.
    order = "relaxed" if isinstance(op, UPDATES) else "weak"
    if op.mem_semantic.value != order or getattr(op, "reduction", None) or getattr(op, "multicast", None):
        raise Unsliceable
    if isinstance(op, (aa.TiledLoadOp, aa.TiledStoreOp, aa.TiledAtomicRMWOp)):
        if op.view.type.sparse_dim is not None or not isinstance(op.view.defining_op, aa.BlockTileOp):
            raise Unsliceable
        if not isinstance(op.view.defining_op.source.defining_op, aa.MakeMemRefOp):
            raise Unsliceable


def _check_combiner(op: aa.ReduceOp | aa.ScanOp) -> None:
    """Raise Unsliceable for a reduction or scan that cannot combine whole slices, element by element."""
    for inner in op.body.block.operations:
        if inner.regions or not inner.has_trait(Pure):
            raise Unsliceable
    if any(isinstance(v.type.element_type, aa.PtrType) for v in op.inputs):
        raise Unsliceable


def words(value: Value, threads: int) -> int:
    """Registers of a thread for its share of a tensor; 0 for operands on their way from memory, which dots read a step
    at a time."""
    if _is_dot_operand(value):
        return 0
    type = value.type
    width = max(1, getattr(type.element_type, "width", 64))
    return -(-type.num_elements * width // (32 * threads)) or 1


def _is_dot_operand(value: Value) -> bool:
    source: Any = value.defining_op
    while isinstance(source, SHAPES) or source is not None and len(source.operands) == 1 and is_elementwise(source):
        source = source.operands[0].defining_op
    return isinstance(source, ACCESSES) and all(
        isinstance(user, DOTS)
        and value is not user.c
        or (isinstance(user, SHAPES) or is_elementwise(user))
        and all(map(_is_dot_operand, user.results))
        for user in value.users
    )
