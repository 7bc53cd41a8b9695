"""Rendering of diagnostics."""

from tileiras.diagnostics import CompileError
from tileiras.ir import FileLineColLoc


def test_a_file_name_that_no_file_can_have_shows_no_source_line():
    error = CompileError.at(FileLineColLoc("a\0b.py", 3, 1), "message")
    assert error.render() == "a\0b.py:3:1: error: message"
