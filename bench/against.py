"""Our code of another commit: its compiler runs in a process of its own, from the files of that commit."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.estimates import Job
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.targets.rates import Gpu

ROOT = Path(__file__).resolve().parents[1]
_COMPILE = """
import json, sys
import tileiras
given = json.load(sys.stdin)
try:
    found = tileiras.compile(bytes.fromhex(given["bytecode"]), gpu_name=given["gpu"], emit="ptx", entry=given["entry"],
                             **given["options"])
    json.dump({"ptx": found.text, "metadata": found.kernels[0].metadata}, sys.stdout)
except Exception as error:
    json.dump({"error": f"{error}"}, sys.stdout)
"""


class Image(NamedTuple):
    """PTX, and the content of its NAME.json."""

    ptx: str
    metadata: Mapping[str, Any]


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """The compiler's files of a commit of this repository, in a folder that is removed afterwards.  Raises
    CompileError for an unknown commit."""
    command = ["git", "-C", str(ROOT), "archive", commit, "tileiras"]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        reason = archive.stderr.decode(errors="replace").strip().splitlines()[-1]
        raise CompileError.at(None, f"--against={commit}: {reason}", ExitCode.CONFIGURATION)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(folder, filter="data")
        yield Path(folder)


def compiled(files: Path, job: Job, gpu: Gpu, options: Mapping[str, Any]) -> Image:
    """The code of a launch's entry by the compiler in `files`.  Raises CompileError with that compiler's message."""
    entry = {"bytecode": job.bytecode.hex(), "gpu": gpu.target.name, "entry": job.entry, "options": dict(options)}
    environment = {**os.environ, "PYTHONPATH": str(files), "TILEIRAS_CACHE_DIR": "off"}
    result = subprocess.run(
        [sys.executable, "-c", _COMPILE], input=json.dumps(entry), capture_output=True, text=True, check=False,
        cwd=files, env=environment,
    )  # fmt: skip
    try:
        data = json.loads(result.stdout)
    except json.JSONDecodeError:
        lines = result.stderr.strip().splitlines()
        data = {"error": lines[-1] if lines else f"the compiler ended with {result.returncode}"}
    if "error" in data:
        raise CompileError.at(None, data["error"].strip().split("\n")[0], ExitCode.CONFIGURATION)
    return Image(data["ptx"], data["metadata"])
