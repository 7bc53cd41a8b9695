"""Blame: of eleven faults planted in passes, by their names, each is found at its pass; code that is right has none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tileiras
from tests.kernels.checked import row_sums, rows
from tileiras.check.verdict import RIGHT, WRONG
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


def _at(name: str, change: Callable[[Operation], None], nth: int = 0) -> Callable[[Operation], bool]:
    def damage(module: Operation) -> bool:
        found = named(module, name)
        if len(found) <= nth:
            return False
        change(found[nth])
        return True

    return damage


def _reordered(*order: int) -> Callable[[Operation], None]:
    def change(op: Operation) -> None:
        op.operands = [op.operands[number] for number in order]

    return change


def _one_more(attribute: str) -> Callable[[Operation], None]:
    def change(op: Operation) -> None:
        old = op.attributes[attribute]
        op.attributes[attribute] = IntegerAttr(old.value + 1, old.type)

    return change


def _bypass(op: Operation) -> None:
    """What is added to stays as it is."""
    op.results[0].replace_all_uses_with(next(each for each in reversed(op.operands) if each.type is op.results[0].type))
    op.erase()


def _inclusive(op: Operation) -> None:
    op.attributes["predicate"] = CmpIPredicateAttr({"slt": "sle", "ult": "ule"}[op.attributes["predicate"].value])


def _a_trip_less(loop: Operation) -> None:
    later = Builder.before(loop).insert(AddIOp(lhs=loop.operands[0], rhs=loop.operands[2]))
    loop.operands = [later.results[0], *loop.operands[1:]]


def _with_constant(module: Operation) -> bool:
    """The extent by which a loop's trips are counted is one more."""
    found = [op for op in named(module, "ceildivui") if op.operands[1].defining_op is not None]
    for op in found:
        _one_more("value")(op.operands[1].defining_op)
    return bool(found)


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
    "operands of a difference swapped": Fault("canonicalize", DIFFERENCE, _at("subf", _reordered(1, 0))),
    "bound of a mask inclusive": Fault("tileas-join-mask-bounds", EXAMPLES / "saxpy.mlir", _at("cmpi", _inclusive)),
    "constant wrong": Fault("tileas-assign-num-warps", PRODUCT, _with_constant),
    "trip of a loop missing": Fault("tileas-slicing", PRODUCT, _at("for", _a_trip_less)),
    "coordinates swapped": Fault("convert-tileaa-to-tileas", PRODUCT, _at("tiled_load", _reordered(0, 2, 1))),
    "combiner wrong": Fault("tileas-remove-layout-conversions", row_sums(256), _at("addf", _bypass)),
    "operation dropped": Fault("tileas-generate-schedule", PRODUCT, _at("dot", _bypass)),
    "stage of a ring wrong": Fault("tileas-unspecialized-pipeline", PRODUCT, _other_stage),
    "wait dropped": Fault("tileas-materialize-async", PRODUCT, _at("wait", _one_more("pending"))),
    "copy of another tile": Fault(
        "tileas-optimize-alloc-tensor", PRODUCT, _at("tiled_load", _reordered(0, 2, 1, 3, 4)),
    ),
    "tile stored elsewhere": Fault("tileas-insert-barriers", PRODUCT, _at("tiled_store", _reordered(0, 1, 3, 2))),
}  # fmt: skip


def plant(monkeypatch: pytest.MonkeyPatch, name: str, damage: Callable[[Operation], bool]) -> list[str]:
    """The pass of this name damages what it leaves, once for each module; the list has a word for each time."""
    made = lookup_pass(name)
    original, done = made.run, []

    def run(self: Any, op: Operation, context: Any) -> None:
        original(self, op, context)
        if damage(op):
            done.append(name)

    monkeypatch.setattr(made, "run", run)
    return done


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_found_at_its_pass(kind, monkeypatch):
    fault = FAULTS[kind]
    done = plant(monkeypatch, fault.pass_name, fault.damage)
    verdict = tileiras.check(fault.source, gpu_name="sm_80", blame=True)
    assert done and verdict.status == WRONG
    assert (verdict.blame.kind, verdict.blame.pass_name) == ("pass", fault.pass_name), verdict.blame


@pytest.mark.slow
@pytest.mark.parametrize(("gpu_name", "options"), [
    ("sm_90", {"tensor_maps": "host"}), ("sm_100", {"tensor_maps": "host"}), ("sm_120", {"num_warps": 8}),
])  # fmt: skip
@pytest.mark.parametrize("kind", FAULTS)
def test_faults_are_found_on_other_targets(kind, gpu_name, options, monkeypatch):
    fault = FAULTS[kind]
    done = plant(monkeypatch, fault.pass_name, fault.damage)
    verdict = tileiras.check(fault.source, gpu_name=gpu_name, blame=True, **options)
    assert done and verdict.blame is not None
    assert (verdict.blame.kind, verdict.blame.pass_name) == ("pass", fault.pass_name), verdict.blame


AGENTS = EXAMPLES / "matmul_f16.py"
"""With tensor maps an agent loads, on sm_90."""


@pytest.mark.slow
@pytest.mark.parametrize(("pass_name", "damage"), [
    ("tileas-resolve-agent-boundary", _at("tma_load", _reordered(0, 2, 1, 3))),
    ("tileas-attach-tma-desc-args", _at("tma_store", _reordered(0, 1, 2, 4, 3, 5))),
])  # fmt: skip
def test_faults_in_agents_are_found(pass_name, damage, monkeypatch):
    done = plant(monkeypatch, pass_name, damage)
    verdict = tileiras.check(AGENTS, gpu_name="sm_90", tensor_maps="host", blame=True)
    assert done and verdict.blame is not None
    assert (verdict.blame.kind, verdict.blame.pass_name) == ("pass", pass_name), verdict.blame


def test_the_operation_and_its_line_are_named(monkeypatch):
    fault = FAULTS["operands of a difference swapped"]
    plant(monkeypatch, "tileas-slicing", fault.damage)
    verdict = tileiras.check(fault.source, gpu_name="sm_80", blame=True)
    line = 1 + DIFFERENCE[: DIFFERENCE.index("= subf")].count("\n")
    assert verdict.blame.pass_name == "tileas-slicing" and verdict.blame.operation == "nv_tileaa.subf"
    assert f":{line}:" in verdict.blame.location


def test_a_fault_that_tiles_do_not_show_is_left_to_bisection(monkeypatch):
    plant(monkeypatch, "tileas-insert-barriers", lambda module: bool([op.erase() for op in named(module, "barrier")]))
    verdict = tileiras.check(PRODUCT, gpu_name="sm_80", blame=True)
    assert verdict.status == WRONG and verdict.blame.kind in ("decision", "lowering"), verdict.blame


def test_right_code_has_no_blame():
    verdict = tileiras.check(DIFFERENCE, gpu_name="sm_80", blame=True)
    assert verdict.status == RIGHT and verdict.blame is None
