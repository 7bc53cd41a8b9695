"""Dots as loops over K: a step holds a few columns of A and rows of B, read from shared memory just before their use.

    %b = convert_layout %y                      %q = alloc_tensor;  store_tensor %y into %q
    %d = dot %a, %b, %c                  ->     %d = for %i = 0 to K / 4 carrying %c:
                                                  %s = copy %p[0] slice = %i : tensor<Mx4>
                                                  %t = copy %q[0] slice = %i : tensor<4xN>
                                                  dot %s, %t, %c

Unrolled, a dot of 64 accumulators of a thread over a K of 128 is 8192 multiply-adds, on which ptxas works for seconds,
and whose operands it tries to have in registers at once.  Matrix instructions read a step at a time as they are; where
there are many of them a loop keeps the program small.  The additions keep their order.

This file has the parts that all such dots share: which can be cut, and the loop.  `fma_dots.py` finds room for the
operands of multiply-adds, `mma_dots.py` rewrites dots whose operands are in shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from tileiras import analysis
from tileiras.analysis.derivations import erase_unused_sources
from tileiras.dialects import arith, scf
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.arith.build import binary, integer
from tileiras.ir import (
    Block,
    Builder,
    DenseElementsAttr,
    FloatType,
    IntegerAttr,
    Operation,
    Region,
    TensorType,
    UnitAttr,
    Value,
    i32,
)
from tileiras.layout import LinearLayout, fma_operands
from tileiras.layout.encoding import encode_offsets, layout_of, with_layout
from tileiras.layout.staging import Part, in_whole, part_of, stored_offsets
from tileiras.resources.large_dots import (
    OPERAND_MAKERS,
    accumulates_wider,
    is_large,
    is_multiply_add,
    matrix_instructions,
)
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import Target, mma_atom

BODY = 256
"""Multiply-adds of a thread in an iteration: enough to hide that the next operands are on their way."""

LEAST_STEP = 4
"""The fewest steps of K in an iteration: the elements of one access of 16 bytes, for the types without an
instruction."""

MATRIX_BODY = 64
"""Matrix instructions of a warp in an iteration: hundreds of cycles, which hide the start of the next iteration."""

FEWEST_ITERATIONS = 2


class Operand(NamedTuple):
    """An operand of a dot that can be sliced along K.

    `source` is the tile, and `axis` its dimension that is K.  `path` has the views, permutations and broadcasts that
    turn it into the operand, the last first, each with the dimension of its result that is K.  `smem_tile` is the tile
    that has to be in shared memory for that, None if the source is there already or is uniform.
    """

    source: Value
    axis: int
    path: tuple[tuple[Any, int], ...]
    smem_tile: Value | None

    def slice_types(self, layout: LinearLayout, step: int) -> list[TensorType]:
        """The types of slices of `step` of K: the source's, those of the path, last the operand's, which is in
        `layout`."""
        types = []
        for op, axis in self.path:
            types.append(_slice_type(op.result, axis, step, layout))
            layout = _operand_layout(op, layout, types[-1].shape)
        return [_slice_type(self.source, self.axis, step, layout), *reversed(types)]


class Dot(NamedTuple):
    """A dot and how it is cut: `step` of K at a time.  Where shared memory is short, its operands are stored there in
    `parts` parts, one after the other, each with a loop of its own."""

    op: Any
    operands: tuple[Operand, Operand]
    step: int
    parts: int = 1

    @property
    def iterations(self) -> int:
        """The trip count of the loop for a part."""
        return self.op.a.type.shape[-1] // self.step // self.parts

    @property
    def part_bytes(self) -> int:
        """Bytes of shared memory for a part of the operands."""
        return 0 if self.parts == 1 else sum(map(bytes_of, self.smem_tiles)) // self.parts

    @property
    def smem_tiles(self) -> list[Value]:
        return [operand.smem_tile for operand in self.operands if operand.smem_tile is not None]

    def cut(self) -> Iterator[Dot]:
        """The same dot with increasing numbers of parts."""
        parts = 1
        while self.op.a.type.shape[-1] // parts > self.step:
            parts *= 2
            in_shared = (operand for operand in self.operands if operand.smem_tile is not None)
            if all(part_of(layout_of(f.smem_tile.type), f.axis, parts, 0) is not None for f in in_shared):
                yield self._replace(parts=parts)

    def slice_types(self) -> list[list[TensorType]]:
        if is_multiply_add(self.op):
            layouts: Any = fma_operands(layout_of(self.op.c.type), self.step)
        else:
            layouts = (part.layout for part in _first_parts(self.op, self.step) if part is not None)
        return [operand.slice_types(layout, self.step) for operand, layout in zip(self.operands, layouts)]


# ---- which dots can be cut ------------------------------------------------------------------------------------------


def _first_parts(op: tileas.DotOp, step: int) -> list[Part | None]:
    """The first `step` of K of the operands of a dot by matrix instructions, as a thread holds them."""
    parts, rank = op.a.type.shape[-1] // step, op.a.type.rank
    return [part_of(layout_of(v.type), axis, parts, 0) for v, axis in ((op.a, rank - 1), (op.b, rank - 2))]


def _step_of(op: tileas.DotOp, target: Target) -> int:
    """How much of K an iteration takes; all of it where that cannot be cut."""
    depth = op.a.type.shape[-1]
    if is_multiply_add(op):
        step = max(LEAST_STEP, BODY // layout_of(op.c.type).registers)
        return step if depth >= FEWEST_ITERATIONS * step else depth
    iterations = 1
    while matrix_instructions(op, target) > MATRIX_BODY * iterations:
        iterations *= 2
    step = max(depth // iterations, mma_atom(op.atom.atom).shape[2])
    # Other steps are in other registers of the same threads.
    apart = all(part is not None and not part.conditions for part in _first_parts(op, step))
    shared_out = any(layout_of(value.type).bases("block") for value in (op.a, op.b))
    return step if apart and not shared_out else depth


def dot_of(op: tileas.DotOp, target: Target) -> Dot | None:
    """How a dot is cut; None for one that is small, or whose operands cannot be cut."""
    if not is_large(op, target) or accumulates_wider(op):
        return None
    step, rank = _step_of(op, target), op.a.type.rank
    if step == op.a.type.shape[-1]:  # type: ignore[attr-defined]
        return None
    first, second = operand_of(op.a, rank - 1, op), operand_of(op.b, rank - 2, op)  # type: ignore[attr-defined]
    if first is None or second is None:
        return None
    if not is_multiply_add(op) and any(operand.smem_tile is not None for operand in (first, second)):
        return None
    return Dot(op, (first, second), step)


def operand_of(value: Value, axis: int, dot: Operation) -> Operand | None:
    path = []
    while (before := _axis_before(value.defining_op, axis)) is not None:
        # A tile that goes through shared memory needs no other change of its layout.
        if not isinstance(value.defining_op, tileas.ConvertLayoutOp):
            path.append((value.defining_op, axis))
        value, axis = value.defining_op.operand, before  # type: ignore[union-attr]
    op: Any = value.defining_op
    in_buffer = isinstance(op, tileas.CopyOp) and op.slice is None and op.parent is dot.parent
    if in_buffer and _is_held(op, dot) or _is_uniform(op):
        return Operand(value, axis, tuple(path), None)
    if value.type.element_type.width % 8 or layout_of(value.type).bases("block"):
        return None
    return Operand(value, axis, tuple(path), value)


def _axis_before(op: Operation | None, axis: int) -> int | None:
    """The dimension of the operand that becomes `axis` of the result, whole and in its order; None when there is
    none."""
    if isinstance(op, tileas.ConvertLayoutOp):
        return axis
    if isinstance(op, tileas.PermuteOp):
        return op.permutation.elements[axis]
    if isinstance(op, tileas.BroadcastOp):
        return axis if op.operand.type.shape[axis] == op.result.type.shape[axis] else None
    if isinstance(op, tileas.ViewOp):
        after, before = op.result.type.shape, op.operand.type.shape
        stride = prod(after[axis + 1 :])
        for candidate, size in enumerate(before):
            if size == after[axis] and prod(before[candidate + 1 :]) == stride:
                return candidate
    return None


def _is_held(copy: tileas.CopyOp, dot: Operation) -> bool:
    """Whether the stage that a copy reads holds its tile until the dot.  That of a ring does for as long as the block
    lasts, that of a pipe until it is released."""
    if tileas.pipe_of_buffer(copy.buffer) is None:
        return True
    return analysis.pipes.is_held_until(copy, dot)


def _is_uniform(op: Operation | None) -> bool:
    """Whether all elements of an operation's result are known to be the same."""
    if isinstance(op, arith.ConstantOp):
        return isinstance(op.value, DenseElementsAttr) and op.value.is_splat
    return isinstance(op, tileas.SplatOp)


