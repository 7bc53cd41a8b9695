"""Operations on each element: integers, comparisons, conversions, float arithmetic.

A rule takes vectors of the operands' elements and returns that of the result; it serves scalars as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.dialects.arith.ops import splat_elements
from tileiras.ir import DenseElementsAttr, TensorType, element_type_of

from .code import constant, float_literal, suffix, vector
from .directed import narrowed
from .elements import EQUAL, Kind, Lanes, kind_of
from .formats import encode, narrow_to_odd

if TYPE_CHECKING:
    from .lower import Lowering

Rule = Callable[["Lowering", Any, Sequence[Lanes]], Lanes]

ELEMENTWISE: dict[str, Rule] = {}
"""Operation -> its rule; `math` and `floats` add theirs."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        for name in names:
            ELEMENTWISE[name] = function
        return function

    return register


def result_kind(op: Any) -> Kind:
    return kind_of(element_type_of(op.results[0].type))


# -- constants ---------------------------------------------------------------------------------------------------------


def literal(kind: Kind, bits: int) -> str:
    """A stored bit pattern as a constant of the kind's stored type."""
    if kind.stored == "float":
        return float_literal(_unpack("f", "I", bits))
    if kind.stored == "double":
        return f"0x{bits:016X}"
    return str(bits)


def _unpack(format: str, whole: str, bits: int) -> float:
    import struct

    return struct.unpack(f"<{format}", struct.pack(f"<{whole}", bits))[0]


def constant_lanes(attribute: Any, element: Any, count: int) -> Lanes:
    """A constant in every element, from an integer, float or splat attribute."""
    if not isinstance(attribute, DenseElementsAttr):
        attribute = splat_elements(attribute, TensorType((1,), element))
    (bits,) = attribute.stored_bits()
    return constant_of_bits(element, bits, count)


def constant_of_bits(element: Any, bits: int, count: int) -> Lanes:
    kind = kind_of(element)
    if kind.format == "tf32":
        # A constant has the upper 19 bits of the f32.
        return Lanes(kind, count, constant("float", count, float_literal(_unpack("f", "I", bits << 13))), steps=EQUAL)
    data = constant(kind.stored, count, literal(kind, bits))
    if kind.format:
        return Lanes(kind, count, bits=data, steps=EQUAL)
    if kind.number != kind.stored:
        bits &= (1 << kind.width) - 1
        return Lanes(kind, count, constant(kind.number, count, bits), steps=EQUAL)
    return Lanes(kind, count, data, steps=EQUAL)


