"""Derivations along chains whose values have several users: each value is visited once, and chains may be long."""

from __future__ import annotations

import pytest

from tileiras.analysis.derivations import erase_unused, is_derived
from tileiras.dialects import arith
from tileiras.ir import parse_module

ROUNDS = 3000


def _rounds(last: str = "") -> list[arith.XOrIOp]:
    """Rounds of a hash: a value is used twice by the next one, so that the number of paths doubles."""
    lines = ["module {", "nv_tileaa.func @k(%x0: i32, %to: !nv_tileaa.ptr<i32>) {"]
    for n in range(ROUNDS):
        lines += [f"%y{n} = arith.muli %x{n}, %x{n} : i32", f"%x{n + 1} = arith.xori %x{n}, %y{n} : i32"]
    module = parse_module("\n".join([*lines, last, "nv_tileaa.return", "}", "}"]), "k.mlir")
    return [op for op in module.walk() if isinstance(op, arith.XOrIOp)]


@pytest.mark.parametrize("derived", [True, False])
def test_a_value_is_visited_once(derived):
    seen = []

    def sources(value):
        seen.append(value)
        op = value.defining_op
        return op.operands if op is not None else () if derived else None

    assert is_derived([_rounds()[-1].result], sources) == derived
    assert len(seen) == len(set(seen)) == 2 * ROUNDS + 1


@pytest.mark.parametrize("used", [ROUNDS, ROUNDS // 2, None])
def test_operations_without_a_use_are_erased(used):
    """An operation with an effect uses the value after a number of rounds: those before it stay."""
    rounds = _rounds(
        "" if used is None else f"%s = nv_tileaa.store %to, %x{used} : !nv_tileaa.ptr<i32>, i32 -> !nv_tileaa.mem_token"
    )
    block = rounds[0].parent
    erase_unused(block.arguments[0])
    assert sum(isinstance(op, arith.XOrIOp) for op in block.operations) == (used or 0)
    assert len(list(block.operations)) == 2 * (used or 0) + (1 if used is None else 2)
