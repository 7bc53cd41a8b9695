"""Descriptors of views as arguments of the kernel, each with instructions for the host that fills it.

    %d = make_tma_desc %view     ->     func @k(..., %d: !nv_tileas.tma_desc<...>)
                                          attributes {nv_tileas.tensor_maps = ["tensor_map element=f16 ..."]}

The host knows the kernel's own arguments, so a view can have a descriptor when its memref is made of these alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import tensor_maps
from tileiras.analysis.function_pass import FunctionPass
from tileiras.analysis.tensor_map_rules import UNIT, host_value, map_creator, memref_of
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.dialects.nv_tileas.tensor_maps import MakeTmaDescOp, TmaDescType
from tileiras.ir import ArrayAttr, FunctionType, IntegerType, StringAttr, Value, VerifyError

if TYPE_CHECKING:
    from tileiras.ir.pass_manager import PassContext
    from tileiras.targets import Target

_INTEGERS = {8: "i8", 16: "i16", 32: "i32", 64: "i64"}
"""Elements are moved as bits: their type matters where padding is NaN."""


class AttachTmaDescArgs(FunctionPass):
    name = "tileas-attach-tma-desc-args"
    requires = "LAYOUTS"
    needs = "layouts and atoms"
    establishes = "no `make_tma_desc`: descriptors are arguments behind the source's, with how each is filled, or built"
    keeps = "values, accesses"

    tensor_maps: str = "none"

    def run_on_function(self, func: aa.FuncOp, gpu: Target, context: PassContext) -> None:
        if any(op.name == names.MAKE_TMA_DESC for op in func.walk()):
            try:
                if map_creator(self.tensor_maps, gpu) == "device":
                    tensor_maps.device_maps.build_maps(func, gpu)
                else:
                    attach_arguments(func)
            except VerifyError as error:
                context.engine.error(error.location or func.location, f"'{names.MAKE_TMA_DESC}' op {error.message}")


def attach_arguments(func: aa.FuncOp) -> None:
    """Make arguments of the descriptors of a function of nv_tileas, in place; one for all that are equal.

    Raises VerifyError, located, for one that the host cannot fill.
    """
    fills = list(func.attributes.get(tileas.TENSOR_MAPS, ()))
    entry = func.body.blocks[0]
    result: dict[tuple[TmaDescType, str], Value] = {}
    for op in [op for op in func.walk() if isinstance(op, MakeTmaDescOp)]:
        type = op.result.type
        try:
            fill = fill_of(op.view, type)
        except VerifyError as error:
            raise VerifyError(error.message, location=op.location) from None
        argument = result.get((type, fill))
        if argument is None:
            argument = result[type, fill] = entry.add_argument(type, op.location)
            fills.append(StringAttr(fill))
        op.result.replace_all_uses_with(argument)
        op.erase()
    if result:
        func.attributes["function_type"] = FunctionType([argument.type for argument in entry.arguments])
        func.attributes[tileas.TENSOR_MAPS] = ArrayAttr(fills)


def fill_of(view: Value, desc: TmaDescType) -> str:
    """The fields from which the host builds the tensor map of a view, in the words of NAME.json.

    Raises VerifyError for a view that is not made of the kernel's own arguments.
    """
    memref = memref_of(view)
    if memref is None:
        raise VerifyError("expects a view whose memref is known here")
    dims = [desc.view.dim_map[dim] for dim in desc.order]
    sizes = [_spell(memref.size(dim), "size", dim) for dim in dims]
    strides = [_spell(memref.stride(dim), "stride", dim) for dim in dims[1:]]
    words = [
        "tensor_map",
        f"element={_element(desc)}",
        f"address={_spell(memref.base, 'base', 0)}",
        f"dims={','.join(sizes)}",
        *([f"strides={','.join(strides)}"] if strides else []),
        f"box={','.join(str(desc.box[dim]) for dim in desc.order)}",
        *([f"swizzle={_swizzle(desc)}"] if desc.swizzle else []),
        *(["oob=nan"] if desc.view.padding is not None and desc.view.padding.value == "nan" else []),
    ]
    return " ".join(words)


def _element(desc: TmaDescType) -> str:
    element = desc.element
    return _INTEGERS[element.width] if isinstance(element, IntegerType) else str(element)


def _swizzle(desc: TmaDescType) -> str:
    return str(desc.swizzle) if desc.atom == UNIT else f"{desc.swizzle}_atom_{desc.atom}"


def _spell(extent: Value | int, label: str, dim: int) -> str:
    result = host_value(extent)
    if result is None:
        operand = "the memref's base" if label == "base" else f"the {label} of dimension {dim}"
        raise VerifyError(f"expects {operand} to be an argument of the kernel, or a constant")
    return result
