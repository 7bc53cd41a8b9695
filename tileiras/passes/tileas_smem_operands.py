"""`tileas-smem-operands`: copies dot operands directly to shared memory, from where they are read step by step.

`where` selects the operands: `loop-invariant` ones of loops that need more registers than a thread has; those
`in-loops` whose loads have no shared memory to run ahead; large ones `outside-loops` that do not fit into registers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import resources, rewrites
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


WHERE = ("loop-invariant", "in-loops", "outside-loops")


class SharedMemoryOperands(FunctionPass):
    name = "tileas-smem-operands"
    optional = True
    schedules = True
    requires = "LAYOUTS"
    needs = "layouts and atoms; with `where=in-loops`, schedules"
    establishes = "buffers with asynchronous copies for dot operands, within what shared memory has left"
    keeps = "values, token order"

    where: str = "loop-invariant"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if self.where not in WHERE:
            message = f"pass '{self.name}': expected where={', '.join(WHERE)}, got '{self.where}'"
            raise CompileError.at(None, message, ExitCode.CONFIGURATION)
        if not _may_have_operands(func, self.where):
            return
        chosen = {
            "loop-invariant": rewrites.smem_operands.keep_loop_invariant,
            "in-loops": rewrites.smem_operands.copy_refused,
            "outside-loops": rewrites.smem_operands.copy_large,
        }
        chosen[self.where](func, gpu, context.engine)


def _may_have_operands(func: aa.FuncOp, where: str) -> bool:
    """A cheap check that decides whether the module of the analysis is imported."""
    if where == "outside-loops":
        has_dots = any(isinstance(op, tileas.DOTS) for op in func.body.blocks[0].operations)
        return has_dots and resources.loaded_tiles.loads_much(func)
    if where == "in-loops":
        return any(tileas.NO_ROOM in op.attributes for op in func.walk())
    return any(isinstance(op, scf.ForOp) for op in func.walk())
