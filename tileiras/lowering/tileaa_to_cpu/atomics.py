"""Atomic updates: LLVM's instructions for integers, loops of compare and exchange for floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .access import ATOMIC, Ways
from .elements import Kind, Lanes
from .formats import encode
from .memory import pointee
from .tiles import At

if TYPE_CHECKING:
    from .lower import Lowering

_INSTRUCTIONS = {
    "and": "and", "or": "or", "xor": "xor", "add": "add", "max": "max", "min": "min", "umax": "umax", "umin": "umin",
    "xchg": "xchg",
}  # fmt: skip
_FLOATS = {"max": "maximum", "min": "minimum"}


def _order(op: Any) -> str:
    return ATOMIC.get(op.mem_semantic.value, "monotonic")


def _bits(low: Lowering, lanes: Lanes) -> str:
    """One element as an integer of its size in memory."""
    data = lanes.stored(low.code)
    if lanes.kind.stored in ("float", "double"):
        return low.code.value(f"bitcast {lanes.kind.stored} {data} to i{8 * lanes.kind.size}")
    return data


def _of_bits(low: Lowering, kind: Kind, bits: str) -> Lanes:
    if kind.stored in ("float", "double"):
        bits = low.code.value(f"bitcast i{8 * kind.size} {bits} to {kind.stored}")
    return Lanes(kind, 1, bits=bits)


def update(low: Lowering, op: Any, mode: str, kind: Kind, address: str, operand: Lanes) -> Lanes:
    """Combine one element into memory; the element before."""
    code, order = low.code, _order(op)
    place, type = code.pointer(address), f"i{8 * kind.size}"
    if not kind.is_float or mode == "xchg":
        name = code.value(
            f"atomicrmw {_INSTRUCTIONS[mode]} ptr {place}, {type} {_bits(low, operand)} {order}, align {kind.size}"
        )
        return _of_bits(low, kind, name)
    number = operand.number(code)
    first = code.value(f"load atomic {type}, ptr {place} monotonic, align {kind.size}")
    before, loop, after = code.block, code.label("again"), code.label("done")
    code.jump(loop)
    code.start(loop)
    hole = code.hole()
    old = _of_bits(low, kind, hole[0])
    if mode == "addf":
        combined = code.value(f"fadd {kind.number} {old.number(code)}, {number}")
    else:
        combined = code.intrinsic(_FLOATS[mode], kind.number, 1, old.number(code), number)
    if kind.format:
        new = Lanes(kind, 1, bits=encode(code, kind.format, 1, combined))
    else:
        new = Lanes(kind, 1, combined)
    failure = {"acquire": "acquire", "acq_rel": "acquire"}.get(order, "monotonic")
    pair = code.value(
        f"cmpxchg weak ptr {place}, {type} {hole[0]}, {type} {_bits(low, new)} {order} {failure}, align {kind.size}"
    )
    value = code.value(f"extractvalue {{ {type}, i1 }} {pair}, 0")
    succeeds = code.value(f"extractvalue {{ {type}, i1 }} {pair}, 1")
    code.fill(hole, f"phi {type} [ {first}, %{before} ], [ {value}, %{code.block} ]")
    code.branch(succeeds, after, loop)
    code.start(after)
    return _of_bits(low, kind, value)


def _mask(low: Lowering, op: Any, at: At, otherwise: Lanes | None, action: Any) -> Lanes:
    """The result of an action where the mask holds."""
    code, kind = low.code, pointee(low, op)
    if op.mask is None:
        return action()
    ways = Ways(code, low.lanes(op.mask, at).number(code), ("then", "else"))
    zero = "0" if kind.stored[0] == "i" else "0.0"
    replaced = otherwise.stored(code) if otherwise is not None else zero
    with ways.way():
        ways.result(action().stored(code))
    with ways.way():
        ways.result(replaced)
    code.start(ways.after)
    return Lanes(kind, 1, bits=code.phi(kind.stored, ways.incoming))


def atomic_rmw(low: Lowering, op: Any) -> None:
    kind = pointee(low, op)

    def one(at: At) -> Lanes:
        address, value = low.lanes(op.pointer, at).number(low.code), low.lanes(op.value, at)
        value.stored(low.code), value.number(low.code)
        return _mask(
            low, op, at, None, lambda: update(low, op, op.rmw_mode.value, kind, address, value)
        )

    low.fill(op.data, one, lanes=1)


def atomic_cas(low: Lowering, op: Any) -> None:
    code, kind, order = low.code, pointee(low, op), _order(op)
    type = f"i{8 * kind.size}"
    failure = {"acquire": "acquire", "acq_rel": "acquire"}.get(order, "monotonic")

    def one(at: At) -> Lanes:
        address = low.lanes(op.pointer, at).number(code)
        compare, value = low.lanes(op.compare, at), low.lanes(op.value, at)
        comparand, new = _bits(low, compare), _bits(low, value)
        otherwise = Lanes(kind, 1, bits=compare.stored(code))

        def exchange() -> Lanes:
            place = code.pointer(address)
            pair = code.value(
                f"cmpxchg ptr {place}, {type} {comparand}, {type} {new} {order} {failure}, align {kind.size}"
            )
            return _of_bits(low, kind, code.value(f"extractvalue {{ {type}, i1 }} {pair}, 0"))

        return _mask(low, op, at, otherwise, exchange)

    low.fill(op.data, one, lanes=1)


FAMILY = {"nv_tileaa.atomic_rmw": atomic_rmw, "nv_tileaa.atomic_cas": atomic_cas}

