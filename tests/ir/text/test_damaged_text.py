"""Damaged text: after any damage to a module, the parser answers with a module or with located diagnostics."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tileiras.diagnostics import CompileError
from tileiras.ir import parse_module, print_op

HERE = Path(__file__).parent
TEXT = "\n".join(
    line for line in (HERE / "roundtrip.mlir").read_text().splitlines() if not line.lstrip().startswith("//")
)
GENERIC = print_op(parse_module(TEXT), generic=True, locations=True)
ATTRIBUTES = """toy.module @a attributes {
  b = dense<[[1.0, 2.0], [0x7F800000, -1.5]]> : tensor<2x2xf32>, c = array<i32: 1, 2>, d = [@x::@y, "s\\22", unit],
  e = dense<"0x01020304"> : tensor<4xi8>, f = #toy.file<"x", 1>, g = (i32) -> (f32, index), h = true, i = #alias
} {
  "toy.plain"() : () -> () loc(callsite("f":1:2 at fused<"m">["g":3:4 to :5, #later, "n"("h":7:8)]))
}
#alias = [1, 2 : i8, !t]
!t = !toy.box<box<token>>
#later = loc("l":1:2)
"""
PIECES = (
    "% %0 #loc ! < > { } ( ) [ ] : -> , = \" loc( ^bb0 @ - 0x 1e dense< tensor< i32 toy.box< // \\ \0 é -1 "
    "18446744073709551616 ?"
).split(" ")


def damaged(text: str, choose: random.Random) -> str:
    for _ in range(choose.randint(1, 3)):
        start = choose.randrange(len(text) + 1)
        end = min(len(text), start + choose.choice([0, 0, 1, 1, 2, 5, 20, 200]))
        piece = choose.choice([*PIECES, "", "", text[choose.randrange(len(text)) :][: choose.randint(0, 30)]])
        text = text[:start] + piece + text[end:]
    return text


@pytest.mark.parametrize("text", [TEXT, GENERIC, ATTRIBUTES], ids=["custom", "generic", "attributes"])
def test_damaged_text_is_diagnosed_or_read(text):
    choose = random.Random(7)
    outcomes = set()
    for _ in range(400):
        source = damaged(text, choose)
        try:
            module = parse_module(source, "t.mlir")
        except CompileError as error:
            assert error.code == 3
            assert all(d.position is not None for d in error.diagnostics), error.diagnostics
            assert error.render()
            outcomes.add("diagnosed")
        else:
            print_op(module, locations=True)
            outcomes.add("read")
    assert outcomes == {"diagnosed", "read"}
