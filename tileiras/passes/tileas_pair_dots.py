"""`tileas-pair-dots`: dots into tensor memory become dots of two CTAs of a cluster, each of which loads half of B.

`tensor_maps` says who makes tensor maps: without, no dot is one of a pair.  `agents`: warps may run programs of their
own, without which dots in loops over tiles stay those of one CTA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.passes import FunctionPass

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class PairDots(FunctionPass):
    name = "tileas-pair-dots"
    requires = "DOT_ATOMS"
    needs = "an atom for every dot, work that `tileas-plan-cta` has divided among the CTAs of a cluster"
    establishes = "dots of pairs of CTAs, where all into tensor memory can be, and loads of half of their B"
    keeps = "other operations"

    tensor_maps: str = "none"
    agents: bool = False

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if func.kernel_spec.num_ctas > 1 and gpu.has("tcgen05"):
            from tileiras.assignment.cta_pairs import pair_dots

            pair_dots(func, gpu, context.engine, self.tensor_maps, self.agents)
