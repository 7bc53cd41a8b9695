"""Execution of operations: the table of their implementations, values, and the control flow between blocks."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tileiras.diagnostics import Diagnostic, Severity
from tileiras.ir import Block, Operation, Value

from ..errors import SimulationError
from ..memory import Memory, MemoryAccessError
from .tasks import Crew, Stuck
from .undefined import RUN

if TYPE_CHECKING:
    from typing import TextIO


class InterpreterError(SimulationError):
    """A kernel that cannot continue: an invalid access, a broken assumption, a failed assertion.

    ``diagnostic`` has the message, the location of the operation and the tile block; ``str`` renders it with the source
    line.
    """

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic

    def __str__(self) -> str:
        return self.diagnostic.render()


class Deadlock(InterpreterError):
    """A tile block that waits for a change of memory that no tile block makes."""


class Undefined(Exception):
    """Raised by an implementation if the specification does not define the operation for these operands."""


class Signal:
    """End of a block: ``kind`` is the terminator's mnemonic, ``values`` its operands."""

    __slots__ = ("kind", "values")

    def __init__(self, kind: str, values: list) -> None:
        self.kind = kind
        self.values = values


Meaning = Callable[["Machine", Operation], Any]

#: Full operation name -> its implementation; filled by the modules of this package through :func:`meaning`.
MEANINGS: dict[str, Meaning] = {}
#: Names of elementwise operations: a combiner made of them can be applied to whole tiles at once.
ELEMENTWISE: set[str] = set()
#: The table by operation class, as execution uses it.
_BY_CLASS: dict[type[Operation], Meaning] = {}


def meaning(*mnemonics: str, elementwise: bool = False) -> Callable[[Meaning], Meaning]:
    """Register a function as the implementation of cuda_tile operations.

    It receives the machine and the operation and returns None, the one result, a tuple of results, or a Signal.
    """

    def register(function: Meaning) -> Meaning:
        for mnemonic in mnemonics:
            MEANINGS[f"cuda_tile.{mnemonic}"] = function
            if elementwise:
                ELEMENTWISE.add(f"cuda_tile.{mnemonic}")
        return function

    return register


def attribute(op: Operation, name: str, default: str) -> str:
    """The keyword of an enum attribute, ``default`` when it is left out."""
    entry = op.attributes.get(name)
    return default if entry is None else entry.value


class Order(NamedTuple):
    """An order of the tile blocks, by number; the seed of one of the elements of a tile that update one place; whether
    tile blocks take turns at the trips of loops that poll memory."""

    blocks: Sequence[int]
    seed: int
    takes_turns: bool = False


