"""What the values of a function of nv_tileaa are made of, found in walks through it until nothing changes.

Memory that the function writes is a value, too: what is loaded from it is made of all that is stored there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa.attributes import IN_BOUNDS
from tileiras.ir import Operation, Pure, Value, element_type_of
from tileiras.named_tuple import NamedTuple

from .addresses import Addresses
from .combiners import ROUNDED, carried_operations, is_float, is_orderless
from .facts import NONE, NOTHING, Facts, Mask, Quantities, join
from .memory import LOADS, STORES, UPDATES, Root, address_of, conjuncts, data_of, is_private, places_of, roots
from .shapes import SHAPES, moved, of_elements, varies

ACQUIRES = ("acquire", "acq_rel")

DOTS = (aa.DotOp, aa.BlockScaledMmaOp)


class Site(NamedTuple):
    """A sum of the program."""

    op: Operation
    kind: str
    of: Any
    """The type of its elements."""
    length: int = 0
    argument: int = -1
    """Which value of a loop it is."""


class Flow:
    """The facts of one function."""

    def __init__(self, func: aa.FuncOp, numbers: dict[Operation, int]) -> None:
        self.func = func
        self.numbers = numbers
        self.sites: list[Site] = []
        self.memory: dict[Root, Facts] = {}
        self.in_loops: set[int] = set()
        """Dots whose accumulators a loop carries."""
        self._facts: dict[Value, Facts] = {}
        self._roots: dict[Value, frozenset[Root]] = {}
        self._changed = False
        ops = [op for op in func.walk() if op is not func]
        self._find_sites(ops)
        self._of_op = {(site.op, site.argument): number for number, site in enumerate(self.sites)}
        self.writes = [op for op in ops if isinstance(op, (*STORES, *UPDATES))]
        self.loads = [op for op in ops if isinstance(op, LOADS)]
        self.acquires = [op for op in ops if isinstance(op, (*LOADS, *UPDATES)) and op.mem_semantic.value in ACQUIRES]
        self.unknown = [op for op in ops if not _is_known(op)]
        for number, argument in enumerate(func.body.block.arguments):
            is_memory = isinstance(argument.type, aa.PtrType)
            self._facts[argument] = NOTHING if is_memory else Facts(frozenset((f"p{number}",)))
        self.written = frozenset().union(*(self.roots(address_of(op)) for op in self.writes))
        self._run()

    def of(self, value: Value) -> Facts:
        return self._facts.get(value, NOTHING)

    # -- sums ----------------------------------------------------------------------------------------------------------

    def _find_sites(self, ops: Sequence[Operation]) -> None:
        for op in ops:
            if isinstance(op, (aa.ReduceOp, aa.ScanOp)) and not is_orderless(op.body.block):
                kind = "reduce" if isinstance(op, aa.ReduceOp) else "scan"
                length = op.inputs[0].type.shape[op.dim.value]
                self.sites.append(Site(op, kind, element_type_of(op.inputs[0].type), length))
            elif isinstance(op, DOTS) and is_float(op.c):
                self.sites.append(Site(op, "dot", element_type_of(op.c.type), op.a.type.shape[-1]))
            elif isinstance(op, (aa.TiledAtomicRMWOp, aa.AtomicRMWOp)) and op.rmw_mode.value == "addf":
                self.sites.append(Site(op, "atomic", element_type_of(data_of(op).type)))
            elif isinstance(op, (scf.ForOp, scf.WhileOp)):
                self._carried(op)

    def _carried(self, loop: scf.ForOp | scf.WhileOp) -> None:
        """The sums that a loop carries, but for accumulators of dots, which are the dots'."""
        if isinstance(loop, scf.ForOp):
            pairs = list(zip(loop.iter_args, loop.yield_op.operands))
        else:
            pairs = list(zip(loop.before.block.arguments, loop.after.block.last.operands))
        for number, (argument, result) in enumerate(pairs):
            if not is_float(argument) or argument is result:
                continue
            ops = carried_operations(loop, result, argument)
            dots = {op for op in ops if isinstance(op, DOTS)}
            if any(isinstance(op, ROUNDED) for op in ops) or any(not _adds_to(op, ops, argument) for op in dots):
                self.sites.append(Site(loop, "loop", element_type_of(argument.type), argument=number))
            self.in_loops.update(self.numbers[op] for op in dots)

    # -- walks ---------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._changed = True
        while self._changed:
            self._changed = False
            self._block(self.func.body.block)

    def _block(self, block: Any) -> None:
        for op in block.operations:
            rule = _RULES.get(type(op))
            if rule is not None:
                rule(self, op)
            elif not op.regions and op.results:
                whole = join(self.of(v) for v in op.operands)
                if whole.masks and not of_elements(op):
                    whole = whole.flat()
                for result in op.results:
                    self._facts[result] = whole

    def _grow(self, value: Value, facts: Facts) -> None:
        """Of a value that something before it in the text follows from."""
        old = self.of(value)
        new = join((old, facts))
        if new != old:
            self._facts[value] = new
            self._changed = True

    def _for(self, op: scf.ForOp) -> None:
        bounds = [self.of(v) for v in (op.lower_bound, op.upper_bound, op.step)]
        self._facts[op.induction_variable] = join((bounds[0], bounds[2]))
        trips: Quantities = NONE.union(*(each.quantities for each in bounds))
        for argument, init in zip(op.iter_args, op.init_args):
            self._grow(argument, self.of(init))
        self._block(op.body.block)
        start = join((bounds[0], bounds[2])).quantities
        for number, (argument, value, result) in enumerate(zip(op.iter_args, op.yield_op.operands, op.results)):
            found = join((self.of(value), self._carries(op, number)))
            if value is not argument:
                self._grow(argument, join((found, _by_trips(argument, start))))
                found = join((found, _by_trips(result, trips)))
            self._grow(result, join((self.of(argument), found)))

    def _while(self, op: scf.WhileOp) -> None:
        before, after = op.before.block, op.after.block
        for argument, init in zip(before.arguments, op.inits):
            self._grow(argument, self.of(init))
        self._block(before)
        for argument, value in zip(after.arguments, before.last.args):
            self._facts[argument] = self.of(value)
        self._block(after)
        for number, (argument, value) in enumerate(zip(before.arguments, after.last.operands)):
            self._grow(argument, join((self.of(value), self._carries(op, number))))
        trips = self.of(before.last.condition).quantities
        for value, result in zip(before.last.args, op.results):
            self._grow(result, join((self.of(value), _by_trips(result, trips))))

    def _carries(self, loop: Operation, number: int) -> Facts:
        """The sum that a loop carries as one of its values."""
        site = self._of_op.get((loop, number))
        return NOTHING if site is None else Facts(sums=frozenset((site,)))

    def _if(self, op: scf.IfOp) -> None:
        for region in op.regions:
            for block in region.blocks:
                self._block(block)
        which = self.of(op.condition)
        for number, result in enumerate(op.results):
            yielded = [self.of(region.block.last.operands[number]) for region in op.regions]
            self._facts[result] = join((*yielded, which, Facts(which.quantities)))

    # -- operations ----------------------------------------------------------------------------------------------------

    def _collective(self, op: aa.ReduceOp | aa.ScanOp) -> None:
        axis, is_scan = op.dim.value, isinstance(op, aa.ScanOp)
        found = self._summed(join(self.of(v) for v in op.inputs), axis, None if is_scan else axis)
        self._set(op, found, (op, -1))

    def _dot(self, op: aa.DotOp | aa.BlockScaledMmaOp) -> None:
        rank = op.a.type.rank
        parts = [self.of(op.c), self._summed(self.of(op.a), rank - 1), self._summed(self.of(op.b), rank - 2)]
        if isinstance(op, aa.BlockScaledMmaOp):
            parts += [self._summed(self.of(op.scale_a), rank - 1), self._summed(self.of(op.scale_b), rank - 2)]
        self._set(op, join(parts), (op, -1))

    def _set(self, op: Operation, found: Facts, site: tuple[Operation, int]) -> None:
        if site in self._of_op:
            found = join((found, Facts(sums=frozenset((self._of_op[site],)))))
        for result in op.results:
            self._facts[result] = found

    @staticmethod
    def _summed(facts: Facts, axis: int, dropped: int | None = None) -> Facts:
        """Behind a sum along a dimension, which results do not have if it is `dropped`."""
        order, masks = [facts.order], []
        for mask in facts.masks:
            if axis in mask.dims:
                order.append(mask.quantities)
            elif dropped is None:
                masks.append(mask)
            else:
                masks.append(mask._replace(dims=frozenset(d - (d > dropped) for d in mask.dims)))
        return facts._replace(order=NONE.union(*order), masks=frozenset(masks))

    def _select(self, op: arith.SelectOp) -> None:
        condition = op.operands[0]
        which = self.of(condition)
        decided = which.value | which.order  # where the condition itself is of padding, the result is
        mask = frozenset((Mask(decided, varies(condition), False),)) if decided else NONE
        made = which._replace(value=NONE, order=NONE, masks=which.masks | mask)
        self._facts[op.results[0]] = join((made, *(self.of(v) for v in op.operands[1:])))

    def _shape(self, op: Operation) -> None:
        facts = self.of(op.operands[0])
        masks = frozenset(mask._replace(dims=moved(op, mask.dims)) for mask in facts.masks)
        self._facts[op.results[0]] = facts._replace(masks=masks) if facts.masks else facts

    def _program_id(self, op: aa.GetProgramIdOp) -> None:
        self._facts[op.result] = Facts(frozenset((f"block.{op.axis.value}",)))

    def _num_programs(self, op: aa.GetNumProgramsOp) -> None:
        self._facts[op.result] = Facts(frozenset((f"grid.{op.axis.value}",)))

    def _dim_size(self, op: aa.GetDimSizeOp) -> None:
        memref = op.source.defining_op
        size = memref.size(op.dim.value) if isinstance(memref, aa.MakeMemRefOp) else op.source
        self._facts[op.result] = self.of(size) if isinstance(size, Value) else NOTHING

    def _address_as_number(self, op: aa.PtrToIntOp) -> None:
        roots = self.roots(op.operand)
        given = frozenset(f"p{root}" for root in roots if isinstance(root, int))
        self._facts[op.result] = join((self.of(op.operand), Facts(given)))

    # -- memory --------------------------------------------------------------------------------------------------------

    def roots(self, address: Value) -> frozenset[Root]:
        """The memory that a pointer, memref or view leads to."""
        if address not in self._roots:
            self._roots[address] = roots(address)
        return self._roots[address]

    def _load(self, op: aa.LoadOp | aa.TiledLoadOp) -> None:
        parts = [Facts(reads=places_of(op), masks=self.bounds(op))]
        if isinstance(op, aa.LoadOp) and op.other is not None:
            parts.append(self.of(op.other))
        if getattr(op, "reduction", None) is not None:
            parts.append(Facts(frozenset((f"@{self.numbers[op]}",))))
        leads = self.roots(address_of(op))
        if self.written and (None in leads or None in self.written or not leads.isdisjoint(self.written)):
            parts += [facts for root, facts in self.memory.items() if None in (root, *leads) or root in leads]
            parts.append(Facts(self._exchanged(op, leads)))
        self._facts[op.data] = join(parts)

    def _exchanged(self, op: aa.LoadOp | aa.TiledLoadOp, leads: frozenset[Root]) -> Quantities:
        """What a load of memory that the kernel writes may see of other tile blocks."""
        if all(map(is_private, leads)):
            return NONE
        if op.mem_semantic.value != "weak":
            return frozenset((f"&{self.numbers[op]}",))
        return frozenset(f"&{self.numbers[each]}" for each in self.acquires[:1])

    def bounds(self, op: Any) -> frozenset[Mask]:
        """Where an access may find, or leave, nothing."""
        found = set()
        if hasattr(op, "view"):
            view, promised = op.view.type, op.attributes.get(IN_BOUNDS)
            memref = op.view.defining_op
            source = memref.source.defining_op if isinstance(memref, aa.BlockTileOp) else None
            for dim, along in enumerate(view.dim_map):
                if promised is not None and promised.elements[dim]:
                    continue
                facts = [self.of(op.coords[dim])]
                if isinstance(source, aa.MakeMemRefOp):
                    size = source.size(along)
                    facts += [self.of(size)] if isinstance(size, Value) else []
                else:
                    facts.append(self.of(op.view))
                found.add(Mask(join(facts).quantities, frozenset((dim,)), True))
        elif op.mask is not None:
            found |= {Mask(self.of(each).quantities, varies(each), True) for each in conjuncts(op.mask)}
        return frozenset(mask for mask in found if mask.quantities)

    def _update(self, op: Any) -> None:
        self._remember(op)
        if not isinstance(op, aa.TiledAtomicRMWOp):
            number = frozenset((f"@{self.numbers[op]}",))
            self._facts[op.data] = Facts(number, reads=places_of(op))

    def stored(self, op: Any) -> Facts:
        """What an access puts into memory, as far as it does: padding is not stored."""
        found = join((self.of(data_of(op)), self._carries(op, -1)))
        if isinstance(op, aa.AtomicCASOp):
            found = join((found, self.of(op.compare)))
        chosen = (mask.quantities for mask in found.masks if not mask.padding)
        return found._replace(value=found.value.union(*chosen), masks=NONE)

    def _remember(self, op: Any) -> None:
        facts = self.stored(op)
        left = Addresses(self, op).uncovered(facts.reads)
        conditions = (self.of(value).quantities for value in self.conditions(op))
        facts = facts._replace(value=facts.value.union(left, *conditions), reads=NONE)
        for root in self.roots(address_of(op)):
            old = self.memory.get(root, NOTHING)
            new = join((old, facts))
            if new != old:
                self.memory[root] = new
                self._changed = True

    def conditions(self, op: Operation) -> list[Value]:
        """What decides whether an operation is executed."""
        found = []
        around = op.parent_op
        while around is not None and around is not self.func:
            if isinstance(around, scf.IfOp):
                found.append(around.condition)
            elif isinstance(around, scf.WhileOp):
                found.append(around.before.block.last.condition)
            around = around.parent_op
        return found


    def how_often(self, op: Any) -> Quantities:
        """What decides how many updates an element gets, beyond its own place."""
        place = Addresses(self, op)
        masks = conjuncts(op.mask) if getattr(op, "mask", None) is not None else ()
        whether = (place.uncovered((value,)) for value in (*self.conditions(op), *masks))
        # What follows from the element's place and from arguments is the same for all of its updates.
        found = NONE.union(*(each for each in whether if any(quantity[0] != "p" for quantity in each)))
        for mask in self.of(data_of(op)).masks:
            if any(quantity[0] == "b" for quantity in mask.quantities - place.solved):
                found |= mask.quantities
        for loop in scf.loops_around(op):
            if isinstance(loop, scf.ForOp):
                found |= place.uncovered((loop.lower_bound, loop.upper_bound, loop.step))
        return frozenset(quantity for quantity in found if quantity[0] not in "@&")


def _by_trips(value: Value, trips: Quantities) -> Facts:
    """What a value that a loop makes has of how often it runs."""
    if not trips:
        return NOTHING
    return Facts(order=trips) if is_float(value) else Facts(trips)


def _adds_to(dot: Operation, ops: set[Operation], argument: Value) -> bool:
    """Whether a loop carries a value through a dot as its accumulator alone."""
    others = [v for v in dot.operands if v is not dot.c]  # type: ignore[attr-defined]
    return not any(v is argument or v.defining_op in ops for v in others)


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
    aa.PtrToIntOp: Flow._address_as_number,
    **dict.fromkeys(SHAPES, Flow._shape),
    **dict.fromkeys(LOADS, Flow._load),
    **dict.fromkeys(STORES, Flow._remember),
    **dict.fromkeys(UPDATES, Flow._update),
}

_SAY_NOTHING = (
    aa.AllocaOp, aa.DeallocOp, aa.AssertOp, aa.PrintOp, aa.GdcWaitOp, aa.GdcLaunchDependentsOp, aa.FenceAliasOp,
)  # fmt: skip


def _is_known(op: Operation) -> bool:
    return type(op) in _RULES or isinstance(op, _SAY_NOTHING) or op.has_trait(Pure)
