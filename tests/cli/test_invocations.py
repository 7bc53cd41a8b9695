"""The command against the vendor's: exit codes, texts and files over a table of command lines."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from invocations import INVOCATIONS, OURS, RECORDED, RELEASE, answer, leave, make_inputs, normalized

from tileiras.build import library
from tileiras.cli.driver_options import command_line
from tileiras.cli.tileiras import main
from tileiras.codegen import toolkit

EXPECTED = json.loads(RECORDED.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("inputs")
    make_inputs(path)
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("store"))


def test_every_command_line_has_its_answer():
    assert list(EXPECTED) == INVOCATIONS and len(INVOCATIONS) >= 60
    assert set(OURS) <= set(INVOCATIONS)


@pytest.mark.parametrize("line", INVOCATIONS)
def test_ours_answers_as_recorded(ptxas, folder, store, monkeypatch, capfd, line):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", store)
    monkeypatch.setattr(library, "_sessions", {})
    before = set(os.listdir())
    code = main(shlex.split(line))
    result = {"code": int(code), "error": normalized(capfd.readouterr().err), "files": leave(folder, before)}
    expected = {**EXPECTED[line], **OURS.get(line, {})}
    expected.pop("why", None)
    assert result == expected


@pytest.fixture(scope="module")
def vendor() -> str:
    """The vendor's tool, of the release that was recorded."""
    tool = toolkit.find_program("tileiras")
    if tool is None:
        pytest.skip("no vendor tool")
    stdout = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout
    if f"release {RELEASE}," not in stdout:
        pytest.skip(f"not the vendor's release {RELEASE}")
    return tool


@pytest.mark.sampled(82)
@pytest.mark.parametrize("line", INVOCATIONS)
def test_the_vendors_tool_still_answers_as_recorded(vendor, folder, line):
    assert answer(vendor, line, folder) == EXPECTED[line]


@pytest.mark.parametrize("at, value, message", [
    (12, 0x55, "error: error at offset 12: unknown section ID: 85"),
    (-37, 0x77, "error: error at offset {at} of the file, in the type section: unknown type tag: 119"),
])  # fmt: skip
def test_damage_has_its_place_in_the_file(folder, tmp_path, capsys, at, value, message):
    data = bytearray((folder / "good.bc").read_bytes())
    at %= len(data)
    data[at] = value
    (tmp_path / "k.bc").write_bytes(data)
    assert main([str(tmp_path / "k.bc"), "--gpu-name=sm_90"]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert lines == [message.format(at=at), "error: input does not correspond to Tile IR bytecode"]


def test_every_option_of_the_vendors_help_is_taken(vendor):
    """With its alias, its spelling, and the words that it accepts."""
    stdout = subprocess.run([vendor, "--help-hidden"], capture_output=True, text=True, check=True).stdout
    line = command_line()
    name = ""
    for spelled, word in re.findall(r"^  (?:--?([\w-]+)|  =([\w-]+)) ?", stdout, re.MULTILINE):
        name = spelled or name
        spec = line.specs[line.aliases.get(name, name)]
        assert not word or word in spec.kind
    assert {"gpu-name", "remarks-analysis", "sanitize", "print-all-options"} <= set(re.findall(r"--([\w-]+)", stdout))


def test_versions_are_listed_as_the_vendors_tool_lists_them(capfd):
    assert main(["--list-versions"]) == 0
    assert capfd.readouterr().out == "13.1\n13.2\n13.3\n13.4\n13.5\n"
