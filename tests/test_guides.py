"""The example of a guide is a patch: it applies to this compiler, does what the guide says, and has the stated size."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.filecheck import check
from tests.guide_patches import ROOT, Change, changes, patched

PASS = "tileas-drop-true-masks"
PROGRAM = f"""
import sys
from tileiras.build.fingerprint import CodeBase, stage_roots
from tileiras.cli import tileiras_opt
from tileiras.pipeline import stage
from tileiras.pipeline_text import describe
assert "  {PASS} " in describe()
assert "tileiras.registers.true_masks" in CodeBase().closure(stage_roots(stage("tileas")))[0]
sys.exit(tileiras_opt.main([sys.argv[1], "--{PASS}", "--verify-roundtrip"]))
"""


def test_a_hunk_has_one_place():
    change = Change("x", False, [" a\n+b\n c\n"])
    assert change.applied("a\nc\n") == "a\nb\nc\n" and change.added == 1
    for text in ("a\n", "a\nc\na\nc\n"):
        with pytest.raises(ValueError, match="places"):
            change.applied(text)


def test_adding_a_pass(tmp_path):
    folder = patched("adding-a-pass", tmp_path)
    (source,) = folder.glob("tests/passes/*.mlir")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(source)], capture_output=True, text=True, check=False, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check(source.read_text(encoding="utf-8"), done.stdout)


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "docs/patches").glob("*.patch")))
def test_guides_state_the_size_of_their_patches(name):
    files = changes(name)
    text = Path(ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    stated = re.search(rf"patches/{name}\.patch\)\s+\((\d+)\s+lines\s+in\s+(\d+)\s+files\)", text)
    assert stated is not None, "NAME.md says: [patch](patches/NAME.patch) (N lines in M files)"
    assert (int(stated[1]), int(stated[2])) == (sum(each.added for each in files), len(files))
    assert all(each.path in text or each.path.removeprefix("tileiras/") in text for each in files)
