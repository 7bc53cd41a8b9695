"""How long an iteration of a loop of nv_tileas occupies the units of an SM: a static model for the choice of schedules.

    cost = loop_cost(loop, target, warps)
    cost.busy[Unit.TENSOR]            cycles of an iteration's dots
    cost.mii                          the minimum initiation interval: a unit's or a recurrence's

A function of the operations, their layouts and the target alone, for one CTA on an SM. An operation has *reservations*
(the cycles for which it occupies each unit) and a *latency* (cycles until a dependent operation can begin). Rates are
those of `targets.rates`, which `sim.estimate` uses as well to evaluate the resulting code.

The model does not include fusion into one instruction (an addition into an FMA, a conversion into a packed one),
addresses and masks: its figures compare schedules of one loop and are no times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tileiras.analysis.copied_loads import LOADS
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, FloatType, Operation, TensorType, Type, Value
from tileiras.layout.encoding import layout_of
from tileiras.resources.live_values import is_elementwise, register_tile, width_of
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import UNIVERSAL_FMA, Target, known_mma_atom

from .induction_variable import trip_count
from .resource_table import Resources, Unit, resources

WARP = 32
FIXED_LATENCY = 4.0
"""Cycles from an instruction of a fixed-latency pipe to one that reads its result: the stall counts that ptxas
writes."""

FUNCTIONS: dict[str, dict[Unit, float]] = {
    "math.exp2": {Unit.MUFU: 1},
    "math.exp": {Unit.MUFU: 1, Unit.FMA: 1},
    "math.log2": {Unit.MUFU: 1},
    "math.log": {Unit.MUFU: 1, Unit.FMA: 1},
    "math.rsqrt": {Unit.MUFU: 1},
    "math.sin": {Unit.MUFU: 1, Unit.FMA: 1},
    "math.cos": {Unit.MUFU: 1, Unit.FMA: 1},
    "math.tanh": {Unit.MUFU: 2, Unit.FMA: 6},
    "nv_tileas.sqrt": {Unit.MUFU: 1, Unit.FMA: 4},
    "nv_tileas.divf": {Unit.MUFU: 1, Unit.FMA: 6},
}
"""For f32 elements: instructions by pipe (PTX ISA, `.approx` forms; square root and division have a Newton step and its
correction)."""
_EXPONENTIALS = ("math.exp", "math.exp2")
_OTHER_FUNCTION = {Unit.MUFU: 1, Unit.FMA: 10}
"""For functions that are a series or several of the above."""
_F64_FUNCTION = 12
"""FP64 results that a function of f64 takes: a seed and Newton steps, or a polynomial."""
_CONVERSIONS = ("arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui", "nv_tileas.fp_to_fp")

_OPERANDS = {
    "f16": "f16", "bf16": "f16", "f32": "tf32", "tf32": "tf32", "f64": "f64", "i8": "i8", "f8E4M3FN": "f8",
    "f8E5M2": "f8", "f4E2M1FN": "f4",
}  # fmt: skip
"""Element type of a dot's operands -> its rate in the tables."""

Busy = Mapping[Unit, float]


class OperationCost(NamedTuple):
    """The cost of one operation on an SM, for all warps of its CTA."""

    busy: dict[Unit, float]
    """Unit -> cycles; units that it does not use are absent."""
    latency: float
    """Cycles from its first instruction until its whole result is available."""
    carried: float
    """The same between consecutive operations that only add to an accumulator: tensor cores of warpgroups and of tensor
    memory start the next dot when they have finished this one."""


class LoopCost(NamedTuple):
    """The cost of one iteration."""

    busy: dict[Unit, float]
    resource_mii: float
    """Cycles of the busiest unit other than DRAM; how much of the traffic L2 keeps from DRAM cannot be derived from a
    loop."""
    recurrence_mii: float
    """Cycles per iteration of the longest recurrence of loop-carried values."""
    bound: str
    """The unit of `resource_mii`, or `recurrence`."""

    @property
    def mii(self) -> float:
        """The minimum initiation interval in cycles: no schedule of the loop starts iterations faster."""
        return max(self.resource_mii, self.recurrence_mii)


