"""Rows of inputs as they are stored: malformed rows are refused, and names are the same in every checkout."""

import json
import os
import sys

import pytest

from tileiras import inputs
from tileiras.inputs import Input, kinds, places

ROWS = (
    Input("file", "../data/a table.txt", "0123", (), 17),
    Input("folder", "<environment>/share", "absent"),
    Input("module", "parts.numbers", "x.py 45", ("../a:b", "*", "50%")),
    Input("variables", "", "67"),
    Input("variable", "A B", "absent"),
    Input("distribution", "zope.interface", "1.0 89"),
    Input("unseen", "the clock", ""),
)


def test_rows_are_read_as_they_were_written():
    assert inputs.parse(inputs.write(ROWS)) == ROWS
    assert len(inputs.states(ROWS)) == len(ROWS)


@pytest.mark.parametrize(
    "document",
    [
        None, 3, [], {}, {"format": 1}, {"format": 2, "rows": []}, {"format": 1, "rows": {}},
        {"format": 1, "rows": [], "more": 1}, {"format": 1, "rows": ["file a"]},
        {"format": 1, "rows": [["file a", "0"]]},
        *({"format": 1, "rows": [row]} for row in (
            ["file", "0", None], ["", "0", None], ["link a", "0", None], ["file a\0b", "0", None], ["file a", 0, None],
            ["file a", "0", -1], ["file a", "0", "1"], ["file a", "0", True], ["file a", "0", 1.5], [None, "0", None],
            ["variable A=B", "0", None], ["variables A", "0", None], ["module a/b in .", "0", None],
            ["module a in :", "0", None], ["module ..a in .", "0", None], ["distribution ../numpy", "0", None],
            ["distribution a/b", "0", None], ["module a in %zz%3a", "0", None],
        )),
    ],
)  # fmt: skip
def test_an_invalid_row_is_refused(document):
    with pytest.raises(ValueError):
        inputs.parse(json.dumps(document).encode())


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000])
def test_an_invalid_document_is_refused(data):
    with pytest.raises(ValueError):
        inputs.parse(data)


@pytest.mark.parametrize(
    "path, name",
    [
        ("/team/a/kernels/tiles.json", "tiles.json"),
        ("/team/a/common/x.py", "../common/x.py"),
        ("/team/a/kernels/<home>/x", "./<home>/x"),
        ("/usr/share/x", "/usr/share/x"),
        ("/home/somebody/x", "<home>/x"),
        (os.path.join(sys.prefix, "share", "x"), "<environment>/share/x"),
    ],
)
def test_names_lead_back_to_their_files(monkeypatch, path, name):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert places.name_of(path, "/team/a/kernels") == name
    assert places.path_of(name, "/team/a/kernels") == path


def test_a_file_beside_the_sources_belongs_to_the_checkout(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert places.name_of("/home/somebody/common/x", "/home/somebody/app") == "../common/x"
    assert places.name_of("/home/somebody/.x", "/home/somebody/app", from_home=True) == "<home>/.x"
    assert places.name_of("/home/shared/x", "/home/somebody/app") == "/home/shared/x"


def test_a_variable_with_a_path_has_one_state_in_two_checkouts(monkeypatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    first, second = kinds.value("/one/data:/usr/x", "/one/kernels"), kinds.value("/two/data:/usr/x", "/two/kernels")
    assert first == second != kinds.value("../data:/usr/x", "/one/kernels")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert kinds.observe("file", "pipe", str(tmp_path)).state == kinds.NOT_A_FILE


def test_an_unobservable_input_never_holds():
    row = kinds.observe("unseen", "the clock", "/")
    assert not kinds.holds(row, "/") and kinds.changes([row._replace(state="")], "/")
