"""Loads that an asynchronous copy can perform, and the paths of their data through views and conversions to dots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras.analysis.computed_operands import computes_operand, operands_from
from tileiras.analysis.derivations import settle, uses_through
from tileiras.dialects import arith
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Block, FloatType, IntegerType, Operation, Pure, TensorType, Value
from tileiras.layout import LinearLayout
from tileiras.layout.arena import stored_bits
from tileiras.layout.encoding import is_in_shared, layout_of
from tileiras.layout.linear_layout import SHARED_DIMS
from tileiras.layout.memory import contiguous_registers
from tileiras.reasons import Argument, Reason
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import CopyAtom

if TYPE_CHECKING:
    from tileiras.dialects import scf

LOADS = (tileas.TiledLoadOp, tileas.LoadOp)


def loads_of(loop: scf.ForOp) -> list[Any]:
    """The loads of a loop's own block."""
    return [op for op in loop.body.block.operations if isinstance(op, LOADS)]


class Leaf(NamedTuple):
    """A conversion that moves the data of a staged load to other threads, and the layout in which the load's own tile
    has to be read for the conversion to become a no-op."""

    convert: Operation
    layout: LinearLayout

    @property
    def in_place(self) -> bool:
        """Whether the tile is read in place, in a layout of shared memory."""
        return self.layout.dims == SHARED_DIMS


def refused(why: list[Reason] | None, code: str, /, **arguments: Argument) -> None:
    if why is not None:
        why.append(Reason(code, **arguments))  # type: ignore[arg-type]


def copied_vector(
    load: tileas.Load, atom: CopyAtom, why: list[Reason] | None = None, in_boxes: bool = False
) -> tuple[int, ...] | None:
    """The tile positions of the bits within one copy if `atom` can perform a load; else None, with the reason in `why`.
    `in_boxes`: boxes of a tensor map, which are padded alike, may be copied instead."""
    type = load.data.type
    if not isinstance(type, TensorType) or load.mem_semantic.value != "weak":
        return refused(why, "copies.ordered" if isinstance(type, TensorType) else "copies.scalar")
    if getattr(load, "reduction", None) is not None:
        return refused(why, "copies.multicast-memory")
    if rounds(load) and not in_boxes:
        return refused(why, "copies.rounded")
    element = type.element_type
    if not isinstance(element, (IntegerType, FloatType)) or element.width < 8:
        return refused(why, "copies.element", element=str(element))
    width = load.atom.vector_size * element.width // 8
    if width not in atom.widths:
        return refused(why, "copies.width", bytes=width, widths=_spell(atom.widths))
    if not _pads_with_zero(load):
        return refused(why, "copies.padding")
    return _vector_positions(load, layout_of(type))


def rounds(load: tileas.Load) -> bool:
    """Whether a load rounds its elements, which only copies of boxes of a tensor map can do."""
    return isinstance(load, tileas.TiledLoadOp) and load.rounds


def _spell(widths: tuple[int, ...]) -> str:
    return ", ".join(map(str, widths[:-1])) + f" or {widths[-1]}"


def _pads_with_zero(load: tileas.Load) -> bool:
    if isinstance(load, tileas.TiledLoadOp):
        view = load.view.type
        return view.sparse_dim is None and (view.padding is None or view.padding.value == "zero")
    return load.other is None or is_zero(load.other)


def is_zero(value: Value) -> bool:
    """Whether a value is the constant zero, or a tile of it."""
    op = value.defining_op
    if isinstance(op, tileas.SplatOp):
        return is_zero(op.operand)
    if not isinstance(op, arith.ConstantOp):
        return False
    data = getattr(op.value, "data", None)
    if data is not None:
        return not any(data)
    return getattr(op.value, "bits", getattr(op.value, "value", None)) == 0


def _vector_positions(load: tileas.Load, layout: LinearLayout) -> tuple[int, ...] | None:
    """The tile positions of the bits within one copy, lowest first; layouts of memory accesses hold them in the lowest
    registers."""
    bits = load.atom.vector_size.bit_length() - 1
    registers = layout.bases("register")
    for axis in reversed(range(len(layout.shape))):
        inside = contiguous_registers(layout, axis)[:bits]
        if inside == tuple(range(bits)):
            return tuple(registers[i] for i in inside)
    return None


# ---- consumers ------------------------------------------------------------------------------------------------------


