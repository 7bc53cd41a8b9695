"""The commands of SKILL.md and docs/ci.md: those that answer in JSON are executed, and options exist."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tileiras.cli import manual

ROOT = Path(__file__).resolve().parents[1]
SKILL = (ROOT / "SKILL.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\| [^|]+ \| `(tileiras[^`]+)` \|", SKILL, re.MULTILINE)


@pytest.mark.parametrize("command", [command for command in COMMANDS if not command.startswith("tileiras-cache")])
def test_a_command_answers_as_the_page_says(command, tmp_path):
    shutil.copy(ROOT / "examples/saxpy.mlir", tmp_path)
    program, *words = shlex.split(command)
    module = {"tileiras": "tileiras.cli.tileiras"}.get(program, f"tileiras.cli.{program.replace('-', '_')}")
    done = subprocess.run(
        [sys.executable, "-m", module, *words], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "TILEIRAS_CACHE_DIR": "off", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode in (0, 2) if "doctor" in command else done.returncode == 0, done.stderr
    if "--diagnostics=json" in command:
        assert all(json.loads(line)["severity"] for line in done.stderr.splitlines())
        assert ("remark" in done.stderr) == ("--remarks" in command)
    elif "time.json" in command:
        assert json.loads((tmp_path / "time.json").read_text())["microseconds"] > 0
    elif "report.json" in command:
        assert json.loads((tmp_path / "report.json").read_text())["kernels"]
    elif "--json" in command:
        assert json.loads(done.stdout)
    else:
        assert "argument 1: [3., 3., 3., 3.]" in done.stdout


@pytest.mark.parametrize("page", ["SKILL.md", "docs/ci.md"])
def test_options_that_a_page_names_exist(page):
    manuals = {program: manual.manual_of(program) for program in manual.PROGRAMS}
    text = (ROOT / page).read_text(encoding="utf-8")
    uses = re.findall(r"\b(tileiras(?:-\w+)?|tileirdisasm) ([^`\n|&]*)", text)
    assert uses
    for program, words in uses:
        names = {name for row in manuals[program].rows for name in row.names}
        verbs = {verb.split()[0] for verb, _ in manuals[program].verbs}
        if words.split() and words.split()[0] in verbs:
            continue
        for option in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", words):
            assert option in names, f"{program} {words}"
