"""Artifacts at the boundaries of stages equal the files beside this one."""

from __future__ import annotations

import difflib

import pytest
from goldens import HERE, artifact, cases, path


@pytest.mark.parametrize(("name", "stage"), list(cases()))
def test_an_artifact_is_as_it_is_shown(name, stage):
    shown, result = path(name, stage).read_text(encoding="utf-8"), artifact(name, stage)
    if result != shown:
        changed = difflib.unified_diff(shown.splitlines(), result.splitlines(), path(name, stage).name, "now", n=2)
        pytest.fail("\n".join([*changed, "if that is meant: python tests/goldens/goldens.py"]), pytrace=False)


def test_every_file_is_of_a_case():
    assert sorted(HERE.glob("*.golden")) == sorted(path(name, stage) for name, stage in cases())
