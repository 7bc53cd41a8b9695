"""Registers of a thread that an operation of nv_tileas needs while it runs, beside its operands and results."""

from __future__ import annotations

from typing import Any

from tileiras.analysis.copied_loads import LOADS
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Operation, TensorType, Value
from tileiras.layout import LinearLayout
from tileiras.layout.arena import stored_bits
from tileiras.layout.convert import WarpShuffle, plan_conversion
from tileiras.layout.encoding import layout_of
from tileiras.layout.shared import SharedPlan
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import MMA_ATOMS, SCALED_MMA_ATOMS, known_mma_atom

from .live_values import LiveValues, depends_on_broadcast, fragment_words, is_elementwise, sums_of, width_of

Terms = dict[str, float]

MOST_ADDRESSES = 8
"""Maximum registers for the addresses of an access: each is computed from the one before and dead after its access."""

MOST_STEPS_AHEAD = 3
"""Steps along K whose fragments ptxas reads from shared memory before those of an earlier one are multiplied."""

STORES = (tileas.TiledStoreOp, tileas.StoreOp)


class Function(NamedTuple):
    """Registers that a function takes beside its operands and result: once, and for each element of a thread."""

    once: float
    each: float = 0


FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "math.exp": (Function(2), Function(4, 4)),
    "math.exp2": (Function(2), Function(4, 4)),
    "math.log": (Function(4), Function(10)),
    "math.log2": (Function(4), Function(10)),
    "math.rsqrt": (Function(2), Function(4)),
    "math.sin": (Function(12), Function(14, 11)),
    "math.cos": (Function(12, 0.7), Function(14, 11)),
    "math.tan": (Function(12), Function(16)),
    "math.sinh": (Function(5), Function(21)),
    "math.cosh": (Function(2), Function(2)),
    "math.tanh": (Function(5), Function(6)),
    "math.powf": (Function(5), Function(16, 2)),
    "math.fpowi": (Function(4), Function(8)),
    "math.atan2": (Function(6, 1.3), Function(13, 2)),
    "nv_tileas.sqrt": (Function(1), Function(9)),
    "nv_tileas.divf": (Function(3), Function(12)),
    "arith.remf": (Function(2), Function(9)),
    "arith.divsi": (Function(3, 1.5), Function(4)),
    "arith.divui": (Function(3, 1.5), Function(4)),
    "arith.remsi": (Function(3, 1.5), Function(4)),
    "arith.remui": (Function(3, 1.5), Function(4)),
    "arith.floordivsi": (Function(4, 1.5), Function(4)),
    "arith.ceildivsi": (Function(4, 1.5), Function(4)),
    "arith.ceildivui": (Function(4, 1.5), Function(4)),
}
"""Of elements of up to 32 bits and of 64.  Measured: `ptxas -v` (13.0, sm_90) of kernels that load 1, 2, 4, 8 and 16
elements a thread, apply the function and store them, less the same with an addition."""

SHARED_DIVISION = Function(7)
"""Of elements that share a divisor (`nv_tileas.shared_divisor`): its reciprocal and the three numbers by which the
range of all dividends is tested stay beside the registers of a division."""

NARROW_DIVISIONS = {16: Function(3), 8: Function(1)}
"""By the width in bits of integers, which are divided as floats."""


def own_terms(op: Any, values: LiveValues) -> Terms:
    """The terms of one operation, without those of its regions."""
    if isinstance(op, LOADS):
        return _access(op, op.data, "load", values) if isinstance(op.data.type, TensorType) else {}
    if isinstance(op, STORES):
        tile = op.operands[0] if isinstance(op, tileas.TiledStoreOp) else op.operands[1]
        return _access(op, tile, "store", values) if isinstance(tile.type, TensorType) else {"store": 1}
    if isinstance(op, tileas.AsyncTiledLoadOp):
        return _addresses(op, layout_of(op.buffer.type.tile.with_encoding(op.layout)), "copy")
    if isinstance(op, (tileas.AtomicRMWOp, tileas.AtomicCASOp, tileas.TiledAtomicRMWOp)):
        return _atomic(op)
    if isinstance(op, tileas.DOTS):
        return _dot(op)
    if op.name == names.ASYNC_DOT:
        return {"async_dot": 1, "fragments": sum(map(fragment_words, op.operands[:2])), "words": sums_of(op)}
    if isinstance(op, tileas.ReduceOp):
        return {"reduce": 1}
    if isinstance(op, tileas.ScanOp):
        return {"scan_words": sum(map(values.words, op.inputs))}
    if isinstance(op, tileas.ConvertLayoutOp):
        return _conversion(op, values)
    return _arithmetic(op, values)


