"""Discardable attributes of operations of nv_tileas: names, operations and meanings."""

from __future__ import annotations

from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import ArrayAttr, IntegerAttr, Operation, StringAttr

from .attributes import ScratchAttr

SHORT_OF_REGISTERS = "nv_tileas.short_of_registers"
"""Discardable unit attribute of a loop whose tiles take about all registers of a thread."""

REMATERIALIZE = "nv_tileas.rematerialize"
"""Discardable attribute of an operation in a loop: the parts of it that depend on the thread's number, or on values
from outside the loop, are recomputed in each iteration.  Its value is the number of loops between the operation and
that loop."""

REMATERIALIZE_BEHIND = "nv_tileas.rematerialize_behind"
"""Discardable unit attribute of a loop: values that depend on the thread's number are recomputed after it, not kept in
registers across it."""

PARTS = "nv_tileas.parts"
"""Discardable attribute of an access through pointers: the number of parts, a power of two, in which it is lowered.
Each part covers some of a thread's registers, with the addresses and conditions that only it uses."""

SHARED_DIVISOR = "nv_tileas.shared_divisor"
"""Discardable unit attribute of a division of f32: a thread divides several elements by each of its divisors, and
computes a reciprocal for each divisor."""

LOOP_SCHEDULE = "nv_tileas.loop_schedule"
"""Discardable attribute of a loop: the schedule chosen for it, a `#nv_tileas.loop_schedule`."""

AWS_STAGE, AWS_ORDER = "nv_tile.aws.stage", "nv_tile.aws.order"
AWS_SLOT = AWS_STAGE, AWS_ORDER
"""Discardable attributes, 32-bit integers, of the operations of a software-pipelined loop (schedule `unspecialize`).
The iteration of that loop which starts iteration i executes the operations of stage s for iteration i - s; the order is
the position among the operations of one such iteration."""

PARTITION = "nv_tile.aws.partition"
"""Discardable attribute, a `#nv_tileas.partition`, of an operation that another agent than the one around it is to
execute: a load of a loop of the schedule `warp_specialize`, or a dot or a store of the agent that computes."""

PING_PONG = "nv_tile.aws.ping_pong"
"""Discardable unit attribute of a loop over tiles: two agents that compute take alternate tiles."""

RUNS_AHEAD = "nv_tileas.runs_ahead"
"""Discardable unit attribute of a load of a loop with a schedule: its copy is issued for a later iteration."""

STAGES = "nv_tileas.stages"
"""Discardable attribute, a 32-bit integer, of a load that an agent takes from a loop: the number of stages of its pipe,
where it is more than the loop's schedule says."""

AHEAD_ATOM = "nv_tileas.ahead_atom"
"""Discardable attribute of a load or a store: the atom, `#nv_tileas.copy_atom`, that can copy its tile to shared memory
when it runs ahead, or from there, where it is not the target's usual one."""

BEHIND_READERS = "nv_tileas.behind_readers"
"""On asynchronous copies: the dots that read the stage are waited for before the copy."""

DOTS_IN_FLIGHT = "nv_tileas.dots_in_flight"
"""Discardable unit attribute of a loop with a schedule: its dots may be in flight when the next iteration begins, whose
copies do not overwrite their operands."""

PREDICATED = "nv_tileas.predicated"
"""Discardable unit attribute of a branch around asynchronous copies: they copy no bytes where it is not taken."""

AWAITED_NEXT = "nv_tileas.awaited_next"
"""Discardable unit attribute of a dot of a loop: a dot still in flight at the end of an iteration is waited for at the
beginning of the next one."""

NO_ROOM = "nv_tileas.no_room"
"""Discardable unit attribute of a load that could run ahead if shared memory had room for its stages."""

MIN_CTAS = "nv_tileas.min_ctas"
"""Discardable attribute of a function: the least number of CTAs that an SM is to hold."""

BLOCK_WARPS = "nv_tileas.block_warps"
"""Discardable attribute of a function: the number of all warps of a CTA, those that compute tiles together and the
others."""

CLUSTER_CTAS = "nv_tileas.cluster_ctas"
"""Discardable attribute of a function: the number of CTAs of a cluster that is one tile block."""

CLUSTER_BLOCKS = "nv_tileas.cluster_blocks"
"""Discardable attribute of a function whose tile block is one CTA: this many neighbours along x copy for each other
where a launch puts them into one cluster.  Launches without clusters give the same results."""

