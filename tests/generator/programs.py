"""Programs: statements on tiles of all types and ranks, with memory, and loops and branches that carry several tiles.

Each tile block reads separate tiles, and keeps others in a part of an array that it writes and reads in different
orders.  Trip counts are parameters: none, one or several, also from a start behind the stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import CUTILE, ELEMENTS, Argument, Expected, Generated, array, odd, result, scalar, whole
from tests.generator.statements import FLOATS, INTEGERS, MOST_ELEMENTS, Meaning, Statements, Tile, Values, factors

MOST_DEPTH = 2
MOST_LINES = 40
MOST_OUTPUTS = 4
KEPT_ELEMENTS = 256
"""Elements of a tile block's part of an array that is written and read again."""
_LOADED = ("i32", "f32", "f16", "bf16", "i8", "u8", "i16", "u32", "i64", "f64", "u16", "u64")
_WEIGHTS = (4, 4, 4, 2, 2, 2, 1, 1, 1, 1, 1, 1)


class Program(Statements):
    def __init__(self, pick: Choices, blocks: int, bounds: tuple[int, int]) -> None:
        super().__init__(pick)
        self.blocks, (self.start, self.stop) = blocks, bounds
        self.arrays: list[tuple[str, np.ndarray, str]] = []
        self.kept: dict[str, np.ndarray] = {}
        """Arrays that the kernel writes and reads, by name; elements of other tile blocks are never touched."""
        self.loops = 0
        self.counters: list[str] = []

    # -- blocks of statements ------------------------------------------------------------------------------------------

    def block(self, count: int) -> Meaning:
        """Statements whose tiles are out of scope behind them."""
        outer, scope = self.meanings, len(self.scope)
        self.meanings = meanings = []
        for _ in range(count):
            self.statement()
        self.meanings = outer
        del self.scope[scope:]
        return lambda values: [each(values) for each in meanings] and None

    def statement(self) -> None:
        kinds: list[tuple[Callable[[], None], float]] = [
            (self.binary, 6), (self.unary, 2), (self.asserted, 0.3),
            (self.compared, 2), (self.selected, 1), (self.converted, 2), (self.reshaped, 2),
            (self.permuted, 3), (self.extracted, 2), (self.joined, 2), (self.reduced, 3), (self.scanned, 1),
            (self.dot, 2), (self.load, 3), (self.write_and_read, 2), (self.counted, 1),
        ]  # fmt: skip
        if self.depth <= MOST_DEPTH and len(self.lines) < MOST_LINES:
            kinds += [(self.loop, 3), (self.until, 1), (self.branch, 2)]
        self.pick.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]()

    def assigned(self, outer: Sequence[Tile]) -> None:
        """One or several tiles of the block around get new values, which a loop carries."""
        for _ in range(self.pick.choice((1, 1, 2, 3))):
            target = self.pick.choice(outer)
            value = self.fitted(self.any(), target)
            self.emit(value.name, target.shape, target.element, lambda values, of=value.name: values[of], target.name)

    def body(self, count: int, counter: str | None = None) -> Meaning:
        """A nested block that assigns to tiles around it."""
        outer, before, scope = list(self.scope), self.meanings, len(self.scope)
        self.meanings = meanings = []
        self.depth += 1
        self.counters += [counter] if counter else []
        for _ in range(count):
            self.statement()
        self.assigned(outer)
        if counter:
            self.counters.pop()
        self.depth -= 1
        self.meanings = before
        del self.scope[scope:]
        return lambda values: [each(values) for each in meanings] and None

    def loop(self) -> None:
        self.loops += 1
        name = f"i{self.loops}"
        first, last, step = self.pick.choice((
            ("0", "n", 1), ("0", "n", 1), ("m", "n", 1), ("0", "3", 1), ("block", "n", 2), ("m", "n + 3", 3),
        ))  # fmt: skip
        self.line(f"for {name} in range({first}, {last}{f', {step}' if step > 1 else ''}):")
        inside = self.body(self.pick.choice((1, 2, 3)), name)

        def run(values: Values) -> None:
            numbers = {"m": self.start, "n": self.stop, "n + 3": self.stop + 3, "block": int(values["block"])}
            low, high = (numbers.get(each, 0) if not each.isdigit() else int(each) for each in (first, last))
            for value in range(low, high, step):
                values[name] = np.int32(value)
                inside(values)

        self.meanings.append(run)

    def until(self) -> None:
        """A loop that ends by `break`, in front of its last statements."""
        self.loops += 1
        name = f"i{self.loops}"
        self.line(f"{name} = 0")
        self.line(f"while {name} < 5:")
        self.depth += 1
        self.line(f"{name} = {name} + 1")
        self.line(f"if {name} > n:")
        self.line("    break")
        self.depth -= 1
        inside = self.body(self.pick.choice((1, 2)), name)

        def run(values: Values) -> None:
            for value in range(1, min(5, max(0, self.stop)) + 1):
                values[name] = np.int32(value)
                inside(values)

        self.meanings.append(run)

    def branch(self) -> None:
        """On a counter, or on a tile's greatest element."""
        name = self.pick.choice(["block", "n", *self.counters])
        condition: Callable[[Values], Any]
        if self.pick.chance(0.3):
            tile = self.cast(self.any(*INTEGERS), "i32")
            flat = self.shaped(tile, (tile.size,))
            self.count += 1
            name = f"most{self.count}"
            self.line(f"{name} = ct.max({flat.name})")
            condition = lambda values: int(values[flat.name].max()) % 2 == 0  # noqa: E731
        else:
            condition = lambda values: (self.stop if name == "n" else int(values[name])) % 2 == 0  # noqa: E731
        self.line(f"if {name} % 2 == 0:")
        then = self.body(self.pick.choice((1, 2)))
        other: Meaning = lambda values: None  # noqa: E731
        if self.pick.chance(0.5):
            self.line("else:")
            other = self.body(1)
        self.meanings.append(lambda values: (then if condition(values) else other)(values))

    # -- memory --------------------------------------------------------------------------------------------------------

    def array(self, shape: Sequence[int], element: str) -> str:
        name = f"x{len(self.arrays)}"
        self.arrays.append((name, whole(self.pick, shape, element, 7) if element[0] != "u" else
                            whole(self.pick, shape, "i8", 7).astype(ELEMENTS[element]), element))  # fmt: skip
        return name

    def load(self) -> None:
        """One of a block's tiles, in a loop that of the iteration; its dimensions may have another order in memory."""
        element = self.pick.choices(_LOADED, _WEIGHTS)[0]
        shape = factors(self.pick, self.pick.choice((16, 64, 256, 256, 1024, 2048, 2048, 8192)))
        tiles = self.pick.choice((1, 2, 3)) if self.counters else 1
        sizes = [self.blocks * tiles * shape[0] - odd(self.pick, shape[0]),
                 *(size - odd(self.pick, size) for size in shape[1:])]  # fmt: skip
        counter = self.pick.choice(self.counters) if self.counters else "0"
        place = f"block * {tiles} + {counter} % {tiles}" if tiles > 1 else "block"
        order = tuple(range(len(shape)))
        if len(shape) > 1 and self.pick.chance(0.3):
            order = order[::-1] if self.pick.chance(0.5) else (*order[:-2], order[-1], order[-2])
        # Dimension d of the tile is dimension order[d] of the array.
        stored = [sizes[order.index(dim)] for dim in range(len(shape))]
        name = self.array(stored, element)
        values, at = self.arrays[-1][1], [place] + ["0"] * (len(shape) - 1)
        self.arrays[-1] = (name, values, element)
        more = f", order={order}" if order != tuple(range(len(shape))) else ""
        more += self.pick.choice(("", "", "", ", allow_tma=False", ", latency=1", ", latency=8"))
        text = f"ct.load({name}, ({', '.join(at)},), {shape}{more}, padding_mode=ct.PaddingMode.ZERO)"

        def meaning(state: Values) -> np.ndarray:
            number = int(state["block"]) * tiles + (int(state[counter]) % tiles if tiles > 1 else 0)
            part = values.transpose(order)[number * shape[0] : (number + 1) * shape[0]]
            tile = np.zeros(shape, values.dtype)
            tile[tuple(slice(0, size) for size in part.shape)] = part
            return tile

        self.emit(text, shape, element, meaning)

    def write_and_read(self) -> None:
        """A tile goes to memory and comes back in another order: by a tile of another shape, or element by element."""
        tile = self.any(*INTEGERS, *FLOATS)
        flat = self.shaped(tile, (KEPT_ELEMENTS,))
        name = f"kept_{flat.element}"
        if name not in self.kept:
            self.kept[name] = np.zeros(self.blocks * KEPT_ELEMENTS, ELEMENTS[flat.element])
        odd_number, more = self.pick.choice((1, 3, 5, 77, 129)), self.pick.randrange(KEPT_ELEMENTS)
        places = (np.arange(KEPT_ELEMENTS) * odd_number + more) % KEPT_ELEMENTS
        computed = f"(ct.arange({KEPT_ELEMENTS}, dtype=ct.int32) * {odd_number} + {more}) % {KEPT_ELEMENTS}"
        by_element = self.pick.choice((False, True))
        if by_element:
            self.line(f"ct.scatter({name}, block * {KEPT_ELEMENTS} + {computed}, {flat.name})")
        else:
            self.line(f"ct.store({name}, (block,), {flat.name})")

        def write(values: Values) -> None:
            values[name] = values[name].copy()
            values[name][places if by_element else slice(None)] = values[flat.name]

        self.meanings.append(write)
        for _ in range(self.pick.choice((0, 1, 1))):
            self.statement() if self.depth > MOST_DEPTH else self.binary()
        if self.pick.chance(0.5) != by_element:
            self.emit(f"ct.gather({name}, block * {KEPT_ELEMENTS} + {computed})", (KEPT_ELEMENTS,), flat.element,
                      lambda values: values[name][places])  # fmt: skip
        else:
            part = self.pick.choice((1, 2, 4))
            size, at = KEPT_ELEMENTS // part, self.pick.randrange(part)
            self.emit(f"ct.load({name}, (block * {part} + {at},), ({size},))", (size,), flat.element,
                      lambda values: values[name][at * size : (at + 1) * size])  # fmt: skip

    def counted(self) -> None:
        """Numbers of elements along a dimension, or those of tile blocks and iterations."""
        if self.pick.chance(0.5):
            size = self.pick.choice((16, 64, 256))
            start, step = self.pick.choice(((0, 1), (3, 2), (7, -1)))
            more = f", start={start}, step={step}" if (start, step) != (0, 1) else ""
            self.emit(f"ct.arange({size}, dtype=ct.int32{more})", (size,), "i32",
                      lambda values: start + step * np.arange(size))  # fmt: skip
        else:
            name = self.pick.choice(["block", *self.counters])
            tile = self.any("i32", "i64")
            self.emit(f"{tile.name} + {name}", tile.shape, tile.element,
                      lambda values: values[tile.name] + values[name])  # fmt: skip


