"""The commands that the compile service answers, in an installation: they load its client and no other module."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from installing import PIP, installed, run, tree, wheel
from project import axpy, module

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the service needs Linux")

ANSWERED = ("tileiras", "tileiras-embed", "tileiras-opt", "tileiras-translate")

CLIENT = {
    "_socket", "_signal", "tileiras", "tileiras.processes.service",
    "tileiras.processes.service.client", "tileiras.processes.service.protocol",
    "tileiras.processes", "tileiras.processes.sockets", "__future__",
}  # fmt: skip
"""The modules that a command answered by the service may load, besides those of every Python of its environment."""


@pytest.fixture(scope="module", params=["wheel", "editable"])
def programs(request, tmp_path_factory) -> str:
    """The folder of programs of an environment of either kind."""
    folder = str(tmp_path_factory.mktemp(request.param))
    if request.param == "wheel":
        return installed(folder, "--no-index", wheel(folder))
    return installed(folder, "--editable", tree(folder))


def loaded(words: Sequence[str], folder: Path, **environment: str) -> set[str]:
    """The modules that this Python loads in such a process, which succeeds."""
    cleared = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(words, cwd=folder, env={**cleared, **environment}, capture_output=True, text=True, check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.sampled(1)
def test_an_answered_command_loads_the_client_alone(programs, tmp_path):
    (tmp_path / "k.mlir").write_text(module(axpy("first")))
    (tmp_path / "runtime").mkdir()
    environment = {
        "TILEIRAS_SERVER": "auto", "XDG_RUNTIME_DIR": str(tmp_path / "runtime"),
        "TILEIRAS_CACHE_DIR": str(tmp_path / "store"),
    }  # fmt: skip
    python = [os.path.join(programs, "python"), "-X", "importtime"]
    bare = loaded([*python, "-c", "pass"], tmp_path)
    control = [*python, "-m", "tileiras.processes.service.command"]
    loaded([*control, "start"], tmp_path, **environment)
    try:
        words = {
            "tileiras": ["k.mlir", "--gpu-name=sm_90", "--emit=ptx", "-o", "k.ptx"],
            "tileiras-embed": ["k.mlir", "--gpu-name=sm_90", "--header=k.h", "--source", "k.cpp"],
            "tileiras-opt": ["k.mlir", "-o", "k.out"],
            "tileiras-translate": ["--mlir-to-cudatilebc", "k.mlir", "-o", "k.tileirbc"],
        }
        for name in ANSWERED:
            with open(os.path.join(programs, name), encoding="utf-8") as file:
                assert os.path.samefile(file.readline().removeprefix("#!").strip(), python[0])
            result = loaded([*python, os.path.join(programs, name), *words[name]], tmp_path, **environment)
            assert "tileiras.processes.service.client" in result
            assert result - bare <= CLIENT, name
            assert (tmp_path / words[name][-1]).stat().st_size
    finally:
        loaded([*control, "stop"], tmp_path, **environment)


@pytest.mark.slow
def test_uninstalling_leaves_nothing(programs, tmp_path):
    python = os.path.join(programs, "python")
    names = sorted(name for name in os.listdir(programs) if name.startswith("tileiras"))
    assert set(ANSWERED) < set(names) and "tileiras-run" in names
    for name in names:
        assert run(os.path.join(programs, name), "--help", cwd=str(tmp_path)).startswith(("usage", "OVERVIEW", name))
    run(*PIP, "--python", python, "uninstall", "--yes", "tileiras", cwd=str(tmp_path))
    assert not [name for name in os.listdir(programs) if name.startswith("tileiras")]
    where = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=str(tmp_path)).strip()
    assert not [name for name in os.listdir(where) if "tileiras" in name]
