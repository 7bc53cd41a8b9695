"""CTAs of an SM that a kernel's tiles leave registers for, before anything is scheduled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import resources, schedule
from tileiras.analysis.copied_loads import LOADS, copied_vector
from tileiras.analysis.derivations import uses_through
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import CompileError, DiagnosticEngine, ExitCode
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Value
from tileiras.reasons import Reason
from tileiras.resources.limits import threads_of
from tileiras.schedule.strategy import Loads, Strategy
from tileiras.targets import Target, find_copy_atom, registers_per_thread

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext


class LowerOccupancy(FunctionPass):
    """Lowers the number of CTAs per SM that a kernel requests, if it leaves too few resources.

    `resource` is the scarce one: `registers` of a thread for its tiles, or `shared-memory` of a CTA for two stages of
    the loads that could run ahead.  Some loops use a single stage rather than lower the occupancy to one CTA, unless
    `strategy` sets the number of stages or leaves the loads to an agent.
    """

    name = "tileas-lower-occupancy"
    optional = True
    schedules = True
    requires = "LAYOUTS"
    adds_operations = False
    needs = "layouts and atoms"
    establishes = "an occupancy in `kernel_spec` that leaves a thread its registers, or a CTA its shared memory"
    keeps = "operations"

    resource: str = "registers"
    strategy: Strategy = Strategy()

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if self.resource not in ("registers", "shared-memory"):
            message = f"pass '{self.name}': expected resource=registers or shared-memory, got '{self.resource}'"
            raise CompileError.at(None, message, ExitCode.CONFIGURATION)
        if (func.kernel_spec.occupancy or 1) == 1:
            return
        if self.resource == "registers":
            lower_occupancy(func, gpu, context.engine)
        else:
            by_threads = self.strategy.loads is not Loads.AGENT and self.strategy.stages is None
            schedule.plain.stages_leave_room(func, gpu, context.engine, by_threads=by_threads)


def lower_occupancy(func: aa.FuncOp, target: Target, engine: DiagnosticEngine | None = None) -> None:
    """Lower the occupancy of a kernel, in place, where its tiles need the registers of more CTAs; a remark says so."""
    spec = func.kernel_spec
    threads, result = threads_of(func), spec.occupancy or 1
    atom = find_copy_atom(target, "global", "shared", asynchronous=True)

    def registers_of(value: Value) -> int:
        """As `registers.words`, without tiles that are loaded for dots only: these can wait in shared memory."""
        source = value
        while isinstance(source.defining_op, tileas.VIEW_LIKE):
            source = source.defining_op.operand
        load = source.defining_op
        if atom is None or not isinstance(load, LOADS) or copied_vector(load, atom) is None:
            return resources.registers.words(value)
        return 0 if _goes_to_dots(source) else resources.registers.words(value)

    required = resources.register_bounds.least_beside_tiles(func, registers_of)
    ctas = result
    while ctas > 1 and registers_per_thread(threads, ctas) < required:
        ctas -= 1
    if ctas == result:
        return
    func.attributes["kernel_spec"] = spec.with_occupancy(ctas)
    if engine is not None:
        cause = Reason("kernel.registers-needed", registers=required)
        engine.emit(Remark(Reason("kernel.fewer-ctas", ctas=ctas, asked=result, cause=cause), func.location))


def _goes_to_dots(value: Value) -> bool:
    """Whether a tile is an operand of dots only, perhaps in another layout or under another shape."""
    renamings = (*tileas.VIEW_LIKE, tileas.ConvertLayoutOp)
    uses = uses_through(value, lambda user: isinstance(user, renamings))
    return all(isinstance(user, tileas.DOTS) and user.operands[2] is not each for user, each in uses)
