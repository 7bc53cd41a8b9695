"""Elementary functions on vectors.

In f32: exponentials and logarithms as polynomials on whole vectors, the others in the C library's functions for f64,
rounded once, element by element.  In f64: the C library's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .code import Code, constant, float_literal, vector

LIBRARY = {
    "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "sin": "sin", "cos": "cos", "tan": "tan",
    "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "powf": "pow", "atan2": "atan2",
}  # fmt: skip
"""Operation of math -> the function of the C library for f64."""

FUNCTIONS = (*LIBRARY, "rsqrt")

Function = Callable[[Code, int, str], str]

LONG = ("tan", "sinh", "cosh", "tanh")
"""Functions of the C library that are off by more than a unit in f64: they are called in long double."""


def call_function(code: Code, name: str, type: str, count: int, operands: Sequence[str]) -> str:
    """A function of f32 or f64 numbers."""
    if name == "rsqrt":
        return _rsqrt(code, type, count, operands[0])
    if type == "float" and name in _FAST:
        return _FAST[name](code, count, operands[0])
    return _by_element(code, LIBRARY[name], type, count, operands)


def _by_element(code: Code, function: str, type: str, count: int, operands: Sequence[str]) -> str:
    """The C library's function for f64, once for each element."""
    whole, wide, name = "poison", "double", function
    if type == "double" and function in LONG and code.long_double:
        wide, name = code.long_double, function + "l"
    for lane in range(count):
        numbers = [code.element(type, count, each, lane) for each in operands]
        if type != wide:
            numbers = [code.value(f"fpext {type} {each} to {wide}") for each in numbers]
        element = code.call(name, wide, [(wide, each) for each in numbers])
        if type != wide:
            element = code.value(f"fptrunc {wide} {element} to {type}")
        if count == 1:
            return element
        whole = code.value(f"insertelement {vector(type, count)} {whole}, {type} {element}, i64 {lane}")
    return whole


def _rsqrt(code: Code, type: str, count: int, number: str) -> str:
    """In f64, which is exact enough for f32; in f64 itself with a step of Newton's method."""
    d, single = _Numbers(code, "double", count), vector("float", count)
    if type == "float":
        number = code.value(f"fpext {single} {number} to {d.type}")
    value = code.value(f"fdiv {d.type} {d.c(1.0)}, {code.intrinsic('sqrt', 'double', count, number)}")
    if type == "float":
        return code.value(f"fptrunc {d.type} {value} to {single}")
    product = d.op("fmul", number, value)
    low = d.fma(number, value, code.value(f"fneg {d.type} {product}"))
    rest = d.fma(code.value(f"fneg {d.type} {product}"), value, 1.0)
    rest = d.op("fsub", rest, d.op("fmul", low, value))
    better = d.fma(d.op("fmul", value, 0.5), rest, value)
    is_ordered = code.value(f"fcmp ord {d.type} {better}, {d.c(0.0)}")
    return code.value(f"select {d.truth} {is_ordered}, {d.type} {better}, {d.type} {value}")


