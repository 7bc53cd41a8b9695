"""Which loops have the warpgroups of an agent take turns at the tensor cores, so that one of them computes under the
dots of another (ping-pong scheduling).

    end_turn {first};  wait_turn
    loop:                                                     tensor cores  |P0 Q0|P1 Q1|P0 Q0|P1 Q1| ...
      dots whose results threads wait for       (Q)           warpgroup 0         |threads|     |threads|
      end_turn                                                warpgroup 1   |threads|     |threads|
      the threads' computation on them
      wait_turn
      dots that the next iteration waits for    (P)
    end_turn;  wait_turn {last}

Warpgroups that issue their dots at the same time also wait for them at the same time, and the tensor cores are idle
until all have computed the operands of the next dots.  A turn begins before the last dots of an iteration and ends
after the first ones of the next.  (FlashAttention-3 orders its warpgroups in this way.)

During its turn a warpgroup may wait for copies into a stage, but not for any operation of another warpgroup after the
beginning of that one's turn: a loop with barriers of the agent in it has no turns.  `analysis/pipes/model.py` explores
every interleaving.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.analysis.function_pass import FunctionPass
from tileiras.analysis.warpgroup_turns import warps_of
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.agents import AgentSwitchOp
from tileiras.ir import Block, Builder, IntegerAttr, Location, Operation, UnitAttr, i32
from tileiras.reasons import Reason
from tileiras.schedule.cost_model import operation_cost
from tileiras.schedule.resource_table import Unit, resources
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target
from tileiras.targets.sm import NAMED_BARRIERS, WARPGROUP

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext

LEAST_SHARE = 0.1
"""The least share that the threads' computation between a loop's dots has of the cycles of these dots: less
leaves no time that other dots could fill."""


class OrderWarpgroups(FunctionPass):
    name = "tileas-order-warpgroups"
    optional = True
    schedules = True
    requires = "SYNCHRONIZED"
    needs = "asynchronous dots and their waits; all barriers where they will be"
    establishes = "`async.wait_turn` and `async.end_turn` in agents of several warpgroups"
    keeps = "all other operations"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if gpu.has("wgmma"):
            for switch in [op for op in func.walk() if isinstance(op, AgentSwitchOp)]:
                order_warpgroups(func, switch, gpu, context.engine)


class _Turn(NamedTuple):
    """Where a turn ends and the next one begins in an iteration: after `ends`, before `begins`."""

    ends: Operation
    begins: Operation


def order_warpgroups(
    func: aa.FuncOp, switch: AgentSwitchOp, target: Target, engine: DiagnosticEngine | None = None
) -> None:
    """Put turns around the dots of loops of agents with several warpgroups, in place, where threads compute between
    them."""
    for region in switch.agents:
        program = region.block
        warps = warps_of(program)
        # Barrier 0 is the whole CTA's, also where no barrier is counted yet.
        number = max(1, tileas.number_of(func, tileas.NAMED_BARRIERS) or 0)
        behind = number + warps // WARPGROUP
        if warps < 2 * WARPGROUP or warps % WARPGROUP or behind > NAMED_BARRIERS:
            continue
        loops = [op for top in program.operations for op in top.walk() if isinstance(op, scf.ForOp)]
        result = [(loop, turn) for loop in loops if (turn := _turn_of(loop, target, warps)) is not None]
        for loop, turn in result:
            _put(loop, turn, number)
            if engine is not None:
                reason = Reason("turns.warpgroups-alternate", warpgroups=warps // WARPGROUP)
                engine.emit(Remark(reason, loop.location))
        if result:
            _begin_and_end(program, number, result[0][0].location)
            func.attributes[tileas.NAMED_BARRIERS] = IntegerAttr(behind, i32)


def _turn_of(loop: scf.ForOp, target: Target, warps: int) -> _Turn | None:
    """The turns of a loop; None if it cannot have any."""
    operations = list(loop.body.block.operations)
    if any(_brings_together(inner) for op in operations for inner in op.walk()):
        return None
    dots = [n for n, op in enumerate(operations) if isinstance(op, tileas.AsyncDotOp)]
    waits = [n for n, op in enumerate(operations) if isinstance(op, tileas.FutureWaitOp) and op.values]
    if len(waits) != 1 or not dots or not dots[0] < waits[0] < dots[-1]:
        return None
    (wait,) = waits
    if operations[wait].pending.value:  # type: ignore[attr-defined]
        return None
    before, behind = [n for n in dots if n < wait], [n for n in dots if n > wait]
    between = operations[wait:behind[0]]
    table = resources(target)
    dots = sum(_busy(operations[n], Unit.TENSOR, warps, table) for n in dots)
    computed = max(sum(_busy(op, unit, warps, table) for op in between) for unit in Unit if unit is not Unit.TENSOR)
    if computed < LEAST_SHARE * dots:
        return None
    ends = _commit_behind(operations, before[-1])
    begins = operations[behind[0]]
    while isinstance(begins.prev, (tileas.ToAsyncOp, tileas.CreateNoneOp)):
        begins = begins.prev
    return None if ends is None else _Turn(ends, begins)


def _busy(op: Operation, unit: Unit, warps: int, table: Any) -> float:
    return operation_cost(op, warps, table).busy.get(unit, 0.0)


def _commit_behind(operations: list[Operation], place: int) -> Operation | None:
    return next((op for op in operations[place:] if isinstance(op, tileas.CommitDotsOp)), None)


def _brings_together(op: Operation) -> bool:
    """Whether warps of an agent wait for each other at an operation, or for another agent that may wait for them."""
    if isinstance(op, (tileas.BarrierOp, tileas.ProducerAcquireOp, tileas.ProduceOneOp, scf.ForOp, scf.WhileOp)):
        return True
    return bool(tileas.scratch_areas(op))


def _put(loop: scf.ForOp, turn: _Turn, number: int) -> None:
    """Insert the turns of a loop: one from before the loop into its first iteration, and one from its last iteration
    past its end."""
    for builder, op in (
        (Builder.before(loop), tileas.WaitTurnOp), (Builder.after(turn.ends), tileas.EndTurnOp),
        (Builder.before(turn.begins), tileas.WaitTurnOp), (Builder.after(loop), tileas.EndTurnOp),
    ):  # fmt: skip
        builder.location = loop.location
        builder.insert(op(id=IntegerAttr(number, i32)))


def _begin_and_end(program: Block, number: int, location: Location) -> None:
    """Insert the operations before the turns, where the last warpgroup lets the first one start, and after them, where
    the first one waits for the last."""
    start, end = Builder.at_start(program), Builder.before(program.last)
    start.location = end.location = location
    start.insert(tileas.EndTurnOp(id=IntegerAttr(number, i32), first=UnitAttr()))
    end.insert(tileas.WaitTurnOp(id=IntegerAttr(number, i32), last=UnitAttr()))
