"""The stage `check` as a step: the rows that the store keeps of it, and the rows of others that are believed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tileiras import pipeline
from tileiras.build import plan
from tileiras.build.ledger.history import History
from tileiras.build.run.execute import Session
from tileiras.build.step import Step, warn_on_stderr
from tileiras.build.store.local import ArtifactStore, Record
from tileiras.build.store.schema import check_row
from tileiras.check import stage
from tileiras.check.verdict import TIME_IS_UP, Finding, Verdict
from tileiras.diagnostics import Severity
from tileiras.options import CompileOptions

SAXPY = Path(__file__).resolve().parents[2] / "examples" / "saxpy.mlir"
ERROR = {"files": [], "diagnostics": [["error", "-", "argument 0 differs", []]]}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A session in a folder with the PTX of a kernel, and the step that checks it."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(SAXPY, folder / "saxpy.mlir")
    options = CompileOptions({"gpu-name": "sm_90"})
    session = Session(ArtifactStore(str(folder / "store"), warn_on_stderr), history=History(str(folder / "build")))
    stem = plan.stem(plan.folder(str(folder / "build"), options), "saxpy.mlir", "saxpy.mlir")
    source = str(folder / "saxpy.mlir")
    for step in plan.plan(source, "saxpy.mlir", source, stem, options, "ptx", ["saxpy"]).steps:
        assert session.perform(step).error is None
    stem = os.path.join(stem, "saxpy")
    suffixes = pipeline.CHECK.artifacts(options)
    return session, Step(
        pipeline.CHECK, f"{stem}.cuda_tile.mlir", stem, suffixes, "saxpy.mlir", source, options,
        locations=[f"{stem}.cuda_tile.loc"],
    )  # fmt: skip


@pytest.mark.parametrize("message", ["a note", f"{TIME_IS_UP}: further launches were not run"])
def test_a_verdict_that_the_clock_ended_is_not_stored(built, message, monkeypatch):
    session, step = built
    verdict = Verdict("right", "saxpy", "sm_90", findings=(Finding("unjudged", message),))
    monkeypatch.setattr(stage, "judgement", lambda *given, **further: verdict)
    monkeypatch.setattr(session.code, "fingerprint", lambda row: message)  # another key for each
    outcome = session.perform(step)
    assert outcome.error is None and not outcome.cached
    assert (session.store.get_record(outcome.key) is None) == message.startswith(TIME_IS_UP)
    # The module of the build exists and is not made again here.
    assert session.staleness(step).digests is not None


@pytest.mark.parametrize(("status", "kind"), [("wrong", "value"), ("fault-of-program", "program")])
def test_a_verdict_that_is_not_right_fails_each_time(built, status, kind, monkeypatch):
    """And stays where it is."""
    session, step = built
    findings = (Finding("unjudged", "a note"), Finding(kind, "argument 1 differs"))
    verdict = Verdict(status, "saxpy", "sm_90", findings=findings)
    monkeypatch.setattr(stage, "judgement", lambda *given, **further: verdict)
    monkeypatch.setattr(session.code, "fingerprint", lambda row: status)
    for cached in (False, True):
        outcome = session.perform(step)
        assert outcome.cached == cached and outcome.error.code == 7
        (result,) = outcome.diagnostics
        assert result.position[:2] == ("saxpy.mlir", 7) and result.message == "argument 1 differs"
        assert os.path.isfile(step.outputs[0]) and session.staleness(step).digests is None


def test_an_inconclusive_verdict_is_a_warning(built, monkeypatch):
    session, step = built
    verdict = Verdict("inconclusive", "saxpy", "sm_90", findings=(Finding("no-launch", "no size fits"),))
    monkeypatch.setattr(stage, "judgement", lambda *given, **further: verdict)
    monkeypatch.setattr(session.code, "fingerprint", lambda row: "unjudged")
    outcome = session.perform(step)
    (result,) = outcome.diagnostics
    assert outcome.error is None and result.severity is Severity.WARNING and "no size fits" in result.message
    assert session.staleness(step).digests is not None


def test_a_check_without_ptx_says_so(built, tmp_path):
    session, step = built
    alone = Step(step.stage, str(tmp_path / "k.cuda_tile.mlir"), str(tmp_path / "k"), step.suffixes, "k.mlir",
                 step.source_path, step.options)  # fmt: skip
    shutil.copy(step.input, alone.input)
    outcome = session.perform(alone)
    assert outcome.error.code == 2 and "there is no NAME.ptx" in str(outcome.error)


def test_rows_with_errors_are_those_of_checks_alone():
    """A server that has one for another stage cannot fail a build."""
    check_row("check:0", Record({".check.json": b"[]"}, ERROR).to_bytes())
    with pytest.raises(ValueError, match="errors"):
        check_row("ptx:0", Record({".ptx": b""}, ERROR).to_bytes())
