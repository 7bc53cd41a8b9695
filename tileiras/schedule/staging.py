"""Which loads of a loop can run ahead of it through shared memory, and the layouts of their buffers.

A load is *staged* when an asynchronous copy can execute it: plain, in whole vectors that the copy atom supports, padded
with zeros, with addresses computed from the induction variable and from values outside the loop, and not ordered after
a write in the loop.  Staging is profitable when the tile goes through shared memory anyway, on its way to a dot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.analysis.copied_loads import (
    Leaf,
    copied_vector,
    feeds_dot,
    leaves_of,
    loads_of,
    operand_layout,
    refused,
    rounds,
)
from tileiras.analysis.derivations import is_derived, settle
from tileiras.analysis.incoming import incoming
from tileiras.analysis.tensor_map_rules import contiguous_dim
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import (
    Attribute,
    Block,
    BlockArgument,
    Builder,
    Convergent,
    MemoryWrite,
    NoMemoryEffect,
    Operation,
    TensorType,
    Value,
)
from tileiras.layout import LinearLayout
from tileiras.layout.encoding import encode, encode_offsets, layout_of, with_layout
from tileiras.layout.shared import INSTRUCTION_COST, MATRIX_FORMS
from tileiras.layout.staging import buffer_offsets, reading_cost
from tileiras.layout.tensor_box import box_layout, stage_of_boxes
from tileiras.reasons import Reason
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import CopyAtom, MatrixForm, matrix_loads, target

if TYPE_CHECKING:
    from tileiras.dialects import scf


_CONVERSION_COST = 1.0
"""Cost of the conversion of a register to tf32, in wavefronts of shared memory: two cycles of a quarter of an SM for
the conversion (CUDA programming guide, "Arithmetic Instructions": 64 results a cycle), as many to issue it and its
share of the copies."""

_PIPE_COST = 2 * (1 + INSTRUCTION_COST)
"""Cost of a pipe whose stages threads fill, beside one of boxes: a wait and a release, each an access of shared
memory."""


class StagedLoad(NamedTuple):
    """`offsets` is the layout of a tile in a stage of the buffer, `tokens` are those that order the load, all from
    outside the loop; `cluster`: the number of CTAs of the cluster."""

    load: Any
    writer: LinearLayout
    leaves: tuple[Leaf, ...]
    offsets: tuple[int, ...]
    tokens: tuple[Value, ...]
    cluster: int = 1

    def buffer_type(self, stages: int) -> tileas.BufferType:
        offsets, type = self.offsets, self.load.data.type
        if tileas.AHEAD_ATOM in self.load.attributes and (inner := contiguous_dim(self.load.view.type)) is not None:
            offsets = stage_of_boxes(offsets, type.shape, inner, type.element_type.width)
        return buffer_type(self.load, offsets, stages)

    @property
    def stage_bytes(self) -> int:
        return self.buffer_type(1).stage_bytes


def buffer_type(load: tileas.Load, offsets: tuple[int, ...], stages: int) -> tileas.BufferType:
    """The type of the buffer for the tiles of a load; `offsets` is the layout of a stage of it."""
    type = load.data.type
    return tileas.BufferType(stages, TensorType(type.shape, type.element_type, encode_offsets(offsets, type.shape)))


def staged_load(
    load: tileas.Load, loop: scf.ForOp, atom: CopyAtom, why: list[Reason] | None = None
) -> StagedLoad | None:
    """How a load in the body of `loop` can be staged by `atom`; None, with the reason in `why`, when it cannot or need
    not be."""
    vector = copied_vector(load, atom, why, tileas.AHEAD_ATOM in load.attributes)
    if vector is None:
        return None
    if not addresses_follow(load, loop):
        return refused(why, "copies.address-computed")
    tokens = tokens_from_outside(load.token, loop)
    if tokens is None:
        return refused(why, "copies.ordered-in-loop")
    leaves = tuple(leaves_of(load.data, loop.body.block))
    if not feeds_dot(load, leaves):
        return refused(why, "copies.no-dot")
    offsets = stage_offsets(load, vector, leaves)
    if offsets is None:
        return refused(why, "copies.layouts-differ")
    if tileas.AHEAD_ATOM in load.attributes:
        others = any(tileas.AHEAD_ATOM in other.attributes for other in loads_of(loop) if other is not load)
        offsets = _offsets_of_boxes(load, leaves, offsets, others) or offsets
    return StagedLoad(load, layout_of(load.data.type), leaves, offsets, tokens, _cluster_of(loop))


def _cluster_of(op: Operation) -> int:
    """The number of CTAs of the cluster that executes an operation; 1 where its function is not known."""
    func = aa.function_of(op)
    return 1 if func is None else tileas.cluster_size(func)


def _offsets_of_boxes(
    load: tileas.Load, leaves: Sequence[Leaf], otherwise: tuple[int, ...], others: bool
) -> tuple[int, ...] | None:
    """The layout in which boxes store a tile; None if threads that read it would take longer than `otherwise`, even
    with the savings of boxes (conversions, and a pipe of its own beside `others` in boxes), or if dots read it in
    place, which determine the layout."""
    view, type = load.view.type, load.data.type
    readers = tuple(dict.fromkeys(leaf.layout for leaf in leaves)) or (layout_of(type),)
    inner = contiguous_dim(view)
    if inner is None or any(leaf.in_place for leaf in leaves):
        return None
    width = type.element_type.width
    layout = box_layout(type.shape, inner, width)
    if layout is None:
        return None
    bases = layout.bases("offset")
    forms = _matrix_forms(load)
    least = reading_cost(readers, otherwise, width, forms) + _PIPE_COST * others
    if rounds(load):
        least += _CONVERSION_COST * sum(reader.registers for reader in readers)
    return bases if reading_cost(readers, bases, width, forms) <= least else None


def _matrix_forms(op: Operation) -> tuple[MatrixForm, ...]:
    """The forms of matrices that warps load on the target of the function that has an operation."""
    func = aa.function_of(op)
    return MATRIX_FORMS if func is None else matrix_loads(target(func.target_spec.value))


def stage_offsets(load: tileas.Load, vector: tuple[int, ...], leaves: Sequence[Leaf]) -> tuple[int, ...] | None:
    """The layout of a buffer that copies of `vector` of a load fill and all `leaves` read; None when no layout suits
    all.

    A dot that reads the tile in place determines the layout.
    """
    type = load.data.type
    writer = layout_of(type)
    readers = tuple(dict.fromkeys(leaf.layout for leaf in leaves if not leaf.in_place)) or (writer,)
    in_place = {leaf.layout.bases("offset") for leaf in leaves if leaf.in_place}
    if not in_place:
        return buffer_offsets(writer, vector, readers, type.element_type.width, _matrix_forms(load))
    offsets = in_place.pop()
    return None if in_place or offsets[: len(vector)] != vector else offsets


def addresses_follow(load: tileas.Load, loop: scf.ForOp) -> bool:
    """Whether the addresses of a load can be computed for another iteration."""
    return is_derived(addresses(load), lambda value: _counter_sources(value, loop))


def rematerialized(value: Value, values: dict[Value, Value], block: Block, builder: Builder) -> Value:
    """A value of a loop's body, `block`, recomputed for another value of the induction variable, which `values`
    maps."""
    def sources(value: Value) -> Sequence[Value]:
        return value.defining_op.operands if value.defining_op is not None and value.parent_block is block else ()

    def of_another(value: Value, sources: Sequence[Value]) -> Value:
        op = value.defining_op
        if op is None or op.parent is not block:
            return value
        copy = builder.insert(op.clone(dict(values)))
        copy.location = op.location
        values.update(zip(op.results, copy.results))
        return values[value]

    return settle(value, values, value, sources, of_another)


def addresses(load: tileas.Load) -> list[Value]:
    """The operands that determine which memory a load reads."""
    if isinstance(load, tileas.TiledLoadOp):
        return [load.view, *load.coords]
    return [load.pointer, *([] if load.mask is None else [load.mask])]


def _counter_sources(value: Value, loop: scf.ForOp) -> Sequence[Value] | None:
    """The values from which a value is computed for another iteration; None if it cannot be."""
    if isinstance(value, BlockArgument):
        return () if value.block is not loop.body.block or value is loop.induction_variable else None
    op = value.defining_op
    if loop.body.block.find_ancestor_op(op) is None:
        return ()
    # Where the iteration exists the operation is executed anyway, so it need not be safe to execute anywhere.
    if op.parent is not loop.body.block or op.regions or not op.has_trait(NoMemoryEffect) or op.has_trait(Convergent):
        return None
    return op.operands


def start_copy(
    builder: Builder,
    load: tileas.Load,
    buffer: Value,
    stage: Value,
    token: Value | None,
    atom: CopyAtom,
    again: Callable[[Value], Value] = lambda value: value,
) -> tileas.AsyncTiledLoadOp | tileas.AsyncLoadOp:
    """The asynchronous copy into a stage of a buffer that replaces a load; `again(value)` is the recomputed value of a
    part of its address."""
    operands = {"buffer": buffer, "stage": stage, "token": token,
             "atom": tileas.CopyAtomAttr(atom.name, load.atom.vector_size)}  # fmt: skip
    if isinstance(load, tileas.TiledLoadOp):
        layout = encode(layout_of(load.data.type))
        coords = [again(v) for v in load.coords]
        return builder.insert(tileas.AsyncTiledLoadOp(view=again(load.view), coords=coords, layout=layout, **operands))
    mask = None if load.mask is None else again(load.mask)
    return builder.insert(tileas.AsyncLoadOp(pointer=again(load.pointer), mask=mask, **operands))


# ---- order ----------------------------------------------------------------------------------------------------------


def tokens_from_outside(token: Value | None, loop: scf.ForOp) -> tuple[Value, ...] | None:
    """The tokens from outside the loop on which a token depends; None when it depends on a write inside."""
    values: dict[Value, None] = {}
    return tuple(values) if token is None or _order(token, loop, values, set()) else None


def joined(builder: Builder, tokens: Sequence[Value]) -> Value | None:
    """One token for all; None for none."""
    if len(tokens) < 2:
        return tokens[0] if tokens else None
    return builder.insert(tileas.JoinMemTokenOp.create(tuple(tokens), (tokens[0].type,))).results[0]


def _order(token: Value, loop: scf.ForOp, tokens: dict[Value, None], seen: set[Value]) -> bool:
    if token in seen:
        return True
    seen.add(token)
    if isinstance(token, BlockArgument) and token.block is loop.body.block:
        return all(_order(source, loop, tokens, seen) for source, _ in incoming(token) or ())
    op = _owner(token)
    if isinstance(token, BlockArgument) or loop.body.block.find_ancestor_op(op) is None:
        tokens[token] = None
        return True
    if any(_must_come_first(inner) for inner in op.walk()):
        return False
    waits = [v for inner in op.walk() for v in inner.operands if isinstance(v.type, aa.MemTokenType)]
    return all(_order(v, loop, tokens, seen) for v in waits if op is _owner(v) or not op.is_ancestor_of(_owner(v)))


def _must_come_first(op: Operation) -> bool:
    """Whether a load ordered after `op` must not be moved before it: `op` is a write, or an operation that makes
    others' writes visible."""
    semantic = getattr(op, "mem_semantic", None)
    strong = semantic is not None and semantic.value != "weak"
    return strong or op.has_trait(MemoryWrite) or isinstance(op, aa.GdcWaitOp)


