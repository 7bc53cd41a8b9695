"""`tileas-generate-schedule`: chooses a schedule for every loop.

Serial: operations in program order.  Plain: loads run ahead, through shared memory, of the dots that consume them, in
all warps alike.  Prefetch: loads run one iteration ahead in registers, on targets without asynchronous copies.  Stream:
loads of kernels without dots run ahead in shared memory that is private to each thread, where that is profitable
(`schedule/streams.py`).

`strategy` (`schedule/strategy.py`) says who issues the loads that run ahead, through how many `stages` (chosen by the
hints of the loads and the available memory, unless given), and which iterations overlap:

- `loads=none` leaves all loops unchanged;
- `loads=agent` requests warp specialization: an agent of its own issues the loads, where possible.  `variant=heavy`
  also schedules the operations of the computing agent, for the units and registers that it then has
  (`schedule/agents/load_stages.py`);
- `loads=by-rule` does so in loops where a rule predicts a gain (`schedule/agents/rules/load.py`);
- `overlap=model`: loops whose loads run ahead are software-pipelined if an SM has no other warps that compute during a
  dot, overlapped iterations are shorter by the static model, and their tiles fit into registers: operations get stages
  and an order in a round of the loop (`nv_tile.aws.stage`, `nv_tile.aws.order`).  `placements` limits the number of
  placements that are tried until one fits;
- `overlap=search`: so are others, regardless of other warps, and small loops are searched for a shorter placement;
- `overlap=by-rule`: so are loops without a loading agent, as on GPUs whose agents have no registers of their own.

Fails softly if loads could have run ahead and no loop has the shared memory for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import schedule
from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import scf
from tileiras.schedule.strategy import Loads, Overlap, Strategy

if TYPE_CHECKING:
    from tileiras.diagnostics import Diagnostic
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class GenerateSchedule(FunctionPass):
    name = "tileas-generate-schedule"
    requires = "LAYOUTS"
    leaves = "SCHEDULED"
    needs = "layouts and atoms"
    establishes = "`nv_tileas.loop_schedule` on loops, marks on loads that run ahead; fails softly without room"
    keeps = "operations"

    strategy: Strategy = Strategy()

    def run(self, op: Operation, context: PassContext) -> None:
        self._pipelined = 0
        self._refusal: Diagnostic | None = None
        super().run(op, context)
        if self._refusal is not None and not self._pipelined:
            self.signal_soft_failure(context, self._refusal)

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        strategy = self.strategy
        # The rule moves loads to another agent only in loops whose loads run ahead.
        specializes = strategy.loads is Loads.AGENT
        if any(isinstance(inner, scf.ForOp) for inner in func.walk()):
            # A dozen modules, for kernels with loops only.
            if strategy.loads is Loads.NONE:
                schedule.plain.leave_serial(func)
                return
            outcome = schedule.plain.generate_schedule(func, gpu, strategy, context.engine)
            self._pipelined += outcome.pipelined
            self._refusal = outcome.reason or self._refusal
            specializes |= strategy.is_by_rule and outcome.pipelined > 0
            if strategy.overlap is not Overlap.OFF and outcome.pipelined and not strategy.may_have_agents:
                schedule.overlap.overlap_loops(func, gpu, strategy, context.engine)
        if specializes:
            has_agents = schedule.agents.rules.load.specialize_loops(func, gpu, strategy, context.engine)
            if strategy.overlap is Overlap.BY_RULE and not has_agents:
                schedule.overlap.overlap_loops(func, gpu, strategy, context.engine)
