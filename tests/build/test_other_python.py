"""Keys, artifacts and SCons' signatures are the same under another version of Python."""

import glob
import os
import shutil
import subprocess
import sys
from importlib import metadata

import pytest
from project import CHECKOUT, Build, Project, axpy, module

PACKAGES = ("llvmlite", "numpy", "ml_dtypes", "xxhash", "diskcache", "SCons", "watchdog")

# These kernels call no function of libdevice, which comes in a package of its own.
WITHOUT = "libdevice=nowhere.bc"

WHOLE = ["read", "tileaa", "tileas", "llvm", "ptx"]

VERSION = "import sys; print('.'.join(map(str, sys.version_info[:2])))"


def other_python() -> tuple[str, str] | None:
    """Another Python that the package supports, on PATH or of pyenv, and its version."""
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    paths = [path for minor in (12, 13, 14, 11) if (path := shutil.which(f"python3.{minor}"))]
    for path in [*paths, *sorted(glob.glob(os.path.join(root, "versions", "3.1[1-9]*", "bin", "python")))]:
        # pyenv has commands on PATH also for versions that are not selected; these fail.
        done = subprocess.run([path, "-c", VERSION], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() != "{}.{}".format(*sys.version_info):
            return path, done.stdout.strip()
    return None


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """Run scons of another Python in a project."""
    result = other_python()
    if result is None:
        pytest.skip("there is no other Python here")
    python, version = result
    folder = str(tmp_path_factory.mktemp("other") / "packages")
    wanted = [f"{name}=={metadata.version(name)}" for name in PACKAGES]
    installed = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:", "--no-compile",
         "--python-version", version, "--target", folder, *wanted],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if installed.returncode:
        pytest.skip(f"for Python {version} there is not what this one has: {installed.stderr.splitlines()[-1]}")

    def scons(project: Project, *arguments: str) -> Build:
        done = subprocess.run(
            [python, "-m", "SCons", *arguments], cwd=project.folder, capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([folder, CHECKOUT]), "TILEIRAS_CACHE_DIR": project.store},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return Build(done.returncode, done.stdout, done.stderr)

    return scons


@pytest.fixture
def project(tmp_path):
    result = Project(tmp_path / "project")
    result.write("kernels/k.mlir", module(axpy("first"), axpy("second", operation="mulf")))
    result.scons(WITHOUT)
    return result


@pytest.mark.slow
def test_another_python_finds_everything_done_and_in_the_store(project, other):
    build = other(project, WITHOUT, "tile_full=1")
    assert (build.stages, build.cached, build.errors) == ([], [], "")
    project.delete_build()
    build = other(project, WITHOUT)
    assert build.stages == [] and sorted(build.cached) == sorted(WHOLE + WHOLE[1:])


@pytest.mark.slow
def test_another_python_makes_the_same_bytes(project, other):
    expected = project.artifacts()
    project.delete_build()
    project.store = "off"
    assert len(other(project, WITHOUT).stages) == 9
    assert project.artifacts() == expected
