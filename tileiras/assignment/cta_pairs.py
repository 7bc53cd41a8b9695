"""Dots that two CTAs of a cluster execute together, each with half of B's columns in its shared memory.

    %b = tiled_load %v[%k, %j] : tensor<64x256xf16>          %b = tiled_load %v'[%k, 2 * %j + %r % 2] : ...<64x128xf16>
    %d = dot %a, %b, %c {tcgen05_m128n256k16...}        ->   %d = dot %a, %b, %c {tcgen05_m256n256k16..._pair}

`tileas-plan-cta` has given each CTA rows of its own, so that both would load, and keep, all of B.  All dots into tensor
memory of a function are of pairs, or none is: its instructions have one `.cta_group` (PTX ISA, "tcgen05").

Of a block-scaled dot each keeps the scales of its rows, and those of all columns.

The rule: operands and scales come in boxes of tensor maps, and loops over tiles have agents.  An mbarrier then counts
the bytes of both CTAs.  Copies by threads would need a barrier of the cluster in each iteration: by our estimate a
multiplication of f16 matrices of 4096, 256x256x64 with two CTAs, takes 173 us on B200 in that way, and 144 us where
each CTA multiplies by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tileiras.analysis.cluster_uniformity import ClusterUniformity
from tileiras.analysis.copied_loads import is_zero, operand_layout
from tileiras.analysis.derivations import erase_unused_sources
from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.analysis.dots_in_flight import accumulated_in_place
from tileiras.analysis.function_pass import FunctionPass, functions_of, gpu_of
from tileiras.analysis.tensor_map_rules import access_refusal, contiguous_dim
from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.diagnostics.remarks import Remark
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, integer
from tileiras.dialects.nv_tileas import ALONE, PAIRS_OF
from tileiras.ir import ArrayAttr, Builder, IntegerType, Operation, TensorType, Value, i32, i64
from tileiras.layout import LinearLayout
from tileiras.layout.accumulators import is_of_tensor_memory, reads_a_in_tensor_memory
from tileiras.layout.encoding import encode, layout_of
from tileiras.layout.matrix_descriptor import NoDescriptor, describe, matrix_layout
from tileiras.layout.tensor_box import tensor_boxes
from tileiras.layout.tensor_memory import HALF, LANES, accumulator_layout, fragment_layout
from tileiras.reasons import Argument, Reason
from tileiras.schedule.strategy import Strategy
from tileiras.targets import (
    MmaAtom,
    ScaledMmaAtom,
    Target,
    element_name,
    find_pair_atom,
    find_scaled_tensor_atom,
    product_types,
)

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext

PAIR = 2
"""CTAs of a pair; the rank of the first one is even (PTX ISA, "CTA Pair")."""


class _Refusal(Exception):
    """The reason for which a dot is not one of a pair."""

    def __init__(self, code: str, /, *, cause: Reason | None = None, **arguments: Argument) -> None:
        super().__init__(code)
        self.reason = Reason(code, cause=cause, **arguments)


class PairDots(FunctionPass):
    """Dots into tensor memory become dots of two CTAs of a cluster, where each CTA loads half of B.

    `tensor_maps` names the creator of tensor maps: without maps, no dot is paired.  Unless `strategy` allows warp
    specialization, dots in loops over tiles stay dots of one CTA.
    """

    name = "tileas-pair-dots"
    optional = True
    schedules = True
    requires = "DOT_ATOMS"
    needs = "an atom for every dot, work that `tileas-plan-cta` has divided among the CTAs of a cluster"
    establishes = "dots of pairs of CTAs, where all into tensor memory can be, and loads of half of their B"
    keeps = "other operations; of kernels that are launched for such dots only those that have them"

    tensor_maps: str = "none"
    strategy: Strategy = Strategy()

    def run(self, op: Operation, context: PassContext) -> None:
        gpu = gpu_of(self.compute_capability)
        if not gpu.has("tcgen05"):
            return
        for func in list(functions_of(op)):
            by_choice, alone = PAIRS_OF in func.attributes, func.attributes.pop(ALONE, None)
            if alone is not None and context.engine.remarks:
                try:
                    reason = Reason.parse(getattr(alone, "value", ""))
                except ValueError as error:  # text that was written by hand
                    raise CompileError.at(func.location, f"'{ALONE}' is no code with arguments: {error}") from None
                say_alone(func, reason, context.engine)
            if not by_choice and (func.kernel_spec.num_ctas or 1) == 1:
                continue
            agents = self.strategy.may_have_agents
            if not pair_dots(func, gpu, context.engine, self.tensor_maps, agents) and by_choice:
                func.erase()


def pair_dots(
    func: aa.FuncOp,
    target: Target,
    engine: DiagnosticEngine | None = None,
    tensor_maps: str = "none",
    agents: bool = False,
) -> bool:
    """Make the dots into tensor memory of a function of nv_tileas, which have their atoms, dots of pairs of CTAs, in
    place, and return whether they are; a remark reports it, or the reason.  `tensor_maps`: the component that makes
    tensor maps, "host", "device", "auto" or "none"; `agents`: whether warps may run programs of their own."""
    ranks: list[Any] = [op for op in func.walk() if isinstance(op, tileas.GetCtaRankOp)]
    dots: list[Any] = [op for op in func.walk() if is_of_tensor_memory(op)]
    if tileas.PAIRS_OF in func.attributes and dots:
        ranks = [Builder.at_start(func.body.blocks[0]).insert(tileas.GetCtaRankOp(result=i32))]
    elif not ranks or not dots or func.kernel_spec.num_ctas % PAIR:
        return False
    uniformity, facts = ClusterUniformity(func), DivisibilityAnalysis(func)
    try:
        for dot in dots:
            _check_operands(dot, dots, target)
            _check_ranks(dot, uniformity)
            _check_boxes(dot, facts, tensor_maps, agents)
    except _Refusal as error:
        if engine is not None and tileas.PAIRS_OF in func.attributes:
            _say(dot, error.reason, func.attributes[tileas.PAIRS_OF].value, engine)  # type: ignore[attr-defined]
        elif engine is not None:
            engine.emit(Remark(Reason("pairs.cta-alone", cause=error.reason), dot.location))
        return False
    behind = Builder.after(ranks[0])
    behind.location = ranks[0].location
    half = binary(behind, arith.AndIOp, ranks[0].results[0], integer(behind, PAIR - 1))
    half = behind.insert(tileas.AssumeOp(half, predicate=aa.BoundedAttr(0, PAIR - 1), result=i32)).results[0]
    halves: dict[Value, Value] = {}
    for dot in dots:
        if engine is not None:
            engine.emit(Remark(Reason("pairs.together"), dot.location))
        _join(dot, half, halves, target)
    return True


def say_alone(func: aa.FuncOp, reason: Reason, engine: DiagnosticEngine) -> None:
    """Emit a remark with the reason why tile blocks of a function do not multiply in pairs, if its dots, which have
    their atoms, are into tensor memory."""
    dot = next(filter(is_of_tensor_memory, func.walk()), None)
    if dot is not None:
        _say(dot, reason, func.sym_name.value, engine)


def _say(dot: Operation, reason: Reason, function: str, engine: DiagnosticEngine) -> None:
    engine.emit(Remark(Reason("pairs.blocks-alone", cause=reason), dot.location, function=function))


# ---- conditions ------------------------------------------------------------------------------------------------------


def _check_operands(dot: Any, dots: list[Any], target: Target) -> None:
    m, n = dot.c.type.shape
    scaled = isinstance(dot, tileas.BlockScaledMmaOp)
    if dot.exchanged is not None or not scaled and m % LANES and m != HALF:
        least = str(LANES) if scaled else f"{HALF} or {LANES}"
        raise _Refusal("pairs.rows", least=least, rows=m)
    if m == HALF and any(isinstance(user, tileas.ExtractSliceOp) for user in _uses_of(dot)):
        raise _Refusal("pairs.accumulator-in-slices")
    if reads_a_in_tensor_memory(dot):
        raise _Refusal("pairs.a-in-tensor-memory")
    if _atom_of(dot, target) is None:
        raise _Refusal("pairs.columns", columns=n)
    if any(user not in dots or dot.b in (user.a, user.c) for user in dot.b.users):
        raise _Refusal("pairs.b-used-elsewhere")
    _half_layout(dot)


def _atom_of(dot: Any, target: Target) -> MmaAtom | ScaledMmaAtom | None:
    """The instruction of a pair for a dot; None if absent."""
    rows, columns = dot.c.type.shape
    if isinstance(dot, tileas.BlockScaledMmaOp):
        types = [element_name(value.type.element_type) for value in (dot.a, dot.b, dot.scale_a)]
        return find_scaled_tensor_atom(target, *types, dot.block, PAIR * LANES, columns, pair=True)
    return find_pair_atom(target, *product_types(dot), min(rows, LANES), columns)


def _check_boxes(dot: Any, facts: DivisibilityAnalysis, tensor_maps: str, agents: bool) -> None:
    """Raise _Refusal unless the operands of a dot come in boxes of tensor maps."""
    loop = dot.parent_op
    if not isinstance(loop, scf.ForOp):
        raise _Refusal("pairs.no-loop")
    if not isinstance(loop.parent_op, aa.FuncOp):
        _check_loop_over_tiles(dot, loop, agents)
    if tensor_maps == "none":
        raise _Refusal("pairs.no-maps")
    for name, value in (("A", dot.a), ("B", dot.b)):
        load = _load_of(value)
        refusal = Reason("pairs.computed") if load is None else access_refusal(load, facts, tensor_maps == "host")
        if refusal:
            raise _Refusal("pairs.operand-not-in-boxes", operand=name, cause=refusal)
    if isinstance(dot, tileas.BlockScaledMmaOp):
        encodings = dot.operand_layouts.elements[3:]
        for name, value, encoding in zip("AB", (dot.scale_a, dot.scale_b), encodings):
            layout = layout_of(value.type.with_encoding(encoding))
            refusal = _scales_refusal(value, layout, facts, tensor_maps)
            if refusal:
                raise _Refusal("pairs.scales-not-in-boxes", operand=name, cause=refusal)


def _scales_refusal(value: Value, layout: LinearLayout, facts: DivisibilityAnalysis, tensor_maps: str) -> Reason | None:
    """The reason why scales with a layout in shared memory are not copied there in boxes, or None."""
    op: Any = value.defining_op
    while isinstance(op, (tileas.ViewOp, tileas.PermuteOp)):
        layout, op = operand_layout(op, layout), op.operand.defining_op
    if not isinstance(op, tileas.TiledLoadOp):
        return Reason("pairs.computed")
    refusal = access_refusal(op, facts, tensor_maps == "host")
    inner = contiguous_dim(op.view.type)
    if not refusal and (inner is None or tensor_boxes(layout, inner, value.type.element_type.width) is None):
        refusal = Reason("pairs.scales-in-other-order")
    return refusal


def _check_loop_over_tiles(dot: Any, loop: scf.ForOp, agents: bool) -> None:
    """Raise _Refusal unless an agent could multiply in a loop nested in another one: only its pipes signal one CTA
    that the other's threads have loaded the previous accumulator."""
    if not agents:
        raise _Refusal("pairs.nested-loop")
    place = next((n for n, dots in accumulated_in_place(loop).items() if dot in dots), None)
    if place is None or not is_zero(loop.init_args[place]) or not any(True for _ in scf.loops_around(loop)):
        raise _Refusal("pairs.no-agent-multiplies")
    for op in loop.body.block.operations:
        is_tile_op = isinstance(op, (tileas.TiledLoadOp, *tileas.VIEW_LIKE, *tileas.DOTS))
        if not is_tile_op and any(isinstance(result.type, TensorType) for result in op.results):
            raise _Refusal("pairs.threads-in-loop")


