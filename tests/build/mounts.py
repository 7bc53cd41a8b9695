"""Builds in which the file system of the artifact store is mounted in another way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from project import Project


def mounted(tree: Project, mount: str, *arguments: str) -> tuple[int, str]:
    """Run scons after `mount` (a shell command) has remounted the file system of the store; exit code and errors."""
    scons = " ".join(["exec", f'"{sys.executable}"', "-m", "SCons", *arguments])
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f"{mount} && {scons}"],
        cwd=tree.folder,
        env={**os.environ, "PYTHONPATH": tree.compiler, "TILEIRAS_CACHE_DIR": tree.store},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


needs_mounts = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], capture_output=True).returncode != 0,
    reason="this system lets no program mount anything",
)