def _access(op: Any, tile: Value, kind: str, values: LiveValues) -> Terms:
    if hasattr(op, "view"):
        return _addresses(op, layout_of(tile.type), kind)
    accesses = layout_of(tile.type).registers // op.atom.vector_size
    # Rows of a broadcast tile of pointers lie anywhere; between others the code knows distances.
    gathers = values.is_made_at_use(op.pointer) and depends_on_broadcast(op.pointer, values)
    return {kind: 1, f"{kind}_gathered" if gathers else f"{kind}_pointers": 2 * max(0, accesses - 1)}


def _addresses(op: Any, layout: LinearLayout, kind: str) -> Terms:
    """Rows along strides that are known when the kernel runs have addresses of their own, of two registers."""
    cut = op.view.defining_op
    memref = cut.source.defining_op if isinstance(cut, aa.BlockTileOp) else None
    if not isinstance(memref, aa.MakeMemRefOp):
        return {kind: 1}
    view = op.view.type
    strided = [d for d in range(len(view.shape)) if not isinstance(memref.stride(view.dim_map[d]), int)]
    places = (layout.coordinates(layout.apply(register=r)) for r in range(layout.registers))
    rows = len({tuple(place[d] for d in strided) for place in places})
    return {kind: 1, f"{kind}_rows": 2 * (rows - 1), f"{kind}_strides": len(strided)}


def _atomic(op: Any) -> Terms:
    if hasattr(op, "view"):
        return {"atomic": 1, "atomic_view": 1}
    updated = op.operands[0].type
    pointers = layout_of(updated).registers if isinstance(updated, TensorType) else 1
    return {"atomic": 1, "atomic_pointers": 2 * (pointers - 1)}


def _dot(op: Any) -> Terms:
    atom = known_mma_atom(op.atom.atom) or SCALED_MMA_ATOMS.get(op.atom.atom)
    depth = op.a.type.shape[-1]
    if atom is None:
        operands = sum(layout_of(v.type).registers for v in (op.a, op.b))
        return {"fma_operands": min(16, operands / depth)}
    step = max(fragment_words(v) * atom.shape[2] / depth for v in (op.a, op.b))
    steps = min(MOST_STEPS_AHEAD, depth // atom.shape[2] - 1)
    dot = {"dot": 1, "fragments": step, "fragments_ahead": step * steps, "words": sums_of(op)}
    if isinstance(op, tileas.BlockScaledMmaOp):
        dot["scales"] = 1
        if op.atom.atom in MMA_ATOMS:
            dot["run_sums"] = fragment_words(op.result)
    return dot


def _conversion(op: Any, values: LiveValues) -> Terms:
    type = op.result.type
    if width_of(type) == 1:
        return {}
    plan = plan_conversion(layout_of(op.operand.type), layout_of(type), stored_bits(type.element_type))
    if isinstance(plan, SharedPlan):
        return {"exchange_words": values.words(op.operand)}
    return {"shuffle": 1, "shuffle_words": values.words(op.operand)} if isinstance(plan, WarpShuffle) else {}


def _arithmetic(op: Operation, values: LiveValues) -> Terms:
    arithmetic: Terms = {}
    if is_elementwise(op):
        result = op.results[0]
        if values.is_made_at_use(result):
            return {}
        if values.has_own(result):
            tiles = sum(map(values.has_own, dict.fromkeys(op.operands)))
            # A result beside its only operand: vector accesses want both in consecutive registers.
            arithmetic["unary_words" if tiles <= 1 else "combined_words"] = values.words(result)
        elements = layout_of(result.type).registers
    elif op.name in FUNCTIONS and (values.term(op.results[0]) or ("",))[0] == "scalars":
        elements = 1
    else:
        return {}
    function = _function(op)
    if function is not None:
        arithmetic["function"] = function.once + function.each * elements
    return arithmetic


def _function(op: Any) -> Function | None:
    rounding = getattr(op, "rounding_mode", None)
    if op.name not in FUNCTIONS or "approx" in op.attributes or getattr(rounding, "value", None) == "approx":
        return None
    if tileas.SHARED_DIVISOR in op.attributes:
        return SHARED_DIVISION
    width = width_of(op.results[0].type)
    if op.dialect == "arith" and width in NARROW_DIVISIONS:
        return NARROW_DIVISIONS[width]
    return FUNCTIONS[op.name][width == 64]
