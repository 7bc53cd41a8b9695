"""`tileas-attach-tma-desc-args`: tensor-map descriptors become arguments of the kernel, which the host fills; with
`tensor-maps=device` the kernel creates them itself at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.analysis.function_pass import FunctionPass
from tileiras.dialects.nv_tileas import names
from tileiras.ir import VerifyError

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class AttachTmaDescArgs(FunctionPass):
    name = "tileas-attach-tma-desc-args"
    requires = "LAYOUTS"
    needs = "layouts and atoms"
    establishes = "no `make_tma_desc`: descriptors are arguments behind the source's, with how each is filled, or built"
    keeps = "values, accesses"

    tensor_maps: str = "none"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(op.name == names.MAKE_TMA_DESC for op in func.walk()):
            try:
                if self.tensor_maps == "device":
                    from tileiras.rewrites.device_tensor_maps import build_maps

                    build_maps(func, gpu)
                else:
                    from tileiras.rewrites.tensor_map_arguments import attach_arguments

                    attach_arguments(func)
            except VerifyError as error:
                context.engine.error(error.location or func.location, f"'{names.MAKE_TMA_DESC}' op {error.message}")
