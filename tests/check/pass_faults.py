"""Faults planted in passes, by their names: each takes the module behind its pass and damages it once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.kernels.checked import row_sums, rows
from tileiras.dialects.arith import AddIOp, CmpIPredicateAttr, SelectOp
from tileiras.ir import Builder, IntegerAttr, Operation
from tileiras.passes import lookup_pass

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PRODUCT = EXAMPLES / "matmul_f32.mlir"
DIFFERENCE = rows("""
    %four = constant <f32: 4.0> : tile<256xf32>
    %half = mulf %value, %four : tile<256xf32>
    %result = subf %half, %value : tile<256xf32>""")  # fmt: skip
"""Four times each element less the element."""


def named(module: Operation, name: str) -> list[Operation]:
    return [op for op in module.walk() if op.name.rpartition(".")[2] == name]


# -- damage: each takes the module behind a pass, and says whether there was something to damage ----------------------


def at(name: str, change: Callable[[Operation], None], nth: int = 0) -> Callable[[Operation], bool]:
    def damage(module: Operation) -> bool:
        result = named(module, name)
        if len(result) <= nth:
            return False
        change(result[nth])
        return True

    return damage


def reordered(*order: int) -> Callable[[Operation], None]:
    def change(op: Operation) -> None:
        op.operands = [op.operands[number] for number in order]

    return change


def _one_more(attribute: str) -> Callable[[Operation], None]:
    def change(op: Operation) -> None:
        old = op.attributes[attribute]
        op.attributes[attribute] = IntegerAttr(old.value + 1, old.type)

    return change


def _bypass(op: Operation) -> None:
    """The result is the last operand of its type, unchanged."""
    op.results[0].replace_all_uses_with(next(each for each in reversed(op.operands) if each.type is op.results[0].type))
    op.erase()


def _inclusive(op: Operation) -> None:
    op.attributes["predicate"] = CmpIPredicateAttr({"slt": "sle", "ult": "ule"}[op.attributes["predicate"].value])


def _a_trip_less(loop: Operation) -> None:
    later = Builder.before(loop).insert(AddIOp(lhs=loop.operands[0], rhs=loop.operands[2]))
    loop.operands = [later.results[0], *loop.operands[1:]]


def _with_constant(module: Operation) -> bool:
    """The extent by which a loop's trips are counted is one more."""
    constant = [op for op in named(module, "ceildivui") if op.operands[1].defining_op is not None]
    for op in constant:
        _one_more("value")(op.operands[1].defining_op)
    return bool(constant)


def _other_stage(module: Operation) -> bool:
    """A tile is read from the stage that the loop is filling."""
    copies, loads = named(module, "copy"), named(module, "tiled_load")
    copied = [op for op in loads if op.name == "nv_tileas.async.tiled_load"]
    filled = [op for op in copied if isinstance(op.stage.defining_op, SelectOp)]
    if not copies or not filled:
        return False
    copies[0].operands = [copies[0].operands[0], filled[0].stage]
    return True


class Fault(NamedTuple):
    pass_name: str
    source: Any
    damage: Callable[[Operation], bool]


FAULTS = {
    "operands of a difference swapped": Fault("canonicalize", DIFFERENCE, at("subf", reordered(1, 0))),
    "bound of a mask inclusive": Fault(
        "tileas-assign-load-store-layouts", EXAMPLES / "saxpy.mlir", at("cmpi", _inclusive),
    ),
    "constant wrong": Fault("tileas-assign-num-warps", PRODUCT, _with_constant),
    "trip of a loop missing": Fault("tileas-slicing", PRODUCT, at("for", _a_trip_less)),
    "coordinates swapped": Fault("convert-tileaa-to-tileas", PRODUCT, at("tiled_load", reordered(0, 2, 1))),
    "combiner wrong": Fault("tileas-remove-layout-conversions", row_sums(256), at("addf", _bypass)),
    "operation dropped": Fault("tileas-generate-schedule", PRODUCT, at("dot", _bypass)),
    "stage of a ring wrong": Fault("tileas-unspecialized-pipeline", PRODUCT, _other_stage),
    "wait dropped": Fault("tileas-materialize-async", PRODUCT, at("wait", _one_more("pending"))),
    "copy of another tile": Fault(
        "tileas-optimize-alloc-tensor", PRODUCT, at("tiled_load", reordered(0, 2, 1, 3, 4)),
    ),
    "tile stored elsewhere": Fault("tileas-insert-barriers", PRODUCT, at("tiled_store", reordered(0, 1, 3, 2))),
}  # fmt: skip


def plant(monkeypatch: pytest.MonkeyPatch, name: str, damage: Callable[[Operation], bool]) -> list[str]:
    """Make the pass of this name damage its output, once for each module; the list has a word for each time."""
    result = lookup_pass(name)
    original, done = result.run, []

    def run(self: Any, op: Operation, context: Any) -> None:
        original(self, op, context)
        if damage(op):
            done.append(name)

    monkeypatch.setattr(result, "run", run)
    return done
