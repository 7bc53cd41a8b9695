"""Blame: each of eleven faults planted in passes, by their names, is found at its pass, and no fault in right code."""

from __future__ import annotations

import pytest

import tileiras
from tests.check.pass_faults import DIFFERENCE, EXAMPLES, FAULTS, PRODUCT, at, named, plant, reordered
from tileiras.check.verdict import RIGHT, WRONG


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
    ("tileas-resolve-agent-boundary", at("tma_load", reordered(0, 2, 1, 3))),
    ("tileas-attach-tma-desc-args", at("tma_store", reordered(0, 1, 2, 4, 3, 5))),
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
