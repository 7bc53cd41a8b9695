"""docs/architecture.md: the listings of its seven phases are lines of the compiler's output, in their order."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import tileiras
from tests.tileas_stage import through
from tileiras.ir import parse_module, print_op

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("## One kernel, in seven phases", 1)[1]
PHASES = re.findall(r"\*\*\d\. .*?```\w*\n(.*?)```", SECTION.split("\n## ", 1)[0], re.DOTALL)

MADE_BY = ("cuda_tile", "tileaa", "to tileas-slicing", "to tileas-remove-layout-conversions",
           "to tileas-generate-schedule", "tileas", "ptx")  # fmt: skip
"""Phase -> the stage, or the last decision, whose output it shows."""


@cache
def made(by: str) -> str:
    if by.startswith("to "):
        return print_op(through(parse_module(made("tileaa"), "m.mlir"), by.removeprefix("to ")))
    return tileiras.compile(ROOT / "examples/matmul_f16.py", gpu_name="sm_90", emit=by).text


def missing(shown: str, text: str) -> list[str]:
    """The shown lines that the text lacks after the previous one; `...` stands for anything on a line."""
    lines = iter(re.sub(r"[ \t]+", " ", text).splitlines())
    lacking = []
    for line in shown.splitlines():
        parts = [re.escape(part.strip()) for part in line.split("...")]
        if not any(re.search(".*?".join(parts), each) for each in lines):
            lacking.append(line)
    return lacking


def test_the_measure():
    assert missing("a ... c\nd", "x a b c\nd") == []
    assert missing("d\na", "a\nd") == ["a"]


@pytest.mark.parametrize("phase", range(7))
def test_phases_show_the_output(phase):
    assert missing(PHASES[phase], made(MADE_BY[phase])) == []
