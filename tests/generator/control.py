"""Control flow: statements nested at will, loops that end early, views made in loops and under conditions.

A kernel is a tree of statements on two tiles and a counter, drawn together with its meaning: each statement is a line
of text and its effect on the same values in NumPy.  All values are whole numbers that their types hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.generator.choices import Choices
from tests.generator.kernel import CUTILE, Expected, Generated, array, result, scalar, whole

MOST_DEPTH = 3
MOST_LINES = 14
SMALL = 8
"""Sums are clipped to it, so that no number grows."""


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


@dataclass
class _State:
    """One tile block's values."""

    x: np.ndarray
    block: int
    n: int
    tiles: dict[str, np.ndarray]
    counters: dict[str, int] = field(default_factory=dict)


Meaning = Callable[[_State], None]


class _Program:
    """Statements as text, drawn with their meaning."""

    def __init__(self, pick: Choices, rows: int, columns: int, tiles: int, element: str) -> None:
        self.pick, self.rows, self.columns, self.tiles = pick, rows, columns, tiles
        self.wide = CUTILE[element]
        self.lines: list[str] = []
        self.counters: list[str] = []
        self.loops = 0

    def block(self, depth: int, count: int) -> Meaning:
        first = len(self.lines)
        parts = []
        for _ in range(count):
            kinds = [self._load, self._sum, self._rows]
            if depth < MOST_DEPTH and len(self.lines) < MOST_LINES:
                kinds += [self._for, self._for, self._while, self._if]
            parts.append(self.pick.choice(kinds)(depth))
        assert len(self.lines) > first

        def run(state: _State) -> None:
            for part in parts:
                part(state)

        return run

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _number(self) -> tuple[str, Callable[[_State], int]]:
        """A small number: a constant, the parameter, or a counter in scope."""
        kind = self.pick.choice(("one", "n", "block", *self.counters))
        if kind == "one":
            return "1", lambda state: 1
        if kind in ("n", "block"):
            return ("n", lambda state: state.n) if kind == "n" else ("block", lambda state: state.block)
        return kind, lambda state: state.counters[kind]

    def _load(self, depth: int) -> Meaning:
        """A tile is added, through the whole array or through a view from a row on that is made here."""
        name, (text, number) = self.pick.choice("pq"), self._number()
        tiles, rows = self.tiles, self.rows
        if self.pick.chance(0.5):
            self.line(depth, f"part = x.slice(axis=0, start={text} % {tiles} * R, stop=x.shape[0])")
            self.line(depth, f"{name} = {name} + ct.load(part, (0, 0), (R, T), padding_mode=ct.PaddingMode.ZERO)")
        else:
            load = f"ct.load(x, ({text} % {tiles}, 0), (R, T), padding_mode=ct.PaddingMode.ZERO)"
            self.line(depth, f"{name} = {name} + {load}")
        self._clip(depth, name)

        def run(state: _State) -> None:
            start = number(state) % tiles * rows
            state.tiles[name] = _clipped(state.tiles[name] + state.x[start : start + rows])

        return run

    def _sum(self, depth: int) -> Meaning:
        name, other, (text, number) = self.pick.choice("pq"), self.pick.choice("pq"), self._number()
        self.line(depth, f"{name} = {name} - {other} + {text}")
        self._clip(depth, name)

        def run(state: _State) -> None:
            state.tiles[name] = _clipped(state.tiles[name] - state.tiles[other] + number(state))

        return run

    def _rows(self, depth: int) -> Meaning:
        name, axis = self.pick.choice("pq"), self.pick.choice((1, 0))
        self.line(depth, f"{name} = {name} + ct.max({name}, axis={axis}, keepdims=True)")
        self._clip(depth, name)

        def run(state: _State) -> None:
            tile = state.tiles[name]
            state.tiles[name] = _clipped(tile + tile.max(axis=axis, keepdims=True))

        return run

    def _clip(self, depth: int, name: str) -> None:
        self.line(depth, f"{name} = ct.maximum(ct.minimum({name}, {SMALL}), -{SMALL})")

    def _for(self, depth: int) -> Meaning:
        bound, stop = self.pick.choice((("3", lambda state: 3), ("n", lambda state: state.n),
                                        ("n + block", lambda state: state.n + state.block)))  # fmt: skip
        first = self.pick.choice((0, 0, 1))
        name = self._counter()
        self.line(depth, f"for {name} in range({first}, {bound}):")
        leaves = self._leave(depth + 1, name, ("continue",))
        body = self._inside(depth + 1, name)

        def run(state: _State) -> None:
            for value in range(first, stop(state)):
                state.counters[name] = value
                try:
                    leaves(state)
                    body(state)
                except _Continue:
                    continue

        return run

    def _while(self, depth: int) -> Meaning:
        name = self._counter()
        self.line(depth, f"{name} = 0")
        self.line(depth, f"while {name} < n + 1:")
        self.line(depth + 1, f"{name} = {name} + 1")
        leaves = self._leave(depth + 1, name, ("break", "continue"))
        body = self._inside(depth + 1, name)

        def run(state: _State) -> None:
            state.counters[name] = 0
            while state.counters[name] < state.n + 1:
                state.counters[name] += 1
                try:
                    leaves(state)
                    body(state)
                except _Continue:
                    continue
                except _Break:
                    break

        return run

    def _leave(self, depth: int, name: str, ways: tuple[str, ...]) -> Meaning:
        """Perhaps a branch that ends the iteration or the loop."""
        way = self.pick.choice(("", *ways))
        if not way:
            return lambda state: None
        self.line(depth, f"if {name} % 3 == 1:")
        self.line(depth + 1, way)
        error = _Break if way == "break" else _Continue

        def run(state: _State) -> None:
            if state.counters[name] % 3 == 1:
                raise error

        return run

    def _inside(self, depth: int, counter: str) -> Meaning:
        self.counters.append(counter)
        body = self.block(depth, self.pick.choice((1, 2)))
        self.counters.pop()
        return body

    def _if(self, depth: int) -> Meaning:
        text, number = self._number()
        self.line(depth, f"if {text} % 2 == 0:")
        then = self.block(depth + 1, self.pick.choice((1, 2)))
        other: Meaning = lambda state: None  # noqa: E731
        if self.pick.chance(0.5):
            self.line(depth, "else:")
            other = self.block(depth + 1, 1)
        return lambda state: (then if number(state) % 2 == 0 else other)(state)

    def _counter(self) -> str:
        self.loops += 1
        return f"i{self.loops}"


