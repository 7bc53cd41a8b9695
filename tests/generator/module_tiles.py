"""Statements of generated Tile IR modules on the values of tiles: arithmetic, conversions, shapes, combinations, dots.

Every operation is defined for its operands: divisors are positive, shifts are below the width, promises about overflow
are on numbers of few bits.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.generator.module_writer import FLOATS, INTEGERS, NARROW, WIDTHS, Value, Writer
from tests.kernels.views import tile_type

INTEGER = (
    "addi {a}, {b}", "subi {a}, {b}", "muli {a}, {b}", "andi {a}, {b}", "ori {a}, {b}", "xori {a}, {b}",
    "mulhii {a}, {b}", "negi {a}", "absi {a}", "maxi {a}, {b} {sign}", "mini {a}, {b} {sign}",
    "shli {a}, {shift}", "shri {a}, {shift} {sign}", "shri {a}, {shift} {sign}",
    "divi {a}, {divisor} {sign}", "divi {a}, {divisor} signed rounding<negative_inf>",
    "divi {a}, {divisor} {sign} rounding<positive_inf>", "remi {a}, {divisor} {sign}",
    "addi {small}, {other} overflow<{promise}>", "muli {small}, {other} overflow<{promise}>",
    "subi {small}, {other} overflow<no_signed_wrap>", "subi {high}, {other} overflow<{promise}>",
    "negi {small} overflow<no_signed_wrap>",
    "shli {small}, {little} overflow<{promise}>",
)  # fmt: skip
"""`shift` is below the width, `divisor` positive; `small` and `other` have less than half of the bits, `high` is
greater than them, `little` a shift of such numbers."""
TRUTH = ("addi {a}, {b}", "subi {a}, {b}", "muli {a}, {b}", "andi {a}, {b}", "ori {a}, {b}", "xori {a}, {b}",
         "maxi {a}, {b} {sign}", "mini {a}, {b} {sign}")  # fmt: skip
FLOAT = (
    "addf {a}, {b}{mode}{flush}", "subf {a}, {b}{mode}{flush}", "mulf {a}, {b}{mode}{flush}",
    "divf {a}, {b}{mode}{flush}", "fma {a}, {b}, {c}{mode}{flush}", "sqrt {a}{mode}{flush}", "negf {a}", "absf {a}",
    "maxf {a}, {b}{flush}", "minf {a}, {b}{flush}", "maxf {a}, {b} propagate_nan", "minf {a}, {b} propagate_nan",
    "floor {a}", "ceil {a}", "remf {a}, {b}",
)  # fmt: skip
FUNCTION = (
    "exp {a}", "exp2 {a}", "log {a}", "log2 {a}", "rsqrt {a}", "sin {a}", "cos {a}", "tan {a}", "sinh {a}", "cosh {a}",
    "tanh {a}", "fpowf {a}, {b}", "atan2 {a}, {b}",
)  # fmt: skip
APPROXIMATE = ("exp {a} rounding<approx>", "tanh {a} rounding<approx>", "divf {a}, {b} rounding<approx>{flush}",
               "divf {a}, {b} rounding<full>{flush}", "sqrt {a} rounding<approx>{flush}", "exp2 {a} flush_to_zero",
               "rsqrt {a} flush_to_zero")  # fmt: skip
"""Of f32 alone."""
MODES = ("", "", "", " rounding<zero>", " rounding<negative_inf>", " rounding<positive_inf>")
PREDICATES = ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal")


# -- arithmetic --------------------------------------------------------------------------------------------------------


def integer(w: Writer) -> Value:
    a = w.any((*INTEGERS, *INTEGERS, "i1"))
    if a.element == "i1":
        text = w.pick.choice(TRUTH)
        b = w.partner(a)
        text = text.format(a=a.name, b=b.name, sign=w.pick.choice(("signed", "unsigned")))
        return w.emit(f"{text} : {a.type}", a.shape, a.element, a.is_exact and b.is_exact)
    template, width = w.pick.choice(INTEGER), WIDTHS[a.element]
    half = 1 << width // 2 - 1
    operands: dict[str, Callable[[], Value]] = {
        "a": lambda: a,
        "b": lambda: w.partner(a),
        "shift": lambda: w.below(w.partner(a), width),
        "divisor": lambda: _divisor(w, a),
        "small": lambda: w.below(a, half),
        "other": lambda: w.below(w.partner(a), half),
        "high": lambda: _high(w, a, half),
        "little": lambda: w.below(w.partner(a), width // 2),
    }
    made = {key: make() for key, make in operands.items() if f"{{{key}}}" in template}
    names = {key: value.name for key, value in made.items()}
    words = {"sign": w.pick.choice(("signed", "unsigned")),
             "promise": w.pick.choice(("no_signed_wrap", "no_unsigned_wrap", "no_wrap"))}  # fmt: skip
    is_exact = all(value.is_exact for value in made.values())
    return w.emit(f"{template.format(**names, **words)} : {a.type}", a.shape, a.element, is_exact)


def _divisor(w: Writer, a: Value) -> Value:
    """Odd numbers of a few bits, or a constant power of two or another one."""
    if w.pick.chance(0.4):
        return w.constant(w.pick.choice((1, 2, 3, 7, 8, 10, 64, 100)), a.shape, a.element)
    few, one = w.below(w.partner(a), 64), w.constant(1, a.shape, a.element)
    return w.make(f"ori {few.name}, {one.name} : {a.type}", a.shape, a.element, few.is_exact)


def _high(w: Writer, a: Value, half: int) -> Value:
    small, one = w.below(a, half), w.constant(half, a.shape, a.element)
    return w.make(f"ori {small.name}, {one.name} : {a.type}", a.shape, a.element, small.is_exact)


def cut(w: Writer) -> Value:
    """Numbers that the narrower type has, as the promise says."""
    a = w.any(INTEGERS[1:])
    element = INTEGERS[INTEGERS.index(a.element) - 1]
    small = w.below(a, 1 << WIDTHS[element] - 1)
    promise = w.pick.choice(("no_signed_wrap", "no_unsigned_wrap", "no_wrap"))
    text = f"trunci {small.name} overflow<{promise}> : {small.type} -> {tile_type(a.shape, element)}"
    return w.emit(text, a.shape, element, small.is_exact)


def float_(w: Writer) -> Value:
    a = w.any(FLOATS)
    b, c = w.partner(a), w.partner(a)
    flush = " flush_to_zero" if a.element == "f32" and w.pick.chance(0.2) else ""
    text = w.pick.choice(FLOAT).format(a=a.name, b=b.name, c=c.name, mode=w.pick.choice(MODES), flush=flush)
    return w.emit(f"{text} : {a.type}", a.shape, a.element, a.is_exact and b.is_exact and c.is_exact)


def function(w: Writer) -> Value:
    """A result within bounds; mostly of numbers around one."""
    a = w.any(FLOATS, most=w.most // 4)
    if w.pick.chance(0.7):
        a = w.whole(a.shape, a.element)
    b = w.whole(a.shape, a.element)
    if a.element == "f32" and w.pick.chance(0.3):
        flush = w.pick.choice(("", " flush_to_zero"))
        text = w.pick.choice(APPROXIMATE).format(a=a.name, b=b.name, flush=flush)
    elif w.pick.chance(0.15):
        power = w.below(w.integer(a.shape, w.pick.choice(INTEGERS[:3])), 4)
        return w.emit(f"fpowi {a.name}, {power.name} : {a.type}, {power.type}", a.shape, a.element, False)
    else:
        text = w.pick.choice(FUNCTION).format(a=a.name, b=b.name)
    return w.emit(f"{text} : {a.type}", a.shape, a.element, False)


def compare(w: Writer) -> Value:
    a = w.any((*INTEGERS, "i1", *FLOATS), is_exact=True)
    b = w.partner(a, is_exact=True)
    predicate = w.pick.choice(PREDICATES)
    if a.element in FLOATS:
        text = f"cmpf {predicate} {w.pick.choice(('ordered', 'unordered'))} {a.name}, {b.name}"
    else:
        text = f"cmpi {predicate} {a.name}, {b.name}, {w.pick.choice(('signed', 'unsigned'))}"
    return w.emit(f"{text} : {a.type} -> {tile_type(a.shape, 'i1')}", a.shape, "i1")


def select(w: Writer) -> Value:
    a = w.any()
    b, truth = w.partner(a), w.truth(a.shape)
    return w.emit(f"select {truth.name}, {a.name}, {b.name} : {truth.type}, {a.type}", a.shape, a.element,
                  a.is_exact and b.is_exact)  # fmt: skip


def ramp(w: Writer) -> Value:
    """Numbers that count up, by a step and from a scalar."""
    shape, element = w.shape(), w.pick.choice(INTEGERS)
    places = w.iota(shape, element)
    step = w.constant(w.pick.choice((1, 1, 2, 3, 8, 17)), shape, element)
    start = w.fitted(w.integer(()), shape, element)
    scaled = w.make(f"muli {places.name}, {step.name} : {places.type}", shape, element)
    return w.emit(f"addi {scaled.name}, {start.name} : {places.type}", shape, element)


def table(w: Writer) -> Value:
    """A constant of many numbers."""
    shape, element = w.shape(256), w.pick.choice((*INTEGERS, *FLOATS, "i1", "f8E4M3FN", "f8E5M2"))

    def dense(extents: tuple[int, ...]) -> str:
        if extents:
            return f"[{', '.join([dense(extents[1:]) for _ in range(extents[0])])}]"
        number = w.pick.randrange(-9, 10)
        if element == "i1":
            return str(number > 0).lower()
        return str(number) if element[0] == "i" else str(number / 2)

    text = dense(shape)
    return w.emit(f"constant <{element}: {text}> : {tile_type(shape, element)}", shape, element)


# -- conversions -------------------------------------------------------------------------------------------------------


def convert(w: Writer) -> Value:
    value = w.any()
    targets = (*INTEGERS, *INTEGERS, *FLOATS, *FLOATS, *NARROW, "i1")
    wanted = w.pick.choice(targets)
    if wanted[0] == "i" and value.element[0] != "i" and not value.is_exact:
        return w.add(w.whole(value.shape, wanted, 3))
    return w.add(w.converted(value, wanted))


def through(w: Writer) -> Value:
    """Into a format of few bits, moved there, and back."""
    value = w.any(is_exact=True)
    narrow = w.pick.choice(("i4", "f8E8M0FNU", "f8E4M3FN", "f8E5M2", "f4E2M1FN", "tf32", "i1"))
    if narrow == "f4E2M1FN" and value.shape[-1:] in ((), (1,)):
        narrow = "i4"
    moved = w.converted(value, narrow)
    moved = _moved(w, moved) or moved
    back = w.pick.choice((*INTEGERS, *FLOATS))
    if narrow == "f8E8M0FNU" and back[0] == "i":
        back = "f32"
    return w.add(w.converted(moved, back))


def bits(w: Writer) -> Value:
    """The bits of a tile in another type of the same width, or of other widths through bytes."""
    value = w.any((*INTEGERS, *FLOATS, "f8E4M3FN", "f8E5M2"), is_exact=True)
    if value.element[0] != "i":
        value = without_nan(w, value)
    if w.pick.chance(0.5) and value.size > 1:
        data = _bytes(w, value)
        element = w.pick.choice((*INTEGERS[1:], *FLOATS))
        count = data.size * 8 // WIDTHS[element]
        if count:
            return w.emit(f"unpack {data.name} : {data.type} -> {tile_type((count,), element)}", (count,), element)
        value = data
    same = [each for each in (*INTEGERS, *FLOATS, "f8E4M3FN", "f8E5M2")
            if WIDTHS[each] == WIDTHS[value.element] and each != value.element]  # fmt: skip
    element = w.pick.choice(same)
    text = f"bitcast {value.name} : {value.type} -> {tile_type(value.shape, element)}"
    return w.emit(text, value.shape, element)


def _bytes(w: Writer, value: Value) -> Value:
    value = w.reshaped(value, (value.size,))
    if value.element == "i8":
        return value
    if WIDTHS[value.element] == 8:
        return w.make(f"bitcast {value.name} : {value.type} -> {tile_type(value.shape, 'i8')}", value.shape, "i8")
    count = value.size * WIDTHS[value.element] // 8
    return w.make(f"pack {value.name} : {value.type} -> {tile_type((count,), 'i8')}", (count,), "i8")


def without_nan(w: Writer, value: Value) -> Value:
    """Zero in the place of NaNs, whose bits are not specified."""
    wide = w.converted(value, "f32") if value.element in NARROW else value
    text = f"cmpf equal ordered {wide.name}, {wide.name} : {wide.type} -> {tile_type(value.shape, 'i1')}"
    is_number = w.make(text, value.shape, "i1")
    zero = w.constant(0, value.shape, value.element)
    text = f"select {is_number.name}, {value.name}, {zero.name} : {is_number.type}, {value.type}"
    return w.make(text, value.shape, value.element, value.is_exact)


# -- shapes ------------------------------------------------------------------------------------------------------------


def _moved(w: Writer, value: Value) -> Value | None:
    """The value permuted or reshaped, out of sight."""
    if len(value.shape) > 1 and w.pick.chance(0.7):
        turn = w.pick.randrange(1, len(value.shape))
        order = [*range(turn, len(value.shape)), *range(turn)]
        if len(order) > 2 and w.pick.chance(0.5):
            order[0], order[1] = order[1], order[0]
        shape = tuple(value.shape[dim] for dim in order)
        if value.element == "f4E2M1FN" and shape[-1] == 1:
            return None
        text = f"permute {value.name} {order} : {value.type} -> {tile_type(shape, value.element)}"
        return w.make(text, shape, value.element, value.is_exact)
    shape, rest = [], value.size
    while rest > 1 and len(shape) < 4:
        extent = 1 << w.pick.randrange(rest.bit_length())
        shape.append(extent)
        rest //= extent
    if rest > 1 or value.element == "f4E2M1FN" and shape[-1:] == [1]:
        shape.append(rest)
    return None if value.element == "f4E2M1FN" and shape[-1:] in ([], [1]) else w.reshaped(value, tuple(shape))


def move(w: Writer) -> Value:
    value = w.any()
    moved = _moved(w, value)
    return w.add(moved) if moved is not None else value


def spread(w: Writer) -> Value:
    """Repeat along dimensions of one element, which are added."""
    value = w.any(most=w.most // 4)
    shape, room = list(value.shape), w.most // value.size
    for _ in range(w.pick.choice((1, 1, 2))):
        if len(shape) < 5:
            shape.insert(w.pick.randrange(len(shape) + 1), 1)
    ones = w.reshaped(value, tuple(shape))
    whole = []
    for extent in ones.shape:
        times = min(1 << w.pick.randrange(6), room) if extent == 1 else 1
        room //= times
        whole.append(extent * times)
    if tuple(whole) == ones.shape:
        return w.add(ones)
    text = f"broadcast {ones.name} : {ones.type} -> {tile_type(whole, value.element)}"
    return w.emit(text, tuple(whole), value.element, value.is_exact)


def _part(w: Writer, value: Value) -> tuple[tuple[int, ...], str] | None:
    """The shape of a part and its indices, which are constant or computed."""
    if value.size == 1:
        return None
    part = [max(1, extent >> w.pick.choice((0, 0, 1, 1, 2, 8))) for extent in value.shape]
    if list(value.shape) == part:
        large = next(dim for dim, extent in enumerate(part) if extent > 1)
        part[large] //= 2
    indices = []
    for extent, piece in zip(value.shape, part, strict=True):
        if extent > piece and w.pick.chance(0.3):
            indices.append(w.below(w.integer(()), extent // piece).name)
        else:
            indices.append(w.index(w.pick.randrange(extent // piece)))
    return tuple(part), ", ".join(indices)


def extract(w: Writer) -> Value:
    value = w.any()
    found = _part(w, value)
    if found is None:
        return value
    shape, indices = found
    text = f"extract {value.name}[{indices}] : {value.type} -> {tile_type(shape, value.element)}"
    return w.emit(text, shape, value.element, value.is_exact)


def insert(w: Writer) -> Value:
    value = w.any()
    found = _part(w, value)
    if found is None:
        return value
    shape, indices = found
    piece = w.fitted(w.any((value.element,)), shape, value.element)
    text = f"insert {piece.name}, {value.name}[{indices}] : {piece.type}, {value.type}"
    return w.emit(text, value.shape, value.element, value.is_exact and piece.is_exact)


def cat(w: Writer) -> Value:
    value = w.any(most=w.most // 2)
    if not value.shape:
        value = w.reshaped(value, (1,))
    dim = w.pick.randrange(len(value.shape))
    other = w.partner(value)
    shape = tuple(extent * 2 if at == dim else extent for at, extent in enumerate(value.shape))
    text = f"cat {value.name}, {other.name} dim = {dim} : {value.type}, {other.type}"
    return w.emit(f"{text} -> {tile_type(shape, value.element)}", shape, value.element,
                  value.is_exact and other.is_exact)  # fmt: skip


# -- combinations ------------------------------------------------------------------------------------------------------

LEAST = {"f16": "0xFC00", "bf16": "0xFF80", "f32": "0xFF800000", "f64": "0xFFF0000000000000"}


def _one(w: Writer, element: str) -> tuple[str, str]:
    """An operation on %x and %y that may be done in any order, and its identity."""
    if element == "i1":
        return w.pick.choice((("andi %x, %y", "true"), ("ori %x, %y", "false"), ("xori %x, %y", "false")))
    if element in FLOATS:
        return w.pick.choice((("addf %x, %y", "0.0"), ("maxf %x, %y", LEAST[element])))
    width = WIDTHS[element]
    return w.pick.choice((("addi %x, %y", "0"), ("xori %x, %y", "0"), ("muli %x, %y", "1"), ("ori %x, %y", "0"),
                          ("andi %x, %y", "-1"), ("maxi %x, %y signed", str(-(1 << width - 1))),
                          ("mini %x, %y unsigned", "-1")))  # fmt: skip


def _along(w: Writer, value: Value) -> Value:
    return value if value.shape else w.reshaped(value, (1,))


def combine(w: Writer) -> Value:
    """A reduction or a scan of one tile."""
    value = _along(w, w.any((*INTEGERS, *INTEGERS, *FLOATS, "i1")))
    element, dim = value.element, w.pick.randrange(len(value.shape))
    text, identity = _one(w, element)
    if text.startswith("addf"):
        value = w.whole(value.shape, element, 1)
    scalar = tile_type((), element)
    body = f"(%x: {scalar}, %y: {scalar}) {{\n%z = {text} : {scalar}\nyield %z : {scalar}\n}}"
    typed = identity if element == "i1" else f"{identity} : {element}"
    given = f"identities=[{typed}] : {value.type}"
    if w.pick.chance(0.35):
        reverse = w.pick.choice(("false", "true"))
        return w.emit(f"scan {value.name} dim={dim} reverse={reverse} {given} -> {value.type} {body}", value.shape,
                      element, value.is_exact)  # fmt: skip
    shape = (*value.shape[:dim], *value.shape[dim + 1 :])
    return w.emit(f"reduce {value.name} dim={dim} {given} -> {tile_type(shape, element)} {body}", shape, element,
                  value.is_exact)  # fmt: skip


_EXTREME = """(%x: {k}, %y: {k}, %i: {n}, %j: {n}) {{
%above = cmpi greater_than %x, %y, {sign} : {k} -> tile<i1>
%same = cmpi equal %x, %y, signed : {k} -> tile<i1>
%before = cmpi less_than %i, %j, signed : {n} -> tile<i1>
%first = andi %same, %before : tile<i1>
%left = ori %above, %first : tile<i1>
%key = select %left, %x, %y : tile<i1>, {k}
%at = select %left, %i, %j : tile<i1>, {n}
yield %key, %at : {k}, {n}
}}"""
"""The largest key and the first place that has it."""
_SUMS = """(%x: {k}, %y: {k}, %i: {n}, %j: {n}) {{
%s = addi %x, %y : {k}
%m = maxi %i, %j signed : {n}
yield %s, %m : {k}, {n}
}}"""
_STEPS = """(%x: {k}, %y: {k}, %i: {k}, %j: {k}) {{
%a = muli %x, %y : {k}
%b = muli %i, %y : {k}
%c = addi %b, %j : {k}
yield %a, %c : {k}, {k}
}}"""
"""Linear functions applied one after the other: their order matters."""


def combine_pairs(w: Writer) -> Value:
    """A reduction or a scan of two tiles with a region of several operations."""
    keys = _along(w, w.any(INTEGERS, is_exact=True, most=w.most // 2))
    dim, k = w.pick.randrange(len(keys.shape)), tile_type((), keys.element)
    kind = w.pick.choice(("extreme", "extreme", "sums", "steps"))
    if kind == "steps":
        other = w.partner(keys, is_exact=True)
        identities, body = f"1 : {keys.element}, 0 : {keys.element}", _STEPS.format(k=k)
    else:
        element = w.pick.choice(("i32", "i64", "i32"))
        other = w.iota(keys.shape, element) if kind == "extreme" else w.integer(keys.shape, element)
        sign, n = w.pick.choice(("signed", "unsigned")), tile_type((), element)
        last = (1 << WIDTHS[element] - 1) - 1
        least = -(1 << WIDTHS[keys.element] - 1) if sign == "signed" else 0
        body = (_EXTREME if kind == "extreme" else _SUMS).format(k=k, n=n, sign=sign)
        first, second = (least, last) if kind == "extreme" else (0, -last - 1)
        identities = f"{first} : {keys.element}, {second} : {element}"
    is_scan = kind == "steps" or w.pick.chance(0.3)
    shape = keys.shape if is_scan else (*keys.shape[:dim], *keys.shape[dim + 1 :])
    word = f"scan {keys.name}, {other.name} dim={dim} reverse={w.pick.choice(('false', 'true'))}"
    if not is_scan:
        word = f"reduce {keys.name}, {other.name} dim={dim}"
    left, right = w.name(), w.name()
    results = f"{tile_type(shape, keys.element)}, {tile_type(shape, other.element)}"
    w.line(f"{left}, {right} = {word} identities=[{identities}] : {keys.type}, {other.type} -> {results} {body}")
    w.add(Value(left, shape, keys.element))
    return w.add(Value(right, shape, other.element))


# -- dots --------------------------------------------------------------------------------------------------------------

DOTS = {"f16": ("f32", "f16"), "bf16": ("f32",), "f32": ("f32",), "tf32": ("f32",), "f64": ("f64",),
        "f8E4M3FN": ("f32", "f16"), "f8E5M2": ("f32", "f16"), "i8": ("i32",)}  # fmt: skip


def dot(w: Writer) -> Value:
    """A product of tiles that fit each other, of small whole numbers in most of them."""
    element = w.pick.choice(tuple(DOTS))
    total = w.pick.choice(DOTS[element])
    m, n, k = (1 << w.pick.choice((0, 3, 4, 4, 5, 5, 6, 7)) for _ in range(3))
    while m * k > w.most or k * n > w.most or m * n > w.most or m * n * k > w.most * 32:
        m, n, k = max(1, m // 2), max(1, n // 2), max(1, k // 2)
    lead = (w.pick.choice((1, 2, 4)),) if w.pick.chance(0.15) and m * n * k < 1 << 14 else ()
    left, right = (_factor(w, (*lead, *shape), element) for shape in ((m, k), (k, n)))
    shape = (*lead, m, n)
    summed = w.values(lambda value: value.shape == shape and value.element == total)
    if summed and total != "f16" and w.pick.chance(0.5):
        start = w.pick.choice(summed)
    else:
        start = w.constant(0, shape, total) if w.pick.chance(0.5) else w.whole(shape, total, 3)
    if element == "i8":
        signs = " ".join(w.pick.choice(("signed", "unsigned")) for _ in "lr")
        text, is_exact = f"mmai {left.name}, {right.name}, {start.name} {signs}", start.is_exact
    else:
        # A sum with any number is rounded in any order.
        text, is_exact = f"mmaf {left.name}, {right.name}, {start.name}", start not in summed
    return w.emit(f"{text} : {left.type}, {right.type}, {start.type}", shape, total, is_exact)


def _factor(w: Writer, shape: tuple[int, ...], element: str) -> Value:
    """Small whole numbers, sometimes permuted or converted last; of integers any."""
    if element == "i8":
        return w.fitted(w.any(INTEGERS, is_exact=True), shape, "i8")
    if w.pick.chance(0.5):
        turned = (*shape[:-2], shape[-1], shape[-2])
        value = w.whole(turned, w.pick.choice(("f32", element, element)))
        order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        text = f"permute {value.name} {order} : {value.type} -> {tile_type(shape, value.element)}"
        return w.converted(w.make(text, shape, value.element), element)
    return w.whole(shape, element)


SCALED = (("f8E4M3FN", "f8E8M0FNU", 32), ("f8E5M2", "f8E8M0FNU", 32), ("f4E2M1FN", "f8E8M0FNU", 32),
          ("f4E2M1FN", "f8E8M0FNU", 16), ("f4E2M1FN", "f8E4M3FN", 16))  # fmt: skip


def scaled_dot(w: Writer) -> Value:
    """Scales are small powers of two, so that sums are exact."""
    element, scale, block = w.pick.choice(SCALED)
    m, n = (1 << w.pick.choice((0, 3, 4, 5, 6)) for _ in range(2))
    blocks = w.pick.choice((1, 2, 4))
    k = block * blocks
    if element == "f4E2M1FN":
        n = max(n, 2)
    left, right = w.whole((m, k), element), w.whole((k, n), element)
    scales = []
    for shape in ((m, blocks), (blocks, n)):
        one, two, truth = w.constant(1, shape, "f32"), w.constant(2, shape, "f32"), w.truth(shape)
        text = f"select {truth.name}, {one.name}, {two.name} : {truth.type}, {one.type}"
        scales.append(w.converted(w.make(text, shape, "f32"), scale))
    start = w.whole((m, n), "f32", 3)
    tiles = (left, right, start, *scales)
    names, types = ", ".join(each.name for each in tiles), ", ".join(each.type for each in tiles)
    return w.emit(f"mmaf_scaled {names} : {types}", (m, n), "f32")


STATEMENTS: dict[Callable[[Writer], Value], int] = {
    integer: 12, float_: 10, function: 2, compare: 2, select: 4, ramp: 2, table: 1, convert: 5, cut: 1, through: 3,
    bits: 3, move: 6, spread: 4, extract: 3, insert: 3, cat: 4, combine: 5, combine_pairs: 2, dot: 4,
}  # fmt: skip
"""Weights."""