def stages(latency: float, hold: float, interval: float) -> int:
    """Stages of a ring whose producer takes ``latency`` cycles to fill a stage and whose consumer holds it for
    ``hold``, with an iteration every ``interval`` cycles: the number filled or held at a time, and one to fill next; at
    least two."""
    return max(2, math.ceil((latency + hold) / interval) + 1)


def operation_cost(op: Operation, warps: int, table: Resources) -> OperationCost:
    """The cost of one operation without regions; zero for operations that become no significant instructions."""
    if isinstance(op, (*tileas.DOTS, tileas.AsyncDotOp)):
        return _dot(op, warps, table)
    if isinstance(op, LOADS) and isinstance(op.data.type, TensorType):
        return _copy(_bytes(op.data.type), table, global_memory=True, shared=0, latency="dram", warps=warps)
    if isinstance(op, (tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp)):
        return _copy(_bytes(op.buffer.type.tile), table, global_memory=True, shared=1, latency="dram", warps=warps)
    if isinstance(op, (tileas.BulkLoadOp, tileas.TmaLoadOp)):
        view = op.view.type if isinstance(op, tileas.BulkLoadOp) else op.desc.type.view
        return _copy(_bytes(view), table, global_memory=True, shared=1, latency="tma", warps=0)
    if isinstance(op, tileas.TmaStoreStageOp):
        return _copy(_bytes(op.desc.type.view), table, global_memory=True, shared=1, latency="tma", warps=0)
    if isinstance(op, (tileas.TiledStoreOp, tileas.StoreOp)):
        stored_type = op.operands[0 if isinstance(op, tileas.TiledStoreOp) else 1].type
        return _copy(_bytes(stored_type), table, global_memory=True, shared=0, latency="l2", warps=warps)
    if isinstance(op, tileas.ConvertLayoutOp):
        return _copy(_bytes(op.result.type), table, global_memory=False, shared=2, latency="shared", warps=warps)
    if isinstance(op, (tileas.CopyOp, tileas.StoreTensorOp)):
        return _copy(_bytes(op.buffer.type.tile), table, global_memory=False, shared=1, latency="shared", warps=warps)
    if isinstance(op, (tileas.ReduceOp, tileas.ScanOp)):
        return _reduction(op, warps, table)
    if is_elementwise(op):
        return _elementwise(op, warps, table)
    return OperationCost({}, 0.0, 0.0)


def loop_cost(loop: scf.ForOp, target: Target, warps: int) -> LoopCost | None:
    """The cost of one iteration of a loop for a CTA of `warps` warps.

    A nested loop counts as many times as it runs, and a branch as its longer side.  None where a nested loop has no
    known trip count.
    """
    table = resources(target)
    block = _block(loop.body.block, warps, table)
    if block is None:
        return None
    unit = max((each for each in block if each is not Unit.DRAM), key=lambda each: block[each], default=Unit.ISSUE)
    busiest = block.get(unit, 0.0)
    recurrence = _recurrence(loop, warps, table)
    return LoopCost(block, busiest, recurrence, "recurrence" if recurrence > busiest else unit.value)


# ---- operations --------------------------------------------------------------------------------------------------


def _elements(type: Type, warps: int) -> float:
    """Elements that threads compute: those of the layout, with replicated ones counted several times, otherwise of the
    tile."""
    if not isinstance(type, TensorType):
        return WARP * warps
    tile = layout_of(type).registers * WARP * warps if type.encoding is not None else 0
    return float(max(tile, _count(type.shape)))


