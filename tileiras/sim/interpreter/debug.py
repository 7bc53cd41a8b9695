"""Assumptions, assertions and printing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from tileiras.ir import BlockArgument, FloatType, IntegerType, Value

from .machine import Undefined, meaning
from .values import TOKEN, TensorView, dtype_of, signed, unsigned

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile

    from .machine import Machine


def _groups(size: int, every: int):
    return (slice(start, min(start + every, size)) for start in range(0, size, every))


def _check_div_by(predicate: cuda_tile.DivByAttr, value: np.ndarray, value_type: cuda_tile.TileType) -> str | None:
    if isinstance(value, TensorView):
        return None if value.address % predicate.divisor == 0 else f"base address {value.address:#x}"
    element = value_type.element_type
    numbers = signed(value, element.width) if isinstance(element, IntegerType) else value
    numbers = np.asarray(numbers).astype(np.int64)
    step = 1 if isinstance(element, IntegerType) else dtype_of(element.pointee_type).itemsize
    every, along = predicate.every or 1, predicate.along or 0
    if numbers.ndim == 0:
        heads, tails_fit = numbers, True
    else:
        numbers = np.moveaxis(numbers, along, 0)
        heads = numbers[::every]
        tails_fit = all((np.diff(numbers[group], axis=0) == step).all() for group in _groups(len(numbers), every))
    if (heads % predicate.divisor).any():
        return f"element {int(np.ravel(heads)[np.flatnonzero(np.ravel(heads % predicate.divisor))[0]])}"
    return None if tails_fit else f"groups of {every} that do not count up by {step}"


def _check_bounded(predicate: cuda_tile.BoundedAttr, value: np.ndarray, value_type: cuda_tile.TileType) -> str | None:
    numbers = np.ravel(signed(value, value_type.element_type.width)).astype(np.int64)
    for bound, outside in ((predicate.lb, np.less), (predicate.ub, np.greater)):
        if bound is not None and outside(numbers, bound).any():
            return f"element {int(numbers[outside(numbers, bound)][0])}"
    return None


def _check_same_elements(
    predicate: cuda_tile.SameElementsAttr, value: np.ndarray, value_type: cuda_tile.TileType
) -> str | None:
    values = np.asarray(value)
    sizes = list(predicate.elements)
    starts = [np.arange(extent) // size * size for extent, size in zip(values.shape, sizes)]
    heads = values[np.ix_(*starts)] if starts else values
    return None if (heads == values).all() else f"groups of {sizes} with different elements"


#: Assume predicate -> reason why it is broken, or None if it holds.
_PREDICATES = {
    "cuda_tile.div_by": _check_div_by,
    "cuda_tile.bounded": _check_bounded,
    "cuda_tile.same_elements": _check_same_elements,
}


#: Operations whose result has the elements of their first operand.
_SAME_VALUE = ("cuda_tile.assume", "cuda_tile.reshape", "cuda_tile.broadcast")


def _origin(machine: Machine, value: BlockArgument) -> str:
    """Origin of a value of the kernel: an argument, or a pointer into one; empty if unknown."""
    source = value
    while source.defining_op is not None and source.defining_op.name in _SAME_VALUE:
        source = source.defining_op.operands[0]
    if source in machine.names:
        return f"; it is {machine.names[source]}"
    entry = machine[value]
    if not isinstance(entry, TensorView) and isinstance(value.type.element_type, (IntegerType, FloatType)):
        return ""
    address = entry.address if isinstance(entry, TensorView) else int(np.ravel(entry)[0])
    allocation = machine.memory.find(address)
    return "" if allocation is None else f"; it points into {allocation.name}"


def is_only_a_stride(value: Value) -> bool:
    """Whether no operation but a view takes a value, as a stride."""
    return value.has_uses and all(
        user.name == "cuda_tile.make_tensor_view"
        and value not in (user.base, *user.dynamicShape)
        or user.name == "cuda_tile.assume"
        and is_only_a_stride(user.results[0])
        for user in value.users
    )


@meaning("assume")
def assume(machine: Machine, op: cuda_tile.AssumeOp):
    value = machine[op.operands[0]]
    machine.unmet.pop(op.results[0], None)
    if op.operands[0] in machine.unmet:
        machine.unmet[op.results[0]] = machine.unmet[op.operands[0]]
    predicate = op.attributes["predicate"]
    broken = _PREDICATES[predicate.name](predicate, value, op.operands[0].type)
    if broken is not None:
        origin = _origin(machine, op.operands[0])
        message = f"assumes {predicate}, which does not hold: the value has {broken}{origin}"
        if not is_only_a_stride(op.results[0]):
            raise Undefined(message)
        machine.unmet[op.results[0]] = message
    return value


@meaning("assert")
def assert_(machine: Machine, op: cuda_tile.AssertOp):
    condition = np.asarray(machine[op.operands[0]])
    machine.decide("a condition", condition)
    if not condition.all():
        failed = [list(map(int, index)) for index in np.argwhere(~condition)]
        places = ", ".join(map(str, failed[:4])) + (f" and {len(failed) - 4} more" if len(failed) > 4 else "")
        raise Undefined(f"assertion failed at {places}: {op.attributes['message'].value}")


_CONVERSION = re.compile(r"%(%|[-+ #0]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|j|t|L)?([diouxXeEfFgGcsp]))")


def _format_element(conversion: str, kind: str, number: float | int, element: FloatType | IntegerType) -> str:
    flags = re.sub(r"(hh|h|ll|l|z|j|t|L)?[a-zA-Z]$", "", conversion)
    if kind in "eEfFgG":
        return f"{flags}{kind}" % float(number)
    if isinstance(element, FloatType):
        number = int(float(number))
    elif isinstance(element, IntegerType):
        # As C passes them to printf: narrow integers are signed and become 32 bits wide, truth values are 0 or 1.
        number = int((unsigned if element.width == 1 else signed)(np.asarray(number), element.width))
        if kind not in "di":
            number &= (1 << max(32, element.width)) - 1
    if kind == "p":
        return f"{int(number):#x}"
    if kind == "c":
        return chr(int(number) & 0xFF)
    return f"{flags}{'d' if kind == 'u' else kind}" % (number if kind == "s" else int(number))


def format_tile(conversion: str, kind: str, tile: np.ndarray, element: FloatType | IntegerType) -> str:
    """A scalar alone, other tiles as nested brackets."""
    if tile.ndim == 0:
        return _format_element(conversion, kind, tile[()], element)
    return "[" + ", ".join(format_tile(conversion, kind, part, element) for part in tile) + "]"


@meaning("print_tko")
def print_tko(machine: Machine, op: cuda_tile.PrintTkoOp):
    operands = iter(op.args)

    def substitute(match: re.Match) -> str:
        if match.group(1) == "%":
            return "%"
        value = next(operands, None)
        if value is None:
            raise Undefined("has more conversions in its format than operands")
        return format_tile(match.group(0), match.group(2), np.asarray(machine[value]), value.type.element_type)

    machine.output.write(_CONVERSION.sub(substitute, op.attributes["str"].value))
    return tuple(TOKEN for _ in op.results)
