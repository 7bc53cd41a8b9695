"""What holds of the memory that a kernel writes: the program's half of a certificate of order."""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import Operation

from .addresses import Addresses
from .certificate import GRID, NO, UNKNOWN, YES, Cause, Certificate, Output, Sum
from .combiners import ORDERLESS_UPDATES
from .facts import NONE, Quantities, join, of_run
from .flow import Flow
from .memory import UPDATES, Root, address_of, is_private, places_of

ADDED = "float additions come in the order in which tile blocks and threads arrive"
EXCHANGED = "the exchange that comes last stays"
COMPARED = "which exchange succeeds depends on the order in which tile blocks arrive"
SEVERAL = "updates of several kinds, or updates and stores, leave another result in another order"
LOCKED = "tile blocks take turns in no fixed order, and each computes with what the one before left"
SEEN = "it is computed with what another tile block wrote; that the order of tile blocks is fixed is not known"
OLD = "it is computed with what the update found, which depends on the order in which tile blocks arrive"
LED = "the place in memory follows from what the update found, and the value from the tile block that found it"
READ = "what is read follows from what the update found"
WHETHER = "whether it is written follows from what the update found"
COPIES = "the copies behind a multicast address are added in the order of the hardware"
GRID_SIZES = frozenset(GRID)
FOREIGN = "nothing is known of what this operation does to memory"
"""Reasons of causes."""


def program_half(func: aa.FuncOp) -> tuple[Certificate, Flow]:
    """A certificate of the function as the program has it, whose sums have no order yet."""
    numbers = {op: number for number, op in enumerate(_top(func).walk())}
    flow = Flow(func, numbers)
    sums = []
    for site in flow.sites:
        number, own = numbers[site.op], _OWN_ORDER.get(site.kind, ("", ""))
        sums.append(Sum(number, site.kind, str(site.of), site.length, number in flow.in_loops, *own))
    outputs, causes = [], []
    for root in _outputs(flow):
        statement = _Statement(flow, root)
        causes += [cause._replace(output=len(outputs)) for cause in statement.causes]
        outputs.append(statement.output())
    arguments = enumerate(func.body.block.arguments)
    scalars = tuple(f"p{number}" for number, argument in arguments if not isinstance(argument.type, aa.PtrType))
    return Certificate(tuple(sums), tuple(outputs), tuple(causes), scalars), flow


_OWN_ORDER = {"loop": ("in-turn", "one iteration after the other"), "atomic": ("", "as tile blocks arrive")}
"""Of sums that are taken in one order, whatever is decided: key, and words."""


def _top(func: aa.FuncOp) -> Operation:
    return func.parent_op if func.parent_op is not None else func


def _outputs(flow: Flow) -> list[Root]:
    """The memory that is written and that others see: arguments in order, then globals, then what is not known."""
    found = [root for root in flow.written if not is_private(root)]
    place = {int: 0, str: 1}
    return sorted(found, key=lambda root: (place.get(type(root), 2), root if isinstance(root, (int, str)) else 0))


class _Statement:
    """On one output."""

    def __init__(self, flow: Flow, root: Root) -> None:
        self._flow = flow
        self._root = root
        self._writes = [op for op in flow.writes if not flow.roots(address_of(op)).isdisjoint((root, None))]
        self._value: Quantities = NONE
        self._reads: Quantities = NONE
        self._order: Quantities = NONE
        self._sums: frozenset[int] = NONE
        self._found: dict[tuple[int, str], str] = {}
        self._kinds()
        for op in self._writes:
            self._written(op)
        for op in flow.unknown:
            self._cause(op, UNKNOWN, FOREIGN)

    @property
    def causes(self) -> list[Cause]:
        return [Cause(0, op, says, why) for (op, why), says in sorted(self._found.items())]

    def output(self) -> Output:
        says = set(self._found.values())
        repeatable = NO if NO in says else UNKNOWN if says else YES
        numbers = self._flow.numbers
        order = _launch(self._order)
        value = _launch(self._value) - order
        reads = _launch(self._reads) - order - value
        argument = self._root if isinstance(self._root, int) else -1
        return Output(
            argument, tuple(numbers[op] for op in self._writes), tuple(sorted(self._sums)), repeatable,
            *(tuple(sorted(each, key=_place)) for each in (order, value, reads)),
        )  # fmt: skip

    def _cause(self, op: Operation | int, says: str, why: str) -> None:
        number = op if isinstance(op, int) else self._flow.numbers[op]
        self._found.setdefault((number, why), says)

    def _kinds(self) -> None:
        """Updates that do not leave the same memory in every order."""
        updates = [op for op in self._writes if isinstance(op, UPDATES)]
        kinds = {_mode(op) for op in updates}
        for op in updates:
            mode = _mode(op)
            if mode == "addf":
                self._cause(op, NO, ADDED)
            elif mode == "xchg":
                self._cause(op, UNKNOWN, EXCHANGED)
            elif mode == "cas":
                self._cause(op, UNKNOWN, COMPARED)
            elif mode in ORDERLESS_UPDATES and (len(kinds) > 1 or len(updates) < len(self._writes)):
                self._cause(op, UNKNOWN, SEVERAL)
            self._order |= GRID_SIZES | self._flow.how_often(op)  # all tile blocks may update an element

    def _written(self, op: Operation) -> None:
        flow = self._flow
        facts, place = flow.stored(op), Addresses(flow, op)
        left = place.uncovered(facts.reads)
        whether = place.uncovered(flow.conditions(op))
        self._value |= facts.value
        if len(self._writes) > 1:
            self._value |= whether  # of two writes of an element either may be the one
        self._order |= facts.order
        self._reads |= left
        self._sums |= facts.sums
        for mark, number in of_run(facts.value | facts.order):
            self._made_of(mark, number)
            self._order |= GRID_SIZES  # what other tile blocks leave
        for _, number in of_run(left):
            self._cause(number, UNKNOWN, READ)
        for _, number in of_run(whether):
            self._cause(number, UNKNOWN, WHETHER)
        where = join(flow.of(value) for value in places_of(op)).quantities
        blocks = {each for each in (*facts.value, *facts.order, *left) if each.startswith("block.")}
        if blocks - place.solved:
            # Which tile block writes an element follows from all that its place is computed of.
            self._reads |= where
        if blocks:
            for _, number in of_run(where):
                self._cause(number, UNKNOWN, LED)

    def _made_of(self, mark: str, number: int) -> None:
        """An element is computed with what operation `number` gives, or makes visible."""
        flow = self._flow
        op = next(each for each, n in flow.numbers.items() if n == number)
        if mark == "@":
            self._cause(op, NO, OLD if isinstance(op, UPDATES) else COPIES)
        elif isinstance(op, UPDATES) and _mode(op) in ("cas", "xchg") and self._is_loaded():
            self._cause(op, NO, LOCKED)
        else:
            self._cause(op, UNKNOWN, SEEN)

    def _is_loaded(self) -> bool:
        """Whether the kernel reads what it writes there."""
        return any(self._root in self._flow.roots(address_of(op)) for op in self._flow.loads)


def _launch(quantities: Quantities) -> Quantities:
    """Without what comes out of operations."""
    return frozenset(quantity for quantity in quantities if quantity[0] not in "@&")


def _mode(op: Operation) -> str:
    return "cas" if isinstance(op, aa.AtomicCASOp) else op.rmw_mode.value  # type: ignore[attr-defined]


def _place(quantity: str) -> tuple[str, int]:
    return (quantity[0], int(quantity[1:])) if quantity[0] == "p" else (quantity, 0)
