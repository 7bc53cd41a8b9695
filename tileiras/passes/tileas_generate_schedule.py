"""`tileas-generate-schedule`: chooses a schedule for every loop.

Serial: operations in program order.  Plain: loads run ahead, through shared memory, of the dots that consume them, in
all warps alike.  Prefetch: loads run one iteration ahead in registers, on targets without asynchronous copies.  Stream:
loads of kernels without dots run ahead in shared memory that is private to each thread, where that is profitable
(`schedule/streams.py`).  `num-stages` is the number of iterations whose tiles are live at a time, including the current
one; 0 chooses by the hints of the loads and the available memory.

`agents`, `light` or `heavy`, requests warp specialization: an agent of its own issues the loads that run ahead, where
possible.  The heavy variant also schedules the operations of the computing agent, for the units and registers that it
then has (`schedule/agent_stages.py`).  `auto` uses the heavy variant, and `auto-light` the light one, in loops where a
rule predicts a gain (`schedule/warp_specialize.py`).  If `auto` chooses no loading agent, as on GPUs whose agents have
no registers of their own, iterations overlap by the rule of level 1, below.  `serial` leaves all loops unchanged.

With `v2-opt-level` of 1 or more, loops whose loads run ahead are software-pipelined if an SM has no other warps that
compute during a dot, overlapped iterations are shorter by the static model, and their tiles fit into registers:
operations get stages and an order in a round of the loop (`nv_tile.aws.stage`, `nv_tile.aws.order`).
`max-constraint-iterations` limits the number of placements that are tried until one fits.  From level 2 on this is done
regardless of other warps, and small loops are searched for a shorter placement.

Fails softly if loads could have run ahead and no loop has the shared memory for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.passes import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


_BY_AGENT = {"": (False,), "auto": (False, True), "auto-light": (False, True), "light": (True,), "heavy": (True,)}
"""Value of `agents` -> whether an agent will load."""

_LEVEL_BY_RULE = 1
"""The `v2-opt-level` whose rule decides whether iterations overlap, with `auto` and no loading agent."""


class GenerateSchedule(FunctionPass):
    name = "tileas-generate-schedule"
    requires = "LAYOUTS"
    leaves = "SCHEDULED"
    needs = "layouts and atoms"
    establishes = "`nv_tileas.loop_schedule` on loops, marks on loads that run ahead; fails softly without room"
    keeps = "operations"
    accepts = {"num_stages": range(9)}

    num_stages: int = 0
    agents: str = ""
    serial: bool = False
    v2_opt_level: int = 0
    max_constraint_iterations: int = 10

    def run(self, op: Operation, context: PassContext) -> None:
        self._pipelined = self._refused = 0
        super().run(op, context)
        if self._refused and not self._pipelined:
            self.signal_soft_failure(context)

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        from tileiras.dialects import scf

        # The rule of `auto` moves loads to another agent only in loops whose loads run ahead.
        specializes = self.agents in ("light", "heavy")
        if any(isinstance(inner, scf.ForOp) for inner in func.walk()):
            # A dozen modules, for kernels with loops only.
            from tileiras.schedule.plain import generate_schedule, leave_serial

            if self.serial:
                leave_serial(func)
                return
            done = generate_schedule(func, gpu, self.num_stages or None, context.engine, _BY_AGENT[self.agents])
            self._pipelined += done.pipelined
            self._refused += done.refused
            specializes |= bool(self.agents) and done.pipelined > 0
            if self.v2_opt_level > 0 and done.pipelined and not self.agents:
                from tileiras.schedule.overlap import overlap_loops

                overlap_loops(func, gpu, self.v2_opt_level, self.max_constraint_iterations, context.engine,
                              bool(self.num_stages))  # fmt: skip
        if specializes:
            from tileiras.schedule.warp_specialize import specialize_loops

            has_agents = specialize_loops(func, gpu, self.agents, context.engine, self.v2_opt_level,
                                          self.max_constraint_iterations, bool(self.num_stages))  # fmt: skip
            if self.agents == "auto" and not has_agents:
                from tileiras.schedule.overlap import overlap_loops

                overlap_loops(func, gpu, _LEVEL_BY_RULE, self.max_constraint_iterations, context.engine,
                              bool(self.num_stages), by_rule=True)  # fmt: skip
