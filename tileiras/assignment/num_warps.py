"""The number of warps that execute a tile block, by default."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras import analysis, assignment
from tileiras.analysis.derivations import settle
from tileiras.analysis.function_pass import FunctionPass
from tileiras.diagnostics import DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import scf
from tileiras.dialects.arith import constant_integer
from tileiras.ir import Block, Operation, TensorType, Value, element_type_of
from tileiras.layout.memory import ACCESS_BITS
from tileiras.reasons import Reason
from tileiras.schedule.strategy import Strategy
from tileiras.targets import Target
from tileiras.targets.sm import WARP_SIZE, WARPGROUP

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext

# Elements of the largest tile that a thread should hold: enough for 16-byte accesses and some instruction-level
# parallelism, few enough that several tiles fit in registers.
ELEMENTS_PER_THREAD = 8

REDUCED_PER_THREAD = 16
"""The same where each iteration of a loop reduces its tile: threads exchange their parts of the sum or of the maximum
every time, and half as many exchange half as much. The places of the largest of 16384x4096 numbers, by tiles of 1024,
take 61.1 us on H200 and 43.2 on B200, instead of 71.2 and 61.1 with 8 elements; a softmax of them in two passes takes
122.4 on H200 instead of 125.9 (sim.estimate)."""

# An accumulator may take more registers, since it is the reason for the kernel.
ACCUMULATORS_PER_THREAD = 64

HELD_PER_THREAD = 256
"""Elements of accumulators of a loop that a thread has no registers for: twice as many warps have them then, unless
other CTAs need these registers.  The gradients of K and V by tiles of 128x64 scores and heads of 128 elements take 164
us on H200 with 8 warps, instead of 228 with 4 (16 heads of 2,048 positions, bf16); by tiles of 64x64, with 192
elements, 180 instead of 115, since an SM then has one CTA instead of two (sim.estimate)."""

# An operand waits in registers until all of it has gone to shared memory, unless a loop copies it there.
OPERANDS_PER_THREAD = 128

# Each gathered element has an address and a condition of its own.  Their arithmetic is hundreds of dependent
# instructions, whose latency one warp for each scheduler of an SM does not hide: a convolution of 128x32 gathered
# elements a step takes 22.6 us on H200 with 16, and 33.9 with 32 (sim.estimate).
GATHERED_PER_THREAD = 16

GATHERED_AT_ONCE = 48
"""The same without dots, of all loads of a block of operations, where neighbours that one access loads are one: their
addresses are computed before the first of them returns, three registers for each.  A sum of 14 tiles of 256 bf16 whose
rows are no multiples of a vector takes 3.7 us on B200 with 28 of a thread, 4.5 with 56 and 6.4 with 112, where ptxas
spills; 18 tiles of f32 take 6.9, 10.0 (72) and 14.3 (144).  A grid of 188,160 tile blocks takes 3 to 10 % more with 44
than with 88 (sim.estimate)."""

ACCUMULATORS_OF_TURN = 128
"""Registers of a thread for accumulators, at most, where each of two warpgroups computes tiles of its own: a thread
has 232 registers in all, beside the other warpgroup and one that loads and stores."""

EPILOGUE_OF_TURN = 4
"""Operations on each element of a tile after its dots, at least, where two warpgroups compute tiles of their own:
a multiplication of f16 matrices of 4096x512 and 512x4096, tiles of 128x128x64, with a bias and gelu takes 42.7 us on
H200 with two such agents, and 59.9 with one of eight warps; without bias and gelu, where L2 bounds both, 38.0 and 37.6
(sim.estimate)."""

MAX_WARPS = 8


ROWS_PER_THREAD = 128
"""Elements of a row of scores that a thread has for itself: four warps, of as many rows as tensor memory has lanes,
then exchange nothing for its maximum and its sum, and two CTAs of them fill the registers of an SM."""


class AssignNumWarps(FunctionPass):
    """The number of warps of a tile block, from the option or the kernel, else from its tiles and dots.

    With `strategy={loads=by-rule}`, in kernels to which a rule gives agents that load boxes through tensor maps, loops
    over tiles may have two computing agents (`tileas-ping-pong`), each with as many warps as a single one would have.
    """

    name = "tileas-assign-num-warps"
    of_nv_tileaa = True
    adds_operations = False
    needs = "whole tiles: functions that are not sliced yet"
    establishes = "`num_warps` in `kernel_spec`"
    keeps = "operations"

    num_warps: int = 0
    tensor_maps: str = "none"
    strategy: Strategy = Strategy()

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        in_turn = self.strategy.is_by_rule and self.tensor_maps == "host"
        assign_num_warps(func, self.num_warps, gpu, context.engine, in_turn)


def choose_num_warps(func: aa.FuncOp, target: Target, in_turn: bool = False) -> int:
    """A power of two from 1 to 8, from the tiles that the function loads, stores, reduces and multiplies.  `in_turn`:
    two agents that have this number of warps each may take alternate tiles.

    >>> choose_num_warps(vector_add_of_1024_elements, sm_90)   # doctest: +SKIP
    4
    """
    largest = accumulators = 1
    for op in func.walk():
        if isinstance(op, (aa.DotOp, aa.BlockScaledMmaOp)):
            accumulators = max(accumulators, prod(op.result.type.shape))
            continue
        for value in op.results:
            if isinstance(value.type, TensorType):
                largest = max(largest, prod(value.type.shape))
    if accumulators > 1:
        least = max(min(4, accumulators // 256), largest // (32 * OPERANDS_PER_THREAD))
        least = max(least, _gather(func) // (32 * GATHERED_PER_THREAD))
        num_warps = _warps(accumulators, ACCUMULATORS_PER_THREAD, least)
        if num_warps > WARPGROUP and (_threads_have_rows(func, target) or in_turn and _takes_turns(func, target)):
            return WARPGROUP
        is_alone = (func.kernel_spec.occupancy or 1) == 1
        if is_alone and _held_together(func) >= num_warps * WARP_SIZE * HELD_PER_THREAD:
            return min(MAX_WARPS, 2 * num_warps)
        return num_warps
    warps = _warps(largest, REDUCED_PER_THREAD if _is_reduced_in_loop(func, largest) else ELEMENTS_PER_THREAD)
    return max(warps, _up_to_warps(_gathered_at_once(func), GATHERED_AT_ONCE))


def _held_together(func: aa.FuncOp) -> int:
    """Elements of the accumulators that a loop holds at a time, at most.

    These are the ones that it carries, and results of dots that one operation on elements takes, as the gradient of
    scores takes the scores and the product of gradients.
    """
    loops: dict[Operation, list[Any]] = {}
    for op in func.walk():
        if isinstance(op, aa.DotOp) and (around := next(scf.loops_around(op), None)) is not None:
            loops.setdefault(around, []).append(op)
    return max((_held_in(loop, dots) for loop, dots in loops.items() if len(dots) > 1), default=0)


def _held_in(loop: Operation, dots: list[Any]) -> int:
    origins: dict[Value, frozenset[Operation]] = {}
    carried = {dot for dot in dots if loop in _origins(dot.c, origins)}
    others, together = set(dots) - carried, set(carried)
    for op in loop.walk():
        if not op.regions and not isinstance(op, aa.DotOp):
            tiles = [value for value in op.operands if _size(value) > 1]
            dots_of_op = {each for value in tiles for each in _origins(value, origins)} & others
            together |= dots_of_op if len(dots_of_op) > 1 else set()
    return sum(dot.result.type.num_elements for dot in together)


def _origins(value: Value, facts: dict[Value, frozenset[Operation]]) -> frozenset[Operation]:
    """The dots, and the loops that carry a tile, from which operations on its elements make a tile; `facts` keeps
    those of all tiles on the way."""

    def sources(tile: Value) -> list[Value]:
        op, size = tile.defining_op, _size(tile)
        if isinstance(op, scf.IfOp):
            number = op.results.index(tile)
            before = [region.block.last.operands[number] for region in op.regions]
        else:
            is_elementwise = op is not None and not isinstance(op, aa.DotOp) and _is_computed(op, size)
            before = op.operands if is_elementwise else []
        return [each for each in before if _size(each) == size]

    def origins(tile: Value, before: Sequence[Value]) -> frozenset[Operation]:
        op = tile.defining_op
        if op is None:
            return frozenset({tile.owner.parent_op})
        return frozenset({op}) if isinstance(op, aa.DotOp) else frozenset().union(*(facts[each] for each in before))

    return settle(value, facts, frozenset(), sources, origins)


def _size(value: Value) -> int:
    return value.type.num_elements if isinstance(value.type, TensorType) else 1


def _is_reduced_in_loop(func: aa.FuncOp, elements: int) -> bool:
    """Whether a loop reduces a tile with this number of elements in each iteration.  In loops over the tiles of a
    persistent kernel, whose grid does not grow with its arrays, more warps hide the latency of the loads instead."""
    for op in func.walk():
        if isinstance(op, aa.ReduceOp) and op.inputs[0].type.num_elements == elements:
            loops = list(scf.loops_around(op))
            if loops and all(isinstance(each, scf.ForOp) and constant_integer(each.step) is not None for each in loops):
                return True
    return False


def _gather(func: aa.FuncOp) -> int:
    """Elements of the largest tile that is loaded through pointers without known neighbours."""
    return max((op.data.type.num_elements for op, run in _runs_of_loads(func) if run == 1), default=0)


def _gathered_at_once(func: aa.FuncOp) -> int:
    """Runs of neighbours that the loads of one block of operations gather, at most: a run has one address."""
    by_block: dict[Block | None, int] = {}
    for op, run in _runs_of_loads(func):
        vector = max(1, ACCESS_BITS // max(8, element_type_of(op.data.type).width))
        by_block[op.parent] = by_block.get(op.parent, 0) + op.data.type.num_elements // min(run, vector)
    return max(by_block.values(), default=0)


def _runs_of_loads(func: aa.FuncOp) -> list[tuple[aa.LoadOp, int]]:
    """The loads of tiles through pointers, with the neighbours in memory that are known to lie in a run."""
    loads = [op for op in func.walk() if isinstance(op, aa.LoadOp) and isinstance(op.data.type, TensorType)]
    if not loads:
        return []
    facts = analysis.divisibility.DivisibilityAnalysis(func)
    return [(op, max(facts.contiguity(op.pointer), default=1)) for op in loads]


def _threads_have_rows(func: aa.FuncOp, target: Target) -> bool:
    """Whether each thread of four warps should have a whole row of a tile in tensor memory: if another CTA computes
    meanwhile, and dots are chained."""
    if (func.kernel_spec.occupancy or 1) == 1 or not target.has("tcgen05"):
        return False
    dots = [op for op in func.walk() if isinstance(op, aa.DotOp) and assignment.chained_dots.is_chained(op)]
    return bool(dots) and all(
        op.result.type.shape[-2] == tileiras.layout.tensor_memory.LANES and op.result.type.shape[-1] <= ROWS_PER_THREAD
        for op in dots
    )


def _takes_turns(func: aa.FuncOp, target: Target) -> bool:
    """Whether two warpgroups should take alternate tiles of a loop, so that the epilogue of one tile runs under the
    dots of the next one (`schedule/agents/rules/alternate_tiles.py`).

    So it is for a function with one dot, of tiles that are loaded as a whole, in a loop inside of another one, if
    a warpgroup has registers for its accumulators and the epilogue is long enough.
    """
    if not target.has("wgmma") or (func.kernel_spec.occupancy or 1) > 1:
        return False
    dots = [op for op in func.walk() if isinstance(op, (aa.DotOp, aa.BlockScaledMmaOp))]
    if len(dots) != 1 or not isinstance(dots[0], aa.DotOp):
        return False
    (dot,) = dots
    loops = list(scf.loops_around(dot))
    if len(loops) != 2 or not all(isinstance(loop, scf.ForOp) for loop in loops):
        return False
    epilogue = [op for op in loops[1].body.block.operations if _is_computed(op, dot.result.type.num_elements)]
    whole = all(isinstance(value.defining_op, aa.TiledLoadOp) for value in (dot.a, dot.b))
    words = dot.result.type.num_elements * dot.result.type.element_type.width // 32
    fits = words <= ACCUMULATORS_OF_TURN * WARPGROUP * WARP_SIZE
    return whole and fits and len(epilogue) >= EPILOGUE_OF_TURN


def _is_computed(op: Operation, elements: int) -> bool:
    """Whether an operation computes each element of a tile with this number of elements."""
    if op.regions or not op.operands or isinstance(op, _NOT_COMPUTED):
        return False
    types = [value.type for value in op.results]
    return any(isinstance(type, TensorType) and type.num_elements == elements for type in types)


_NOT_COMPUTED = (aa.TiledLoadOp, aa.LoadOp, aa.SplatOp, aa.BroadcastOp, aa.ViewOp)


def _warps(elements: int, per_thread: int, least: int = 1) -> int:
    warps = max(least, elements // (32 * per_thread))
    return min(MAX_WARPS, 1 << (warps.bit_length() - 1)) if warps > 1 else 1


def _up_to_warps(elements: int, per_thread: int) -> int:
    """The least number of warps that leaves a thread at most `per_thread` elements, up to MAX_WARPS."""
    return min(MAX_WARPS, 1 << (max(1, -(-elements // (WARP_SIZE * per_thread))) - 1).bit_length())


def assign_num_warps(
    func: aa.FuncOp, num_warps: int, target: Target, engine: DiagnosticEngine | None = None, in_turn: bool = False
) -> None:
    """Write the number of warps into `kernel_spec`: `num_warps` unless that is 0, the kernel's own, or the one chosen;
    `in_turn` as `choose_num_warps` has it."""
    spec = func.kernel_spec
    warps = num_warps or spec.num_warps or choose_num_warps(func, target, in_turn)
    if engine is not None and engine.remarks:
        cause = Reason(
            "kernel.warps-by-option" if num_warps else "kernel.warps-by-kernel" if spec.num_warps
            else "kernel.warps-by-tiles"
        )  # fmt: skip
        reason = Reason("kernel.launch", warps=warps, ctas=spec.num_ctas or 1, cause=cause)
        engine.emit(Remark(reason, func.location, function=func.sym_name.value))
    func.attributes["kernel_spec"] = spec.with_num_warps(warps)