def _count(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _bytes(type: Type) -> float:
    """Bytes of a tile or of the tiles of a view; a scalar counts as a sector of 32 bytes."""
    shape = getattr(type, "shape", None)
    return 32.0 if shape is None else _count(shape) * max(8, width_of(type)) / 8


def _cost(amounts: Busy, table: Resources, latency: float) -> OperationCost:
    """``amounts``: in the units' own measure; `TENSOR` in cycles."""
    busy = {unit: amount if unit is Unit.TENSOR else table.cycles(unit, amount)
            for unit, amount in amounts.items() if amount}  # fmt: skip
    total = max(busy.values(), default=0.0) + latency
    return OperationCost(busy, total, total)


def _elementwise(op: Operation, warps: int, table: Resources) -> OperationCost:
    type = op.results[0].type
    elements = _elements(type, warps)
    width = max(width_of(type), *(width_of(value.type) for value in op.operands)) if op.operands else width_of(type)
    element = type.element_type if isinstance(type, TensorType) else type
    floats = isinstance(element, FloatType)
    latency = FIXED_LATENCY
    if op.dialect == "math" or op.name in FUNCTIONS:
        each = {Unit.FP64: _F64_FUNCTION} if floats and width == 64 else FUNCTIONS.get(op.name, _OTHER_FUNCTION)
        latency = table.latency["mufu"]
    elif op.name in _CONVERSIONS:
        each = {Unit.FP64 if width == 64 else Unit.CONVERSION: 1}
        latency = table.latency["conversion"]
    elif floats and op.name not in ("arith.select", "arith.bitcast"):
        each = {Unit.FP64: 1} if width == 64 else {Unit.FMA: 0.5 if width == 16 else 1}
    else:
        each = {Unit.ALU: 2 if width == 64 else 1}
    amounts = {unit: count * elements for unit, count in each.items()}
    amounts[Unit.ISSUE] = sum(amounts.values()) / WARP
    if op.name in _EXPONENTIALS and Unit.MUFU in amounts:
        amounts[Unit.MUFU] *= table.exponential
    return _cost(amounts, table, latency)


def _reduction(op: Operation, warps: int, table: Resources) -> OperationCost:
    """Each element is combined once; threads then exchange partial results by shuffles, and warps through shared
    memory."""
    combined = sum(len(list(region.block.operations)) - 1 for region in op.regions) or 1
    elements = sum(_elements(value.type, warps) for value in op.operands)
    floats = isinstance(op.operands[0].type.element_type, FloatType)
    element_count = sum(_elements(value.type, warps) for value in op.results)
    exchanges = 5 * min(element_count, WARP * warps)
    amounts = {
        Unit.FMA if floats else Unit.ALU: combined * elements,
        Unit.ISSUE: (combined * elements + exchanges) / WARP,
        Unit.SHARED: 4.0 * element_count,
    }
    return _cost(amounts, table, 5 * table.latency["shuffle"] + table.latency["barrier"])


def _copy(size: float, table: Resources, global_memory: bool, shared: int, latency: str, warps: int) -> OperationCost:
    """``shared``: how often the bytes pass the shared memory port; ``warps``: 0 where no thread issues accesses."""
    amounts = {Unit.SHARED: size * shared, Unit.ISSUE: size / (16 * WARP) * max(1, shared) if warps else 1.0}
    if global_memory:
        amounts[Unit.L2] = amounts[Unit.DRAM] = size
    cycles = table.latency["l2"] + table.latency.get("tma", 0.0) if latency == "tma" else table.latency[latency]
    return _cost(amounts, table, cycles)


def _dot(op: Operation, warps: int, table: Resources) -> OperationCost:
    a: TensorType = op.a_tile if isinstance(op, tileas.AsyncDotOp) else op.a.type
    *batch, m, k = a.shape
    n = getattr(op.c.type, "tile", op.c.type).shape[-1]
    products = float(_count(batch)) * m * n * k
    name = op.atom.atom if op.atom is not None else UNIVERSAL_FMA
    atom = known_mma_atom(name)
    if atom is None and not isinstance(op, tileas.BlockScaledMmaOp):
        unit = Unit.FP64 if width_of(a) == 64 else Unit.FMA
        return _cost({unit: products, Unit.ISSUE: products / WARP}, table, FIXED_LATENCY)
    wide = atom is not None and atom.executor != "warp"
    operands = _OPERANDS.get(str(a.element_type), "f8")
    rows, columns, depth = (atom.cta_rows, *atom.shape[1:]) if atom is not None else (16, 8, 32)
    instructions = products / (rows * columns * depth) * (4 if wide else 1)  # one of a warpgroup is one of each warp
    if operands == "f64" and not table.has_tensor(operands, wide):
        # Chips for graphics have instructions of matrices of f64, which their few units of f64 execute.
        return _cost({Unit.FP64: products, Unit.ISSUE: instructions}, table, table.latency["mma_sync"])
    # Operand types without a documented peak rate are assumed to be no faster than f16.
    cycles = table.tensor_cycles(2 * products, operands if table.has_tensor(operands, wide) else "f16", wide)
    amounts: dict[Unit, float] = {Unit.TENSOR: cycles, Unit.ISSUE: instructions}
    if wide:
        # Every instruction reads its B, and A unless that is in registers (PTX ISA, wgmma.mma_async).
        tiles = products / (rows * columns * depth)
        operand_bytes = columns // atom.ctas * depth * width_of(a) / 8
        if register_tile(tileas.instruction_a(op)) is None:
            operand_bytes += rows * depth * width_of(a) / 8
        amounts[Unit.SHARED] = tiles * operand_bytes
    cost = _cost(amounts, table, table.latency["wgmma"] if wide and "wgmma" in table.latency
                  else table.latency["mma_sync"])  # fmt: skip
    return cost._replace(carried=cost.busy[Unit.TENSOR] if wide else cost.latency)


# ---- loops -------------------------------------------------------------------------------------------------------


def _block(block: Block, warps: int, table: Resources) -> dict[Unit, float] | None:
    total: dict[Unit, float] = {}
    for op in block.operations:
        nested = isinstance(op, (scf.ForOp, scf.IfOp, scf.WhileOp))
        busy = nested_cost(op, warps, table) if nested else operation_cost(op, warps, table).busy
        if busy is None:
            return None
        for unit, cycles in busy.items():
            total[unit] = total.get(unit, 0.0) + cycles
    return {unit: total[unit] for unit in Unit if unit in total}


def nested_cost(op: Operation, warps: int, table: Resources) -> dict[Unit, float] | None:
    """The cycles of the units for a whole loop, or for the longer side of a branch; None where a trip count is not
    known."""
    if isinstance(op, scf.ForOp):
        trips, inner = trip_count(op), _block(op.body.block, warps, table)
        return None if trips is None or inner is None else {unit: trips * each for unit, each in inner.items()}
    if not isinstance(op, scf.IfOp):
        return None
    sides = [_block(region.block, warps, table) for region in op.regions if region.blocks]
    costs = [side for side in sides if side is not None]
    longest = max(costs, key=lambda side: max(side.values(), default=0.0), default={})
    return longest if len(costs) == len(sides) else None


def _recurrence(loop: scf.ForOp, warps: int, table: Resources) -> float:
    """The largest mean latency per iteration along a cycle of loop-carried values.  Memory tokens order accesses and
    carry no result."""
    block = loop.body.block
    carried = block.arguments[1:]
    later = [
        {} if isinstance(argument.type, aa.MemTokenType) else _latencies(block, argument, warps, table)
        for argument in carried
    ]
    count = len(carried)
    best = 0.0
    # Walks of up to `count` steps from any value back to itself: few values are carried.
    for start in range(count):
        reach = {start: 0.0}
        for steps in range(1, count + 1):
            following: dict[int, float] = {}
            for source, cycles in reach.items():
                for target, latency in later[source].items():
                    following[target] = max(following.get(target, -1.0), cycles + latency)
            reach = following
            if start in reach:
                best = max(best, reach[start] / steps)
    return best


def _latencies(block: Block, argument: Value, warps: int, table: Resources) -> dict[int, float]:
    """For each yielded value that depends on `argument`, its number and the cycles by which it follows `argument` at
    the earliest."""
    ready: dict[Value, float] = {argument: 0.0}
    latencies: dict[int, float] = {}
    for op in block.operations:
        if isinstance(op, scf.YieldOp):
            latencies.update((number, ready[value]) for number, value in enumerate(op.operands) if value in ready)
            continue
        waits = [(ready[value], value) for value in op.operands if value in ready]
        if not waits or op.regions:
            continue  # values yielded by a nested loop or branch form recurrences of their own
        cost = operation_cost(op, warps, table)
        accumulates = isinstance(op, (*tileas.DOTS, tileas.AsyncDotOp))
        ends = [at + (cost.carried if accumulates and value is op.c else cost.latency) for at, value in waits]
        tokens = aa.MemTokenType
        ready.update((result, max(ends)) for result in op.results if not isinstance(result.type, tokens))
    return latencies
