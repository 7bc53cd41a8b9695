"""kill -9 at any point: the artifacts of the next build are those of a build from nothing."""

import json
import os
import subprocess
import sys

import pytest
from project import CHECKOUT

COUNT = 50


@pytest.mark.slow
@pytest.mark.parametrize("declaration", ['env.TileTree("kernels")', 'env.TileKernel("kernels/k.mlir")'])
def test_a_build_after_one_that_was_killed_equals_a_clean_one(tmp_path, declaration):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kills.py")
    done = subprocess.run(
        [sys.executable, script, str(tmp_path), str(COUNT), "5", declaration],
        env={**os.environ, "PYTHONPATH": CHECKOUT},
        capture_output=True,
        text=True,
        check=False,
    )
    turns = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(turn["killed"] for turn in turns) == COUNT, done.stdout + done.stderr
    assert [turn for turn in turns if turn["code"] or not turn["same"]] == []
    writing = [turn for turn in turns if turn["killed"] and turn["kind"] != "any time"]
    assert len(writing) >= 20 and {turn["kind"] for turn in writing} == {
        "half a file", "before a rename", "in a transaction",
    }  # fmt: skip