PAIRS_OF = "nv_tileas.pairs_of"
"""Discardable attribute of a function whose tile block is one CTA: the name of the kernel that it replaces in launches
where two tile blocks, neighbours along x, form a cluster.  It is never launched without clusters."""

CTAS_OF_PAIR = 2
"""CTAs of the cluster of two tile blocks."""

PAIRS_WHERE = "nv_tileas.pairs_where"
"""Discardable attribute of a function that has `PAIRS_OF`: facts that each of its launches has, texts in the words of
`targets/launch_facts.py`."""

ALONE = "nv_tileas.alone"
"""Discardable attribute of a function with dots: the reason, as `Reason.spelled` has it, why no kernel for pairs of its
tile blocks is beside it."""

BLOCK_GROUP = "nv_tileas.block_group"
"""Discardable attribute of a function: rows of the grid are joined into groups of at least this many tile blocks, in
which those with more work start first; without it each row is a group."""

FIRST_CTA = "nv_tileas.first_cta"
"""Discardable unit attribute of a function: only the first CTA of a cluster executes its body."""

SCRATCH = "nv_tileas.scratch"
"""Discardable attribute of an operation that exchanges elements between threads: an array of the areas of scratch
memory, `#nv_tileas.scratch`, that it uses in this order."""

SHARED_MEMORY = "nv_tileas.shared_memory"
"""Discardable attribute of a function: the bytes of shared memory that its buffers and scratch areas take."""

TENSOR_MAPS = "nv_tileas.tensor_maps"
"""Discardable attribute of a function: for each of its last arguments, which are tensor map descriptors
(`make_tma_desc`), a text with the host's instructions to fill it, in the format of `codegen/tensor_map.py`."""

ORDER = "nv_tileas.order"
"""Discardable attribute of a function: its certificate of order, an array of lines in the text form of
`order/certificate.py`."""

NAMED_BARRIERS = "nv_tileas.named_barriers"
"""Discardable attribute of a function: the number of barriers that it uses, from 0 on."""

NO_UNROLL = "nv_tileas.no_unroll"
"""Discardable unit attribute of a loop whose body later stages are not to unroll."""

KERNEL_SPEC = "nv_tileas.kernel_spec"
"""Discardable attribute of an `llvm.func`, until the kernel is finalized: the `kernel_spec` of the function that was
lowered to it."""

LAUNCH_FACTS = (
    BLOCK_WARPS, CLUSTER_CTAS, MIN_CTAS, BLOCK_GROUP, CLUSTER_BLOCKS, PAIRS_OF, PAIRS_WHERE, ORDER, SHARED_MEMORY,
)  # fmt: skip
"""Discardable attributes of functions that an `llvm.func` keeps until the kernel is finalized."""


def scratch_areas(op: Operation) -> tuple[ScratchAttr, ...]:
    """The scratch areas of an operation, in the order of their use."""
    areas = op.attributes.get(SCRATCH)
    if not isinstance(areas, ArrayAttr) or not all(isinstance(area, ScratchAttr) for area in areas):
        return ()
    return areas.elements  # type: ignore[return-value]


def number_of(func: Operation, name: str) -> int | None:
    """The value of an integer attribute of a function; None where it does not have the attribute."""
    entry = func.attributes.get(name)
    return entry.value if isinstance(entry, IntegerAttr) else None


def facts_of_pairs(func: Operation) -> tuple[str, ...]:
    """The further conditions of a launch of a function for pairs of tile blocks."""
    entry = func.attributes.get(PAIRS_WHERE)
    if not isinstance(entry, ArrayAttr):
        return ()
    return tuple(each.value for each in entry if isinstance(each, StringAttr))


def block_warps(func: Operation) -> int:
    """The number of warps of a CTA of a function, lowered or not, whose number of warps is known."""
    entry = func.attributes.get(BLOCK_WARPS)
    if entry is not None:
        return entry.value  # type: ignore[attr-defined]
    spec = func.attributes.get("kernel_spec") or func.attributes[KERNEL_SPEC]
    return spec.num_warps  # type: ignore[attr-defined]


def cluster_size(func: aa.FuncOp) -> int:
    """The number of CTAs that may copy for each other: those of a tile block, or tile blocks of one CTA each."""
    if PAIRS_OF in func.attributes:
        return CTAS_OF_PAIR
    return number_of(func, CLUSTER_BLOCKS) or func.kernel_spec.num_ctas or 1
