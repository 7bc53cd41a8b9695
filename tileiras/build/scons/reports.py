"""env.TileReport(target, kernels): a report of the compilation of kernels.

    kernels = env.TileTree("kernels")
    env.Alias("report", env.TileReport("build/report.html", kernels))

The report is written by `tileiras-report` in a process of its own: its libraries belong to an extra that a build
without reports does not need.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import SCons.Script
import SCons.Util

import tileiras
from tileiras import pipeline
from tileiras.build.scons import arguments
from tileiras.build.scons.action import REPORT, display
from tileiras.build.scons.file_action import FileAction
from tileiras.build.scons.places import build_folder
from tileiras.build.scons.variables import BadVariable
from tileiras.pipeline import Stage
from tileiras.support.files import content_digest

COMMAND = "tileiras.cli.tileiras_report"

ROW = Stage(REPORT, pipeline.FILE, "", (), (), "artifacts to a page", module=COMMAND)

SUFFIXES = (".html", ".htm", ".md", ".json")

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(tileiras.__file__)))


def _facts(env: Any) -> str:
    folder = os.path.join(_ROOT, "tileiras", "report")
    parts = sorted(name for name in os.listdir(folder) if name.startswith("page."))
    return " ".join(content_digest(os.path.join(folder, name)) for name in parts)


def _write(target: Any, source: Any, env: Any) -> int:
    """Write a report of the kernels that the sources are products of."""
    with tempfile.TemporaryDirectory(prefix="tileiras-") as folder:
        names = os.path.join(folder, "artifacts")
        with open(names, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write("".join(f"{node.abspath}\n" for node in source))
        command = [sys.executable, "-m", COMMAND, env.Dir(env["TILE_REPORT_BUILD"]).abspath, "--artifacts", names,
                   "-o", target[0].abspath]  # fmt: skip
        os.makedirs(os.path.dirname(target[0].abspath), exist_ok=True)
        path = os.pathsep.join([_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])])
        display.silent = bool(SCons.Script.GetOption("silent"))
        start = time.perf_counter()
        code = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}).returncode
        display.reported(time.perf_counter() - start)
        return code


@arguments.locate
def tile_report(env: Any, target: Any, kernels: Any) -> list[Any]:
    """Declare a report of kernels, which are nodes that TileKernel or TileTree returned.  The target's suffix
    determines the format: `.html`, `.md` or `.json`.

    With `lineinfo=1 emit-remarks=1` in the build it contains source lines at every level and the remarks.
    """
    path = str(arguments.path_or_node("target", target))
    if not path.endswith(SUFFIXES):
        raise BadVariable(f"target={path}: a report ends in {', '.join(SUFFIXES)}")
    sources = SCons.Util.flatten([kernels])
    wrong = [each for each in sources if isinstance(each, str)]
    if wrong or not sources:
        raise BadVariable("kernels: expected the nodes that TileKernel or TileTree returned")
    folder = build_folder(env)
    from_here = folder if os.path.isabs(folder) else "#" + folder
    return env.Command(target, sources, FileAction(ROW, _write, _facts), TILE_REPORT_BUILD=from_here)
