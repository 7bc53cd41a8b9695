"""Layout assignment: which layout every tensor of a function has.

Memory operations and dots are anchors (see `anchors`).  From there layouts flow forward: an element-wise result takes
the layout of its first anchored operand, a view, permutation or reduction transforms its operand's.  Values that depend
on no anchor (constants, ranges, splats, broadcasts and arithmetic on these) are *rematerializable*: they have no layout
of their own and are computed in any layout that a user requires, which is cheaper than moving data.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, Callable

import tileiras
from tileiras.analysis.alias import data_of
from tileiras.analysis.derivations import settle
from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Block, BlockArgument, FloatType, Operation, TensorType, Value
from tileiras.ir.pass_manager import PassContext
from tileiras.layout import LinearLayout
from tileiras.layout.accumulators import accumulator_of
from tileiras.layout.encoding import constant_part, layout_of
from tileiras.layout.reduce import mixes_axes, plan_reduction
from tileiras.layout.scan import is_scannable, scan_layout
from tileiras.targets import mma_atom

from .anchors import MEMORY_OPS, PACKED_ELEMENTS, MemoryLayouts
from .chained_dots import comes_from_dot, is_element_wise
from .repeated_functions import LONG_FUNCTIONS, comes_from_function, spread_for

_MAKERS = (aa.SplatOp, aa.MakeRangeOp)
_WITH_RULES = (*MEMORY_OPS, aa.BroadcastOp, *_MAKERS)
"""Operations, beside those of the table `_rules`, that are not element-wise."""
_Beside = Callable[[Operation], LinearLayout | None]


_MOVED = (tileas.ViewOp, tileas.PermuteOp, tileas.ReduceOp, tileas.ScanOp, tileas.ExtractSliceOp)
"""Operations whose results have layouts computed from that of the first operand."""


class LayoutAssignment:
    """`layout(value)` of tensors without an encoding; None for rematerializable ones.  Decided on demand and kept."""

    def __init__(self, memory: MemoryLayouts) -> None:
        self.memory = memory
        self._known: dict[Value, LinearLayout | None] = {}
        self._asking: set[Value] = set()
        self._open: set[Value] = set()
        """Values that have no layout as far as the current values are not decided."""
        self._met_itself = False
        self._rules: dict[type[Operation], Callable[[Any, Any], LinearLayout | None]] = {
            tileas.DotOp: lambda op, result: operand_layouts(op)[2],
            tileas.BlockScaledMmaOp: lambda op, result: operand_layouts(op)[2],
            tileas.ReduceOp: lambda op, result: plan_reduction(self.input_layout(op), op.dim.value).result,
            tileas.ScanOp: lambda op, result: self.input_layout(op),
            tileas.ViewOp: lambda op, result: _then(self.layout(op.operand), lambda x: x.reshape(result.type.shape)),
            tileas.PermuteOp: lambda op, result: _then(
                self.layout(op.operand), lambda x: x.permute(op.permutation.elements)
            ),
            tileas.UnpackOp: lambda op, result: None,
            tileas.CatOp: lambda op, result: self.cat_layout(op).doubled(op.dim.value),
            tileas.ExtractSliceOp: lambda op, result: (
                slice_of_accumulator(op) or self._part(op) or self.memory.default(result.type.shape)
            ),
            tileas.InsertSliceOp: lambda op, result: self.concrete(op.dest),
            **dict.fromkeys((scf.ForOp, scf.IfOp, scf.WhileOp), lambda op, result: self._of_sources(result)),
        }

    @classmethod
    def of(cls, func: aa.FuncOp, context: PassContext) -> LayoutAssignment:
        """The assignment of a function of nv_tileas whose dots have their layouts."""

        def make() -> LayoutAssignment:
            facts, warps = DivisibilityAnalysis(func), func.kernel_spec.num_warps
            result = cls(MemoryLayouts(func, facts, warps, context.engine.remarks))
            result._settle(func.body.block)
            return result

        return context.analysis(cls, func, make)

    def _settle(self, block: Block) -> None:
        """Decide in the order of the program: where values depend on each other around a loop, the first one that is
        asked for decides for the others."""
        for op in block.operations:
            regions = [region.block for region in op.regions if region.blocks]
            results = list(op.results) or list(op.operands)
            if isinstance(op, scf.WhileOp):
                # The values that the second region yields go to the first one, whose arguments are decided here.
                results = [*op.before.block.arguments, *op.after.block.arguments, *op.results]
                regions.reverse()
            elif isinstance(op, (tileas.ReduceOp, tileas.ScanOp)):
                results = [op.inputs[0], *op.results]
            for value in results:
                if isinstance(value.type, TensorType):
                    self.layout(value)
            for inner in regions:
                self._settle(inner)

    def layout(self, value: Value) -> LinearLayout | None:
        """The layout of a value; None if it is rematerializable, or not known on the way round a loop."""
        # Chains of operations are as long as the kernel: a stack of their own, not Python's.
        stack: list[tuple[Value, bool, Iterator[Value]]] = []
        current = value
        while True:
            result = self._known.get(current)
            # A loop-carried value that depends on itself has no layout yet.
            if current in self._asking or current in self._open:
                self._met_itself = True
            elif result is None and current not in self._known:
                outer, self._met_itself = self._met_itself, False
                self._asking.add(current)
                tiles = self._deciding(current)
                if tiles is not None:
                    stack.append((current, outer, tiles))
                else:
                    result = self._decided(current, outer, self._decide(current))
            while stack:
                above, outer, tiles = stack[-1]
                following = next(tiles, None) if result is None else None
                if following is not None:
                    current = following
                    break
                stack.pop()
                result = self._decided(above, outer, self._following(above, result))
            else:
                return result

    def _decided(self, value: Value, outer: bool, result: LinearLayout | None) -> LinearLayout | None:
        """Record the layout of a value, and return it."""
        self._asking.discard(value)
        if result is None and not self._asking and _is_carried(value):
            result = self.memory.default(value.type.shape)
        # "Rematerializable" found on the way round a loop is not final: the loop-carried value may yet get a layout.
        if result is not None or not self._met_itself or not self._asking:
            self._known[value] = result
        else:
            self._open.add(value)
        if result is not None or not self._asking:
            self._open.clear()
        self._met_itself = (self._met_itself or outer) and bool(self._asking)
        return result

    def _deciding(self, value: Any) -> Iterator[Value] | None:
        """The tiles whose layouts are known before that of a value, in this order, up to the first with a layout; None
        for the result of an operation that does not read layouts."""
        sources = _sources(value)
        return iter(sources) if sources else self._tiles_of_element_wise(value.defining_op)

    def _following(self, value: Value, first: LinearLayout | None) -> LinearLayout | None:
        """The layout of a value from those of its tiles: of an element-wise result, the first."""
        if self._tiles_of_element_wise(value.defining_op) is None:
            return self._decide(value)
        return first or self._of_function(value)

    def _tiles_of_element_wise(self, op: Operation | None) -> Iterator[Value] | None:
        """The tile operands of an element-wise operation; None for other operations."""
        if op is None or isinstance(op, _WITH_RULES) or type(op) in self._rules:
            return None
        return (operand for operand in op.operands if isinstance(operand.type, TensorType))

    def concrete(self, value: Value) -> LinearLayout:
        """The layout of a value that must have one even when it is rematerializable."""
        return self.layout(value) or self.memory.default(value.type.shape)

    def input_layout(self, op: tileas.ReduceOp | tileas.ScanOp) -> LinearLayout:
        """The layout in which a reduce or scan reads its inputs."""
        first = op.inputs[0]
        current = self.concrete(first)
        if isinstance(op, aa.ScanOp):
            axis = op.dim.value
            return current if is_scannable(current, axis) else scan_layout(first.type.shape, axis, current.warps)
        # A basis that moves along the reduced dimension and another at once cannot be reduced bit by bit.
        return self.memory.default(first.type.shape) if mixes_axes(current, op.dim.value) else current

    def cat_layout(self, op: tileas.CatOp) -> LinearLayout:
        """The layout in which a concatenation reads both of its operands."""
        return self._first(_sources(op.result), op.lhs.type.shape) or self.memory.default(op.lhs.type.shape)

    def _decide(self, value: Value) -> LinearLayout | None:
        """The layout of a value that is not the result of an element-wise operation."""
        if isinstance(value, BlockArgument):
            return self._of_sources(value)
        op = value.defining_op
        assert op is not None
        if isinstance(op, MEMORY_OPS):
            return access_layout(op) or self.read_layout(op)
        if isinstance(op, aa.BroadcastOp):
            return self._spread(op)
        if isinstance(op, _MAKERS):
            return None
        return self._rules[type(op)](op, value)

    def _part(self, op: tileas.ExtractSliceOp) -> LinearLayout | None:
        """The layout of a part of a tile where each thread has its share of it, so that nothing moves."""
        if constant_part(op) is None:
            return None
        return _then(self.layout(op.source), lambda x: x.part(op.result.type.shape))

    def _of_function(self, value: Value) -> LinearLayout | None:
        """The layout in which a function of many instructions is computed, if lanes repeat each other's elements where
        its result is broadcast."""
        op = value.defining_op
        if not isinstance(op, LONG_FUNCTIONS):
            return None
        return spread_for(op, self._broadcast_layouts(op.results[0], self._beside_tiles))

    def _spread(self, op: aa.BroadcastOp) -> LinearLayout | None:
        """The layout of words that are broadcast to the elements packed in them: further registers.  None for other
        broadcasts, whose operands are cheaper to move."""
        words, result = op.operand.type, op.result.type
        if not self._is_packed(op):
            return None
        spread = self.layout(op.operand)
        if spread is None or any(0 in spread.bases(dim) for dim in ("lane", "warp")):
            return None
        for axis, (size, whole) in enumerate(zip(words.shape, result.shape)):
            for _ in range((whole // size).bit_length() - 1):
                spread = spread.doubled(axis)
        return spread

    def _of_sources(self, value: Value) -> LinearLayout | None:
        """The layout of an argument, or of a result of control flow."""
        sources, shape = _sources(value), value.type.shape
        return self._first(sources, shape) if sources else self.memory.default(shape)

    def _first(self, values: list[Value], shape: tuple[int, ...]) -> LinearLayout | None:
        """The first layout that one of the values has, the default one if all are rematerializable; None while that is
        not known, on the way round a loop."""
        for value in values:
            layout = self.layout(value)
            if layout is not None:
                return layout
        return None if self._met_itself else self.memory.default(shape)

    # ---- loads and stores --------------------------------------------------------------------------------------------

    def read_layout(self, op: Operation) -> LinearLayout:
        """Where a memory operation leaves its data: as the accesses of a warp fill sectors, or, where that is broadcast
        to results of dots and would go to its threads through shared memory, in these threads at once."""
        anchor = self.memory.layout(op)
        addresses = [each for each in op.operands if isinstance(each.type, TensorType)]
        if not isinstance(op, (aa.TiledLoadOp, aa.LoadOp)) or any(self.layout(each) is not None for each in addresses):
            return anchor
        layouts = self._broadcast_layouts(op.data, functools.partial(self._beside_dots, cache={}))
        direct = next(iter(layouts)) if len(layouts) == 1 else None
        if direct is None:
            return anchor
        bits = self.memory.accesses[op].element_bits
        plan = tileiras.layout.convert.plan_conversion(anchor, direct, bits)
        if not isinstance(plan, tileiras.layout.shared.SharedPlan):
            return anchor
        of_anchor, of_direct = (each.registers // self.memory.vector_size(op, each) for each in (anchor, direct))
        more = (of_direct - of_anchor) * (1 + tileiras.layout.shared.INSTRUCTION_COST)
        return direct if more < plan.cost(bits) else anchor

    def _broadcast_layouts(self, value: Value, beside: _Beside) -> frozenset[LinearLayout | None]:
        """The layouts in which a tile is broadcast to those `beside` which it is used; None for another use of it."""
        facts: dict[Value, frozenset[LinearLayout | None]] = {}

        def of_users(tile: Value, renamed: Sequence[Value]) -> frozenset[LinearLayout | None]:
            layouts: set[LinearLayout | None] = set()
            for user in tile.users:
                if isinstance(user, aa.ViewOp):
                    layouts |= {_then(layout, lambda x: x.reshape(tile.type.shape)) for layout in facts[user.result]}
                elif isinstance(user, aa.BroadcastOp) and not self._is_packed(user):
                    inner = (beside(each) for each in user.result.users)
                    layouts |= {_then(layout, lambda x: x.shrink(tile.type.shape)) for layout in inner}
                else:
                    layouts |= facts[user.results[0]] if _is_renamed_by(user) else {None}
            return frozenset(layouts)

        def renamed(tile: Value) -> list[Value]:
            return [user.results[0] for user in tile.users if _is_renamed_by(user)]

        return settle(value, facts, frozenset(), renamed, of_users)

    def _beside_dots(self, user: Operation, cache: dict[Operation, LinearLayout | None]) -> LinearLayout | None:
        """The layout in which an operation reads a tile without a layout of its own beside one that is computed from
        the result of a dot; None for other operations.  `cache` has those of the operations that were visited: a tile
        has several users, which share users again."""
        if not is_element_wise(user):
            return None

        def following(op: Operation) -> list[Operation]:
            result = op.results[0]
            return [] if comes_from_dot(result) else [each for each in result.users if is_element_wise(each)]

        def of(op: Operation, users: Sequence[Operation]) -> LinearLayout | None:
            result = op.results[0]
            if comes_from_dot(result):
                return self.layout(result)
            layouts = {cache[each] if is_element_wise(each) else None for each in result.users}
            return layouts.pop() if len(layouts) == 1 else None

        return settle(user, cache, None, following, of)

    def _beside_tiles(self, user: Operation) -> LinearLayout | None:
        """The layout in which an element-wise operation reads a rematerialized tile: that of its result."""
        return self.layout(user.results[0]) if is_element_wise(user) else None

    @staticmethod
    def _is_packed(op: aa.BroadcastOp) -> bool:
        """Whether words are broadcast to the elements packed in them.  Floats beside dots are no words: factors of a
        few rows or matrices go to the threads of these."""
        words, result = op.operand.type, op.result.type
        if not words.num_elements < result.num_elements <= PACKED_ELEMENTS * words.num_elements:
            return False
        is_factor = isinstance(words.element_type, FloatType) and _is_beside_dot(op.result)
        return not is_factor and not comes_from_function(op.operand)

    def store_layout(self, op: Operation) -> LinearLayout:
        """Where the data of a store should be: as it is, unless rearranging it first saves much traffic."""
        anchor = self.memory.layout(op)
        current = self.layout(data_of(op))
        if current is None or current == anchor:
            return anchor
        access = self.memory.accesses[op]
        tile_bytes = data_of(op).type.num_elements * access.element_bits // 8
        # A trip through shared memory costs two barriers and a store and a load of every element; it pays once it
        # halves the traffic of a tile that is not small.
        wasteful = self.memory.sectors(op, current) >= 2 * self.memory.sectors(op, anchor)
        return anchor if wasteful and tile_bytes >= SMALL_TILE_BYTES else current


SMALL_TILE_BYTES = 4096


def operand_layouts(op: tileas.Dot) -> list[LinearLayout]:
    """The layouts in which a dot takes its operands, the accumulator's being that of the result."""
    return [layout_of(v.type.with_encoding(each)) for v, each in zip(op.operands, op.operand_layouts)]


