"""What the service has loaded, and whether it is still what lies on disk."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
import time
from collections.abc import Iterator

from tileiras.build.fingerprint import tree_state
from tileiras.files import RACY_NS, FileState, file_state
from tileiras.server import protocol, warm_up

PACKAGES = (
    "ir", "dialects", "bytecode", "analysis", "targets", "layout", "resources", "slicing", "assignment", "schedule",
    "rewrites", "lowering", "codegen", "passes", "stages", "cli", "server",
)  # fmt: skip
"""What compilations consist of: loaded whole, so that no request loads anything."""

MODULES = (
    "tileiras.api", "tileiras.build.embedding", "tileiras.build.library", "tileiras.build.step",
    "tileiras.build.shards", "tileiras.locations", "diskcache", "llvmlite.binding", "tempfile", "subprocess", "sqlite3",
    "xxhash", "select",
)  # fmt: skip

OTHER_PROGRAMS = "tileiras.cli.tileiras_"
"""How modules of commands begin: of those that the service does not answer none is loaded.  They load NumPy, whose
linear algebra starts threads and has pages of its own that every fork would share."""

LEFT_OUT = ("tileiras.cli.run_arguments",)
"""For the same reason."""

WARM_UP_TARGETS = ("sm_90", "sm_80")


class Snapshot:
    """The state of every file of the compiler, and of the folders that packages are installed in."""

    def __init__(self, package: str | None = None) -> None:
        """`package` is the folder of another one than this, for tests."""
        self._package = package or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        self._installed = [e for e in sys.path[1:] if os.path.basename(e) in ("site-packages", "dist-packages")]
        self._packages = [file_state(path) for path in self._installed]
        # Before the files: one that comes meanwhile makes its folder another.
        self._folders = self._folder_states()
        self.files = tree_state(self._package)

    def _folder_states(self) -> dict[str, FileState | None]:
        found = {}
        for path, inner, _ in os.walk(self._package, followlinks=True):
            inner[:] = [name for name in inner if name != "__pycache__"]
            found[path] = file_state(path)
        return found

    def is_current(self) -> bool:
        """Whether it is the state still.  Asked before every request, so files are not listed again while no folder
        has changed, which takes half of the time."""
        if any(file_state(path) != state for path, state in zip(self._installed, self._packages)):
            return False
        stat = os.stat
        try:
            for path, (size, changed, inode) in self.files.items():
                found = stat(path)
                if found.st_mtime_ns != changed or found.st_size != size or found.st_ino != inode:
                    return False
        except OSError:
            return False
        if all(file_state(path) == state for path, state in self._folders.items()):
            return True
        # A module more or less; or an editor's own file, or a folder that Python has made for compiled modules.
        folders = self._folder_states()
        if tree_state(self._package) != self.files:
            return False
        self._folders = folders
        return True


def wait_until_settled() -> None:
    """Returns when no file is so new that another change could leave its time as it is."""
    while True:
        newest = max(changed for _, changed, _ in Snapshot().files.values())
        left = newest + RACY_NS - time.time_ns()
        if not 0 < left <= RACY_NS:
            return
        time.sleep(left / 1e9)


def preload() -> bytes:
    """Loads the compiler, LLVM and the tables into this process, whose children then have them; a small kernel as
    bytecode, for `Zygote.rehearse`.

    No helper process of LLVM is started, and nothing is kept that depends on a folder or an environment.
    """
    for name in (*MODULES, *_modules()):
        importlib.import_module(name)
    from tileiras import api, pipeline
    from tileiras.build import library
    from tileiras.build.fingerprint import CodeBase
    from tileiras.build.store import MEMO, OFF, default_directory
    from tileiras.codegen import isolation, libdevice, nvjitlink, nvjitlink_library, ptxas
    from tileiras.diagnostics import CompileError
    from tileiras.options import CompileOptions

    ptxas.prepare()
    bytecode, larger = (
        api.compile_with(kernels, CompileOptions({"gpu-name": "sm_90"}), "bytecode").data
        for kernels in (warm_up.SMALL, warm_up.LARGER)
    )
    for source in (warm_up.SMALL, bytecode, larger):
        for target in WARM_UP_TARGETS:
            api.compile_with(source, CompileOptions({"gpu-name": target, "tile-launch": True}), "llvm")
    directory = default_directory(None)
    if directory != OFF:
        # Without a memo, looking for imports takes longer than everything else here.
        code = library.code_in_memory = CodeBase(memo=os.path.join(directory, MEMO))
        for row in (library.ROW, *pipeline.STAGES):
            code.fingerprint(row)
    isolation.load_llvm()
    with contextlib.suppress(CompileError, RuntimeError):  # not installed, or no such library: no request needs it, or
        nvjitlink_library.version(nvjitlink.find())  # one tells of it
    found = libdevice.find()
    if found is not None:
        with contextlib.suppress(RuntimeError, OSError):  # one that is damaged is told of by who needs it
            found.keep_in_memory()
        isolation.stop()
    return bytecode


def _modules() -> Iterator[str]:
    for package in PACKAGES:
        name = f"tileiras.{package}"
        yield name
        found = importlib.import_module(name)
        for module in pkgutil.walk_packages(found.__path__, name + "."):
            if _is_answered(module.name) and not module.name.endswith(".__main__"):
                yield module.name


def _is_answered(module: str) -> bool:
    """Whether commands that the service answers may load a module."""
    answered = [f"tileiras.cli.{name.replace('-', '_')}" for name in protocol.PROGRAMS]
    return module not in LEFT_OUT and (not module.startswith(OTHER_PROGRAMS) or module in answered)


def threads() -> int:
    """How many threads this process has: a fork takes one of them along, and whatever locks the others hold."""
    return len(os.listdir("/proc/self/task"))
