"""env.TileCheck(kernels): a verdict beside the PTX of each kernel.

    kernels = env.TileTree("kernels")
    env.Alias("check", env.TileCheck(kernels))

ENTRY.check.json follows from ENTRY.cuda_tile.mlir, ENTRY.ptx and ENTRY.json and from the checker's own code: a comment
in a source checks nothing again, edited PTX does.  ENTRY.checked follows from the verdict, and fails the build where it
says that the code is wrong or the program at fault; the verdict itself stays, and is not found again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import SCons.Action
import SCons.Util

from tileiras import pipeline
from tileiras.build import arguments
from tileiras.build.fingerprint import CodeBase
from tileiras.build.variables import BadVariable
from tileiras.files import stem, write_atomically
from tileiras.pipeline import Stage

COMMAND = "tileiras.cli.tileiras_check"

ROW = Stage("check", pipeline.ENTRY, ".check.json", (), (), "launches, interpreter beside emulator", module=COMMAND)

OPTIONS = ("ftz", "approx")
"""Options that say how exact the code must be."""

VERDICTS = (0, 6, 7, 8)
"""Exit codes of the command that say something of the kernel: a verdict is written."""
FAILURES = ("wrong", "fault-of-program")

_code = CodeBase()


class CheckAction(SCons.Action.FunctionAction):
    """Writes the verdict on the kernel that its sources are of."""

    def __init__(self, options: tuple[str, ...]) -> None:
        super().__init__(self._execute, {})
        self._options = options

    def get_presig(self, target: Any, source: Any, env: Any, executor: Any = None) -> bytes:
        return "\n".join(["tileiras:check", _code.fingerprint(ROW), *self._options]).encode()

    def strfunction(self, target: Any, source: Any, env: Any, executor: Any = None) -> str:
        return f"  {'CHECK':<8} {target[0]}"

    def _execute(self, target: Any, source: Any, env: Any) -> int:
        module, ptx = source[0].abspath, source[1].abspath
        command = [sys.executable, "-m", COMMAND, module, "--image", ptx, "-o", target[0].abspath,
                   "--entry", stem(os.path.basename(ptx)), *self._options]  # fmt: skip
        path = os.pathsep.join([_code.root, *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL)
        return 0 if done.returncode in VERDICTS else done.returncode


class PassAction(SCons.Action.FunctionAction):
    """Fails where a verdict says that a kernel is not right, and says why."""

    def __init__(self) -> None:
        super().__init__(self._execute, {})

    def get_presig(self, target: Any, source: Any, env: Any, executor: Any = None) -> bytes:
        return b"tileiras:checked"

    def strfunction(self, target: Any, source: Any, env: Any, executor: Any = None) -> str:
        return ""

    def _execute(self, target: Any, source: Any, env: Any) -> int:
        with open(source[0].abspath, encoding="utf-8") as file:
            (verdict,) = json.load(file)
        failed = verdict["status"] in FAILURES
        for each in verdict["findings"] if failed else ():
            place = f"{each['location']}: " if each["location"] else ""
            severity = {"value": "error", "emulation": "error", "program": "warning"}.get(each["kind"], "note")
            print(f"{place}{severity}: {each['message']}")
        if not failed:
            write_atomically(target[0].abspath, b"")
        return int(failed)


@arguments.located
def tile_check(env: Any, kernels: Any) -> list[Any]:
    """Declares the verdicts of kernels: nodes that TileKernel or TileTree returned, with PTX or a product of it."""
    nodes = SCons.Util.flatten([kernels])
    if not nodes or any(isinstance(each, str) for each in nodes):
        raise BadVariable("kernels: what TileKernel or TileTree returned is expected")
    given = env.get("TILE_OPTIONS") or {}
    options = tuple(f"--{name}" for name in OPTIONS if given.get(name))
    verdicts = []
    products = (os.path.splitext(str(node))[0] for node in nodes if str(node).endswith((".ptx", ".cubin")))
    for product in dict.fromkeys(products):
        path = product if os.path.isabs(product) else f"#{product}"
        sources = [path + suffix for suffix in (".cuda_tile.mlir", ".ptx", ".json")]
        verdict = env.Command(path + ROW.suffix, sources, CheckAction(options))
        verdicts += [*verdict, *env.Command(f"{path}.checked", verdict, PassAction())]
    if not verdicts:
        raise BadVariable("kernels: a check is of PTX or a cubin; the build makes neither")
    return verdicts


def add_method(env: Any) -> None:
    env.AddMethod(tile_check, "TileCheck")
