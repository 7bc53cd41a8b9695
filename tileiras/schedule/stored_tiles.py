"""Tiles that are stored in boxes of a tensor map: the boxes, and the layout from which they are copied to shared
memory."""

from __future__ import annotations

from typing import Any

from tileiras.analysis.tensor_map_rules import contiguous_dim
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas.tensor_maps import TmaDescType
from tileiras.ir import Operation, TensorType, Value
from tileiras.layout.arena import stored_bits
from tileiras.layout.convert import plan_conversion
from tileiras.layout.encoding import is_in_shared, layout_of, with_layout
from tileiras.layout.shared import SharedPlan
from tileiras.layout.staging import access_cost, store_access
from tileiras.layout.tensor_box import box_layout, tensor_boxes

Store = tileas.TiledStoreOp | tileas.TiledAtomicRMWOp

LEAST_BYTES = 4096
"""The smallest such tile: a round trip through shared memory costs two barriers and the latency of a copy."""


def tile_bytes(store: Store) -> int:
    return store.data.type.num_elements * store.data.type.element_type.width // 8


def stored_in_boxes(store: Store) -> tuple[TmaDescType, TensorType] | None:
    """The descriptor of the boxes of a store's tile, and the type of the tile in shared memory; None where no boxes
    have the tile's layout."""
    view, type = store.view.type, store.data.type
    inner = contiguous_dim(view)
    width = type.element_type.width
    layout = None if inner is None else box_layout(type.shape, inner, width)
    boxes = None if layout is None else tensor_boxes(layout, inner, width)
    if boxes is None:
        return None
    tile = with_layout(TensorType(type.shape, type.element_type), layout)
    return TmaDescType(view, boxes.box, boxes.order, boxes.swizzle, boxes.atom), tile


def writes_conflict(store: Store) -> bool:
    """Whether writing a tile in the layout of its boxes takes threads longer than the stores and loads of the
    conversion that boxes save: the swizzle of the boxes determines that layout, in which the rows of a transposed tile
    that the lanes of a warp hold may lie in the same banks."""
    result, (data, convert) = stored_in_boxes(store), as_it_comes(store.data)
    if result is None or convert is None:
        return False
    _, tile = result
    layout, bits = layout_of(data.type), stored_bits(tile.element_type)
    plan = plan_conversion(layout, layout_of(store.data.type), bits, matrix_stores=True)
    if not isinstance(plan, SharedPlan):
        return False
    write_cost = access_cost(store_access(layout, layout_of(tile).bases("offset"), bits), bits)
    return write_cost > plan.access_cost()


def is_waited_for(store: Store) -> bool:
    """Whether anything is ordered after a store by its token, through joins, loops and branches of scf."""
    seen: set[Value] = set()
    pending = [store.result_token]
    while pending:
        token = pending.pop()
        if token in seen:
            continue
        seen.add(token)
        for user in token.users:
            if isinstance(user, tileas.JoinMemTokenOp):
                pending += user.results
                continue
            around: Any = user if isinstance(user, scf.ForOp) else user.parent_op
            if not isinstance(around, (scf.ForOp, scf.IfOp)) or not isinstance(user, (scf.ForOp, scf.YieldOp)):
                return True
            init_args = user.init_args if user is around else user.operands
            for number in [number for number, value in enumerate(init_args) if value is token]:
                pending.append(around.results[number])
                pending += [around.iter_args[number]] if isinstance(around, scf.ForOp) else []
    return False


def as_it_comes(data: Value) -> tuple[Value, Operation | None]:
    """The tile before its conversion for a store, and the conversion: any layout can be stored to a buffer."""
    convert = data.defining_op
    if isinstance(convert, tileas.ConvertLayoutOp) and not is_in_shared(convert.operand.type):
        return convert.operand, convert
    return data, None
