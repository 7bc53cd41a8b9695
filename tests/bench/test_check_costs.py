"""Measurement of the cost of checks."""

from __future__ import annotations

from bench import checks
from tileiras.check import judging
from tileiras.diagnostics import CompileError
from tileiras.sim import emulate


def test_a_check_is_measured_by_compile_and_smallest_launch(capsys):
    assert checks.main(["examples/bytecode/vector_add.tileirbc", "--targets", "sm_90"]) == 0
    printed = capsys.readouterr().out
    assert "vector_add" in printed and "21 of 21, " in printed and "1 checks" in printed
    assert judging.emulate is emulate


def test_ratios_are_of_the_compile_and_the_launch():
    row = checks.Row("k", "sm_90", "wrong", 6.0, 0.5, 0.25, (3, 4), 5, True)
    assert row.ratio == 8.0
    summary = checks._summary([row])
    assert "ratio 8.0" in summary and "75.00%" in summary and "not right: k sm_90" in summary


def test_kernels_that_do_not_compile_are_reported_and_left_out(monkeypatch, capsys):
    def refuse(*arguments):
        raise CompileError.at(None, "not for this target")

    monkeypatch.setattr(checks, "measure", refuse)
    assert checks.main(["examples/bytecode/vector_add.tileirbc", "--targets", "sm_90"]) == 0
    assert "not for this target" in capsys.readouterr().out