class _Numbers:
    """Instructions on vectors of f32 or f64 and integers of the same width."""

    def __init__(self, code: Code, type: str, count: int) -> None:
        self.code, self.name, self.count = code, type, count
        self.type, self.truth = vector(type, count), vector("i1", count)
        self.word = "i32" if type == "float" else "i64"
        self.int = vector(self.word, count)

    def c(self, number: float) -> str:
        return constant(self.name, self.count, float_literal(number, self.name))

    def i(self, number: int) -> str:
        return constant(self.word, self.count, number)

    def op(self, name: str, left: str, right: str | float) -> str:
        right = self.c(right) if isinstance(right, float) else right
        return self.code.value(f"{name} {self.type} {left}, {right}")

    def whole(self, name: str, left: str, right: str | int) -> str:
        right = self.i(right) if isinstance(right, int) else right
        return self.code.value(f"{name} {self.int} {left}, {right}")

    def fma(self, a: str, b: str | float, c: str | float) -> str:
        b, c = (self.c(each) if isinstance(each, float) else each for each in (b, c))
        return self.code.intrinsic("fma", self.name, self.count, a, b, c)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """Horner's scheme; the highest coefficient first."""
        result = self.c(coefficients[0])
        for each in coefficients[1:]:
            result = self.fma(result, x, each)
        return result

    def where(self, predicate: str, x: str, limit: float, yes: str | float, no: str) -> str:
        """`yes` where the comparison with a number holds."""
        yes = self.c(yes) if isinstance(yes, float) else yes
        truth = self.code.value(f"fcmp {predicate} {self.type} {x}, {self.c(limit)}")
        return self.code.value(f"select {self.truth} {truth}, {self.type} {yes}, {self.type} {no}")

    def between(self, x: str, least: float, most: float) -> str:
        """The number that is nearest to `x` between two others; NaN stays.  One instruction for each."""
        x = self.where("ogt", x, most, most, x)
        return self.where("olt", x, least, least, x)

    def bits(self, number: str) -> str:
        return self.code.value(f"bitcast {self.type} {number} to {self.int}")

    def of_bits(self, bits: str) -> str:
        return self.code.value(f"bitcast {self.int} {bits} to {self.type}")


LN2 = 0.6931471805599453
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
"""log(2) in two parts: multiples of the first are exact (Moshier, Cephes, expf)."""
_EXPONENTIAL = (1.3814567e-3, 8.3687380e-3, 4.1668389e-2, 1.66665211e-1, 4.9999994e-1, 1.0, 1.0)
"""e^r for |r| up to log(2) / 2 within 0.06 units of f32, the highest coefficient first: the least greatest relative
error of polynomials of this degree with 1 + r.  Computed in f32, results are off by 0.87 units at most."""
_ROUNDER = 12582912.0
"""1.5 * 2^23: numbers up to 2^22 that are added to it are rounded to integers, which are then its lowest bits."""


def _exp(code: Code, count: int, x: str) -> str:
    f = _Numbers(code, "float", count)
    x = f.between(x, -104.0, 89.0)
    shifted = f.fma(x, 1.4426950408889634, _ROUNDER)
    n = f.op("fsub", shifted, _ROUNDER)
    r = f.fma(n, -_LN2_LOW, f.fma(n, -_LN2_HIGH, x))
    return _scaled_exponential(f, shifted, r)


def _exp2(code: Code, count: int, x: str) -> str:
    f = _Numbers(code, "float", count)
    x = f.between(x, -151.0, 129.0)
    shifted = f.op("fadd", x, _ROUNDER)
    r = f.op("fsub", x, f.op("fsub", shifted, _ROUNDER))
    return _scaled_exponential(f, shifted, f.op("fmul", r, LN2))


def _scaled_exponential(f: _Numbers, shifted: str, r: str) -> str:
    """e^r * 2^n; the lowest bits of `shifted` are n.  In two factors, since 2^n may be no f32."""
    p = f.polynomial(r, _EXPONENTIAL)
    if f.code.has_scale and f.count % _SCALED == 0:
        return _by_power(f, p, f.op("fsub", shifted, _ROUNDER))
    n = f.whole("sub", f.bits(shifted), 0x4B400000)
    half = f.whole("ashr", n, 1)
    rest = f.whole("sub", n, half)
    for power in (half, rest):
        p = f.op("fmul", p, f.of_bits(f.whole("shl", f.whole("add", power, 127), 23)))
    return p


_SCALED = 16
"""Elements of the instruction that multiplies by a power of two (AVX-512, `vscalefps`)."""


