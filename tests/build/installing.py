"""Environments in which the package is installed from a copy of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig

from project import CHECKOUT


def run(*command: str, cwd: str, **environment: str) -> str:
    cleared = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TILEIRAS_CACHE_DIR")}
    done = subprocess.run(
        command, cwd=cwd, env={**cleared, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def tree(folder: str) -> str:
    """A copy of the source tree of an installation: building writes beside its sources."""
    copied = os.path.join(folder, "tree")
    shutil.copytree(
        os.path.join(CHECKOUT, "tileiras"), os.path.join(copied, "tileiras"),
        ignore=shutil.ignore_patterns("__pycache__"),
    )  # fmt: skip
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(os.path.join(CHECKOUT, name), copied)
    return copied


def installed(folder: str, *what: str) -> str:
    """The folder of programs of an environment in which the package is installed, besides its dependencies."""
    empty = os.path.join(folder, "empty")
    run(sys.executable, "-m", "venv", "--without-pip", empty, cwd=folder)
    programs = os.path.join(empty, "bin")
    python = os.path.join(programs, "python")
    own = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    run(*PIP, "--python", python, "install", "--no-deps", *what, cwd=folder)
    # The dependencies are those of the environment that runs the tests; packages of our own environment come first.
    with open(os.path.join(own, "dependencies.pth"), "w") as file:
        file.write(sysconfig.get_path("purelib") + "\n" + sysconfig.get_path("platlib") + "\n")
    return programs


def wheel(folder: str) -> str:
    """The wheel file built from the tree."""
    run(*PIP, "wheel", "--no-deps", "--wheel-dir", folder, tree(folder), cwd=folder)
    (name,) = [name for name in os.listdir(folder) if name.endswith(".whl")]
    return os.path.join(folder, name)
