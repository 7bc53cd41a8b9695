"""Passes over the functions of a module, and checks of the state in which functions reach a pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from tileiras.diagnostics import CompileError
from tileiras.ir import Pass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir import Operation
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


def gpu_of(name: str, otherwise: str = "invalid or missing --compute-capability option") -> Target:
    """The target that an option `compute-capability` names; raises CompileError (code 5) for an unknown one."""
    from tileiras.targets import TARGETS

    entry = TARGETS.get(name)
    if entry is None:
        raise CompileError.at(None, f"{otherwise}: '{name}'")
    return entry


class FunctionPass(Pass):
    """A pass over the functions of a module, one by one, for one GPU."""

    anchor = "builtin.module"
    requires: ClassVar[str] = ""
    """The state (`tileiras.analysis.function_state`) that functions have to be in; empty for nv_tileaa."""
    leaves: ClassVar[str] = ""
    """The state that they are in afterwards; empty if it does not change."""
    of_nv_tileaa: ClassVar[bool] = False
    """Whether the pass skips functions that have been converted to nv_tileas."""

    compute_capability: str = "sm_90"

    def verify_input(self, op: Operation, context: PassContext) -> None:
        if not self.requires:
            return
        for func in functions_of(op):
            check_state(self.name, func, self.requires, self.compute_capability, context)

    def run(self, op: Operation, context: PassContext) -> None:
        gpu = gpu_of(self.compute_capability)
        for func in functions_of(op):
            if not (self.of_nv_tileaa and _is_nv_tileas(func)):
                self.run_on_function(func, gpu, context)

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        """Change `func` in place."""
        raise TypeError(f"pass '{self.name}' does not implement 'run_on_function'")


def _is_nv_tileas(func: aa.FuncOp) -> bool:
    from tileiras.analysis.function_state import is_nv_tileas

    return is_nv_tileas(func)


def functions_of(op: Operation) -> Iterator[aa.FuncOp]:
    """The functions in a module, or the function that is given."""
    from tileiras.dialects.nv_tileaa import FuncOp

    if isinstance(op, FuncOp):
        yield op
        return
    for region in op.regions:
        for inner in region.operations:
            if isinstance(inner, FuncOp):
                yield inner
            elif inner.regions:
                yield from functions_of(inner)


def check_num_warps(name: str, op: Operation, context: PassContext) -> None:
    """Report functions without a number of warps, which pass `name` needs."""
    for func in functions_of(op):
        if func.kernel_spec.num_warps is None:
            text = f"has no number of warps, which pass '{name}' needs: run 'tileas-assign-num-warps' first"
            context.engine.op_error(func, text)


def check_state(name: str, func: aa.FuncOp, required: str, gpu_name: str, context: PassContext) -> None:
    """Report the pass that must run on a function before pass `name`, which needs the state `required`; and errors of
    its operations once they have layouts."""
    from tileiras.analysis.function_state import LEFT_BY, State, function_state

    least, state = State[required], function_state(func)
    if state < least:
        following = next(LEFT_BY[each] for each in sorted(LEFT_BY) if each > state)
        text = f"is in state '{state.spelled}', pass '{name}' needs '{least.spelled}': run '{following}' first"
        context.engine.op_error(func, text)
    elif least >= State.LAYOUTS:
        from tileiras.analysis.ops import ops_errors

        for place, wrong in ops_errors(func, gpu_of(gpu_name)):
            context.engine.op_error(place, wrong)
