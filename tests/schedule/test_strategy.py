"""The strategy of loops: one value with one parser and one printer, built from the options in one place."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

import pytest

import tileiras
from tileiras import pipeline
from tileiras.ir.pass_manager import parse_pipeline
from tileiras.options import OPTIONS, CompileOptions
from tileiras.passes import lookup_pass
from tileiras.schedule.strategy import Loads, Overlap, Strategy, Variant
from tileiras.stages import tileas

PACKAGE = Path(tileiras.__file__).parent
READ_BY_STRATEGY = (
    "pipeline-strategy", "rrt-size-threshold", "v2-opt-level", "unspecialized-pipeline-num-stages",
    "max-constraint-iterations",
)  # fmt: skip
REQUESTS = [
    dict(zip(READ_BY_STRATEGY, values, strict=True))
    for values in itertools.product(
        OPTIONS["pipeline-strategy"].choices, (0, 1, 4096), (0, 1, 2, 7), (None, 2), (0, 10)
    )
]


def test_text_is_parsed_as_it_is_printed():
    for fields in itertools.product(Loads, Variant, Overlap, (None, 1, 8), (0, 10, 25)):
        strategy = Strategy(*fields)
        assert Strategy.parse(str(strategy)) == strategy == Strategy.parse(str(strategy)[1:-1])
    assert str(Strategy()) == "{}" and str(Strategy(Loads.AGENT, stages=3)) == "{loads=agent stages=3}"


@pytest.mark.parametrize("text, accepted", [
    ("{loads=boxes}", "loads=none, all-warps, agent, by-rule"), ("{variant}", "variant=light, heavy"),
    ("overlap=1", "overlap=off, by-rule, model, search"), ("{stages=0}", "stages=1 to 8"), ("{stages=}", "stages=1 to"),
    ("{loads=agent depth=2}", "a field of loads, variant, overlap, stages, placements, table"),
])  # fmt: skip
def test_other_text_is_refused_with_the_accepted_forms(text, accepted):
    with pytest.raises(ValueError, match=accepted):
        Strategy.parse(text)


def test_options_that_request_a_strategy_give_it_again():
    for request in REQUESTS:
        strategy = Strategy.of(CompileOptions(request))
        assert Strategy.of(CompileOptions(strategy.options())) == strategy, request


@pytest.mark.parametrize("request_, strategy", [
    ({}, Strategy(Loads.BY_RULE, overlap=Overlap.BY_RULE)),
    ({"rrt-size-threshold": 0}, Strategy(Loads.BY_RULE, Variant.LIGHT)),
    ({"v2-opt-level": 1}, Strategy(overlap=Overlap.MODEL)),
    ({"unspecialized-pipeline-num-stages": 4}, Strategy(stages=4)),
    ({"opt-level": 0, "pipeline-strategy": "warp-specialize"}, Strategy(Loads.NONE)),
    ({"pipeline-strategy": "warp-specialize", "v2-opt-level": 3}, Strategy(Loads.AGENT, overlap=Overlap.SEARCH)),
    ({"pipeline-strategy": "warp-specialize", "rrt-size-threshold": 0}, Strategy(Loads.AGENT, Variant.LIGHT)),
    ({"pipeline-strategy": "warp-specialize", "rrt-size-threshold": 7}, Strategy(Loads.AGENT, table=7)),
    ({"pipeline-strategy": "none", "max-constraint-iterations": 3}, Strategy(Loads.NONE, placements=3)),
    ({"ptxas-options": ["-c"]}, Strategy()),
    ({"ptxas-options": ["-c"], "pipeline-strategy": "warp-specialize"}, Strategy(Loads.AGENT)),
])  # fmt: skip
def test_options_determine_the_strategy(request_, strategy):
    assert Strategy.of(CompileOptions(request_)) == strategy


def test_every_pass_that_takes_it_gets_the_same():
    for request in REQUESTS:
        options = pipeline.stage("tileas").select(CompileOptions(request))
        spelled = [text for text, _ in tileas.explained(options)]
        passes = parse_pipeline(",".join(spelled), lookup_pass)
        assert [item.spelled() for item in passes] == spelled
        taken = {item.strategy for item in passes if "strategy" in item.options()}
        assert taken == {Strategy.of(options)}, request


def test_no_other_module_reads_options_of_the_strategy():
    read = {*READ_BY_STRATEGY, *(name.replace("-", "_") for name in READ_BY_STRATEGY)}
    values = {*OPTIONS["pipeline-strategy"].choices} - {"none", "auto"}
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path == PACKAGE / "schedule" / "strategy.py" or not any(name in text for name in read | values):
            continue
        for node in ast.walk(ast.parse(text)):
            names = {node.attr} if isinstance(node, ast.Attribute) else set()
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                names = {node.slice.value}
            compared = isinstance(node, ast.Compare) and any(
                isinstance(each, ast.Constant) and each.value in values for each in ast.walk(node)
            )
            if names & read or compared:
                wrong.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert wrong == []
