"""Random command lines, answered by our command and the vendor's."""

import os
import random
import shlex
from pathlib import Path

import pytest
from invocations import RELEASE, answer, leave, make_inputs, normalized

from tileiras.build import library
from tileiras.cli.tileiras import main
from tileiras.codegen import ptxas, toolkit

COUNT = 60

INPUTS = ["good.bc"] * 12 + [
    "missing.bc", "zero.bc", "short.bc", "magic.bc", "cut.bc", "f8.bc", "hints.bc", "previews.bc", "version.bc",
    "empty13.4.bc", "dir", "end.bc",
]  # fmt: skip
GPUS = ["--gpu-name sm_90"] * 8 + ["--gpu-name=sm_80", "-arch sm_120", "--gpu-name sm_91", "--arch=sm_100", ""]
OPTIONS = [
    "-O0", "-O1", "-O3", "-O5", "--opt-level=2", "--opt-level x", "-g", "--device-debug", "-g=0", "--lineinfo",
    "--lineinfo=0", "--sanitize=memcheck", "--host-arch aarch64", "--host-os=windows", "--host-os mac",
    "--preview=simt", "--preview=y", "-l missing", "-l tile.o", "-l three.o", "-ltile.o", "--remarks=tensorcore",
    "--remarks-passed=all", "--remark-format=yaml", "--remark-format=x", "--remarks-output-file=r",
    "--remarks-output-file=nowhere/r", "-w", "--Wunsupported-hints", "--Werr-hints", "--print-options", "--bogus",
    "-gx", "-gO0", "--list-versions", "--help", "--", "@words", "@absent", "@quoted", "-o o", "-o p", "-o nowhere/o",
    "-o",
]  # fmt: skip


def command_lines(seed: int) -> list[str]:
    choose = random.Random(seed)
    lines = []
    for _ in range(COUNT):
        words = [choose.choice(INPUTS), choose.choice(GPUS), *choose.sample(OPTIONS, choose.randint(1, 5))]
        if choose.random() < 0.3:
            choose.shuffle(words)
        lines.append(" ".join(filter(None, words)))
    return lines


def words_alike(error: str) -> list[str]:
    """Messages without those that differ by choice (`docs/command-line.md`): repeated damage, remarks, outputs."""
    result = error.partition("in function: ")[0].split("\n")
    return [line for line in result if line and "failed to parse" not in line and "unable to open output" not in line]


def test_random_command_lines_are_answered_alike(tmp_path, monkeypatch, capfd):
    tool = toolkit.find_program("tileiras")
    if tool is None or not ptxas.version(tool).startswith(f"{RELEASE}."):
        pytest.skip(f"no vendor tool of release {RELEASE}")
    folder = tmp_path / "inputs"
    folder.mkdir()
    make_inputs(folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path / "store"))
    codes = set()
    for line in command_lines(5):
        expected = answer(tool, line, Path(folder))
        capfd.readouterr()
        monkeypatch.setattr(library, "_sessions", {})
        before = set(os.listdir())
        code = int(main(shlex.split(line)))
        error = normalized(capfd.readouterr().err)
        assert (code, leave(folder, before)) == (expected["code"], expected["files"]), line
        assert words_alike(error) == words_alike(expected["error"]), line
        codes.add(code)
    assert codes == {0, 1, 2, 3, 5}
