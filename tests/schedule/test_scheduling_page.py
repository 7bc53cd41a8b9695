"""docs/scheduling.md: what it shows of the example is what the passes make, operation by operation."""

from __future__ import annotations

import re
from pathlib import Path

import tileiras
from tests.tileas_stage import through
from tileiras.ir import parse_module, print_op

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scheduling.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```mlir\n(.*?)```", PAGE, re.DOTALL)


def operations(text: str) -> list[str]:
    """The names of operations, line by line."""
    return re.findall(r"^\s*(?:%[\w:, %]+ = )?((?:nv_tileaa|nv_tileas|scf)\.[\w.]+)", text, re.MULTILINE)


def holds(shown: list[str], made: list[str]) -> None:
    """The lines that are shown come in this order."""
    rest = iter(made)
    for line in shown:
        assert line in rest, line


def level(name: str, text: str = "", **options: str) -> str:
    if name == "tileaa":
        return tileiras.compile(ROOT / "examples" / "matmul_f16.py", gpu_name="sm_90", emit="tileaa").text
    return print_op(through(parse_module(text, "m.mlir"), "tileas-materialize-async", **options))


def test_the_page_shows_what_is_made():
    loop, agents = SHOWN
    source = level("tileaa")
    holds(operations(loop), operations(source))
    options = {"pipeline_strategy": "warp-specialize", "tensor_maps": "host"}
    made = level("tileas", source, **options)
    holds(operations(agents), operations(made))
    assert "num_warps = [8, 1]" in made and "stages 4 producer = bulk_load consumer = wgmma" in made


def test_the_page_names_the_plain_schedule():
    plain = print_op(through(parse_module(level("tileaa"), "m.mlir"), "tileas-generate-schedule"))
    assert "#nv_tileas.loop_schedule<plain, 4>" in plain and "#nv_tileas.loop_schedule<plain, 4>" in PAGE
