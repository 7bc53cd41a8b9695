"""Dimensions along which a tile varies: long chains, whose values have several users, are followed once."""

from __future__ import annotations

import pytest

from tileiras.dialects import arith
from tileiras.ir import parse_module
from tileiras.order import shapes

ROUNDS = 60


def _rounds(first: str) -> str:
    """Rounds of a hash: each value is used twice by the next one, so that the number of paths doubles."""
    tile = "tensor<4x64xi32>"
    lines = [first]
    for n in range(ROUNDS):
        lines.append(f"%y{n} = arith.muli %x{n}, %x{n} : {tile}")
        lines.append(f"%x{n + 1} = arith.xori %x{n}, %y{n} : {tile}")
    return (
        "module {\nnv_tileaa.func @k(%t: i32, %u: tensor<4x64xi32>) {\n" + "\n".join(lines) + "\nnv_tileaa.return\n}\n}"
    )


ROW = """%r = nv_tileaa.make_range : tensor<64xi32>
%v = nv_tileaa.view %r : tensor<64xi32> -> tensor<1x64xi32>
%x0 = nv_tileaa.broadcast %v : tensor<1x64xi32> -> tensor<4x64xi32>"""
SPLAT = "%x0 = nv_tileaa.splat %t : i32 -> tensor<4x64xi32>"
ARGUMENT = "%z = arith.constant dense<0> : tensor<4x64xi32>\n%x0 = arith.addi %u, %z : tensor<4x64xi32>"


@pytest.mark.parametrize("first, dims", [(ROW, {1}), (SPLAT, set()), (ARGUMENT, {0, 1})])
def test_each_value_of_a_chain_is_visited_once(first, dims, monkeypatch):
    module = parse_module(_rounds(first), "k.mlir")
    last = [op for op in module.walk() if isinstance(op, arith.XOrIOp)][-1].result
    visits = []

    def counted(op):
        visits.append(op)
        assert len(visits) < 20 * ROUNDS
        return elementwise(op)

    elementwise = shapes.is_elementwise
    monkeypatch.setattr(shapes, "is_elementwise", counted)
    assert shapes.varies(last) == dims
