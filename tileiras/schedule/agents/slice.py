"""The slice of a kernel for an agent that loads tiles: the addresses of its loads, and the loops and branches around
them.

The agent computes these itself.  An operation that reads memory may be executed by two agents unless it is ordered
after a write of another agent; operations that write memory, print or wait are left to the agent that computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tileiras.analysis.alias import AliasAnalysis, address_of
from tileiras.analysis.incoming import incoming
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import BlockArgument, MemoryWrite, NoMemoryEffect, Operation, Pure, TensorType, Value
from tileiras.reasons import Argument, Reason

if TYPE_CHECKING:
    from tileiras.ir import Block

READS = (tileas.TiledLoadOp, tileas.LoadOp)


class CannotSpecialize(Exception):
    """The reason for which an operation keeps work of a kernel from another agent, as a code with arguments."""

    def __init__(self, place: Operation, code: str, /, **arguments: Argument) -> None:
        super().__init__(code)
        self.op = place
        self.reason = Reason(code, **arguments)  # type: ignore[arg-type]

    @classmethod
    def of(cls, place: Operation, reason: Reason) -> CannotSpecialize:
        """A refusal with a reason of another analysis."""
        result = cls(place, reason.code)
        result.reason = reason
        return result


class AgentSlice:
    """The backward slice of an agent that executes some operations of `program`, a function or the agent of one.

    `outside`: operations before the agents, for all of them; `operations`: those that the agent repeats;
    `around`: the loops and branches around its own operations, which it repeats as well, and `handed_on` the numbers of
    their results that it needs, for loops without an induction variable of the values that their condition passes on;
    `begun_with`: the numbers of the values that an iteration of these begins with.

    Methods raise CannotSpecialize where something cannot be repeated, or has to wait for another agent.
    """

    def __init__(self, program: Operation, outside: set[Operation]) -> None:
        self._aliases = AliasAnalysis()
        self._program = program
        self.outside = outside
        self.operations: set[Operation] = set()
        self.around: set[Operation] = set()
        self.handed_on: dict[Operation, set[int]] = {}
        self.begun_with: dict[Operation, set[int]] = {}
        self._seen: set[Value] = set()
        self._own: set[Operation] = set()
        self._pending: list[Value] = []

    def take(self, op: Operation, operands: Iterable[Value]) -> None:
        """Add an operation to the agent, with the values that it uses."""
        self._own.add(op)
        self._pending += operands
        self._enter(op)

    def close(self) -> None:
        """Add the transitive operands of everything in the slice."""
        while self._pending:
            value = self._pending.pop()
            if value not in self._seen:
                self._seen.add(value)
                self._need(value)

    def _enter(self, inner: Operation) -> None:
        """Add the loops and branches around an operation."""
        op = inner.parent_op
        while op is not None and op is not self._program:
            if isinstance(op, scf.ForOp):
                self._pending += [op.lower_bound, op.upper_bound, op.step]
            elif isinstance(op, scf.IfOp):
                self._pending.append(op.condition)
            else:
                assert isinstance(op, scf.WhileOp), op.name
                # Each agent evaluates the loop condition itself.
                self._pending.append(op.before.block.last.condition)  # type: ignore[union-attr]
            self.around.add(op)
            self.handed_on.setdefault(op, set())
            self.begun_with.setdefault(op, set())
            op = op.parent_op

    def _need(self, value: Value) -> None:
        op: Any = value.block.parent_op if isinstance(value, BlockArgument) else value.defining_op
        if isinstance(op, aa.FuncOp) or op in self.outside or op in self._own:
            return
        if op in self.around:
            is_argument = isinstance(value, BlockArgument)
            if isinstance(op, scf.WhileOp):
                begins = is_argument and value.block is op.before.block
                (self.begun_with if begins else self.handed_on)[op].add(value.index)
            elif is_argument and value.index == 0:
                return  # the counter
            else:
                self.handed_on[op].add(value.index - is_argument)
            self._pending += [each.value for each in incoming(value) or ()]
            return
        if not isinstance(value, BlockArgument):
            self._repeat(op)

    def _repeat(self, op: Operation) -> None:
        """Add an operation whose result is needed, with everything in its regions."""
        if op in self.operations:
            return
        self.operations.add(op)
        for inner in op.walk():
            if isinstance(inner, READS):
                self.check_order(inner)
            elif isinstance(inner, tileas.DOTS) or not (
                inner.regions or inner.has_trait(NoMemoryEffect) or inner.has_trait(Pure)
            ):
                # Dots are executed by the warps of one agent, whose number and tensor memory their atoms require.
                raise CannotSpecialize(inner, "agents.executes-once", values=self.subject, op=inner.name)
            self._pending += [
                value
                for value in inner.operands
                if not isinstance(value.type, aa.MemTokenType) and not is_inside(value, op)
            ]

    subject = "trip counts"
    """The agent's own values that depend on the repeated operations, as remarks name them."""

    def check_order(self, load: Any) -> None:
        """Raise CannotSpecialize where a load has to wait for an operation of another agent."""
        if load.mem_semantic.value != "weak":
            raise CannotSpecialize(load, "agents.ordered")
        seen: set[Value] = set()
        pending = [] if load.token is None else [load.token]
        while pending:
            token = pending.pop()
            if token in seen:
                continue
            seen.add(token)
            handed_on = incoming(token)
            if handed_on is not None:
                pending += [each.value for each in handed_on]
                continue
            op = token.defining_op
            if op is None:
                continue
            if isinstance(op, aa.GdcWaitOp) and op.parent_op is self._program:
                self.operations.add(op)  # each agent waits for the grid itself
            elif self._comes_first(op, load):
                raise CannotSpecialize(load, "agents.ordered-after", op=op.name)
            pending += [value for value in op.operands if isinstance(value.type, aa.MemTokenType)]

    def _comes_first(self, op: Any, load: Operation) -> bool:
        """Whether a load that is ordered after an operation has to wait for it."""
        semantic = getattr(op, "mem_semantic", None)
        if semantic is not None and semantic.value != "weak":
            return True
        if not op.has_trait(MemoryWrite):
            return False
        is_access = hasattr(op, "view") or hasattr(op, "pointer")
        return not is_access or self._aliases.may_alias(address_of(op), address_of(load))


