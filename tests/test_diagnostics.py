"""Rendering of diagnostics."""

from tileiras.diagnostics import CompileError, DiagnosticEngine, render
from tileiras.ir import FileLineColLoc


def test_a_file_name_that_no_file_can_have_shows_no_source_line():
    error = CompileError.at(FileLineColLoc("a\0b.py", 3, 1), "message")
    assert error.render() == "a\0b.py:3:1: error: message"


def test_what_a_consequence_points_at_is_shown_once():
    engine = DiagnosticEngine()
    engine.error(FileLineColLoc("k.mlir", 2, 3), "cause")
    engine.error(FileLineColLoc("k.mlir", 2, 3), "consequence")
    engine.error(FileLineColLoc("k.mlir", 1, 1), "elsewhere")
    assert render(engine.diagnostics, {"k.mlir": "first\n  second\n"}).split("\n") == [
        "k.mlir:2:3: error: cause",
        "  second",
        "  ^",
        "k.mlir:2:3: error: consequence",
        "k.mlir:1:1: error: elsewhere",
        "first",
        "^",
    ]