class Machine:
    """One run: memory, globals and grid, and the values of the tile block that is being executed."""

    def __init__(
        self, memory: Memory, grid: tuple[int, int, int], globals_: dict[str, int], output: TextIO | None
    ) -> None:
        self.memory = memory
        self.grid = grid
        self.globals = globals_
        self.output = output
        self.block_id = (0, 0, 0)
        self.values: dict[Value, Any] = {}
        self.allocated: list[int] = []
        """Addresses of the `alloca` operations of the blocks being executed."""
        self.names: dict[Value, str] = {}
        """Names of the entry's parameters in messages."""
        self.unmet: dict[Value, str] = {}
        """Strides about which the program assumes something else, which the size of their dimension may permit."""
        self.functions: Mapping[str, Callable[..., Any]] = {}
        """The functions that the kernel calls, by name."""
        self.order: Order | None = None
        """Instead of the natural order."""
        self._draw = random.Random(0)
        self.crew = Crew()
        """The tasks that take turns: the tile blocks."""
        self._plans: dict[int, list] = {}

    # -- values ----------------------------------------------------------------------------------------------------

    def __getitem__(self, value: Value) -> Any:
        return self.values[value]

    def get(self, value: Value | None) -> Any:
        """The value of an optional operand, None when it is absent."""
        return None if value is None else self.values[value]

    def operands(self, op: Operation) -> list:
        values = self.values
        return [values[operand] for operand in op.operands]

    def decide(self, decision: str, *values: int | np.ndarray) -> None:
        """Record that the run depends on ``values``: an address, a condition, an index.

        Raises Undefined if they differ from those of a run with other undefined values.
        """
        if not RUN.get().decide(*(value for value in values if value is not None)):
            raise Undefined(f"uses an undefined value as {decision}")

    def bind(self, targets: Sequence[Value], values: Sequence) -> None:
        for target, value in zip(targets, values, strict=True):
            self.values[target] = value

    # -- execution -------------------------------------------------------------------------------------------------

    def tile_blocks(self) -> Iterable[tuple[int, int, int]]:
        """The numbers of the tile blocks in the order in which they run."""
        blocks = ((x, y, z) for z, y, x in itertools.product(*(range(size) for size in reversed(self.grid))))
        if self.order is None:
            return blocks
        every = list(blocks)
        return [every[place] for place in self.order.blocks]

    def run_tile_blocks(self, block: Block, arguments: Sequence) -> None:
        """Execute the tile blocks in their order; those that poll memory take turns at their waits."""
        program = functools.partial(self._run_tile_block, block, arguments)
        self._draw = random.Random(0 if self.order is None else self.order.seed)
        loops = (op for each in block.operations for op in each.walk() if op.name == "cuda_tile.loop")
        if any(polled(loop) is not None for loop in loops):
            self.crew = Crew()
            self.crew.run([functools.partial(program, number) for number in self.tile_blocks()])
        else:
            for number in self.tile_blocks():
                program(number)

    def _run_tile_block(self, block: Block, arguments: Sequence, number: tuple[int, int, int]) -> None:
        self.values, self.allocated, self.block_id = {}, [], number
        self.bind(block.arguments, arguments)
        self.run_block(block)

    def wait(self, loop: Operation) -> None:
        """Let other tile blocks run until memory changes, for a loop that repeats a state.  Raises Deadlock."""
        state, before = (self.values, self.allocated, self.block_id), self.memory.changes
        try:
            self.crew.wait(lambda: self.memory.changes != before)
        except Stuck:
            self.block_id = state[-1]
            message = "deadlock: the loop goes on without end, since no tile block changes memory any more"
            raise Deadlock(self.error(polled(loop) or loop, message).diagnostic) from None
        self.values, self.allocated, self.block_id = state

    def pause(self) -> None:
        """Let other tile blocks run, at some of the calls in an order that takes turns."""
        if self.order is not None and self.order.takes_turns and self._draw.random() < 0.5:
            state = self.values, self.allocated, self.block_id
            self.crew.pause()
            self.values, self.allocated, self.block_id = state

    def element_order(self, count: int, is_sum: bool) -> Iterable[int]:
        """The elements of an atomic operation in the order of their updates, where several update one place."""
        if self.order is None or is_sum:
            return range(count)
        return random.Random(f"{self.order.seed} {count}").sample(range(count), count)

    def run_block(self, block: Block) -> Signal:
        """Execute to the terminator, or to a control operation inside a nested region that leaves the block."""
        plan = self._plan(block)
        before = len(self.allocated)
        signal = self._run(plan)
        while len(self.allocated) > before:
            self.memory.release(self.allocated.pop())
        return signal

    def _run(self, plan: list) -> Signal:
        values = self.values
        for op, function, results in plan:
            try:
                outcome = function(self, op)
            except (MemoryAccessError, Undefined) as problem:
                raise self.error(op, str(problem)) from problem
            if outcome is None:
                continue
            if type(outcome) is Signal:
                return outcome
            if len(results) == 1 and type(outcome) is not tuple:
                values[results[0]] = outcome
            else:
                for result, value in zip(results, outcome, strict=True):
                    values[result] = value
        return Signal("end", [])

    def _plan(self, block: Block) -> list:
        plan = self._plans.get(id(block))
        if plan is None:
            plan = [(op, self._meaning(op), op.results) for op in block.operations]
            self._plans[id(block)] = plan
        return plan

    def _meaning(self, op: Operation) -> Meaning:
        function = _BY_CLASS.get(type(op))
        if function is None:
            function = MEANINGS.get(op.name)
            if function is None:
                raise self.error(op, f"the interpreter has no meaning for '{op.name}'")
            _BY_CLASS[type(op)] = function
        return function

    def error(self, op: Operation, message: str) -> InterpreterError:
        x, y, z = self.block_id
        note = Diagnostic(Severity.NOTE, None, f"in tile block ({x}, {y}, {z}) of {self.grid}")
        return InterpreterError(Diagnostic.of_operation(op, message, [note]))


def orders(op: Operation) -> bool:
    """Whether an operation may order tile blocks: it is atomic, or an access with an ordering other than `weak`, and
    its scope is wider than a tile block."""
    scope, semantics = (op.attributes.get(name) for name in ("memory_scope", "memory_ordering_semantics"))
    if scope is not None and scope.value == "tl_blk":
        return False
    return ".atomic_" in op.name or (semantics is not None and semantics.value != "weak")


def polled(loop: Operation) -> Operation | None:
    """The first access of a loop by which a tile block may wait for another."""
    return next((op for op in loop.walk() if orders(op)), None)


def as_tile(values: int | np.ndarray, dtype: np.dtype) -> np.ndarray:
    """NumPy turns zero-dimensional results into scalars; tiles of rank zero stay arrays."""
    return np.asarray(values).astype(dtype, copy=False)