def _by_power(f: _Numbers, number: str, power: str) -> str:
    """`number` * 2^`power`, both f32, by one instruction for each vector register."""
    code, one, parts = f.code, vector("float", _SCALED), []
    for start in range(0, f.count, _SCALED):
        lanes = list(range(start, start + _SCALED))
        a, b = (code.shuffle("float", f.count, each, lanes) for each in (number, power))
        part = code.call(
            "llvm.x86.avx512.mask.scalef.ps.512", one,
            [(one, a), (one, b), (one, "zeroinitializer"), ("i16", "-1"), ("i32", "4")],
        )  # fmt: skip
        parts.append(part)
    width = _SCALED
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2])
        parts = [code.shuffle("float", width, low, range(2 * width), high) for low, high in pairs]
        width *= 2
    return parts[0]


def _logarithm(scale: float) -> Function:
    """log(x) * scale, in f64: subnormal f32 are normal numbers there."""

    def apply(code: Code, count: int, x: str) -> str:
        d = _Numbers(code, "double", count)
        wide = code.value(f"fpext {vector('float', count)} {x} to {d.type}")
        bits = d.bits(wide)
        # Exponents count from sqrt(1/2): the mantissa is in [sqrt(1/2), sqrt(2)).
        offset_bits = d.whole("sub", bits, 0x3FE6A09E667F3BCD)
        exponent = d.whole("ashr", offset_bits, 52)
        mantissa = d.of_bits(d.whole("sub", bits, d.whole("shl", exponent, 52)))
        f = d.op("fsub", mantissa, 1.0)
        s = d.op("fdiv", f, d.op("fadd", mantissa, 1.0))
        z = d.op("fmul", s, s)
        series = d.polynomial(z, [2.0 / n for n in (13, 11, 9, 7, 5, 3)] + [2.0])
        k = code.value(f"sitofp {d.int} {exponent} to {d.type}")
        result = d.fma(k, LN2 * scale, d.op("fmul", d.op("fmul", s, series), scale))
        result = d.where("oeq", wide, 0.0, float("-inf"), result)
        result = d.where("oeq", wide, float("inf"), wide, result)
        result = d.where("ult", wide, 0.0, float("nan"), result)
        return code.value(f"fptrunc {d.type} {result} to {vector('float', count)}")

    return apply


def _tanh(code: Code, count: int, x: str) -> str:
    """1 - 2 / (e^2x + 1) in f64, of the magnitude; near zero the series."""
    d = _Numbers(code, "double", count)
    wide = code.value(f"fpext {vector('float', count)} {x} to {d.type}")
    size = code.intrinsic("fabs", "double", count, wide)
    size = d.where("ogt", size, 20.0, 20.0, size)
    y = d.op("fadd", size, size)
    shifted = d.fma(y, 1.4426950408889634, 6755399441055744.0)
    n = d.op("fsub", shifted, 6755399441055744.0)
    r = d.fma(n, -LN2, y)
    power = 1.0
    factorials = [power := power / number for number in range(1, 13)]
    p = d.polynomial(r, [*reversed(factorials), 1.0])
    whole = d.whole("shl", d.whole("add", d.whole("sub", d.bits(shifted), 0x4338000000000000), 1023), 52)
    e = d.op("fmul", p, d.of_bits(whole))
    large = d.op("fdiv", d.op("fsub", e, 1.0), d.op("fadd", e, 1.0))
    z = d.op("fmul", size, size)
    small = d.op("fmul", size, d.polynomial(z, (-17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0, 1.0)))
    result = d.where("olt", size, 0.0078125, small, large)
    # In f32: of an f64 that is truncated to f16 LLVM truncates the sign's operand as well, by a call of libgcc.
    size = code.value(f"fptrunc {d.type} {result} to {vector('float', count)}")
    return code.intrinsic("copysign", "float", count, size, x)


_FAST: dict[str, Function] = {
    "exp": _exp, "exp2": _exp2, "log": _logarithm(1.0), "log2": _logarithm(1.4426950408889634), "tanh": _tanh,
}  # fmt: skip
"""Functions of f32 on vectors."""