def _slice_type(value: Value, axis: int, step: int, layout: LinearLayout) -> TensorType:
    shape = value.type.shape
    return with_layout(TensorType((*shape[:axis], step, *shape[axis + 1 :]), value.type.element_type), layout)


def _operand_layout(op: tileas.PermuteOp, layout: LinearLayout, shape: tuple[int, ...]) -> LinearLayout:
    """The layout of a slice of the operand when the result's, of this shape, is to be in `layout`."""
    if isinstance(op, tileas.PermuteOp):
        return layout.unpermute(op.permutation.elements)
    if isinstance(op, tileas.BroadcastOp):
        before, after = op.operand.type.shape, op.result.type.shape
        return layout.shrink(tuple(1 if one != other else n for one, other, n in zip(before, after, shape)))
    cut = [n for n, whole in zip(shape, op.result.type.shape) if n != whole]
    axis = next(axis for axis, (n, whole) in enumerate(zip(shape, op.result.type.shape)) if n != whole)
    before = _axis_before(op, axis)
    assert before is not None, "a dimension that the view keeps"
    operand = op.operand.type.shape
    return layout.reshape((*operand[:before], *cut, *operand[before + 1 :]))


# ---- rewriting ------------------------------------------------------------------------------------------------------


def bytes_of(value: Value) -> int:
    return value.type.num_elements * value.type.element_type.width // 8