_BODY = """
def kernel({names}):
    block = ct.bid(0)
{lines}
"""


def program(pick: Choices) -> Generated:
    """A few statements on a few loaded tiles; the last tiles that are in scope are the results."""
    blocks = pick.choice((1, 2, 3))
    start, stop = pick.choice(((0, 0), (0, 1), (0, 2), (1, 2), (2, 1), (0, 3), (4, 1), (1, 5)))
    drawn = Program(pick, blocks, (start, stop))
    for _ in range(pick.choice((1, 2, 2, 3))):
        drawn.load()
    for _ in range(pick.choice((2, 4, 6, 9))):
        drawn.statement()
    outputs = drawn.scope[-MOST_OUTPUTS:]
    states = []
    for block in range(blocks):
        values: Values = {"block": np.int32(block)}
        values.update({name: memory[:KEPT_ELEMENTS].copy() for name, memory in drawn.kept.items()})
        for meaning in drawn.meanings:
            meaning(values)
        states.append(values)
    arguments: list[Argument] = [array(pick, *each) for each in drawn.arrays]
    arguments += [array(pick, name, memory, name.removeprefix("kept_")) for name, memory in drawn.kept.items()]
    wanted = {name: Expected(np.concatenate([each[name] for each in states])) for name in drawn.kept}
    for number, tile in enumerate(outputs):
        stored = "i32" if tile.element == "i1" else tile.element
        values_of = np.concatenate([each[tile.name] for each in states]).astype(ELEMENTS[stored])
        wanted[f"y{number}"] = Expected(values_of)
        arguments.append(_output(pick, f"y{number}", values_of.shape, stored))
        text = f"ct.astype({tile.name}, ct.int32)" if tile.element == "i1" else tile.name
        drawn.line(f"ct.store(y{number}, ({', '.join(['block'] + ['0'] * (len(tile.shape) - 1))},), {text})")
    arguments += [scalar("m", start, "i32"), scalar("n", stop, "i32")]
    body = _BODY.format(names=", ".join(each.name for each in arguments), lines="\n".join(drawn.lines))
    return Generated("program", body, tuple(arguments), (), (blocks, 1, 1), wanted, drawn.needs)


def _output(pick: Choices, name: str, shape: Sequence[int], element: str) -> Argument:
    if element[0] == "u":
        return array(pick, name, np.full(shape, 7, ELEMENTS[element]), element)
    return result(pick, name, shape, element)


assert MOST_ELEMENTS >= KEPT_ELEMENTS
assert set(_LOADED) <= set(CUTILE)
