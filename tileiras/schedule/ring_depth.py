"""The stages with which a ring of copies covers the latency of memory without the help of other CTAs.

A product of few rows reads its weights once, and often has fewer tile blocks than the GPU has SMs: one CTA is then all
that an SM executes, and the bytes that its ring has in flight are the rate at which they arrive times the latency
(Little's law).  A loop is bound by its copies where these take longer than its dots at the highest rate of an SM, which
depends on the tile only: 64x128x64 in f16 is 24 KiB and 256 cycles of the tensor cores of an H200, copied in 384 at
least; 128x256x64 is 48 KiB and 1,024 cycles, copied in 768.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.analysis.dots_in_flight import is_only_added_to
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.reasons import Reason
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target

from .cost_model import loop_cost, stages
from .induction_variable import trip_count
from .resource_table import Unit, resources
from .staging import StagedLoad
from .strategy import MAX_STAGES
from .tensor_boxes import comes_in_boxes

LEAST_CTAS = 2
"""The CTAs that an SM keeps beside a deeper ring: one computes and stores while the other one starts or ends."""

UNDER_LOAD = 2
"""The latency of DRAM near its bandwidth, over that of a single load: requests wait for each other in its queues."""

_OF_COPIES = frozenset({Unit.L2, Unit.DRAM, Unit.SHARED})


class Depth(NamedTuple):
    """Of a loop that is bound by its copies: the stages with which they cover the latency of memory, the cycles of an
    iteration for them at the highest rate of an SM, and the cycles for all else."""

    stages: int
    copies: int
    computes: int

    def reason(self, stages: int) -> Reason:
        """Why the loop has a number of stages, for a remark."""
        if stages >= self.stages:
            return Reason("loops.covers-latency", copies=self.copies, computes=self.computes, wanted=self.stages)
        return Reason("loops.keeps-ctas", copies=self.copies, computes=self.computes, wanted=self.stages)


def depth_of_copies(
    loop: scf.ForOp, staged: Sequence[StagedLoad], target: Target, warps: int, in_flight: bool
) -> Depth | None:
    """The depth that a ring of these loads needs; `in_flight`: the dots of an iteration are waited for in the next
    one.  None for a loop that is not bound by its copies, or that computes with the results of its dots."""
    dots = [op for op in loop.walk() if isinstance(op, tileas.DOTS)]
    if not dots or not all(map(is_only_added_to, dots)):
        return None
    cost, table = loop_cost(loop, target, warps), resources(target)
    if cost is None:
        return None
    copies = sum(each.stage_bytes for each in staged) / table.l2_port
    computes = max((cycles for unit, cycles in cost.busy.items() if unit not in _OF_COPIES), default=0.0)
    if copies <= computes:
        return None
    latency = UNDER_LOAD * table.latency["dram"] + (table.latency["tma"] if any(map(comes_in_boxes, staged)) else 0.0)
    enough = stages(latency + copies, copies if in_flight else computes, copies)
    return Depth(min(enough, MAX_STAGES, trip_count(loop) or MAX_STAGES), round(copies), round(computes))
