"""Every diagnostic of the table that can be provoked is provoked, and the page agrees with the table."""

import re
import shutil
from pathlib import Path

import diagnostics_table
import pytest
from provocations import PROVOCATIONS, Run, parameters

from tileiras.codegen import libdevice

ROWS = {row.text: row for rows in diagnostics_table.LAYERS.values() for row in rows}
PROVOKED = [text for text, row in ROWS.items() if not row.why_not]
TESTS = Path(__file__).parents[1]


def files():
    """Text tests of refused modules, and the tests of the C interface."""
    result = sorted(TESTS.rglob("*_invalid*.mlir")) + [TESTS / "build" / "test_c_library.py"]
    result += [TESTS / "schedule" / "remarks.mlir", TESTS / "driver" / "test_tileir_pipeline.py"]
    result += [TESTS / "passes" / "tileas_materialize_schedule.mlir"]
    return {path: path.read_text(encoding="utf-8", errors="replace") for path in result}


def pattern(text):
    """A pattern in which the variable parts of a text of the table match any text."""
    parts = re.split(r"(<[\w/ ]+>|\b[NXYZM]\b)", text)
    return re.compile("".join(r"[^\n]*?" if number % 2 else re.escape(part) for number, part in enumerate(parts)))


def test_the_page_equals_the_table():
    page = Path(diagnostics_table.__file__).with_name("diagnostics.md")
    assert page.read_text(encoding="utf-8") == diagnostics_table.page(), "run: python docs/diagnostics_table.py"


def test_texts_stand_once_and_give_a_reason_or_can_be_provoked():
    texts = [row.text for rows in diagnostics_table.LAYERS.values() for row in rows]
    assert len(texts) == len(set(texts))
    assert set(PROVOCATIONS) <= set(PROVOKED), "what cannot be provoked is not"
    known = files()
    for text in PROVOKED:
        if text not in PROVOCATIONS:
            assert any(pattern(text).search(content) for content in known.values()), f"nothing provokes: {text}"


@pytest.mark.parametrize("text", sorted(PROVOCATIONS))
def test_it_is_reported_with_its_exit_code(text, tmp_path, capsys, monkeypatch):
    if "ptxas" in text and shutil.which("sh") is None:
        pytest.skip("the stand-ins are shell scripts")
    code, result = PROVOCATIONS[text](Run(tmp_path, capsys, monkeypatch))
    assert pattern(text).search(result), result
    assert code == ROWS[text].code, result


def test_excess_parameters_are_reported_before_the_compilation(tmp_path, capsys, monkeypatch):
    """40016 bytes, on a GPU whose documented limit is 32760, and that of PTX 32764."""
    code, result = Run(tmp_path, capsys, monkeypatch).command(parameters(5002), gpu="sm_80")
    lines = result.splitlines()
    needed = "(40016 bytes required, max 32760 bytes allowed) in function k"
    assert re.fullmatch(r".*k\.mlir:2:3: error: Formal parameter space overflowed " + re.escape(needed), lines[0])
    assert [line for line in lines[1:] if "error: " in line] == ["error: failed to compile Tile IR program"]
    assert code == 5
    if libdevice.find() is not None:
        assert Run(tmp_path, capsys, monkeypatch).command(parameters(4095), "--emit=ptx", gpu="sm_80")[0] == 0
