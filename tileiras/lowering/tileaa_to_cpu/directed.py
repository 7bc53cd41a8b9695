"""Arithmetic that rounds towards zero or an infinity: the nearest result and the sign of its error.

Errors of sums, products, quotients and roots are found without loss (Dekker; Boldo, Muller 2005).  Formats up to f32
are computed with in f64; a result that is made odd where it is inexact rounds correctly to each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from .code import Code, constant, float_literal, vector
from .elements import Kind, Lanes
from .formats import encode, narrow_to_odd


class _Doubles:
    """Instructions on vectors of f64 and i64."""

    def __init__(self, code: Code, count: int) -> None:
        self.code, self.count = code, count
        self.type, self.int, self.truth = (vector(type, count) for type in ("double", "i64", "i1"))

    def op(self, name: str, left: str, right: str) -> str:
        return self.code.value(f"{name} {self.type} {left}, {right}")

    def negated(self, number: str) -> str:
        return self.code.value(f"fneg {self.type} {number}")

    def fma(self, a: str, b: str, c: str) -> str:
        return self.code.intrinsic("fma", "double", self.count, a, b, c)

    def zero(self) -> str:
        return constant("double", self.count, float_literal(0.0, "double"))

    def compare(self, predicate: str, left: str, right: str) -> str:
        return self.code.value(f"fcmp {predicate} {self.type} {left}, {right}")

    def both(self, left: str, right: str) -> str:
        return self.code.value(f"and {self.truth} {left}, {right}")

    def choose(self, condition: str, yes: str, no: str) -> str:
        return self.code.value(f"select {self.truth} {condition}, {self.type} {yes}, {self.type} {no}")

    def two_sum(self, a: str, b: str) -> tuple[str, str]:
        total = self.op("fadd", a, b)
        other = self.op("fsub", total, a)
        error = self.op("fadd", self.op("fsub", a, self.op("fsub", total, other)), self.op("fsub", b, other))
        return total, error

    def two_product(self, a: str, b: str) -> tuple[str, str]:
        product = self.op("fmul", a, b)
        return product, self.fma(a, b, self.negated(product))

    def neighbour(self, number: str, up: bool) -> str:
        """The next number above, or below: of finite numbers but zero, and of infinities."""
        bits = self.code.value(f"bitcast {self.type} {number} to {self.int}")
        negative = self.compare("olt", number, self.zero())
        step = self.code.value(f"zext {self.truth} {negative} to {self.int}")
        twice = self.code.value(f"shl {self.int} {step}, {constant('i64', self.count, 1)}")
        away = self.code.value(f"sub {self.int} {constant('i64', self.count, 1)}, {twice}")
        moved = self.code.value(f"{'add' if up else 'sub'} {self.int} {bits}, {away}")
        return self.code.value(f"bitcast {self.int} {moved} to {self.type}")


def _add(d: _Doubles, a: str, b: str) -> tuple[str, str]:
    return d.two_sum(a, b)


def _sub(d: _Doubles, a: str, b: str) -> tuple[str, str]:
    return d.two_sum(a, d.negated(b))


def _mul(d: _Doubles, a: str, b: str) -> tuple[str, str]:
    return d.two_product(a, b)


def _div(d: _Doubles, a: str, b: str) -> tuple[str, str]:
    quotient = d.op("fdiv", a, b)
    residual = d.fma(d.negated(quotient), b, a)
    return quotient, d.choose(d.compare("olt", b, d.zero()), d.negated(residual), residual)


def _sqrt(d: _Doubles, a: str) -> tuple[str, str]:
    root = d.code.intrinsic("sqrt", "double", d.count, a)
    return root, d.fma(d.negated(root), root, a)


def _fma(d: _Doubles, a: str, b: str, c: str) -> tuple[str, str]:
    near = d.fma(a, b, c)
    high, low = d.two_product(a, b)
    middle, rest = d.two_sum(c, low)
    total, carry = d.two_sum(high, middle)
    first = d.op("fadd", d.op("fsub", total, near), carry)
    return near, d.op("fadd", first, rest)


OPERATIONS = {"addf": _add, "subf": _sub, "mulf": _mul, "divf": _div, "sqrt": _sqrt, "fma": _fma}
_CANCELLING = ("addf", "subf", "fma")


def rounded_towards(code: Code, name: str, kind: Kind, count: int, given: Sequence[str], mode: str) -> Lanes:
    """The result of an operation on numbers of one kind, rounded in a directed mode."""
    d = _Doubles(code, count)
    if kind.number == "float":
        given = [code.value(f"fpext {vector('float', count)} {each} to {d.type}") for each in given]
    near, error = OPERATIONS[name](d, *given)
    if kind.number == "double":
        found = Lanes(kind, count, _directed(d, near, error, mode))
    else:
        odd = _odd(d, near, error)
        if kind.format:
            single = narrow_to_odd(code, count, odd)
            found = Lanes(kind, count, stored=encode(code, kind.format, count, single, mode))
        else:
            found = Lanes(kind, count, _narrowed(d, odd, mode))
    if mode == "negative_inf" and name in _CANCELLING:
        return _negative_zero(d, name, given, found)
    return found


def _inexact(d: _Doubles, near: str, error: str) -> str:
    """Whether there is an error; none is known of infinities and NaN."""
    return d.both(d.compare("one", error, d.zero()), d.compare("oeq", d.op("fsub", near, near), d.zero()))


def _odd(d: _Doubles, near: str, error: str) -> str:
    """The exact result rounded to odd."""
    code = d.code
    bits = code.value(f"bitcast {d.type} {near} to {d.int}")
    last = code.value(f"trunc {d.int} {bits} to {d.truth}")
    even = code.value(f"xor {d.truth} {last}, {constant('i1', d.count, 'true')}")
    moves = d.both(_inexact(d, near, error), even)
    above = d.compare("ogt", error, d.zero())
    moved = d.choose(above, d.neighbour(near, True), d.neighbour(near, False))
    return d.choose(moves, moved, near)


def _directed(d: _Doubles, near: str, error: str, mode: str) -> str:
    """The nearest f64, moved to the side of its error that the mode wants."""
    inexact = _inexact(d, near, error)
    up = d.both(inexact, d.compare("ogt", error, d.zero()))
    down = d.both(inexact, d.compare("olt", error, d.zero()))
    if mode == "positive_inf":
        return d.choose(up, d.neighbour(near, True), near)
    if mode == "negative_inf":
        return d.choose(down, d.neighbour(near, False), near)
    down = d.both(down, d.compare("ogt", near, d.zero()))
    up = d.both(up, d.compare("olt", near, d.zero()))
    return d.choose(up, d.neighbour(near, True), d.choose(down, d.neighbour(near, False), near))


def _narrowed(d: _Doubles, wide: str, mode: str) -> str:
    """f64 numbers rounded to f32 in a directed mode."""
    code, single, integer = d.code, vector("float", d.count), vector("i32", d.count)
    near = code.value(f"fptrunc {d.type} {wide} to {single}")
    back = code.value(f"fpext {single} {near} to {d.type}")
    bits = code.value(f"bitcast {single} {near} to {integer}")
    negative = code.value(f"icmp slt {integer} {bits}, {constant('i32', d.count, 0)}")
    below, above = d.compare("olt", back, wide), d.compare("ogt", back, wide)
    minus, plus = (constant("i32", d.count, each) for each in (-1, 1))

    def step(condition: str, when_negative: str, otherwise: str) -> str:
        moved = code.value(f"select {d.truth} {negative}, {integer} {when_negative}, {integer} {otherwise}")
        return code.value(
            f"select {d.truth} {condition}, {integer} {moved}, {integer} {constant('i32', d.count, 0)}"
        )

    zero = constant("i32", d.count, 0)
    up = step(below, minus, plus if mode == "positive_inf" else zero)
    down = step(above, plus if mode == "negative_inf" else zero, minus)
    moves = {"positive_inf": [up], "negative_inf": [down], "zero": [up, down]}[mode]
    for move in moves:
        bits = code.value(f"add {integer} {bits}, {move}")
    return code.value(f"bitcast {integer} {bits} to {single}")


def narrowed(code: Code, count: int, wide: str, mode: str) -> str:
    """f64 numbers rounded to f32 in a directed mode."""
    return _narrowed(_Doubles(code, count), wide, mode)


def _negative_zero(d: _Doubles, name: str, given: Sequence[str], found: Lanes) -> Lanes:
    """IEEE 754, section 6.3: an exact cancellation is -0 when rounding down, unless both operands are +0."""
    code, count = d.code, d.count
    x, y = given[:2]
    if name == "fma":
        x, y = d.op("fmul", x, y), given[2]
    elif name == "subf":
        y = d.negated(y)
    bits = [code.value(f"bitcast {d.type} {each} to {d.int}") for each in (x, y)]
    union = code.value(f"or {d.int} {bits[0]}, {bits[1]}")
    other = code.value(f"icmp ne {d.int} {union}, {constant('i64', count, 0)}")
    number, type = found.number(code), found.type
    zero = constant(found.kind.number, count, float_literal(0.0, found.kind.number))
    is_zero = code.value(f"fcmp oeq {type} {number}, {zero}")
    minus = constant(found.kind.number, count, float_literal(-0.0, found.kind.number))
    return Lanes(found.kind, count, code.value(
        f"select {d.truth} {d.both(is_zero, other)}, {type} {minus}, {type} {number}"
    ))  # fmt: skip
