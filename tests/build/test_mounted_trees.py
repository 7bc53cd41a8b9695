"""Builds of a checkout on tmpfs that is edited through another mount, and over which other file systems are mounted."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from mounts import needs_mounts
from project import CHECKOUT


@pytest.mark.slow
@needs_mounts
@pytest.mark.parametrize("seed", [21])
def test_both_graphs_agree_on_tmpfs_under_edits_and_mounts(tmp_path, runtime, seed):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mounted_edits.py")
    (tmp_path / "tree").mkdir()
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", sys.executable, script, str(tmp_path / "tree"), str(seed)],
        env={**os.environ, "PYTHONPATH": CHECKOUT}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    *builds, last = map(json.loads, done.stdout.splitlines())
    assert [build for build in builds if build["gated"] != build["full"] or not build["same"]] == []
    assert {"mounted_over", "file_mounted_over", "overflow", "renamed_elsewhere"} <= {b["edit"] for b in builds}
    # The monitor does not vouch for files mounted below a folder.
    covered = [build for build in builds if build["covered"]]
    assert covered and all("in:kernels" in build["looked"] for build in covered)
    assert last == {"edit": "vouched", "looked": []}