def _clipped(tile: np.ndarray) -> np.ndarray:
    return np.clip(tile, -SMALL, SMALL)


_BODY = """
def kernel(x, y, z, n, R: ct.Constant[int], T: ct.Constant[int]):
    block = ct.bid(0)
    p, q = ct.zeros((R, T), ct.{element}), ct.ones((R, T), ct.{element})
    {early}
{lines}
    ct.store(y, (block, 0), p)
    ct.store(z, (block, 0), q)
"""


def nested(pick: Choices) -> Generated:
    """A few statements, nested; in some kernels tile blocks with even numbers end at once."""
    element = pick.choice(("i32", "f32"))
    rows, columns, tiles = pick.choice((1, 4, 16, 32)), pick.choice((8, 16, 64, 128)), pick.choice((1, 2, 3))
    blocks, n = pick.choice((1, 2, 3)), pick.choice((0, 1, 2, 4))
    x = whole(pick, (rows * tiles, columns), element)
    program = _Program(pick, rows, columns, tiles, element)
    run = program.block(1, pick.choice((1, 2, 3)))
    early = pick.chance(0.25)
    results: list[list[Any]] = [[], []]
    for block in range(blocks):
        start = {"p": np.zeros((rows, columns)), "q": np.ones((rows, columns))}
        state = _State(x.astype(np.float64), block, n, start)
        if early and block % 2 == 0:
            state.tiles = dict.fromkeys("pq", np.full((rows, columns), -7.0))
        else:
            run(state)
        for number, name in enumerate("pq"):
            results[number].append(state.tiles[name])
    wanted = [np.concatenate(each) for each in results]
    body = _BODY.format(element=CUTILE[element], lines="\n".join(program.lines),
                        early="if block % 2 == 0:\n        return" if early else "")  # fmt: skip
    arguments = (array(pick, "x", x, element), result(pick, "y", wanted[0].shape, element),
                 result(pick, "z", wanted[1].shape, element), scalar("n", n, "i32"))  # fmt: skip
    return Generated("nested", body, arguments, (rows, columns), (blocks, 1, 1),
                     {"y": Expected(wanted[0]), "z": Expected(wanted[1])})  # fmt: skip
