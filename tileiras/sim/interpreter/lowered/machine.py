"""The machine of the lower levels, and the table of rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tileiras.ir import Block, Operation, Value

from ...memory import MemoryAccessError
from ..machine import MEANINGS, InterpreterError, Machine, Signal, Undefined
from ..tasks import Crew, Stuck
from .borrowed import BORROWED, Seen, Typed

Rule = Callable[["LoweredMachine", Any], Any]


class Unruled(Exception):
    """Raised by a rule for a form of its operation that it does not cover."""


RULES: dict[str, Rule] = {}
"""Full name of an operation -> its rule; filled by the modules of this package through `rule`."""

LEVELS = ("nv_tileaa", "nv_tileas")
STEPS = 400_000
"""Limit on operations of one tile block; a block that waits for another would not terminate."""


class NoRule(InterpreterError):
    """An operation that cannot be executed at this level."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers the rule of operations, named in full or as in both levels."""

    def register(function: Rule) -> Rule:
        for name in names:
            for full in (name,) if "." in name else [f"{level}.{name}" for level in LEVELS]:
                RULES[full] = function
        return function

    return register


def as_only(*names: str) -> Callable[[Rule], Rule]:
    """Registers the rule of operations of nv_tileas."""
    return rule(*(f"nv_tileas.{name}" for name in names))


def rules() -> frozenset[str]:
    """The names of all operations that can be executed."""
    return frozenset(RULES) | frozenset(BORROWED)


class LoweredMachine(Machine):
    """One CTA of a tile block, number `rank` of `peers`, all its CTAs."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._given = arguments
        self.steps = 0
        self.rank = 0
        self.peers: list[LoweredMachine] = [self]
        self.buffers: list[Any] = []
        """Buffers that are live."""
        self.shared: dict[Any, Any] = {}
        """Values that CTAs exchange."""

    def beside(self) -> LoweredMachine:
        """The machine of another CTA of the tile block."""
        other = type(self)(*self._given)
        other.block_id = self.block_id
        other._plans = self._plans
        return other

    def start(self, crew: Crew, rank: int, peers: list[LoweredMachine]) -> None:
        self.crew, self.rank, self.peers = crew, rank, peers
        self.steps = 0
        self.values.clear()
        self.buffers.clear()
        self.shared.clear()

    def __getitem__(self, value: Any) -> Any:
        return self.values[value.value if type(value) is Typed else value]

    def get(self, value: Any) -> Any:
        return None if value is None else self[value]

    def operands(self, op: Any) -> list:
        return [self[operand] for operand in op.operands]

    def observe(self, op: Operation, results: Sequence[Value]) -> None:
        """Called after each operation whose results are known."""

    def before(self, op: Operation) -> None:
        """Called before each operation."""

    def _plan(self, block: Block) -> list:
        plan = self._plans.get(id(block))
        if plan is None:
            plan = [(op, *self._step(op), op.results) for op in block.operations]
            self._plans[id(block)] = plan
        return plan

    def _step(self, op: Operation) -> tuple[Any, Rule]:
        function = RULES.get(op.name)
        if function is not None:
            return op, function
        borrowed = BORROWED.get(op.name)
        seen = None if borrowed is None else Seen.of(op, borrowed)
        if seen is None:
            return op, _refuse
        return seen, MEANINGS[seen.name]

    def _run(self, plan: list) -> Signal:
        values = self.values
        for op, seen, function, results in plan:
            self.steps += 1
            if self.steps > STEPS:
                raise NoRule(self.error(op, "goes on for longer than a run at this level follows").diagnostic)
            self.before(op)
            try:
                outcome = function(self, seen)
            except Unruled as problem:
                raise NoRule(self.error(op, str(problem)).diagnostic) from problem
            except (MemoryAccessError, Undefined, Stuck) as problem:
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
            self.observe(op, results)
        return Signal("end", [])


def _refuse(machine: LoweredMachine, op: Operation) -> Any:
    raise Unruled("has no rule at this level; the run cannot go on behind it")
