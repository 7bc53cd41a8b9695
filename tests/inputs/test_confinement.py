"""Rows of inputs from a server are looked up in the source's tree and in installed packages alone."""

from __future__ import annotations

import pytest

from tileiras.inputs import FILE, MODULE, VARIABLE, VARIABLES, Input
from tileiras.inputs.confinement import admits

SOURCE = b"import os\nTILE = os.environ['TILE']\n"


@pytest.fixture
def base(tmp_path, monkeypatch):
    folders = {name: tmp_path / name for name in ("tree/kernels", "tree/common", "site-packages")}
    for folder in folders.values():
        folder.mkdir(parents=True)
        (folder / "a.py").write_text("x = os.getenv('NAMED')")
    (tmp_path / "tree" / "SConstruct").write_text("")
    (tmp_path / "outside.py").write_text("12345")
    monkeypatch.syspath_prepend(str(folders["site-packages"]))
    return folders["tree/kernels"]


@pytest.mark.parametrize("name", ["a.py", "../common/a.py", "../../site-packages/a.py", "absent.py"])
def test_files_of_the_tree_and_of_packages(base, name):
    assert admits([Input(FILE, name, "", size=22)], str(base), SOURCE)


@pytest.mark.parametrize("row", [
    Input(FILE, "a.py", "", size=21), Input(FILE, "a.py", ""), Input(FILE, "../../outside.py", "", size=5),
    Input(FILE, "/etc/passwd", "", size=9999), Input(MODULE, "outside", "", ("../..",)), Input(VARIABLES, "", ""),
    Input(VARIABLE, "HOME", ""), Input(VARIABLE, "NAMED", ""),
])  # fmt: skip
def test_other_rows_are_refused(base, row):
    assert not admits([row], str(base), SOURCE)


def test_variables_that_modules_of_the_tree_name(base):
    assert admits([Input(VARIABLE, "TILE", "")], str(base), SOURCE)
    module = Input(MODULE, "a", "", ("../common",))
    assert admits([Input(VARIABLE, "NAMED", ""), module], str(base), SOURCE)
    installed = Input(MODULE, "a", "", ("../../site-packages",))
    assert not admits([Input(VARIABLE, "NAMED", ""), installed], str(base), SOURCE)
