"""Dataflow analysis of a function of nv_tileaa: the facts of each value (`facts`).

Values are visited in program order until a fixed point is reached.  Each allocation that the function writes has facts
too: a load from it depends on all data stored there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.attributes import IN_BOUNDS
from tileiras.ir import Operation, Pure, Value, element_type_of
from tileiras.support.named_tuple import NamedTuple

from .addresses import Addresses
from .combiners import ROUNDED, carried_operations, is_float, is_orderless
from .facts import NONE, NOTHING, Facts, Mask, Quantities, is_argument, is_block, join, marks_of_run, of_launch
from .memory import (
    LOADS,
    STORES,
    UPDATES,
    Root,
    address_of,
    conjuncts,
    data_of,
    is_private,
    is_weak,
    memref_of,
    places_of,
    roots,
)
from .shapes import SHAPES, Dims, is_elementwise, mapped, varies

ACQUIRES = ("acquire", "acq_rel")

DOTS = (aa.DotOp, aa.BlockScaledMmaOp)
_ACCESSES = (*LOADS, *STORES, *UPDATES)

Loop = scf.ForOp | scf.WhileOp


class Site(NamedTuple):
    """A sum of the program."""

    op: Operation
    kind: str
    of: Any
    """Element type."""
    length: int = 0
    argument: int = -1
    """Number of the carried value, for a loop."""


class Flow:
    """The facts of one function."""

    def __init__(self, func: aa.FuncOp, numbers: dict[Operation, int]) -> None:
        self.func = func
        self.numbers = numbers
        self.sites: list[Site] = []
        self.in_loops: set[int] = set()
        """Numbers of the dots with loop-carried accumulators."""
        self._facts: dict[Value, Facts] = {}
        self._memory: dict[Root, Facts] = {}
        self._roots: dict[Value, frozenset[Root]] = {}
        self._varying: dict[Value, Dims] = {}
        self._changed = False
        ops = [op for op in func.walk() if op is not func]
        self._collect_sites(ops)
        self._site_numbers = {(site.op, site.argument): number for number, site in enumerate(self.sites)}
        accesses = [op for op in ops if isinstance(op, _ACCESSES)]
        self.writes = [op for op in accesses if not isinstance(op, LOADS)]
        self.loads = [op for op in accesses if isinstance(op, LOADS)]
        self.acquires = [op for op in accesses if not isinstance(op, STORES) and op.mem_semantic.value in ACQUIRES]
        self.unknown = [op for op in ops if not _is_known(type(op))]
        for number, argument in enumerate(func.body.block.arguments):
            is_pointer = isinstance(argument.type, aa.PtrType)
            self._facts[argument] = NOTHING if is_pointer else Facts(frozenset((f"p{number}",)))
        self.written: frozenset[Root] = frozenset().union(*(self.roots(address_of(op)) for op in self.writes))
        self._reads_written = any(map(self._is_written, self.loads))
        self._solve()

    def of(self, value: Value) -> Facts:
        return self._facts.get(value, NOTHING)

    # -- sums ----------------------------------------------------------------------------------------------------------

    def _collect_sites(self, ops: Sequence[Operation]) -> None:
        for op in ops:
            if isinstance(op, (aa.ReduceOp, aa.ScanOp)):
                kind = "reduce" if isinstance(op, aa.ReduceOp) else "scan"
                length = op.inputs[0].type.shape[op.dim.value]
                if length == 1 or is_orderless(op.body.block):
                    continue
                self.sites.append(Site(op, kind, element_type_of(op.inputs[0].type), length))
            elif isinstance(op, DOTS) and is_float(op.c):
                self.sites.append(Site(op, "dot", element_type_of(op.c.type), op.a.type.shape[-1]))
            elif isinstance(op, (aa.TiledAtomicRMWOp, aa.AtomicRMWOp)) and op.rmw_mode.value == "addf":
                self.sites.append(Site(op, "atomic", element_type_of(data_of(op).type)))
            elif isinstance(op, (scf.ForOp, scf.WhileOp)):
                self._collect_carried(op)

    def _collect_carried(self, loop: Loop) -> None:
        """Add the floats that a loop carries through operations that round, except for accumulators of dots."""
        for number, (argument, result) in enumerate(_carried(loop)):
            if not is_float(argument) or argument is result:
                continue
            ops = carried_operations(loop, result, argument)
            dots = {op for op in ops if isinstance(op, DOTS)}
            if any(isinstance(op, ROUNDED) for op in ops) or any(not _accumulates(op, ops, argument) for op in dots):
                self.sites.append(Site(loop, "loop", element_type_of(argument.type), argument=number))
            self.in_loops.update(self.numbers[op] for op in dots)

    def _sum(self, op: Operation, number: int = -1) -> Facts:
        """The sum that an operation, or a carried value of a loop, is; nothing if it is no sum."""
        site = self._site_numbers.get((op, number))
        return NOTHING if site is None else Facts(sums=frozenset((site,)))

    # -- control flow --------------------------------------------------------------------------------------------------

    def _solve(self) -> None:
        """Visit all values until no fact changes that an earlier operation has read: of a value that a loop carries,
        or of memory that a load reads."""
        self._changed = True
        while self._changed:
            self._changed = False
            self._block(self.func.body.block)

    def _block(self, block: Any) -> None:
        for op in block.operations:
            rule = _RULES.get(type(op))
            if rule is not None:
                rule(self, op)
            elif op._results and not op._regions:
                facts = self._joined(op._operands)
                if facts.masks and not is_elementwise(op):
                    facts = facts.flat()
                for result in op._results:
                    self._facts[result] = facts

    def _joined(self, values: Sequence[Value]) -> Facts:
        """Join of the facts of values, which for most operations are those of one."""
        get = self._facts.get
        result = NOTHING
        for value in values:
            facts = get(value, NOTHING)
            if facts is not NOTHING and facts is not result:
                if result is not NOTHING:
                    return join([get(each, NOTHING) for each in values])
                result = facts
        return result

    def _grow(self, value: Value, facts: Facts, again: bool = True) -> None:
        """Join facts into those of a value that is visited before all of its sources; its users are visited `again`
        unless all are still to come."""
        old = self.of(value)
        new = join((old, facts))
        if new != old:
            self._facts[value] = new
            self._changed |= again or self._reads_written

    def _for(self, op: scf.ForOp) -> None:
        lower, upper, step = (self.of(v) for v in (op.lower_bound, op.upper_bound, op.step))
        start = join((lower, step))
        self._facts[op.induction_variable] = start
        trips = start.quantities | upper.quantities
        for argument, init in zip(op.iter_args, op.init_args):
            self._grow(argument, self.of(init), again=False)
        self._block(op.body.block)
        for number, ((argument, value), result) in enumerate(zip(_carried(op), op.results)):
            facts = join((self.of(value), self._sum(op, number)))
            if value is not argument:
                self._grow(argument, join((facts, _of_trips(argument, start.quantities))))
                facts = join((facts, _of_trips(result, trips)))
            self._grow(result, join((self.of(argument), facts)), again=False)

    def _while(self, op: scf.WhileOp) -> None:
        before, after = op.before.block, op.after.block
        for argument, init in zip(before.arguments, op.inits):
            self._grow(argument, self.of(init))
        self._block(before)
        for argument, value in zip(after.arguments, before.last.args):
            self._facts[argument] = self.of(value)
        self._block(after)
        for number, (argument, value) in enumerate(_carried(op)):
            self._grow(argument, join((self.of(value), self._sum(op, number))))
        trips = self.of(before.last.condition).quantities
        for value, result in zip(before.last.args, op.results):
            self._grow(result, join((self.of(value), _of_trips(result, trips))))

    def _if(self, op: scf.IfOp) -> None:
        for region in op.regions:
            for block in region.blocks:
                self._block(block)
        condition = self.of(op.condition)
        for number, result in enumerate(op.results):
            yielded = [self.of(region.block.last.operands[number]) for region in op.regions]
            self._facts[result] = join((*yielded, condition, Facts(condition.quantities)))

    # -- operations ----------------------------------------------------------------------------------------------------

    def _collective(self, op: aa.ReduceOp | aa.ScanOp) -> None:
        axis = op.dim.value
        inputs = join(self.of(v) for v in op.inputs)
        is_sum = op.inputs[0].type.shape[axis] > 1
        self._set(op, _summed(inputs, axis if is_sum else None, None if isinstance(op, aa.ScanOp) else axis))

    def _dot(self, op: aa.DotOp | aa.BlockScaledMmaOp) -> None:
        rank = op.a.type.rank
        operands = [(op.a, rank - 1), (op.b, rank - 2)]
        if isinstance(op, aa.BlockScaledMmaOp):
            operands += [(op.scale_a, rank - 1), (op.scale_b, rank - 2)]
        self._set(op, join((self.of(op.c), *(_summed(self.of(v), axis) for v, axis in operands))))

    def _set(self, op: Operation, facts: Facts) -> None:
        facts = join((facts, self._sum(op)))
        for result in op.results:
            self._facts[result] = facts

    def _select(self, op: arith.SelectOp) -> None:
        condition = op.operands[0]
        facts = self.of(condition)
        selects = facts.value | facts.order  # padding of the condition is padding of the result
        mask = frozenset((Mask(selects, varies(condition, self._varying), False),)) if selects else NONE
        facts = facts._replace(value=NONE, order=NONE, masks=facts.masks | mask)
        self._facts[op.results[0]] = join((facts, *(self.of(v) for v in op.operands[1:])))

    def _shape(self, op: Operation) -> None:
        facts = self.of(op.operands[0])
        masks = frozenset(mask._replace(dims=mapped(op, mask.dims)) for mask in facts.masks)
        self._facts[op.results[0]] = facts._replace(masks=masks) if facts.masks else facts

    def _program_id(self, op: aa.GetProgramIdOp) -> None:
        self._facts[op.result] = Facts(frozenset((f"block.{op.axis.value}",)))

    def _num_programs(self, op: aa.GetNumProgramsOp) -> None:
        self._facts[op.result] = Facts(frozenset((f"grid.{op.axis.value}",)))

    def _dim_size(self, op: aa.GetDimSizeOp) -> None:
        memref = op.source.defining_op
        size = memref.size(op.dim.value) if isinstance(memref, aa.MakeMemRefOp) else op.source
        self._facts[op.result] = self.of(size) if isinstance(size, Value) else NOTHING

    def _ptr_to_int(self, op: aa.PtrToIntOp) -> None:
        arguments = frozenset(f"p{root}" for root in self.roots(op.operand) if isinstance(root, int))
        self._facts[op.result] = join((self.of(op.operand), Facts(arguments)))

    # -- memory --------------------------------------------------------------------------------------------------------

    def roots(self, address: Value) -> frozenset[Root]:
        """The allocations that a pointer, memref or view may lead to."""
        if address not in self._roots:
            self._roots[address] = roots(address)
        return self._roots[address]

    def _load(self, op: aa.LoadOp | aa.TiledLoadOp) -> None:
        parts = [Facts(reads=places_of(op), masks=self._bounds(op))]
        if isinstance(op, aa.LoadOp) and op.other is not None:
            parts.append(self.of(op.other))
        reduction = getattr(op, "reduction", None)
        if reduction is not None and reduction.value == "addf":
            parts.append(Facts(frozenset((f"@{self.numbers[op]}",))))
        sources = self.roots(address_of(op))
        is_written = self._is_written(op)
        if is_written:
            parts += [facts for root, facts in self._memory.items() if None in (root, *sources) or root in sources]
        parts.append(Facts(self._foreign_data(op, sources, is_written)))
        memref = memref_of(op.view) if isinstance(op, aa.TiledLoadOp) else None
        if memref is not None:
            parts.append(Facts(marks_of_run(join(map(self.of, memref.strides)).quantities)))
        self._facts[op.data] = join(parts)

    def _is_written(self, load: Operation) -> bool:
        """Whether a load may read memory that the function writes."""
        sources = self.roots(address_of(load))
        is_unknown = None in sources or None in self.written
        return bool(self.written) and (is_unknown or not sources.isdisjoint(self.written))

    def _foreign_data(self, op: aa.LoadOp | aa.TiledLoadOp, sources: frozenset[Root], is_written: bool) -> Quantities:
        """Data of other tile blocks, or of other devices, that a load may see.

        A weak load sees them only behind an acquire: without one, the program has a data race.
        """
        if all(map(is_private, sources)):
            return NONE
        if not is_weak(op):
            return frozenset((f"&{self.numbers[op]}",))
        return frozenset(f"&{self.numbers[each]}" for each in self.acquires[:1] if is_written)

    def _bounds(self, op: aa.LoadOp | aa.TiledLoadOp) -> frozenset[Mask]:
        """The conditions under which an element is padding."""
        if isinstance(op, aa.LoadOp):
            conditions = () if op.mask is None else conjuncts(op.mask)
            masks = [Mask(self.of(each).quantities, varies(each, self._varying), True) for each in conditions]
            return frozenset(mask for mask in masks if mask.quantities)
        promised, memref, masks = op.attributes.get(IN_BOUNDS), memref_of(op.view), []
        for dim, along in enumerate(op.view.type.dim_map):
            if promised is not None and promised.elements[dim]:
                continue
            size = memref.size(along) if memref is not None else op.view
            parts = [self.of(op.coords[dim]), *([self.of(size)] if isinstance(size, Value) else [])]
            masks.append(Mask(join(parts).quantities, frozenset((dim,)), True))
        return frozenset(mask for mask in masks if mask.quantities)

    def _update(self, op: Any) -> None:
        self._store(op)
        if not isinstance(op, aa.TiledAtomicRMWOp):
            self._facts[op.data] = Facts(frozenset((f"@{self.numbers[op]}",)), reads=places_of(op))

    def facts_of_store(self, op: Any) -> Facts:
        """The facts of an element that an access writes.

        Padding has the bounds of the access and is not written, unless it differs from run to run.
        """
        facts = join((self.of(data_of(op)), self._sum(op)))
        if isinstance(op, aa.AtomicCASOp):
            facts = join((facts, self.of(op.compare)))
        selects = (marks_of_run(mask.quantities) if mask.padding else mask.quantities for mask in facts.masks)
        return facts._replace(value=facts.value.union(*selects), masks=NONE)

    def _store(self, op: Any) -> None:
        if not self._reads_written:
            return
        facts = self.facts_of_store(op)
        unsolved = Addresses(self, op).unsolved(facts.reads)
        conditions = (self.of(value).quantities for value in self.conditions(op))
        guards = (marks_of_run(self.of(value).quantities) for value in self.guards(op))
        facts = facts._replace(value=facts.value.union(unsolved, *conditions, *guards), reads=NONE)
        for root in self.roots(address_of(op)):
            old = self._memory.get(root, NOTHING)
            new = join((old, facts))
            if new != old:
                self._memory[root] = new
                self._changed = True

    def conditions(self, op: Operation) -> list[Value]:
        """The conditions under which an operation is executed."""
        conditions = []
        around = op.parent_op
        while around is not None and around is not self.func:
            if isinstance(around, scf.IfOp):
                conditions.append(around.condition)
            elif isinstance(around, scf.WhileOp):
                conditions.append(around.before.block.last.condition)
            around = around.parent_op
        return conditions

    def guards(self, op: Any) -> list[Value]:
        """The values that decide whether an access writes an element: conditions, trip counts, its mask and view."""
        mask, view = getattr(op, "mask", None), getattr(op, "view", None)
        return [*self.conditions(op), *_bounds_around(op), *(v for v in (mask, view) if v is not None)]

    def updates_of_element(self, op: Any) -> Quantities:
        """The launch quantities that decide how many updates an element gets, beyond its own place.

        A condition on the place and on arguments holds for all updates of an element, or fails for all.
        """
        place = Addresses(self, op)
        masks = conjuncts(op.mask) if getattr(op, "mask", None) is not None else ()
        conditions = (place.unsolved((value,)) for value in (*self.conditions(op), *masks))
        quantities = NONE.union(*(each for each in conditions if not all(map(is_argument, each))))
        for mask in self.of(data_of(op)).masks:
            if any(map(is_block, mask.quantities - place.solved)):
                quantities |= mask.quantities
        return of_launch(quantities | place.unsolved(_bounds_around(op)))


def _bounds_around(op: Operation) -> list[Value]:
    """The values that decide how often loops execute an operation."""
    loops = [loop for loop in scf.loops_around(op) if isinstance(loop, scf.ForOp)]
    return [bound for loop in loops for bound in (loop.lower_bound, loop.upper_bound, loop.step)]


def _carried(loop: Loop) -> list[tuple[Value, Value]]:
    """The arguments of a loop body and the values for the next iteration."""
    if isinstance(loop, scf.ForOp):
        return list(zip(loop.iter_args, loop.yield_op.operands))
    return list(zip(loop.before.block.arguments, loop.after.block.last.operands))


def _of_trips(value: Value, trips: Quantities) -> Facts:
    """The dependence of a loop's result on the trip count."""
    if not trips:
        return NOTHING
    return Facts(order=trips) if is_float(value) else Facts(trips)


