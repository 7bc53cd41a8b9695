"""Operations on tiles that differ from those of cuda_tile."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.dialects.arith.ops import splat_elements
from tileiras.ir import DenseElementsAttr, FloatAttr, Operation, TensorType, element_type_of

from ..arith import high_bits
from ..machine import MEANINGS
from ..reduce import combiner, reduced, scanned
from ..rounding import FLOAT_DTYPES
from ..values import dtype_of, elements_of, wrap
from .borrowed import ELEMENTWISE, Seen, _signs
from .control_flow import meet
from .machine import LoweredMachine, Unruled, as_only, rule

ENDS = ("nv_tileaa.yield", "nv_tileas.yield")


@rule("arith.constant")
def constant(machine: LoweredMachine, op: Any) -> np.ndarray:
    value, type = op.value, op.result.type
    if isinstance(value, DenseElementsAttr):
        return elements_of(value, tuple(type.shape))
    element = element_type_of(type)
    if isinstance(value, FloatAttr):
        return elements_of(splat_elements(value, TensorType((1,), element)), (1,)).reshape(())
    return wrap(np.array(value.value % (1 << 64), np.uint64), element.width)


@rule("splat")
def splat(machine: LoweredMachine, op: Any) -> np.ndarray:
    return np.broadcast_to(machine[op.operand], op.result.type.shape)


@rule("unsplat")
def unsplat(machine: LoweredMachine, op: Any) -> np.ndarray:
    return np.asarray(machine[op.operand]).reshape(())


@as_only("convert_layout", "async.to_async")
def same(machine: LoweredMachine, op: Operation) -> tuple:
    """The same tiles elsewhere, or in flight."""
    return tuple(machine.operands(op))


@as_only("unpack")
def unpack(machine: LoweredMachine, op: Any) -> np.ndarray:
    packed = machine[op.operand]
    packed = np.ascontiguousarray(packed).view(np.uint8).reshape(np.shape(packed))
    dim, element = op.dim.value, op.result.type.element_type
    halves = np.stack([packed & 0xF, packed >> 4], axis=dim + 1).reshape(op.result.type.shape)
    keyword = getattr(element, "keyword", None)
    return wrap(halves, 4) if keyword is None else halves.view(FLOAT_DTYPES[keyword])


@rule("mulhisi")
def mulhisi(machine: LoweredMachine, op: Any) -> np.ndarray:
    """From the unsigned product: a negative factor counts 2^width too much of the other one."""
    lhs, rhs = machine.operands(op)
    width = element_type_of(op.lhs.type).width
    high = high_bits(lhs, rhs, width)
    return wrap(high - np.where(lhs < 0, rhs, 0) - np.where(rhs < 0, lhs, 0), width)


# -- reductions ------------------------------------------------------------------------------------------------------


def _combiner(machine: LoweredMachine, op: Any) -> Any:
    return combiner(machine, op, lambda running, elements: [*running, *elements], ELEMENTWISE, ENDS)


@rule("reduce")
def reduce(machine: LoweredMachine, op: Any) -> tuple:
    return reduced(machine.operands(op), op.dim.value, _combiner(machine, op))


@rule("scan")
def scan(machine: LoweredMachine, op: Any) -> tuple:
    return scanned(machine.operands(op), op.dim.value, _combiner(machine, op), op.reverse is not None)


# -- products --------------------------------------------------------------------------------------------------------


def whole_b(machine: LoweredMachine, op: Any, b: np.ndarray) -> np.ndarray:
    """B with the columns of both CTAs of a pair."""
    atom = op.attributes.get("atom")
    if atom is None or not atom.is_of_pair:
        return b
    if len(machine.peers) < 2:
        raise Unruled("is of a pair of CTAs, and the tile block is one CTA")
    first = machine.rank & ~1
    return np.concatenate(meet(machine, id(op), b)[first : first + 2], axis=-1)


class _Held:
    """An operand whose value is at hand."""

    def __init__(self, value: Any, type: Any) -> None:
        self.at_hand, self.type = value, type


class _Values:
    """The machine interface of a rule of `MEANINGS`, for operands whose values are known."""

    def __getitem__(self, operand: _Held) -> Any:
        return operand.at_hand


def multiply(op: Any, *operands: tuple[np.ndarray, Any]) -> np.ndarray:
    """`a @ b + c`, with scales of `a` and `b` behind them: values and the types of their elements."""
    keyword = getattr(operands[0][1], "keyword", None)
    name = "mmaf_scaled" if len(operands) > 3 else "mmai" if keyword is None else "mmaf"
    seen = Seen(op, f"cuda_tile.{name}", {} if keyword is not None else _signs(op))
    seen.operands = [_Held(value, _Elements(element)) for value, element in operands]  # type: ignore[misc]
    return MEANINGS[seen.name](_Values(), seen)  # type: ignore[arg-type]


class _Elements:
    def __init__(self, element: Any) -> None:
        self.element_type = element


@rule("dot", "block_scaled_mma")
def dot(machine: LoweredMachine, op: Any) -> np.ndarray:
    values = machine.operands(op)
    values[1] = whole_b(machine, op, values[1])
    return multiply(op, *zip(values, (operand.type.element_type for operand in op.operands)))


@as_only("async.dot")
def async_dot(machine: LoweredMachine, op: Any) -> np.ndarray:
    values = [machine[operand] for operand in (op.a, op.b, op.c)]
    types = [getattr(operand.type, "tile", operand.type) for operand in (op.a, op.b, op.c)]
    if op.overwrites is not None:
        values[2] = np.zeros(types[2].shape, dtype_of(types[2].element_type))
    return multiply(op, *zip(values, (type.element_type for type in types)))