def slice_of_accumulator(op: tileas.ExtractSliceOp) -> LinearLayout | None:
    """The layout in which threads load a slice of an accumulator in tensor memory; None for slices of other tiles."""
    dot = accumulator_of(op.source)
    if dot is None:
        return None
    shapes, whole = (op.source.type.shape, op.result.type.shape), operand_layouts(dot)[2]
    rows, bits = mma_atom(dot.atom.atom).cta_rows, op.result.type.element_type.width
    exchanged = getattr(dot, "exchanged", None) is not None
    halves = (
        tileiras.layout.tensor_memory.access_of(
            tileiras.layout.tensor_memory.accumulator_layout(dot.c.type.shape, rows, exchanged), whole, bits
        )
        == tileiras.layout.tensor_memory.HALVES
    )
    return tileiras.layout.tensor_memory.slice_fragment(*shapes, rows, exchanged, whole.warps, bits, halves)


def access_layout(op: tileas.Access) -> LinearLayout | None:
    """The layout in which an access moves its tile; None where that is not chosen yet, or it moves a scalar."""
    return None if op.layout is None else layout_of(data_of(op).type.with_encoding(op.layout))


def _is_carried(value: Value) -> bool:
    """Whether control flow passes the value on, so that it has to have one layout."""
    return isinstance(value, BlockArgument) or isinstance(value.defining_op, (scf.ForOp, scf.IfOp, scf.WhileOp))


