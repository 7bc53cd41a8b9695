"""docs/scheduling.md: its listings of the example equal the output of the passes, operation by operation."""

from __future__ import annotations

import re
from pathlib import Path

import tileiras
from tests.kernels.dots import attention_like
from tests.kernels.tile_rounds import rounds
from tests.tileas_stage import through
from tileiras.ir import parse_module, print_op

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scheduling.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```mlir\n(.*?)```", PAGE, re.DOTALL)


def operations(text: str) -> list[str]:
    """The names of operations, line by line."""
    return re.findall(r"^\s*(?:%[\w:, %]+ = )?((?:nv_tileaa|nv_tileas|scf)\.[\w.]+)", text, re.MULTILINE)


def stages(text: str) -> list[tuple[str, int]]:
    """The operations that have a stage, and which."""
    matches = re.findall(r"^\s*(?:%[\w:, %]+ = )?([\w.]+) .*nv_tile\.aws\.stage = (\d+) : i32", text, re.MULTILINE)
    return [(name, int(stage)) for name, stage in matches]


def holds(shown: list[str], made: list[str]) -> None:
    """The lines that are shown come in this order."""
    rest = iter(made)
    for line in shown:
        assert line in rest, line


def level(name: str, text: str = "", **options: str) -> str:
    if name == "tileaa":
        return tileiras.compile(ROOT / "examples" / "matmul_f16.py", gpu_name="sm_90", emit="tileaa").text
    return print_op(through(parse_module(text, "m.mlir"), "tileas-materialize-async", **options))


def test_the_page_shows_the_output():
    loop, _, agents, _ = SHOWN
    source = level("tileaa")
    holds(operations(loop), operations(source))
    options = {"pipeline_strategy": "warp-specialize", "tensor_maps": "host"}
    result = level("tileas", source, **options)
    holds(operations(agents), operations(result))
    assert "num_warps = [8, 1]" in result and "stages 4 producer = bulk_load consumer = wgmma" in result


def test_the_page_shows_the_stages_of_attention():
    shown = SHOWN[1]
    source = attention_like(1, rows=64, columns=64, depth=64, steps=6).compiled("sm_90", emit="tileaa").text
    options = {"pipeline_strategy": "unspecialize", "v2_opt_level": "2"}
    result = print_op(through(parse_module(source, "m.mlir"), "tileas-generate-schedule", **options))
    assert stages(shown) == [("nv_tileas.dot", 0), ("math.exp2", 0), ("nv_tileas.dot", 1)]
    placed = stages(result)
    assert [each for each in placed if each[0] == "nv_tileas.dot"] == [("nv_tileas.dot", 0), ("nv_tileas.dot", 1)]
    assert ("nv_tileas.reduce", 0) in placed  # between the products


def test_the_page_shows_the_agent_that_multiplies():
    source = rounds((128, 128, 64)).compiled("sm_100", emit="tileaa", tensor_maps="host").text
    options = {"pipeline_strategy": "warp-specialize", "tensor_maps": "host"}
    result = print_op(through(parse_module(source, "m.mlir"), "tileas-specialize-mma", "sm_100", **options))
    shown = operations(SHOWN[3])
    loops = [place for place, name in enumerate(shown) if name == "scf.for"]
    multiplies = loops[-2]  # the loop over tiles of the last program
    holds(shown[multiplies:], operations(result[result.rindex("}, {") :]))
    holds(shown[:multiplies], operations(result))
    assert "producer = tcgen05 consumer = tcgen05_ld" in result and re.search(r"num_warps = \[\d+, 1, 1\]", result)


def test_the_page_names_the_plain_schedule():
    plain = print_op(through(parse_module(level("tileaa"), "m.mlir"), "tileas-generate-schedule"))
    assert "#nv_tileas.loop_schedule<plain, 4>" in plain and "#nv_tileas.loop_schedule<plain, 4>" in PAGE


def test_the_page_shows_the_product_under_three_plans():
    """Schedules of its loop, and, of the placed one, a single stage in the order in which it is written."""
    source = level("tileaa")
    boxes = {"pipeline_strategy": "warp-specialize", "tensor_maps": "host"}
    plans = {"plain": {}, "unspecialize": {"v2_opt_level": "1"}, "warp_specialize": boxes}
    for kind, options in plans.items():
        module = through(parse_module(source, "m.mlir"), "tileas-generate-schedule", **options)
        result = print_op(module)
        matches = re.findall(r"loop_schedule<[^>]*>", result)
        assert matches == [f"loop_schedule<{kind}, 4>"] and f"`{matches[0]}`" in PAGE
        assert {stage for _, stage in stages(result)} == ({0} if kind == "unspecialize" else set())
        orders = re.findall(r"aws\.order = (\d+)", result)
        assert orders == (["0", "1", "2", "3", "4"] if kind == "unspecialize" else [])