def _check_ranks(dot: Any, uniformity: ClusterUniformity) -> None:
    """Raise _Refusal unless both CTAs execute a dot with the same B."""
    if not uniformity.is_reached_together(dot):
        raise _Refusal("pairs.reached-alone")
    if not uniformity.is_common(dot.b):
        raise _Refusal("pairs.different-b")
    if isinstance(dot, tileas.BlockScaledMmaOp) and not uniformity.is_common(dot.scale_b):
        raise _Refusal("pairs.different-scales")


def _load_of(value: Value) -> tileas.TiledLoadOp | None:
    """The load that gives a tile, perhaps under another shape."""
    op = value.defining_op
    while isinstance(op, (tileas.PermuteOp, tileas.UnpackOp)) and op.operand.has_one_use:
        op = op.operand.defining_op
    return op if isinstance(op, tileas.TiledLoadOp) else None


def _half_layout(dot: Any) -> LinearLayout:
    """How half of B lies in shared memory."""
    whole = dot.b.type
    bits = whole.element_type.width
    result = describe(layout_of(whole.with_encoding(dot.operand_layouts.elements[1])), 0, bits)
    assert result is not None, "the plan of a dot into tensor memory"
    depth, columns = whole.shape
    try:
        return matrix_layout((depth, columns // PAIR), 0, bits, result.major)
    except NoDescriptor as error:
        raise _Refusal("pairs.descriptor", cause=error.reason) from None


# ---- the dots of pairs -----------------------------------------------------------------------------------------------


def _join(dot: Any, half: Value, halves: dict[Value, Value], target: Target) -> None:
    atom = _atom_of(dot, target)
    assert atom is not None, "looked for before"
    a, _, c, *scales = dot.operand_layouts.elements
    if dot.c.type.shape[0] == HALF:
        c = encode(_fragment_of_halves(dot))
    attributes = dict(dot.attributes)
    attributes["operand_layouts"] = ArrayAttr((a, encode(_half_layout(dot)), c, *scales))
    attributes["atom"] = tileas.MmaAtomAttr(atom.name)
    b = _cut(dot.b, 1, half, halves)
    operands = [b if value is dot.b else value for value in dot.operands]
    new = type(dot).create(operands, (dot.result.type,), attributes, location=dot.location)
    dot.parent.insert_before(new, dot)
    dot.replace_all_uses_with(new.results)
    whole = dot.b
    dot.erase()
    erase_unused_sources(whole, _release)


def _fragment_of_halves(dot: Any) -> LinearLayout:
    """The fragments of an accumulator of 64 rows of each CTA."""
    type = dot.c.type
    warps = layout_of(type.with_encoding(dot.operand_layouts.elements[2])).warps
    layout = accumulator_layout(type.shape, HALF, of_pair=True)
    fragment = fragment_layout(layout, warps, type.element_type.width)
    assert fragment is not None, "half as many columns, and as many warps"
    return fragment


def _uses_of(dot: Any) -> Iterator[Operation]:
    """The users of the accumulator of a dot, in its loop or after it."""
    for user in dot.result.users:
        loop = user.parent_op
        if isinstance(user, scf.YieldOp) and isinstance(loop, scf.ForOp):
            yield from loop.results[user.operands.index(dot.result)].users
        yield user


def _cut(value: Value, dim: int, half: Value, halves: dict[Value, Value]) -> Value:
    """Half of a tile along a dimension, loaded where the whole tile was."""
    if value in halves:
        return halves[value]
    op: Any = value.defining_op
    builder = Builder.before(op)
    builder.location = op.location
    if isinstance(op, tileas.TiledLoadOp):
        entry = _load(op, dim, half, builder)
        op.result_token.replace_all_uses_with(entry.result_token)
    elif isinstance(op, tileas.UnpackOp):
        operand = _cut(op.operand, dim, half, halves)
        entry = builder.insert(tileas.UnpackOp(operand, dim=op.dim, result=_halve(value.type, dim)))
    else:
        operand = _cut(op.operand, op.permutation.elements[dim], half, halves)
        entry = tileas.PermuteOp.create((operand,), (_halve(value.type, dim),), dict(op.attributes))
        builder.insert(entry)
    result = halves[value] = entry.results[0]
    return result


def _load(load: Any, dim: int, half: Value, builder: Builder) -> Any:
    """The load of half of its tile."""
    cut = load.view.type.cut(dim, PAIR)
    beside = Builder.after(load.view.defining_op)
    beside.location = load.view.defining_op.location
    tiling = beside.insert(tileas.BlockTileOp(load.view.defining_op.source, result=cut.type)).results[0]
    coords = list(load.coords)
    first = binary(builder, arith.MulIOp, _wide(coords[dim], builder), integer(builder, cut.steps_of_tile, i64))
    offset = _wide(half, builder)
    if cut.steps_of_slice != 1:
        offset = binary(builder, arith.MulIOp, offset, integer(builder, cut.steps_of_slice, i64))
    coords[dim] = binary(builder, arith.AddIOp, first, offset)
    types = [_halve(load.data.type, dim), load.result_token.type]
    tokens = [] if load.token is None else [load.token]
    return builder.insert(tileas.TiledLoadOp.create((tiling, *coords, *tokens), types, dict(load.attributes)))


def _halve(type: TensorType, dim: int) -> TensorType:
    shape = list(type.shape)
    shape[dim] //= PAIR
    return TensorType(tuple(shape), type.element_type)


def _wide(value: Value, builder: Builder) -> Value:
    """Extend to 64 bits, since there are more halves of tiles than tiles."""
    if isinstance(value.type, IntegerType) and value.type.width < 64:
        return builder.insert(arith.ExtSIOp(value, result=i64)).results[0]
    return value


def _release(op: Operation) -> list[Value]:
    """The tile that a tile is made of; none for a load."""
    return [] if isinstance(op, tileas.TiledLoadOp) else op.operands[:1]
