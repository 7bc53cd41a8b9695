"""Discardable attributes: what passes say of operations of nv_tileas that these do not declare.

Which operations have each, and what it means, stands with its name.
"""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import ArrayAttr, IntegerAttr, Operation

from .attributes import ScratchAttr

SHORT_OF_REGISTERS = "nv_tileas.short_of_registers"
"""Discardable unit attribute of a loop whose tiles take about all the registers that a thread has."""

REMATERIALIZE = "nv_tileas.rematerialize"
"""Discardable attribute of an operation in a loop: what it needs of the thread's number, and of values from outside of
the loop, is computed again in each iteration.  The number is how many loops are between the operation and that loop."""

REMATERIALIZE_BEHIND = "nv_tileas.rematerialize_behind"
"""Discardable unit attribute of a loop: what depends on the thread's number is computed again behind it, not held
through it."""

PARTS = "nv_tileas.parts"
"""Discardable attribute of an access through pointers: the number of parts, a power of two, in which it is lowered.
Each is of some of a thread's registers, with the addresses and conditions that nothing else uses."""

LOOP_SCHEDULE = "nv_tileas.loop_schedule"
"""Discardable attribute of a loop: the schedule chosen for it, a `#nv_tileas.loop_schedule`."""

AWS_STAGE, AWS_ORDER = "nv_tile.aws.stage", "nv_tile.aws.order"
AWS_SLOT = AWS_STAGE, AWS_ORDER
"""Discardable attributes, 32-bit integers, of the operations of a loop whose schedule is `unspecialize`: in the round
of the loop in which the first operations of iteration i run, those of a stage are of iteration i - stage; the order is
the place in a round."""

PING_PONG = "nv_tile.aws.ping_pong"
"""Discardable unit attribute of a loop over tiles: two agents that compute take them by turns."""

RUNS_AHEAD = "nv_tileas.runs_ahead"
"""Discardable unit attribute of a load of a loop with a schedule: it is for later iterations."""

STAGES = "nv_tileas.stages"
"""Discardable attribute, a 32-bit integer, of a load that an agent takes from a loop: the stages of its pipe, where
these are more than its loop's schedule says."""

AHEAD_ATOM = "nv_tileas.ahead_atom"
"""Discardable attribute of a load or a store: the atom, `#nv_tileas.copy_atom`, that can bring its tile to shared
memory when it runs ahead, or from there, where that is another one than the target has for every access."""

BEHIND_READERS = "nv_tileas.behind_readers"
"""On asynchronous copies: the dots that read their stage are waited for before."""

DOTS_IN_FLIGHT = "nv_tileas.dots_in_flight"
"""Discardable unit attribute of a loop with a schedule: its dots may be in flight when the next iteration begins, whose
copies do not overwrite what they read."""

AWAITED_NEXT = "nv_tileas.awaited_next"
"""Discardable unit attribute of a dot of a loop: what is left of it at the end of an iteration is waited for before
anything else of the next one."""

NO_ROOM = "nv_tileas.no_room"
"""Discardable unit attribute of a load that could run ahead but for shared memory."""

MIN_CTAS = "nv_tileas.min_ctas"
"""Discardable attribute of a function: how many CTAs an SM is to hold at least."""

BLOCK_WARPS = "nv_tileas.block_warps"
"""Discardable attribute of a function: the warps of a CTA, those that compute tiles together and all others."""

CLUSTER_CTAS = "nv_tileas.cluster_ctas"
"""Discardable attribute of a function: the CTAs of a cluster, which is a tile block."""

CLUSTER_BLOCKS = "nv_tileas.cluster_blocks"
"""Discardable attribute of a function whose tile block is one CTA: as many of them, neighbours along x, copy for each
other where a launch puts them in one cluster.  Launches without clusters are as right."""

PAIRS_OF = "nv_tileas.pairs_of"
"""Discardable attribute of a function whose tile block is one CTA: the name of the kernel in the place of which it is
launched where two of them, neighbours along x, are a cluster.  There is no launch of it without."""

BLOCK_GROUP = "nv_tileas.block_group"
"""Discardable attribute of a function: the rows of the grid whose tile blocks with more work start first together have
as many tile blocks, or more; without it each row starts for itself."""

FIRST_CTA = "nv_tileas.first_cta"
"""Discardable unit attribute of a function: only the first CTA of a cluster does anything."""

SCRATCH = "nv_tileas.scratch"
"""Discardable attribute of an operation that hands elements from thread to thread: an array of the areas of scratch
memory, `#nv_tileas.scratch`, that it uses one after the other."""

SHARED_MEMORY = "nv_tileas.shared_memory"
"""Discardable attribute of a function: the bytes of shared memory that its buffers and scratch areas take."""

TENSOR_MAPS = "nv_tileas.tensor_maps"
"""Discardable attribute of a function: how the host fills each of its last arguments, which are descriptors of tensors
(`make_tma_desc`), as texts in the words of `codegen/tensor_map.py`."""

NAMED_BARRIERS = "nv_tileas.named_barriers"
"""Discardable attribute of a function: how many barriers it uses, those from 0 on."""

NO_UNROLL = "nv_tileas.no_unroll"
"""Discardable unit attribute of a loop of which nobody behind this dialect is to repeat the body."""


def scratch_areas(op: Operation) -> tuple[ScratchAttr, ...]:
    """The scratch areas of an operation, in the order of their use."""
    areas = op.attributes.get(SCRATCH)
    if not isinstance(areas, ArrayAttr) or not all(isinstance(area, ScratchAttr) for area in areas):
        return ()
    return areas.elements  # type: ignore[return-value]


def number_of(func: Operation, name: str) -> int | None:
    """A number that a function says of itself, by the attribute's name; None where it does not."""
    found = func.attributes.get(name)
    return found.value if isinstance(found, IntegerAttr) else None


def block_warps(func: aa.FuncOp) -> int:
    """The warps of a CTA of a function whose number of warps is known."""
    given = func.attributes.get(BLOCK_WARPS)
    return func.kernel_spec.num_warps if given is None else given.value  # type: ignore[attr-defined]


def cluster_size(func: aa.FuncOp) -> int:
    """The CTAs that may copy for each other: those of a tile block, or as many tile blocks."""
    if PAIRS_OF in func.attributes:
        return 2
    return number_of(func, CLUSTER_BLOCKS) or func.kernel_spec.num_ctas or 1