def _owner(value: Value) -> Any:
    """The operation that defines a value, or whose region it is an argument of."""
    return value.block.parent_op if isinstance(value, BlockArgument) else value.defining_op


# ---- consumers ------------------------------------------------------------------------------------------------------


def read_in(
    value: Value,
    layout: LinearLayout,
    load: tileas.Load,
    load_in: Callable[[LinearLayout], Value],
    before: Operation | None = None,
    slot: Mapping[str, Attribute] | None = None,
) -> Value:
    """Rematerialize `value`, which is computed from the data of `load` by operations through which conversions can be
    moved, in `layout`: at its place, or before another operation.

    `read(layout)` gives the load's tile in a layout; the recomputed operations are in the same `slot` of a schedule,
    that of the conversion.
    """
    chain: list[tuple[Operation, LinearLayout]] = []
    while value is not load.data:
        op = value.defining_op
        chain.append((op, layout))
        value, layout = op.operands[0], operand_layout(op, layout)
    result = load_in(layout)
    for op, layout in reversed(chain):
        attributes = {**op.attributes, **(slot or {})}
        type_ = with_layout(op.results[0].type, layout)
        new = type(op).create((result,), (type_,), attributes, location=op.location)
        place = op if before is None else before
        place.parent.insert_before(new, place)
        result = new.results[0]
    return result
