"""Builds that list the files that they have read, and random edits of a project that the monitor vouches for."""

from __future__ import annotations

import os

from edits import Pair
from monitoring import stop
from project import Build, Project, axpy, module

SCONSTRUCT = """\
import atexit, os
from tileiras.build import discover, tool
from tileiras.build.scons.variables import construction_variables
looked = []
def counted(function, folder=""):
    def count(path, *arguments, **keywords):
        name = folder + os.path.relpath(path) if isinstance(path, str) else ""
        if name.startswith(("kernels/", "in:kernels")) or "/kernels/" in name:
            looked.append(name)
        return function(path, *arguments, **keywords)
    return count
os.stat, os.scandir = counted(os.stat), counted(os.scandir, "in:")
env = Environment(tools=[tool], ENV=os.environ, **construction_variables(ARGUMENTS))
env.Default(env.Alias("kernels", env.TileTree("kernels")))
atexit.register(lambda: print("LOOKED", *sorted(set(looked))))
"""


def looked(output: str) -> set[str]:
    (line,) = [line for line in output.splitlines() if line.startswith("LOOKED")]
    return set(line.split()[1:])


class Vouched(Pair):
    """The same pair under a monitor that vouches for project and manifest; more ways to change a file."""

    def other(self, project: Project) -> str:
        return project.path(f"kernels/{sorted(self.texts)[0]}.mlir")

    def replaced(self) -> None:
        name = self.random.choice(sorted(self.texts))
        self.texts[name] = module(axpy(name, operation="minf"))
        for project in (self.gated, self.full):
            project.write("saved", self.texts[name])
            os.replace(project.path("saved"), project.path(f"kernels/{name}.mlir"))

    def clock_set_back(self) -> None:
        name = self.random.choice(sorted(self.texts))
        times = [os.stat(project.path(f"kernels/{name}.mlir")) for project in (self.gated, self.full)]
        self.write(name, module(axpy(name, operation=self.random.choice(("subf", "addf")))))
        for project, state in zip((self.gated, self.full), times, strict=True):
            os.utime(project.path(f"kernels/{name}.mlir"), ns=(state.st_atime_ns, state.st_mtime_ns))

    def artifacts_swapped(self) -> None:
        names = sorted(name for name in self.full.artifacts() if name.endswith(".ptx")) if self.built else []
        if len(names) > 1:
            for project in (self.gated, self.full):
                first, second = project.path(f"build/{names[0]}"), project.path(f"build/{names[-1]}")
                os.rename(first, project.path("build/kept"))
                os.rename(second, first)
                os.rename(project.path("build/kept"), second)

    def another_monitor(self) -> None:
        stop()

    def build(self) -> tuple[Build, Build]:
        if not any("@broken" in text for text in self.texts.values()):
            # The second build uses the answer of the monitor about the first one.
            self.gated.scons("-q", *self.arguments, expect=None)
        return super().build()
