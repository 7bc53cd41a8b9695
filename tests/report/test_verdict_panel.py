"""The verdict of a check in a report."""

from __future__ import annotations

import hashlib
import json

import pytest

from tileiras.check import verdict as checked
from tileiras.check.coverage import Uncovered
from tileiras.report import verdicts
from tileiras.report.markdown import markdown
from tileiras.report.page import page

PTX = "// some PTX\n"
FOUND = checked.Verdict(
    "wrong", "saxpy", "sm_90", (checked.LaunchReport(0, (1, 1, 1), (), "whole", "wrong"),),
    (checked.Finding("value", "argument <0> differs", "saxpy.cuda_tile.mlir:5:2", 0),), {"operations": (24, 25)},
    (Uncovered("cuda_tile.if", "", "taken"),), 7.0, ptx=hashlib.sha256(PTX.encode()).hexdigest(),
)  # fmt: skip


@pytest.fixture
def stem(tmp_path):
    (tmp_path / "saxpy.check.json").write_text(json.dumps([FOUND.to_json()]))
    return str(tmp_path / "saxpy")


def test_findings_lie_at_lines_of_the_source(stem, saxpy):
    def places(place: str) -> tuple[int, ...]:
        assert place == "saxpy.cuda_tile.mlir:5:2"
        return (0,)

    artifact = verdicts.of_artifact(stem, PTX, places)
    assert (artifact.status, artifact.right, artifact.launches) == ("wrong", 0, 1)
    assert [each.places for each in (*artifact.findings, *artifact.uncovered)] == [(0,), ()]
    report = saxpy._replace(kernels=(saxpy.kernels[0]._replace(verdict=artifact),))
    text = markdown(report)
    assert "### Verdict" in text and "operations 24 of 25" in text and "argument \\<0\\> differs" in text
    html = page(report)
    assert 'aria-label="Verdict"' in html and "argument &lt;0&gt; differs" in html and "24 of 25" in html


def test_a_kernel_without_a_verdict_says_how_to_get_one(stem, saxpy):
    assert any("verdict" in text and "check=1" in text for text in saxpy.kernels[0].missing)
    assert "### Verdict" not in markdown(saxpy) and 'aria-label="Verdict"' not in page(saxpy)
    for result, ptx in ((stem, "other"), (stem + "_", PTX)):
        with pytest.raises(ValueError, match="check=1"):
            verdicts.of_artifact(result, ptx, lambda place: ())


ORDER = {
    "sums": [{"op": 7, "kind": "reduce", "of": "f32", "length": 64, "key": "a", "order": "<2> warps"}],
    "outputs": [{
        "argument": 1, "ops": [9], "sums": [0], "repeatable": "no",
        "causes": [{"op": 8, "says": "no", "why": "atomics"}], "depends": {"p2": "order"}, "invariant": ["grid"],
    }],
}  # fmt: skip


def test_the_order_of_sums_lies_at_lines_of_the_source(saxpy):
    assert {each.kind for each in saxpy.kernels[0].order} == {"output"}, "which has no sum"
    order = verdicts.of_order({"order": ORDER}, lambda number: (0,) if number > 7 else ())
    assert [(each.kind, each.places) for each in order] == [("output", (0,)), ("cause", (0,)), ("reduce", ())]
    report = saxpy._replace(kernels=(saxpy.kernels[0]._replace(order=order),))
    assert "### Order of sums" in markdown(report) and "\\<2\\> warps" in markdown(report)
    html = page(report)
    assert 'aria-label="Order of sums"' in html and "&lt;2&gt; warps" in html and "atomics" in html
    assert verdicts.of_order({}, lambda number: ()) == verdicts.of_order(None, lambda number: ()) == ()