def _sources(value: Any) -> list[Value]:
    """The values that an argument of a loop or a result of control flow takes, and those from whose layouts the layout
    of a moved, concatenated or changed tile is computed; an empty list for other values."""
    op: Any = value.defining_op
    if isinstance(value, BlockArgument):
        op, number = value.block.parent_op, value.index
        if isinstance(op, scf.ForOp):
            return [op.yield_op.operands[number - 1], op.init_args[number - 1]]
        if isinstance(op, scf.WhileOp):
            is_before = value.block is op.before.block
            return [op.after.block.last.operands[number], op.inits[number]] if is_before else [_left_with(op, number)]
    elif isinstance(op, scf.ForOp):
        return [op.yield_op.operands[value.index], op.init_args[value.index]]
    elif isinstance(op, scf.WhileOp):
        return [_left_with(op, value.index)]
    elif isinstance(op, scf.IfOp):
        return [region.block.last.operands[value.index] for region in op.regions]
    elif isinstance(op, tileas.CatOp):
        return [op.lhs, op.rhs]
    elif isinstance(op, tileas.InsertSliceOp):
        return [op.dest]
    elif type(op) in _MOVED:
        return [op.operands[0]]
    return []


def _left_with(loop: scf.WhileOp, number: int) -> Value:
    """A value that the first region of a loop passes to the second one, and out of the loop."""
    return loop.before.block.last.args[number]


def _is_renamed_by(user: Operation) -> bool:
    """Whether an operation gives a tile another shape, or computes its result from that tile alone, by element."""
    if isinstance(user, aa.ViewOp):
        return True
    return is_element_wise(user) and sum(isinstance(each.type, TensorType) for each in user.operands) == 1


def _is_beside_dot(value: Value) -> bool:
    """Whether a dot reads a tile, or an operation reads it with a tile that is computed from a dot's result."""
    return any(
        isinstance(user, tileas.DOTS) or any(comes_from_dot(each) for each in user.operands if each is not value)
        for user in value.users
    )


def _then(layout: LinearLayout | None, change: Callable[[LinearLayout], LinearLayout]) -> LinearLayout | None:
    return None if layout is None else change(layout)
