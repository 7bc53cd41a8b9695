"""Random edits of a project on tmpfs, some through a bind mount of its folder, among them mounts; run as a program by
`test_mounted_trees` where it may mount.

    python mounted_edits.py FOLDER SEED

FOLDER becomes a tmpfs.  The project is built with the monitor, its twin as a whole graph.  Prints a line of JSON per
build: the edit before it, the stages that both ran, and whether their artifacts are the same.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from edits import OPERATIONS, Pair  # noqa: E402
from monitoring import facts, stop  # noqa: E402
from project import Project, axpy, module  # noqa: E402
from vouched import SCONSTRUCT, Vouched, looked  # noqa: E402


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


class Mounted(Vouched):
    """The gated project is on tmpfs, and its kernels are in another folder as well."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.elsewhere = str(folder / "elsewhere")
        os.makedirs(self.elsewhere)
        os.makedirs(folder / "gated" / "kernels")
        mount("--bind", str(folder / "gated" / "kernels"), self.elsewhere)
        super().__init__(folder, seed)
        self.gated.write("SConstruct", SCONSTRUCT)
        for project in (self.gated, self.full):
            project.write("kernels/sub/s.mlir", module(axpy("s")))
        self.covered = False

    def write(self, name: str, text: str) -> None:
        """Write through one of the two folders, chosen at random."""
        self.texts[name] = text
        self.full.write(f"kernels/{name}.mlir", text)
        place = self.random.choice((self.elsewhere, self.gated.path("kernels")))
        with open(f"{place}/{name}.mlir", "w", encoding="utf-8") as file:
            file.write(text)

    def renamed_elsewhere(self) -> None:
        name = self.random.choice(sorted(self.texts))
        self.texts[name] = module(axpy(name, operation=self.random.choice(OPERATIONS)))
        for place in (self.elsewhere, self.full.path("kernels")):
            with open(f"{place}/.draft", "w", encoding="utf-8") as file:
                file.write(self.texts[name])
            os.replace(f"{place}/.draft", f"{place}/{name}.mlir")

    def folder_elsewhere(self) -> None:
        for place in (self.elsewhere, self.full.path("kernels")):
            os.makedirs(f"{place}/new", exist_ok=True)
            shutil.copy(f"{place}/sub/s.mlir", f"{place}/new/n.mlir")

    def mounted_over(self) -> None:
        """A file system is mounted over a folder of kernels; the second call unmounts it."""
        for project in (self.gated, self.full):
            place = project.path("kernels/sub")
            if self.covered:
                subprocess.run(["umount", place], check=True)
            else:
                mount("-t", "tmpfs", "tmpfs", place)
                project.write("kernels/sub/s.mlir", module(axpy("s", operation="mulf")))
        self.covered = not self.covered

    def file_mounted_over(self) -> None:
        """A file is mounted over a kernel of the same size, and unmounted after the next build."""
        name = sorted(self.texts)[0]
        self.texts[name] = module(axpy(name, operation="subf"))
        for project in (self.gated, self.full):
            project.write(f"other-{name}", self.texts[name])
            mount("--bind", project.path(f"other-{name}"), project.path(f"kernels/{name}.mlir"))

    def file_uncovered(self) -> None:
        name = sorted(self.texts)[0]
        for project in (self.gated, self.full):
            subprocess.run(["umount", project.path(f"kernels/{name}.mlir")], check=True)
        self.texts[name] = self.full.read(f"kernels/{name}.mlir").decode()

    def overflow(self) -> None:
        """More events than the system queues for the monitor, one of them an edit."""
        with open("/proc/sys/fs/inotify/max_queued_events", encoding="ascii") as file:
            most = int(file.read())
        monitor = facts().get("pid")
        if monitor is not None:
            os.kill(monitor, signal.SIGSTOP)
        try:
            # Equal events that follow each other are one.
            names = [self.gated.path(f"kernels/{name}.mlir") for name in ("sub/s", sorted(self.texts)[-1])]
            for number in range(most // 2 + 100):
                for name in names:
                    os.utime(name, ns=(number, number))
            self.touch()
            self.comment()
        finally:
            if monitor is not None:
                os.kill(monitor, signal.SIGCONT)


EDITS: tuple[Callable[..., None], ...] = (
    Pair.add, Pair.comment, Pair.delete_artifact, Pair.edit_artifact, Vouched.clock_set_back, Vouched.artifacts_swapped,
    Mounted.renamed_elsewhere, Mounted.renamed_elsewhere, Mounted.folder_elsewhere, Mounted.overflow,
)  # fmt: skip


def main(folder: Path, seed: int) -> None:
    mount("-t", "tmpfs", "tmpfs", str(folder))
    pair = Mounted(folder, seed)
    edits = list(EDITS)
    pair.random.shuffle(edits)
    # A covered file cannot be replaced: it is uncovered before any other edit.
    at = pair.random.randrange(len(edits))
    edits[at:at] = [Mounted.mounted_over, Mounted.file_mounted_over, Mounted.file_uncovered, Mounted.mounted_over]
    for edit in [Pair.no_edit, Pair.no_edit, *edits, Pair.no_edit]:
        edit(pair)
        gated, full = pair.build()
        print(json.dumps({
            "edit": edit.__name__, "gated": [gated.ran, gated.cached], "full": [full.ran, full.cached],
            "same": pair.gated.artifacts() == pair.full.artifacts(), "looked": sorted(looked(gated.output)),
            "covered": pair.covered,
        }), flush=True)  # fmt: skip
    # Once no file is mounted below it, the monitor vouches again.
    for _ in range(20):
        result = looked(Project.scons(pair.gated, *pair.arguments).output)
        if not result:
            break
    print(json.dumps({"edit": "vouched", "looked": sorted(result)}), flush=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), int(sys.argv[2]))
    finally:
        stop()