class ProducerSlice(AgentSlice):
    """The backward slice of `loads` in a function, without the data of these loads.

    Raises CannotSpecialize where something cannot be repeated, or a load has to wait for another agent.
    """

    subject = "addresses of loads"

    def __init__(self, func: aa.FuncOp, loads: Iterable[tileas.Load]) -> None:
        super().__init__(func, _outside(func.body.blocks[0]))
        for load in loads:
            self.check_order(load)
            self.take(load, _address(load))
        self.close()


def _address(load: Any) -> list[Value]:
    if isinstance(load, tileas.TiledLoadOp):
        return [load.view, *load.coords]
    return [load.pointer, *([] if load.mask is None else [load.mask])]


def is_inside(value: Value, op: Operation) -> bool:
    """Whether a value is defined in an operation."""
    block = value.parent_block
    return block is not None and block.parent_op is not None and op.is_ancestor_of(block.parent_op)


def _outside(entry: Block) -> set[Operation]:
    """The operations of a function's own block that compute values other than tiles from arguments and constants."""
    result: set[Operation] = set()
    for op in entry.operations:
        if op.regions or not op.results or not op.has_trait(Pure):
            continue
        types = [value.type for value in (*op.results, *op.operands)]
        if any(isinstance(type, (TensorType, aa.MemTokenType)) for type in types):
            continue
        if all(isinstance(value, BlockArgument) or value.defining_op in result for value in op.operands):
            result.add(op)
    return result