def moves_with_conversion(op: Operation) -> bool:
    """Whether an operation does the same to each element at any position, so that a conversion may precede it."""
    if isinstance(op, tileas.VIEW_LIKE):
        return True
    if not op.has_trait(Pure) or op.regions or len(op.results) != 1 or len(op.operands) != 1:
        return False
    types = op.operands[0].type, op.results[0].type
    tensors = all(isinstance(t, TensorType) for t in types)
    return tensors and types[0].shape == types[1].shape and types[0].encoding is types[1].encoding


def operand_layout(op: Operation, layout: LinearLayout) -> LinearLayout:
    """The layout of the operand of an operation that moves with conversions when its result is to be in `layout`."""
    shape = op.operands[0].type.shape
    if isinstance(op, tileas.ViewOp):
        return layout.reshape(shape)
    if isinstance(op, tileas.PermuteOp):
        return layout.unpermute(op.permutation.elements)
    return layout


def is_only_renamed(value: Value, leaves: Iterable[Leaf]) -> bool:
    """Whether only the conversions of `leaves` use a load's data, directly or through views and permutations."""
    converts = {leaf.convert for leaf in leaves}
    return all(user in converts for user, _ in uses_through(value, lambda user: isinstance(user, tileas.VIEW_LIKE)))


def leaves_of(value: Value, block: Block) -> list[Leaf]:
    """The conversions that the data of a load reaches, directly or through operations that move with conversions."""
    leaves: dict[Value, list[Leaf]] = {}

    def moves(user: Operation) -> bool:
        return user.parent is block and not isinstance(user, tileas.ConvertLayoutOp) and moves_with_conversion(user)

    def of_users(value: Value, _: Sequence[Value]) -> list[Leaf]:
        result = []
        for user in value.users:
            if isinstance(user, tileas.ConvertLayoutOp) and user.parent is block:
                result.append(Leaf(user, layout_of(user.result.type)))
            elif moves(user):
                # Tiles in shared memory are not operands of other operations: the tile is stored behind this one.
                of_result = (
                    leaf for leaf in leaves[user.results[0]]
                    if isinstance(user, tileas.VIEW_LIKE) or not leaf.in_place
                )  # fmt: skip
                result += [Leaf(op, operand_layout(user, layout)) for op, layout in of_result]
        return result

    return settle(value, leaves, [], lambda each: [user.results[0] for user in each.users if moves(user)], of_users)


def feeds_dot(load: tileas.Load, leaves: Iterable[Leaf]) -> bool:
    """Whether the data of a load passes through shared memory to a dot."""
    type = load.data.type
    by_copy = any(_moves(leaf, layout_of(type), stored_bits(type.element_type)) for leaf in leaves)
    return by_copy or _is_stored_for_dot(load.data)


def _is_stored_for_dot(value: Value) -> bool:
    """Whether a tile computed element by element from a loaded one goes through shared memory to a dot."""
    from_dots: dict[Operation, bool] = {}
    values: list[Value] = [value]
    seen: set[Operation] = set()
    for each in values:
        for user in each.users:
            if isinstance(user, tileas.ConvertLayoutOp):
                in_shared = is_in_shared(user.result.type) or _goes_through_shared(user)
                if in_shared and _reaches_dot(user, from_dots):
                    return True
            elif user not in seen and computes_operand(user, from_dots):
                seen.add(user)
                values.append(user.results[0])
    return False


def _goes_through_shared(convert: tileas.ConvertLayoutOp) -> bool:
    """Whether a conversion between registers goes through shared memory."""
    source, result = convert.operand.type, convert.result.type
    if is_in_shared(source):
        return False
    return _exchanges(layout_of(source), layout_of(result), stored_bits(result.element_type))


def _exchanges(writer: LinearLayout, reader: LinearLayout, bits: int) -> bool:
    # Kernels without such a conversion load neither.
    plan = tileiras.layout.convert.plan_conversion(writer, reader, bits)
    return isinstance(plan, tileiras.layout.shared.SharedPlan)


def _moves(leaf: Leaf, writer: LinearLayout, bits: int) -> bool:
    """Whether a conversion that goes through shared memory feeds a dot."""
    return (leaf.in_place or _exchanges(writer, leaf.layout, bits)) and _reaches_dot(leaf.convert)


def _reaches_dot(op: Operation, from_dots: dict[Operation, bool] | None = None) -> bool:
    return next(operands_from(op.results[0], from_dots), None) is not None
