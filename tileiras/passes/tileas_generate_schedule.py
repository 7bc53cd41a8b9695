"""`tileas-generate-schedule`: a schedule for every loop.

Serial: what is written, in its order.  Plain: loads run ahead, through shared memory, of the dots that consume them,
all warps alike.  Prefetch: one iteration ahead in registers, on targets without asynchronous copies.  Stream: loads of
kernels without dots run ahead in places of each thread, where that pays (`schedule/streams.py`).  `num-stages` says how
many iterations' tiles there are at a time, the one that is computed included; 0 chooses by the hints of the loads and
by what fits.  `agents`, `light` or `heavy`, asks for warp specialization: loads that run ahead are left to an agent of
their own where they can be.  The heavy variant also places what the agent that computes does, on the units and with the
registers that it has then (`schedule/agent_stages.py`).  With `auto` loads are left to an agent where a rule says that
it pays (`schedule/warp_specialize.py`), in the heavy variant, and with `auto-light` in the light one.  Where none loads
with `auto`, as on GPUs whose agents have no registers of their own, iterations overlap by the rule of level 1, below.
`serial` leaves all loops as they are.

With `v2-opt-level` of 1 or more, loops whose loads run ahead are placed: where an SM has no other warps to compute
under a product, iterations that overlap are shorter by the static model of costs, and their tiles fit into registers,
operations get stages and places in a round of the loop (`nv_tile.aws.stage`, `nv_tile.aws.order`).
`max-constraint-iterations` is how many placements are tried until one fits.  From level 2 on that is done whatever
other warps there are, and small loops are searched for a shorter placement.

Fails softly when loads could have run ahead and no loop has the room.
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
"""Of `v2-opt-level`, by whose rule iterations overlap with `auto` where no agent loads."""


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

        # By the rule of `auto` only loops whose loads run ahead leave them to another agent.
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
