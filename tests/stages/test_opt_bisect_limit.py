"""`opt-bisect-limit` omits optional decisions from a number on; the code is correct without them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tileiras
from tileiras.check.verdict import RIGHT
from tileiras.cli import tileiras_opt
from tileiras.diagnostics import CompileError
from tileiras.options import CompileOptions
from tileiras.pipeline import stage
from tileiras.stages.tileas import DECISIONS, bisected, decisions

PRODUCT = Path(__file__).resolve().parents[2] / "examples" / "matmul_f32.mlir"
LINE = re.compile(r"BISECT: (NOT )?running pass \((\d+)\) (\S+) on (\S+)")


def rows(limit: int | None) -> list[str]:
    result = {} if limit is None else {"opt-bisect-limit": limit}
    return [row.name for row in decisions(stage("tileas").select(CompileOptions({"gpu-name": "sm_90", **result})))]


def told(text: str) -> list[tuple[bool, int, str, str]]:
    return [(not left_out, int(number), name, on) for left_out, number, name, on in LINE.findall(text)]


def test_decisions_behind_the_limit_are_reported_and_left_out(capsys):
    texts = {limit: tileiras.compile(PRODUCT, gpu_name="sm_80", emit="tileas", opt_bisect_limit=limit).text
             for limit in (5, -1)}  # fmt: skip
    result = told(capsys.readouterr().err)
    count = len(result) // 2
    assert [number for _, number, _, _ in result] == [*range(1, count + 1)] * 2
    assert [runs for runs, *_ in result] == [*(number <= 5 for number in range(1, count + 1)), *[True] * count]
    assert {on for *_, on in result} == {"matmul_f32"}
    assert "async.tiled_load" in texts[-1] and "async.tiled_load" not in texts[5]
    assert texts[-1] == tileiras.compile(PRODUCT, gpu_name="sm_80", emit="tileas").text
    assert not capsys.readouterr().err


def test_needed_decisions_run_with_every_limit():
    needed = [row.name for row in DECISIONS if not row.optional]
    assert rows(0) == needed and rows(None) == rows(-1)
    options = stage("tileas").select(CompileOptions({"gpu-name": "sm_90", "opt-bisect-limit": 3}))
    assert [runs for _, runs in bisected(options)][:4] == [True, True, True, False]


@pytest.mark.parametrize("limit", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(3, 39, 5))])
def test_code_without_optional_decisions_is_right(limit):
    assert tileiras.check(PRODUCT, gpu_name="sm_80", opt_bisect_limit=limit).status == RIGHT


def test_the_limit_is_part_of_the_stage_key():
    keys = {CompileOptions({"gpu-name": "sm_90", "opt-bisect-limit": limit}).canonical(stage("tileas").options)
            for limit in (1, 2)}  # fmt: skip
    assert len(keys) == 2


def test_a_limit_below_minus_one_is_refused():
    with pytest.raises(CompileError, match="opt-bisect-limit"):
        tileiras.compile(PRODUCT, gpu_name="sm_80", emit="tileas", opt_bisect_limit=-2)


def test_a_pipeline_is_bisected_as_well(capsys):
    pipeline = "--pass-pipeline=builtin.module(tileir{opt-level=3 compute-capability=sm_80})"
    assert tileiras_opt.main([str(PRODUCT), pipeline, "--opt-bisect-limit=1"]) == 0
    result = told(capsys.readouterr().err)
    assert [runs for runs, *_ in result[:2]] == [True, False] and result[0][3] == "matmul_f32"
