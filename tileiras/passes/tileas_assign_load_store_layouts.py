"""`tileas-assign-load-store-layouts`: assigns an atom and a layout to every load, store and copy of a tile.

`tensor-maps` names the creator of tensor maps, with which tiles can be copied in boxes: the `host`, the kernel
(`device`), or `none` if there are no maps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import assignment
from tileiras.analysis.function_pass import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class AssignLoadStoreLayouts(FunctionPass):
    name = "tileas-assign-load-store-layouts"
    requires = "DOT_ATOMS"
    leaves = "ATOMS"
    preserves_analyses = True
    needs = "atoms of dots: what is stored may stay in the layout in which a dot leaves it"
    establishes = "`atom` and `layout` on every access"
    keeps = "types, other operations"

    tensor_maps: str = "none"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        assignment.accesses.assign_load_store_layouts(func, gpu, context, self.tensor_maps)
