"""tileiras doctor: installed parts, missing parts, and the features that are lost with them."""

import json

import pytest

from tileiras.cli import tileiras, tileiras_doctor, toolkits
from tileiras.diagnostics import CompileError
from tileiras.support.extras import EXTRAS


def facts(capsys, code: int) -> dict:
    assert tileiras.main(["doctor", "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_the_table_lists_all_packages_and_dependencies():
    import re
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = {part.package for part in toolkits.PARTS}
    assert {package for row in EXTRAS.values() for package in row} <= packages
    assert {re.match(r"[\w-]+", word)[0] for word in project["dependencies"]} <= packages


def test_found_tools_have_a_release_and_a_location(capsys):
    result = facts(capsys, 0)
    parts = {part["name"]: part for part in result["parts"]}
    assert parts["llvmlite"]["state"] == "found" and parts["llvmlite"]["version"]
    assert result["cubins"] and result["store"]["directory"]
    assert tileiras.main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith((" ", "note: "))] == [
        "tileiras", "Python", *parts, "store"]  # fmt: skip


def test_missing_tools_are_listed_with_effect_and_exit_code(capsys, monkeypatch):
    def row(name, find):
        return next(part for part in toolkits.PARTS if part.name == name)._replace(find=find)

    def broken():
        raise CompileError.at(None, "it does not start")

    parts = (row("ptxas", lambda: None), row("jinja2", lambda: None), row("nvdisasm", broken))
    monkeypatch.setattr(tileiras_doctor, "PARTS", parts)
    result = facts(capsys, 2)
    assert not result["cubins"] and [part["state"] for part in result["parts"]] == ["missing", "missing", "broken"]
    assert tileiras.main(["doctor"]) == 2
    text = capsys.readouterr().out
    assert "error: ptxas is missing: no cubins" in text
    assert "note: jinja2 is missing: no reports in HTML" in text
    assert "install the package 'jinja2' (the 'report' extra brings it)" in text
    assert "note: nvdisasm is broken: " in text and "it does not start" in text
    monkeypatch.setattr(tileiras_doctor, "PARTS", parts[1:])
    assert facts(capsys, 0)["cubins"]


@pytest.mark.parametrize("words", [["--nothing"], ["k.mlir"]])
def test_other_words_are_refused(capsys, words):
    assert tileiras.main(["doctor", *words]) == 1
    assert "tileiras doctor: error: unrecognized arguments" in capsys.readouterr().err
