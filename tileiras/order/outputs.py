"""The program's half of a certificate of order: one statement for each allocation that the kernel writes."""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation

from .addresses import Addresses
from .certificate import GRID, NO, UNKNOWN, YES, Cause, Certificate, Output, Sum
from .combiners import ORDERLESS_UPDATES
from .facts import NONE, Quantities, is_argument, is_block, join, of_launch, of_run
from .flow import Flow
from .memory import STORES, UPDATES, Root, address_of, data_of, is_private, is_weak, mode_of, places_of
from .separation import Separation
from .shapes import varies

ADDED = "float additions come in the order in which tile blocks and threads arrive"
EXCHANGED = "the last exchange remains in memory"
COMPARED = "the order in which tile blocks arrive decides which exchange succeeds"
SEVERAL = "the result of updates of several kinds, or of updates and stores, depends on their order"
LOCKED = "tile blocks take turns in no fixed order, and each adds to the result of the one before"
OVERWRITTEN = "different values may be stored to one element in no fixed order, and the last one remains"
SEEN = "it is computed from data of another tile block; whether the order of tile blocks is fixed is not known"
OLD = "it is computed from the old value of an update, which depends on the order in which tile blocks arrive"
LED = "its place depends on the order in which tile blocks arrive, and its value on the tile block that writes it"
READ = "the order in which tile blocks arrive selects the data that are read"
WHETHER = "the order in which tile blocks arrive decides whether it is written"
COPIES = "the hardware adds the copies behind a multicast address in an order of its own"
FOREIGN = "the effect of this operation on memory is not known"
"""Reasons of causes."""

_FIXED_ORDERS = {"loop": ("in-turn", "one iteration after the other"), "atomic": ("", "as tile blocks arrive")}
"""Kind of a sum -> key and words of its order, for sums whose order no decision changes."""

_GRID = frozenset(GRID)


def program_half(func: aa.FuncOp) -> tuple[Certificate, Flow]:
    """The certificate of a function of nv_tileaa without the order of reductions, scans and dots."""
    module = func.parent_op if func.parent_op is not None else func
    numbers = {op: number for number, op in enumerate(module.walk())}
    flow = Flow(func, numbers)
    sums = []
    for site in flow.sites:
        number, fixed = numbers[site.op], _FIXED_ORDERS.get(site.kind, ("", ""))
        sums.append(Sum(number, site.kind, str(site.of), site.length, number in flow.in_loops, *fixed))
    outputs: list[Output] = []
    causes: list[Cause] = []
    for root in _outputs(flow):
        statement = _Statement(flow, root)
        causes += [cause._replace(output=len(outputs)) for cause in statement.causes]
        outputs.append(statement.output())
    arguments = enumerate(func.body.block.arguments)
    scalars = tuple(f"p{number}" for number, argument in arguments if not isinstance(argument.type, aa.PtrType))
    return Certificate(tuple(sums), tuple(outputs), tuple(causes), scalars), flow


def _outputs(flow: Flow) -> list[Root]:
    """The written allocations that outlive the tile block: arguments in order, globals, unknown memory."""
    rank = {int: 0, str: 1}
    shared = [root for root in flow.written if not is_private(root)]
    return sorted(shared, key=lambda root: (rank.get(type(root), 2), root if isinstance(root, (int, str)) else 0))


