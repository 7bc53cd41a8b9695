"""Levels are a strict chain: the passes of each contain those of the level below, and each changes the code."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import tileiras
from tileiras import pipeline
from tileiras.check.verdict import RIGHT
from tileiras.cli.tileiras import main
from tileiras.options import CompileOptions
from tileiras.pipeline import stage
from tileiras.stages.tileas import DECISIONS, decisions

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PRODUCT = EXAMPLES / "bytecode" / "matmul_f16.tileirbc"
REQUESTS = [
    {}, {"pipeline-strategy": "none"}, {"pipeline-strategy": "unspecialize"}, {"pipeline-strategy": "warp-specialize"},
    {"v2-opt-level": 2}, {"tensor-maps": "host"},
]  # fmt: skip


def rows(level: int, **given: object) -> list[str]:
    options = CompileOptions({"gpu-name": "sm_90", "opt-level": level, **given})
    return [f"{row.name} {dict(row.options)}" for row in decisions(stage("tileas").select(options))]


def is_within(some: list[str], more: list[str]) -> bool:
    """Whether all of `some` are in `more`, in the same order."""
    rest = iter(more)
    return all(each in rest for each in some)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda given: "-".join(map(str, given.values())) or "default")
def test_each_level_has_the_passes_of_the_one_below(request_):
    result = [rows(level, **request_) for level in range(4)]
    for below, level in zip(result, result[1:]):
        assert is_within(below, level)
    if not request_:
        assert len(result[1]) < len(result[2]) < len(result[3]) == len(DECISIONS) - 1, "all but delays"


def test_first_levels_have_only_optional_passes_that_bound_code():
    optional = {row.name for row in DECISIONS if row.optional and row.level < 2 and not row.asked_by}
    assert optional == {
        "tileas-slice-dots", "tileas-slicing", "cse", "dce", "tileas-roll-mma-dot", "tileas-legalize-fma-dot",
    }  # fmt: skip
    assert all(row.optional for row in DECISIONS if row.level > 0)


def test_every_stage_that_reads_the_level_has_it_in_its_key():
    assert [row.name for row in pipeline.STAGES if "opt-level" in row.options] == ["tileas", "llvm", "ptx", "cubin"]


def schedule(level: int, **options: str) -> tuple[bool, bool]:
    """Whether the decisions of a level make asynchronous products, and agents."""
    result = tileiras.compile(PRODUCT, gpu_name="sm_90", emit="tileas", opt_level=level, tensor_maps="host", **options)
    return "nv_tileas.async.dot" in result.text, "agent_switch" in result.text


def test_each_level_changes_the_schedule_of_a_product():
    assert [schedule(level) for level in range(4)] == [(False, False), (False, False), (True, False), (True, True)]


def test_agents_are_made_on_request_at_the_second_level():
    assert [schedule(level, pipeline_strategy="warp-specialize")[1] for level in (1, 2)] == [False, True]


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("name, entry, gpu", [
    ("matmul_f32.mlir", None, "sm_80"), ("kernels/matmul_batched.py", None, "sm_90"),
    pytest.param("kernels/attention.py", "attention", "sm_90", marks=pytest.mark.sampled(3)),
    pytest.param("kernels/matmul_scaled.py", "matmul_scaled", "sm_100", marks=pytest.mark.sampled(3)),
])  # fmt: skip
def test_code_of_the_lower_levels_is_right(name, entry, gpu, level):
    if name.endswith(".py"):
        pytest.importorskip("cuda.tile")
    verdict = tileiras.check(EXAMPLES / name, gpu_name=gpu, opt_level=level, entry=entry)
    assert verdict.status == RIGHT


def test_the_printed_pipeline_is_that_of_the_level(capsys):
    texts = []
    for level in range(4):
        assert main(["--print-pipeline", f"-O{level}"]) == main([f"-O{level}", "--print-pipeline"]) == 0
        first, second = capsys.readouterr().out.split(f"tileiras -O{level} --gpu-name sm_90")[1:]
        assert first == second
        texts.append(first)
        printed = Counter(line.split()[0].partition("{")[0] for line in first.splitlines() if line.strip())
        for name in {row.split()[0] for row in rows(level)}:
            assert printed[name], name
        assert f"tileir{{opt-level={level}}}" in first
    assert len(set(texts)) == 4
    assert "tileas-unspecialized-pipeline" not in texts[1] and "tileas-ping-pong" not in texts[2]