@rule("arith.constant")
def _constant(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    """A scalar, or a tile with equal elements, which is spread by its user."""
    return constant_lanes(op.value, element_type_of(op.result.type), 1)


# -- integers ----------------------------------------------------------------------------------------------------------


def _integer(instruction: str, keeps_steps: bool = False) -> Rule:
    def apply(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
        lhs, rhs = operands
        name = low.code.value(f"{instruction} {lhs.type} {lhs.number(low.code)}, {rhs.number(low.code)}")
        return Lanes(lhs.kind, lhs.count, name, steps=min(lhs.steps, rhs.steps) if keeps_steps else 0)

    return apply


for _name, _instruction in {"addi": "add", "subi": "sub"}.items():
    rule(f"arith.{_name}")(_integer(_instruction, keeps_steps=True))
for _name, _instruction in {"andi": "and", "ori": "or", "xori": "xor"}.items():
    rule(f"arith.{_name}")(_integer(_instruction))


@rule("arith.muli")
def _muli(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    lhs, rhs = operands
    name = low.code.value(f"mul {lhs.type} {lhs.number(low.code)}, {rhs.number(low.code)}")
    steps = min(lhs.steps, rhs.steps) if EQUAL in (lhs.steps, rhs.steps) else 0
    return Lanes(lhs.kind, lhs.count, name, steps=steps)


def _shift(instruction: str) -> Rule:
    def apply(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
        lhs, rhs = operands
        amount = rhs.number(low.code)
        if lhs.kind.width > 1:
            # A shift by the width or more is undefined in the language, and poison in LLVM.
            mask = constant(lhs.kind.number, lhs.count, lhs.kind.width - 1)
            amount = low.code.value(f"and {lhs.type} {amount}, {mask}")
        else:
            amount = constant("i1", lhs.count, 0)
        return Lanes(lhs.kind, lhs.count, low.code.value(f"{instruction} {lhs.type} {lhs.number(low.code)}, {amount}"))

    return apply


for _name, _instruction in {"shli": "shl", "shrsi": "ashr", "shrui": "lshr"}.items():
    rule(f"arith.{_name}")(_shift(_instruction))


def _divisor(low: Lowering, lhs: Lanes, rhs: Lanes, signed: bool) -> str:
    """The divisor, one where the quotient is undefined: the processor traps on division by zero and on overflow."""
    code, type, truth = low.code, lhs.type, vector("i1", lhs.count)
    divisor = rhs.number(code)
    bad = code.value(f"icmp eq {type} {divisor}, {constant(lhs.kind.number, lhs.count, 0)}")
    if signed:
        least = constant(lhs.kind.number, lhs.count, 1 << (lhs.kind.width - 1))
        minus = code.value(f"icmp eq {type} {divisor}, {constant(lhs.kind.number, lhs.count, -1)}")
        lowest = code.value(f"icmp eq {type} {lhs.number(code)}, {least}")
        overflow = code.value(f"and {truth} {minus}, {lowest}")
        bad = code.value(f"or {truth} {bad}, {overflow}")
    one = constant(lhs.kind.number, lhs.count, 1)
    return code.value(f"select {truth} {bad}, {type} {one}, {type} {divisor}")


def _division(instruction: str, adjust: str = "") -> Rule:
    """A quotient or remainder; `adjust` moves a truncated quotient towards `floor` or `ceil`."""

    def apply(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
        code, (lhs, rhs), signed = low.code, operands, instruction[0] == "s"
        type, count = lhs.type, lhs.count
        value, divisor = lhs.number(code), _divisor(low, lhs, rhs, signed and lhs.kind.width > 1)
        result = code.value(f"{instruction} {type} {value}, {divisor}")
        if not adjust:
            return Lanes(lhs.kind, count, result)
        truth, zero = vector("i1", count), constant(lhs.kind.number, count, 0)
        product = code.value(f"mul {type} {result}, {divisor}")
        moves = code.value(f"icmp ne {type} {product}, {value}")
        if signed:
            signs = code.value(f"xor {type} {value}, {divisor}")
            side = code.value(f"icmp {'slt' if adjust == 'floor' else 'sge'} {type} {signs}, {zero}")
            moves = code.value(f"and {truth} {moves}, {side}")
        step = code.value(f"zext {truth} {moves} to {type}") if lhs.kind.width > 1 else moves
        return Lanes(lhs.kind, count, code.value(f"{'sub' if adjust == 'floor' else 'add'} {type} {result}, {step}"))

    return apply


for _name, _instruction in {"divsi": "sdiv", "divui": "udiv", "remsi": "srem", "remui": "urem"}.items():
    rule(f"arith.{_name}")(_division(_instruction))
rule("arith.ceildivsi")(_division("sdiv", "ceil"))
rule("arith.ceildivui")(_division("udiv", "ceil"))
rule("arith.floordivsi")(_division("sdiv", "floor"))


def _extremum(name: str) -> Rule:
    def apply(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
        lhs, rhs = operands
        intrinsic = low.code.intrinsic(
            name, lhs.kind.number, lhs.count, lhs.number(low.code), rhs.number(low.code)
        )
        return Lanes(lhs.kind, lhs.count, intrinsic)

    return apply


for _name, _intrinsic in {"maxsi": "smax", "maxui": "umax", "minsi": "smin", "minui": "umin"}.items():
    rule(f"arith.{_name}")(_extremum(_intrinsic))


@rule("math.absi")
def _absi(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    (value,) = operands
    if value.kind.width == 1:
        return value
    intrinsic = low.code.intrinsic(
        "abs", value.kind.number, value.count, value.number(low.code), more=[("i1", "false")]
    )
    return Lanes(value.kind, value.count, intrinsic)


def _high_product(extension: str) -> Rule:
    def apply(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
        code, (lhs, rhs) = low.code, operands
        width, count = lhs.kind.width, lhs.count
        wide = vector(f"i{2 * width}", count)
        both = [code.value(f"{extension} {lhs.type} {each.number(code)} to {wide}") for each in (lhs, rhs)]
        product = code.value(f"mul {wide} {both[0]}, {both[1]}")
        high = code.value(f"lshr {wide} {product}, {constant(f'i{2 * width}', count, width)}")
        return Lanes(lhs.kind, count, code.value(f"trunc {wide} {high} to {lhs.type}"))

    return apply


rule("nv_tileaa.mulhiui")(_high_product("zext"))
rule("nv_tileaa.mulhisi")(_high_product("sext"))


@rule("arith.cmpi")
def _cmpi(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    lhs, rhs = operands
    name = f"icmp {op.predicate.value} {lhs.type} {lhs.number(low.code)}, {rhs.number(low.code)}"
    return Lanes(result_kind(op), lhs.count, low.code.value(name))


@rule("arith.select")
def _select(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    code, (condition, yes, no) = low.code, operands
    truth = f"{condition.type} {condition.number(code)}"
    if yes.kind.format:
        name = code.value(f"select {truth}, {yes.stored_type} {yes.stored(code)}, {no.stored_type} {no.stored(code)}")
        return Lanes(yes.kind, yes.count, bits=name)
    return Lanes(
        yes.kind, yes.count, code.value(f"select {truth}, {yes.type} {yes.number(code)}, {no.type} {no.number(code)}")
    )


# -- conversions -------------------------------------------------------------------------------------------------------


def _integer_cast(instruction: str) -> Rule:
    def apply(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
        (value,), kind = operands, result_kind(op)
        if kind.width == value.kind.width:
            return value
        target = vector(kind.number, value.count)
        name = low.code.value(f"{instruction} {value.type} {value.number(low.code)} to {target}")
        return Lanes(kind, value.count, name, steps=value.steps)

    return apply


for _name, _instruction in {"extsi": "sext", "extui": "zext", "trunci": "trunc"}.items():
    rule(f"arith.{_name}")(_integer_cast(_instruction))


@rule("nv_tileaa.int_to_ptr", "nv_tileaa.ptr_to_int", "nv_tileaa.bitcast", "nv_tileaa.assume")
def _same(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    (value,), kind = operands, result_kind(op)
    if kind == value.kind:
        return value
    number = value.number(low.code)
    if kind.width < value.kind.width:
        number = low.code.value(f"trunc {value.type} {number} to {vector(kind.number, value.count)}")
    elif kind.width > value.kind.width:
        number = low.code.value(f"zext {value.type} {number} to {vector(kind.number, value.count)}")
    return Lanes(kind, value.count, number, steps=value.steps)


@rule("arith.bitcast")
def _bitcast(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    code, (value,), kind = low.code, operands, result_kind(op)
    data = value.stored(code)
    if kind.stored != value.kind.stored:
        data = code.value(f"bitcast {value.stored_type} {data} to {vector(kind.stored, value.count)}")
    if value.kind.width == 4 and value.kind.format and not kind.format or kind.number == "i1":
        number = code.value(f"trunc {vector(kind.stored, value.count)} {data} to {vector(kind.number, value.count)}")
        return Lanes(kind, value.count, number)
    return Lanes(kind, value.count, bits=data)


def _from_integer(instruction: str) -> Rule:
    def apply(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
        code, (value,), kind = low.code, operands, result_kind(op)
        number, type = value.number(code), value.type
        if not kind.format:
            target = vector(kind.number, value.count)
            return Lanes(kind, value.count, code.value(f"{instruction} {type} {number} to {target}"))
        if value.kind.width == 64:
            wide = _odd_double(low, instruction, value)
        else:
            wide = code.value(f"{instruction} {type} {number} to {vector('double', value.count)}")
        odd = narrow_to_odd(code, value.count, wide)
        return Lanes(kind, value.count, bits=encode(code, kind.format, value.count, odd, saturate=kind.width <= 8))

    return apply


def _odd_double(low: Lowering, instruction: str, value: Lanes) -> str:
    """64-bit integers as f64 rounded to odd, which round correctly to every narrower format."""
    code, count, number = low.code, value.count, value.number(low.code)
    double, truth = vector("double", count), vector("i1", count)
    cut = code.value(f"and {value.type} {number}, {constant('i64', count, 2047)}")
    sticky = code.value(f"icmp ne {value.type} {cut}, {constant('i64', count, 0)}")
    shift = "ashr" if instruction == "sitofp" else "lshr"
    result = code.value(f"{shift} {value.type} {number}, {constant('i64', count, 11)}")
    odd = code.value(f"or {value.type} {result}, {code.value(f'zext {truth} {sticky} to {value.type}')}")
    large = code.value(f"{instruction} {value.type} {odd} to {double}")
    scale = constant("double", count, float_literal(2048.0, "double"))
    large = code.value(f"fmul {double} {large}, {scale}")
    small = code.value(f"{instruction} {value.type} {number} to {double}")
    size = code.intrinsic("fabs", "double", count, small)
    limit = constant("double", count, float_literal(2.0**52, "double"))
    exact = code.value(f"fcmp olt {double} {size}, {limit}")
    return code.value(f"select {truth} {exact}, {double} {small}, {double} {large}")


rule("arith.sitofp")(_from_integer("sitofp"))
rule("arith.uitofp")(_from_integer("uitofp"))


def _to_integer(name: str) -> Rule:
    """Saturating: a number out of range is undefined in the language, and poison without."""

    def apply(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
        code, (value,), kind = low.code, operands, result_kind(op)
        result = vector(kind.number, value.count)
        function = f"llvm.{name}.sat.{suffix(kind.number, value.count)}.{suffix(value.kind.number, value.count)}"
        return Lanes(kind, value.count, code.call(function, result, [(value.type, value.number(code))]))

    return apply


rule("arith.fptosi")(_to_integer("fptosi"))
rule("arith.fptoui")(_to_integer("fptoui"))


@rule("nv_tileaa.fp_to_fp")
def _fp_to_fp(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    code, (value,), kind, mode = low.code, operands, result_kind(op), op.rounding_mode.value
    count, number = value.count, value.number(code)
    if kind.number == "double":
        return Lanes(kind, count, number if value.kind.number == "double" else code.value(
            f"fpext {value.type} {number} to {vector('double', count)}"))  # fmt: skip
    if not kind.format:
        if value.kind.number == "float":
            return Lanes(kind, count, number)
        if mode != "nearest_even":
            return Lanes(kind, count, narrowed(code, count, number, mode))
        return Lanes(kind, count, code.value(f"fptrunc {value.type} {number} to {vector('float', count)}"))
    if value.kind.number == "double":
        number = narrow_to_odd(code, count, number)
    bits = encode(code, kind.format, count, number, mode, saturate=kind.width <= 8)
    return Lanes(kind, count, bits=bits)


@rule("nv_tileaa.addptr")
def _addptr(low: Lowering, op: Any, operands: Sequence[Lanes]) -> Lanes:
    code, (pointer, offset) = low.code, operands
    number, count = offset.number(code), offset.count
    if offset.kind.width < 64:
        number = code.value(f"sext {offset.type} {number} to {vector('i64', count)}")
    pointee = element_type_of(op.pointer.type).pointee
    width = getattr(pointee, "width", 64)
    if width == 4:
        number = code.value(f"ashr {vector('i64', count)} {number}, {constant('i64', count, 1)}")
    else:
        number = code.value(f"mul {vector('i64', count)} {number}, {constant('i64', count, kind_of(pointee).size)}")
    name = code.value(f"add {pointer.type} {pointer.number(code)}, {number}")
    return Lanes(pointer.kind, count, name, steps=min(pointer.steps, offset.steps))