def _accumulates(dot: Operation, ops: set[Operation], argument: Value) -> bool:
    """Whether a carried value reaches a dot through its accumulator only."""
    others = [v for v in dot.operands if v is not dot.c]  # type: ignore[attr-defined]
    return not any(v is argument or v.defining_op in ops for v in others)


def _summed(facts: Facts, axis: int | None, missing_dim: int | None = None) -> Facts:
    """The facts of a sum along `axis`: padding along it changes the terms.  `missing_dim` is not a dimension of the
    result."""
    order, masks = [facts.order], []
    for mask in facts.masks:
        if axis in mask.dims:
            order.append(mask.quantities)
        elif missing_dim is None:
            masks.append(mask)
        else:
            dims = frozenset(d - (d > missing_dim) for d in mask.dims if d != missing_dim)
            masks.append(mask._replace(dims=dims))
    return facts._replace(order=NONE.union(*order), masks=frozenset(masks))


_RULES: dict[type, Callable[[Flow, Any], None]] = {
    scf.ForOp: Flow._for,
    scf.WhileOp: Flow._while,
    scf.IfOp: Flow._if,
    aa.ReduceOp: Flow._collective,
    aa.ScanOp: Flow._collective,
    aa.DotOp: Flow._dot,
    aa.BlockScaledMmaOp: Flow._dot,
    arith.SelectOp: Flow._select,
    aa.GetProgramIdOp: Flow._program_id,
    aa.GetNumProgramsOp: Flow._num_programs,
    aa.GetDimSizeOp: Flow._dim_size,
    aa.PtrToIntOp: Flow._ptr_to_int,
    **dict.fromkeys(SHAPES, Flow._shape),
    **dict.fromkeys(LOADS, Flow._load),
    **dict.fromkeys(STORES, Flow._store),
    **dict.fromkeys(UPDATES, Flow._update),
}
"""Operation -> its transfer function; all other pure operations join the facts of their operands."""

_WITHOUT_DATA = (
    aa.AllocaOp, aa.DeallocOp, aa.AssertOp, aa.PrintOp, aa.GdcWaitOp, aa.GdcLaunchDependentsOp, aa.FenceAliasOp,
)  # fmt: skip


@functools.cache
def _is_known(cls: type[Operation]) -> bool:
    return cls in _RULES or issubclass(cls, _WITHOUT_DATA) or cls.has_trait(Pure)