def buffer_type(writer: LinearLayout, element: FloatType, readers: dict[LinearLayout, int]) -> tileas.BufferType:
    """The buffer minimizing total wavefronts; `readers`: layout -> read count."""
    whole = tuple(in_whole(reader, writer.shape) for reader in readers)
    offsets = stored_offsets(writer, whole, max(readers.values()), element.width)
    return tileas.BufferType(1, TensorType(writer.shape, element, encode_offsets(offsets, writer.shape)))


def make_loop(dot: Dot, buffers: dict[Value, Value]) -> None:
    """The dot as a loop over slices of its operands, or one for each part of them."""
    op = dot.op
    outer = Builder.before(op)
    zero, one, iterations = (integer(outer, n) for n in (0, 1, dot.iterations))
    places = [None if operand.smem_tile is None else buffers.get(operand.smem_tile) for operand in dot.operands]
    if dot.parts > 1:
        places = [outer.insert(tileas.AllocTensorOp(result=t)).results[0] if t else None for t in _part_types(dot)]
    accumulators = op.c
    for part in range(dot.parts):
        if dot.parts > 1:
            for operand, place in zip(dot.operands, places):
                if place is not None:
                    store = tileas.StoreTensorOp(operand.smem_tile, place, zero, part=IntegerAttr(part, i32))
                    outer.insert(store)
        start = part * dot.iterations
        if dot.iterations == 1:
            accumulators = step_of_dot(dot, places, integer(outer, start), accumulators, zero, zero, outer)
            continue
        body = Block((i32, op.c.type))
        inner = Builder.at_end(body, op.location)
        counter = body.arguments[0]
        number = counter if not start else binary(inner, arith.AddIOp, counter, integer(inner, start))
        inner.insert(scf.YieldOp.create((step_of_dot(dot, places, number, body.arguments[1], counter, zero, inner),)))
        serial = tileas.LoopScheduleAttr(tileas.SERIAL, 1)
        attributes = {tileas.NO_UNROLL: UnitAttr(), tileas.LOOP_SCHEDULE: serial}
        loop = scf.ForOp.create((zero, iterations, one, accumulators), (op.result.type,), attributes, (Region([body]),))
        accumulators = outer.insert(loop).results[0]
    if dot.parts > 1:
        for place in reversed(places):
            if place is not None:
                outer.insert(tileas.DeallocTensorOp(place))
    op.replace_all_uses_with((accumulators,))
    old = op.operands[:2]
    op.erase()
    for value in old:
        erase_unused_sources(value, release)


def _part_types(dot: Dot) -> Iterator[tileas.BufferType | None]:
    """The buffers for parts of the operands; None for an operand that needs none."""
    for operand, types in zip(dot.operands, dot.slice_types()):
        if operand.smem_tile is None:
            yield None
            continue
        part = part_of(layout_of(operand.smem_tile.type), operand.axis, dot.parts, 0)
        assert part is not None, "a dot that is cut into parts"
        yield buffer_type(part.layout, operand.smem_tile.type.element_type, {layout_of(types[0]): dot.iterations})


def step_of_dot(
    dot: Dot,
    places: list[Value | None],
    number: Value,
    accumulators: Value,
    counter: Value,
    stage: Value,
    builder: Builder,
) -> Value:
    """The accumulator after slice `number` of the whole, which is slice `counter` of the part in shared memory."""
    operands = []
    for operand, place, types in zip(dot.operands, places, dot.slice_types()):
        origin: Any = operand.source.defining_op
        if place is not None:
            whole = place.type.tile.shape == types[0].shape
            source = tileas.CopyOp(place, stage, None if whole else counter, result=types[0])
        elif isinstance(origin, tileas.CopyOp):
            source = tileas.CopyOp(origin.buffer, origin.stage, number, result=types[0])
        elif isinstance(origin, tileas.SplatOp):
            source = tileas.SplatOp.create(origin.operands, (types[0],))
        else:
            source = arith.ConstantOp(DenseElementsAttr(types[0], origin.value.data, True))
        value = builder.insert(source).results[0]
        for (op, _), type_ in zip(reversed(operand.path), types[1:]):
            value = builder.insert(type(op).create((value,), (type_,), dict(op.attributes))).results[0]
        operands.append(value)
    new = type(dot.op).create((*operands, accumulators), (accumulators.type,), dict(dot.op.attributes))
    return builder.insert(new).results[0]


def release(op: Operation) -> list[Value] | None:
    """The tile that an operand is made of; None for operations that do not make operands."""
    return op.operands[:1] if isinstance(op, (*OPERAND_MAKERS, tileas.CopyOp)) else None
