"""A short run of the fuzzer; `fuzz.py` defines an answer and does the long runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import fuzz  # noqa: E402

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="mutants run in forked workers")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("kind", "count"), [("bytecode", 2400), ("text", 2400), ("lowered", 600)])
def test_damaged_input_is_answered(kind, count):
    report = fuzz.run_many(fuzz.answer, kind, 13, range(count))
    assert report.failures == {}, report.details
    assert report.tried == count
    # Most mutants are refused, but a run in which nothing was read tests nothing behind the reader.
    assert report.codes[3] > count // 4
    assert report.codes[0] > count // 50


@pytest.mark.parametrize("kind", ["bytecode", "text"])
def test_damaged_input_that_verifies_compiles_or_is_refused(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path))
    report = fuzz.run_many(fuzz.compile_mutant, kind, 13, range(160), enough=10)
    assert report.failures == {}, report.details
    assert report.codes[0] > 3


def test_mutants_compile_under_odd_options(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path))
    report = fuzz.run_many(fuzz.compile_oddly, "bytecode", 13, range(150))
    assert report.failures == {}, report.details
    assert report.codes[0] > 3


def test_a_mutant_is_a_function_of_its_number():
    for kind in ("bytecode", "text"):
        assert fuzz.mutations.mutant(kind, 5, 77) == fuzz.mutations.mutant(kind, 5, 77)
        assert fuzz.mutations.mutant(kind, 5, 77) != fuzz.mutations.mutant(kind, 5, 78)


def test_an_invalid_answer_is_reported(monkeypatch):
    from tileiras.cli import tileiras_opt

    def broken(argv):
        if argv:
            raise ValueError("broken")
        os._exit(9)

    monkeypatch.setattr(tileiras_opt, "main", broken)
    assert fuzz.run_command(("tileiras_opt", "-"), b"").failure == "ValueError in main"
    monkeypatch.setattr(fuzz, "BYTECODE_COMMANDS", (("tileiras_opt",), ("tileiras_opt", "-")))
    report = fuzz.run_many(fuzz.answer, "bytecode", 1, range(4))
    assert report.failures == {"worker ended with status 2304": [0, 2], "ValueError in main": [1, 3]}


def test_excess_time_and_memory_are_reported(monkeypatch):
    from tileiras.cli import tileiras_opt

    def greedy(argv):
        if argv:
            while True:
                pass
        return len(bytearray(3 << 30))

    monkeypatch.setattr(tileiras_opt, "main", greedy)
    monkeypatch.setattr(fuzz, "SECONDS", 0.3)
    monkeypatch.setattr(fuzz, "BYTECODE_COMMANDS", (("tileiras_opt",), ("tileiras_opt", "-")))
    report = fuzz.run_many(fuzz.answer, "bytecode", 1, range(2))
    assert report.failures == {"memory in main": [0], "hang in main": [1]}
