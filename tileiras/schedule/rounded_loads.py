"""Loads of f32 whose boxes round their elements to tf32 in flight, so that dots read them in place.

    %a = tiled_load %v[..] -> tensor<f32>
    %t = fp_to_fp %a -> tensor<tf32>            ->      %t = tiled_load %v[..] -> tensor<tf32>

A tensor map of CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 rounds to nearest, ties to even, and keeps infinities and NaN: observed
on a GPU of sm_120 (triton-lang/triton#11751); the reference compiler has maps convert where the program rounds in this
way, and threads where it asks for another rounding.  Where a load is not made in boxes after all, threads round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.analysis.copied_loads import loads_of
from tileiras.analysis.derivations import uses_through
from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.analysis.function_pass import FunctionPass
from tileiras.analysis.tensor_map_rules import access_refusal, map_creator
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Builder, Operation, TensorType, Value, element_type_of, f32, tf32

from .induction_variable import can_look_ahead, trip_count
from .staging import addresses_follow, tokens_from_outside

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target


class RoundInBoxes(FunctionPass):
    name = "tileas-round-in-boxes"
    optional = True
    schedules = True
    requires = "NO_LAYOUTS"
    needs = "`nv_tileas` operations"
    establishes = "loads of tf32 from views of f32, where boxes of tensor maps will round the elements for dots"
    keeps = "values, token order, other operations"

    tensor_maps: str = "none"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        creator = map_creator(self.tensor_maps, gpu)
        if creator == "none":
            return
        if any(isinstance(op, tileas.FpToFpOp) and element_type_of(op.result.type) is tf32 for op in func.walk()):
            round_in_boxes(func, creator == "host")


def round_in_boxes(func: aa.FuncOp, by_host: bool) -> None:
    """Make loads of a function of nv_tileas round to tf32, in place, where boxes will bring them ahead of their loop
    and only such conversions use them; `by_host`: the host encodes the tensor maps, not the kernel."""
    loops = [op for op in func.walk() if isinstance(op, scf.ForOp)]
    candidates = [(load, loop) for loop in loops for load in loads_of(loop) if _is_rounded_for_dots(load)]
    facts = DivisibilityAnalysis(func) if candidates else None
    for load, loop in candidates:
        if facts is not None and _comes_in_boxes(load, loop) and not access_refusal(load, facts, by_host):
            _retype(load.data, _rounding(load).data)
            load.erase()


def round_by_threads(load: Any) -> Any:
    """Make threads round the elements of a load, in place; return the load of f32."""
    type = load.data.type
    narrow = _again(load, TensorType(type.shape, f32, type.encoding))
    builder = Builder.before(load)
    builder.location = load.location
    rounded = builder.insert(tileas.FpToFpOp(narrow.data, result=type)).results[0]
    load.data.replace_all_uses_with(rounded)
    load.erase()
    return narrow


def _comes_in_boxes(load: Any, loop: scf.ForOp) -> bool:
    """Whether a load that a tensor map serves can be made in boxes ahead of its loop, as far as that is known before
    layouts are assigned."""
    producer = load.view.defining_op
    if producer is None or loop.is_ancestor_of(producer) or not can_look_ahead(loop) or trip_count(loop) in (0, 1):
        return False
    return addresses_follow(load, loop) and tokens_from_outside(load.token, loop) is not None


def _is_rounded_for_dots(load: Any) -> bool:
    if not isinstance(load, tileas.TiledLoadOp) or element_type_of(load.data.type) is not f32:
        return False
    return _is_only_rounded(load.data)


def _is_only_rounded(value: Value) -> bool:
    """Whether all uses of a tile of f32, possibly through view-like operations, are operands of dots that are rounded
    to tf32."""
    uses = [user for user, _ in uses_through(value, _is_view)]
    return bool(uses) and all(_rounds(user) and _feeds_dots(user.results[0]) for user in uses)


def _rounds(op: Operation) -> bool:
    if not isinstance(op, tileas.FpToFpOp) or element_type_of(op.result.type) is not tf32:
        return False
    return op.rounding_mode.value == "nearest_even"


def _feeds_dots(value: Value) -> bool:
    """Whether only dots use a tile, possibly through view-like operations."""
    uses = [user for user, _ in uses_through(value, _is_view)]
    return bool(uses) and all(isinstance(user, tileas.DOTS) for user in uses)


def _is_view(op: Operation) -> bool:
    return isinstance(op, tileas.VIEW_LIKE)


def _rounding(load: Any) -> Any:
    type = load.data.type
    return _again(load, TensorType(type.shape, tf32, type.encoding))


def _again(load: Any, type: TensorType) -> Any:
    """A load next to another one, of a tile of another type, which takes over the uses of its token."""
    builder = Builder.before(load)
    builder.location = load.location
    types = (type, load.result_token.type)
    copy = builder.insert(tileas.TiledLoadOp.create(tuple(load.operands), types, dict(load.attributes)))
    load.result_token.replace_all_uses_with(copy.result_token)
    return copy


def _retype(value: Value, rounded: Value) -> None:
    """Replace the uses of a tile of f32 by a rounded one, and remove the roundings."""
    for user in list(value.users):
        if isinstance(user, tileas.VIEW_LIKE):
            type = user.results[0].type
            result = TensorType(type.shape, tf32, type.encoding)
            copy = user.__class__.create((rounded,), (result,), dict(user.attributes), location=user.location)
            user.parent.insert_before(copy, user)
            _retype(user.results[0], copy.results[0])
        else:
            user.results[0].replace_all_uses_with(rounded)
        user.erase()