class _Statement:
    """The statement on one output."""

    def __init__(self, flow: Flow, root: Root) -> None:
        self._flow = flow
        self._root = root
        self._writes = [op for op in flow.writes if not flow.roots(address_of(op)).isdisjoint((root, None))]
        self._value: Quantities = NONE
        self._reads: Quantities = NONE
        self._order: Quantities = NONE
        self._sums: frozenset[int] = NONE
        self._causes: dict[tuple[int, str], str] = {}
        self._add_updates()
        self._add_overwrites()
        for op in self._writes:
            self._add_write(op)
        for op in flow.unknown:
            self._add_cause(flow.numbers[op], UNKNOWN, FOREIGN)

    @property
    def causes(self) -> list[Cause]:
        return [Cause(0, op, says, why) for (op, why), says in sorted(self._causes.items())]

    def output(self) -> Output:
        says = set(self._causes.values())
        repeatable = NO if NO in says else UNKNOWN if says else YES
        order = of_launch(self._order)
        value = of_launch(self._value) - order
        reads = of_launch(self._reads) - order - value
        return Output(
            self._root if isinstance(self._root, int) else -1, tuple(self._flow.numbers[op] for op in self._writes),
            tuple(sorted(self._sums)), repeatable,
            *(tuple(sorted(each, key=_place)) for each in (order, value, reads)),
        )  # fmt: skip

    def _add_cause(self, op: int, says: str, why: str) -> None:
        self._causes.setdefault((op, why), says)

    def _add_updates(self) -> None:
        """Add the atomic updates whose order changes the memory they leave."""
        updates = [op for op in self._writes if isinstance(op, UPDATES)]
        is_mixed = len(set(map(mode_of, updates))) > 1 or len(updates) < len(self._writes)
        for op in updates:
            mode, number = mode_of(op), self._flow.numbers[op]
            if mode == "addf":
                self._add_cause(number, NO, ADDED)
            elif mode in ("xchg", "cas"):
                self._add_cause(number, UNKNOWN, EXCHANGED if mode == "xchg" else COMPARED)
            elif mode not in ORDERLESS_UPDATES or is_mixed:
                self._add_cause(number, UNKNOWN, SEVERAL)
            self._order |= _GRID | self._flow.updates_of_element(op)  # any tile block may update an element

    def _add_overwrites(self) -> None:
        """Add the stores whose element a store of another tile block may overwrite without a data race."""
        may_wait = bool(self._flow.acquires)
        stores = [op for op in self._writes if isinstance(op, STORES) and (may_wait or not is_weak(op))]
        places = {(address_of(op), places_of(op)) for op in self._writes}
        for op in stores:
            facts, place = self._flow.facts_of_store(op), Separation(self._flow, op)
            by_block = facts.value | facts.order | place.unsolved(facts.reads)
            is_repeated = not is_weak(op) and bool(varies(data_of(op))) and not place.separates_elements
            if len(places) > 1 or is_repeated or not place.separates_blocks(by_block):
                self._add_cause(self._flow.numbers[op], UNKNOWN, OVERWRITTEN)

    def _add_write(self, op: Operation) -> None:
        flow, place = self._flow, Addresses(self._flow, op)
        facts = flow.facts_of_store(op)
        reads, conditions = place.unsolved(facts.reads), place.unsolved(flow.conditions(op))
        self._value |= facts.value
        if len(self._writes) > 1:
            self._value |= conditions  # they may select between two writes of an element
        self._order |= facts.order
        self._reads |= reads
        self._sums |= facts.sums
        for mark, number in of_run(facts.value | facts.order):
            self._add_data_of_run(mark, number)
            self._order |= _GRID
        for _, number in of_run(reads):
            self._add_cause(number, UNKNOWN, READ)
        for _, number in of_run(place.unsolved(flow.guards(op))):
            self._add_cause(number, UNKNOWN, WHETHER)
        self._add_place(op, facts.value | facts.order | reads, place)

    def _add_place(self, op: Operation, quantities: Quantities, place: Addresses) -> None:
        """Add the dependences of an element through the number of the tile block that writes it."""
        blocks = frozenset(filter(is_block, quantities))
        where = join(self._flow.of(value) for value in places_of(op)).quantities
        if blocks - place.solved and not isinstance(op, UPDATES):
            self._reads |= where - place.solved
        if blocks:
            for _, number in of_run(where):
                self._add_cause(number, UNKNOWN, LED)

    def _add_data_of_run(self, mark: str, number: int) -> None:
        """Add the cause of an element that is computed from `@number` or `&number`."""
        op = next(each for each, n in self._flow.numbers.items() if n == number)
        if mark == "@":
            self._add_cause(number, NO, OLD if isinstance(op, UPDATES) else COPIES)
            return
        reads_itself = any(self._root in self._flow.roots(address_of(load)) for load in self._flow.loads)
        takes_lock = isinstance(op, UPDATES) and mode_of(op) in ("cas", "xchg")
        self._add_cause(number, *((NO, LOCKED) if takes_lock and reads_itself else (UNKNOWN, SEEN)))


def _place(quantity: str) -> tuple[str, int]:
    return ("p", int(quantity[1:])) if is_argument(quantity) else (quantity, 0)
