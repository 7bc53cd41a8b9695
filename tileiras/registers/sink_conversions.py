"""Where conversions of layout stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Operation

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class MaterializeConvertLayout(FunctionPass):
    name = "tileas-materialize-convert-layout"
    optional = True
    requires = "LAYOUTS"
    needs = "layouts; loops as they will be"
    establishes = "each conversion just before its first user"
    keeps = "values"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        sink_conversions(func)


def sink_conversions(func: Operation) -> None:
    """Move conversions of layout down to their first user.

    Conversions for the operands of one operation then stand together and share a barrier, and loads from global memory
    that stand between them are in flight before it.
    """
    for op in [op for op in func.walk() if isinstance(op, tileas.ConvertLayoutOp)]:
        block = op.parent
        users = {block.find_ancestor_op(user) for user in op.results[0].users}
        following = op.next
        while following is not None and following not in users:
            following = following.next
        if following is not None and following is not op.next:
            op.detach()
            block.insert_before(op, following)
