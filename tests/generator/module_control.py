"""Loops and branches of generated Tile IR modules: they carry tiles of several types, and the tokens of memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.generator import module_tiles
from tests.generator.module_memory import joined, load_view
from tests.generator.module_writer import Memory, Value, Writer
from tests.kernels.views import tile_type

Body = Callable[[Writer, int], None]
"""A function that writes about a given number of statements into the current region."""
MOST_ROUNDS = 24
"""Executions of a statement by a tile block."""


def _carried(w: Writer) -> list[Value]:
    values = w.values(lambda value: value.is_exact)[:12]
    return [w.pick.choice(values) for _ in range(w.pick.choice((1, 1, 2, 2, 3, 4)))]


def _tokens(w: Writer) -> tuple[list[Memory], list[str]]:
    """Scratches that the region may use, in w.scratches while it is written, and a token of each."""
    used = [each for each in w.scratches if w.pick.chance(0.7)]
    return used, [joined(w, each) for each in used]


def _last(w: Writer, like: Value) -> Value:
    """A value for the next round: mostly one of this region, in the type that is carried."""
    own = [value for value in w.scope.values if value.is_exact]
    if own and w.pick.chance(0.85):
        same = [value for value in own if value.type == like.type]
        source = w.pick.choice(same) if same and w.pick.chance(0.6) else w.pick.choice(own[-6:])
    else:
        source = w.any(is_exact=True)
    return w.fitted(source, like.shape, like.element)


def _typed(values: Sequence[str], types: Sequence[str], word: str) -> str:
    return f"{word} {', '.join(values)} : {', '.join(types)}" if values else word


class _Region:
    """Scratches of a region and their tokens: `enter` before its text, `leave` behind it."""

    def __init__(self, w: Writer) -> None:
        self.w = w
        self.used, self.tokens = _tokens(w)
        self.all, self.state = w.scratches, [(each, each.written, list(each.read)) for each in w.scratches]
        self.inputs = list(w.inputs)

    def enter(self, tokens: Sequence[str]) -> None:
        self.w.scratches = self.used
        for memory, token in zip(self.used, tokens, strict=True):
            memory.written, memory.read = token, []

    def last(self) -> list[str]:
        return [joined(self.w, each) for each in self.used]

    def leave(self, tokens: Sequence[str]) -> None:
        self.w.scratches, self.w.inputs = self.all, self.inputs
        for memory, written, read in self.state:
            memory.written, memory.read = written, read
        for memory, token in zip(self.used, tokens, strict=True):
            memory.written, memory.read = token, []


def _steps(w: Writer, most: int) -> int:
    return w.pick.randrange(2, max(3, min(most, 10)))


def for_(w: Writer, body: Body, most: int) -> None:
    """With bounds that are constant or computed, and now and then a `continue` before the end."""
    counter = w.pick.choice(("i32", "i32", "i32", "i64", "i16", "i8"))
    rounds = w.pick.choice((0, 1, 2, 2, 3, 3, 4, 5))
    rounds = min(rounds, max(1, MOST_ROUNDS // w.rounds))
    start, step = w.pick.choice((-3, -1, 0, 0, 0, 1, 5)), w.pick.choice((1, 1, 1, 2, 3))
    sign = w.pick.choice(("", "", "unsigned "))
    if sign:
        start = abs(start)
    low = w.constant(start, (), counter)
    high = w.constant(start + rounds * step, (), counter)
    if rounds and w.pick.chance(0.4):
        spare = w.below(w.integer((), counter), 4 if rounds > 3 else 2)
        high = w.make(f"subi {high.name}, {spare.name} : {high.type}", (), counter)
    step_ = w.constant(step, (), counter)
    carried, region = _carried(w), _Region(w)
    types = [*(each.type for each in carried), *("token" for _ in region.used)]
    initial = [*(each.name for each in carried), *region.tokens]
    inner = [w.name() for _ in initial]
    results, index = [w.name() for _ in initial], w.name()
    pairs = ", ".join(f"{one} = {other}" for one, other in zip(inner, initial, strict=True))
    w.line(f"{', '.join(results)} = for {sign}{index} in ({low.name} to {high.name}, step {step_.name})"
           f" : {tile_type((), counter)} iter_values({pairs}) -> ({', '.join(types)}) {{")  # fmt: skip
    with w.region(max(rounds, 1)):
        region.enter(inner[len(carried) :])
        w.add(Value(index, (), counter))
        for name, each in zip(inner, carried, strict=False):
            w.add(Value(name, each.shape, each.element))
        count = _steps(w, most)
        if w.pick.chance(0.25):
            body(w, count // 2)
            truth = w.truth(())
            w.line(f"if {truth.name} {{")
            early = [_last_outside(w, each).name for each in carried]
            w.line(_typed([*early, *region.last()], types, "continue"))
            w.line("}")
        body(w, count)
        last = [_last(w, each).name for each in carried]
        w.line(_typed([*last, *region.last()], types, "continue"))
    w.line("}")
    region.leave(results[len(carried) :])
    for name, each in zip(results, carried, strict=False):
        w.add(Value(name, each.shape, each.element))


def _last_outside(w: Writer, like: Value) -> Value:
    """`_last` in an inner region, whose own values end with it."""
    with w.region():
        return w.fitted(w.any((like.element,), is_exact=True), like.shape, like.element)


def loop(w: Writer, body: Body, most: int) -> None:
    """Left by `break` after a number of rounds, before or in the middle of its body; results of other types."""
    rounds = min(w.pick.choice((0, 1, 2, 2, 3, 4)), max(1, MOST_ROUNDS // w.rounds))
    limit = w.constant(rounds, (), "i32")
    if rounds and w.pick.chance(0.4):
        limit = w.below(w.integer(()), 4 if rounds > 2 else 2)
    carried, region = _carried(w), _Region(w)
    left = _carried(w) if w.pick.chance(0.5) else list(carried)
    types = [tile_type((), "i32"), *(each.type for each in carried), *("token" for _ in region.used)]
    result_types = [*(each.type for each in left), *("token" for _ in region.used)]
    zero = w.index(0)
    initial = [zero, *(each.name for each in carried), *region.tokens]
    inner = [w.name() for _ in initial]
    results = [w.name() for _ in result_types]
    pairs = ", ".join(f"{one} = {other}" for one, other in zip(inner, initial, strict=True))
    w.line(f"{', '.join(results)} = loop iter_values({pairs}) : {', '.join(types)} -> {', '.join(result_types)} {{")
    with w.region(max(rounds, 1, 4)):
        region.enter(inner[len(carried) + 1 :])
        w.add(Value(inner[0], (), "i32"))
        for name, each in zip(inner[1:], carried, strict=False):
            w.add(Value(name, each.shape, each.element))
        count = _steps(w, most)
        if w.pick.chance(0.5):
            body(w, count // 2)
        ended = w.make(f"cmpi greater_than_or_equal {inner[0]}, {limit.name}, signed : tile<i32> -> tile<i1>", (), "i1")
        w.line(f"if {ended.name} {{")
        names = [_last_outside(w, each).name for each in left]
        w.line(_typed([*names, *region.last()], result_types, "break"))
        w.line("}")
        body(w, count)
        next_ = w.make(f"addi {inner[0]}, %one : tile<i32>", (), "i32")
        last = [_last(w, each).name for each in carried]
        w.line(_typed([next_.name, *last, *region.last()], types, "continue"))
    w.line("}")
    region.leave(results[len(left) :])
    for name, each in zip(results, left, strict=False):
        w.add(Value(name, each.shape, each.element))


def if_(w: Writer, body: Body, most: int) -> None:
    """Yields tiles and tokens of both branches."""
    truth, left, region = w.truth(()), _carried(w), _Region(w)
    types = [*(each.type for each in left), *("token" for _ in region.used)]
    results = [w.name() for _ in types]
    w.line(f"{', '.join(results)} = if {truth.name} -> ({', '.join(types)}) {{")
    for number in range(2):
        with w.region():
            region.enter(region.tokens)
            body(w, _steps(w, most) if w.pick.chance(0.85) else 0)
            last = [_last(w, each).name for each in left]
            w.line(_typed([*last, *region.last()], types, "yield"))
        w.line("} else {" if number == 0 else "}")
    region.leave(results[len(left) :])
    for name, each in zip(results, left, strict=False):
        w.add(Value(name, each.shape, each.element))


def product(w: Writer, body: Body, most: int) -> None:
    """A loop over K whose dots have operands from views: loads run ahead, operands are computed or moved between."""
    memories = [each for each in w.inputs if each.element in module_tiles.DOTS]
    if not memories:
        return for_(w, body, most)
    sources = [w.pick.choice(memories) for _ in range(2)]
    element = sources[0].element
    total = module_tiles.DOTS[element][0]
    m, n, k = (1 << w.pick.choice((3, 4, 4, 5, 6, 6, 7)) for _ in range(3))
    while max(m * k, k * n, m * n) > w.most:
        m, n, k = max(1, m // 2), max(1, n // 2), max(8, k // 2)
    start = w.constant(0, (m, n), total)
    rounds = min(w.pick.choice((1, 2, 3, 4, 6)), max(1, MOST_ROUNDS // w.rounds))
    high, sum_, index, result = w.index(rounds), w.name(), w.name(), w.name()
    w.line(f"{result} = for {index} in (%zero to {high}, step %one) : tile<i32> iter_values({sum_} = {start.name})"
           f" -> ({start.type}) {{")  # fmt: skip
    scratches, w.scratches = w.scratches, []
    with w.region(rounds):
        w.add(Value(index, (), "i32"))
        factors = []
        for source, shape in zip(sources, ((m, k), (k, n)), strict=True):
            is_turned = w.pick.chance(0.4)
            value = load_view(w, source, shape[::-1] if is_turned else shape)
            if w.pick.chance(0.4):
                body(w, w.pick.randrange(1, 4))
            if w.pick.chance(0.3) and value.element != "i8":
                value = w.fitted(w.partner(value), value.shape, value.element)
            if is_turned:
                text = f"permute {value.name} [1, 0] : {value.type} -> {tile_type(shape, value.element)}"
                value = w.make(text, shape, value.element, value.is_exact)
            factors.append(w.converted(value, element))
        left, right = factors
        word, signs = ("mmai", " signed unsigned") if element == "i8" else ("mmaf", "")
        next_ = w.make(f"{word} {left.name}, {right.name}, {sum_}{signs} : {left.type}, {right.type}, {start.type}",
                       (m, n), total, False)  # fmt: skip
        w.line(f"continue {next_.name} : {next_.type}")
    w.line("}")
    w.scratches = scratches
    w.add(Value(result, (m, n), total, element == "i8"))


STATEMENTS: dict[Callable[[Writer, Body, int], None], int] = {for_: 4, loop: 3, if_: 4, product: 4}
"""Weights."""
