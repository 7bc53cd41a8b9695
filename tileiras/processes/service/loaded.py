"""Loads the compiler into the service, and checks the loaded code against the files on disk."""

from __future__ import annotations

import contextlib
import importlib
import os
import pkgutil
import sys
import time
from collections.abc import Iterator

import tileiras
from tileiras.build.store.fingerprint import tree_state
from tileiras.processes.service import protocol, warm_up
from tileiras.support.files import RACY_NS, FileState, file_state

PACKAGES = (
    "ir", "dialects", "bytecode", "analysis", "targets", "layout", "resources", "slicing", "assignment", "schedule",
    "tile_blocks", "operands", "tensor_maps", "registers", "synchronization", "lowering", "codegen",
    "passes", "stages", "cli", "processes",
)  # fmt: skip
"""Packages that compilations use: loaded completely, so that requests load no module."""

MODULES = (
    "tileiras.api", "tileiras.build.embedding", "tileiras.build.library", "tileiras.build.step",
    "tileiras.build.store.shards", "tileiras.stages.locations", "diskcache", "llvmlite.binding", "tempfile",
    "subprocess", "sqlite3", "xxhash", "select",
)  # fmt: skip

OTHER_PROGRAMS = "tileiras.cli.tileiras_"
"""Prefix of the modules of commands.  Those that the service does not answer are not loaded: they load NumPy, whose
linear algebra starts threads and adds pages that every fork would share."""

LEFT_OUT = ("tileiras.cli.run_arguments",)
"""Other modules that are not loaded, for the same reason."""

WARM_UP_TARGETS = ("sm_90", "sm_80")


class Snapshot:
    """The state of every file of the compiler, and of the folders of installed packages."""

    def __init__(self, package: str | None = None) -> None:
        """`package` is the folder of a package to use instead of this one, for tests."""
        self._package = package or os.path.dirname(os.path.abspath(tileiras.__file__))
        self._installed = [e for e in sys.path[1:] if os.path.basename(e) in ("site-packages", "dist-packages")]
        self._packages = [file_state(path) for path in self._installed]
        # Must precede the files: a file that is added meanwhile changes the state of its folder.
        self._folders = self._folder_states()
        self.files = tree_state(self._package)

    def _folder_states(self) -> dict[str, FileState | None]:
        folder_states = {}
        for path, inner, _ in os.walk(self._package, followlinks=True):
            inner[:] = [name for name in inner if name != "__pycache__"]
            folder_states[path] = file_state(path)
        return folder_states

    def is_current(self) -> bool:
        """Whether the files are unchanged.  Called before every request, so files are listed again only if a folder has
        changed: listing takes half of the time."""
        if any(file_state(path) != state for path, state in zip(self._installed, self._packages)):
            return False
        stat = os.stat
        try:
            for path, (size, changed, inode) in self.files.items():
                status = stat(path)
                if status.st_mtime_ns != changed or status.st_size != size or status.st_ino != inode:
                    return False
        except OSError:
            return False
        if all(file_state(path) == state for path, state in self._folders.items()):
            return True
        # A module was added or removed; or an editor has created a file, or Python a folder for compiled modules.
        folders = self._folder_states()
        if tree_state(self._package) != self.files:
            return False
        self._folders = folders
        return True


def wait_until_settled() -> None:
    """Wait until every file is old enough that another change must change its modification time."""
    while True:
        newest = max(changed for _, changed, _ in Snapshot().files.values())
        nanoseconds = newest + RACY_NS - time.time_ns()
        if not 0 < nanoseconds <= RACY_NS:
            return
        time.sleep(nanoseconds / 1e9)


def preload() -> None:
    """Load the compiler, LLVM and the tables into this process, for its children to inherit.

    No helper process of LLVM is started, and no state is kept that depends on a folder or an environment.
    """
    for name in (*MODULES, *_modules()):
        importlib.import_module(name)
    from tileiras import api, pipeline
    from tileiras.build import library
    from tileiras.build.store.fingerprint import CodeBase
    from tileiras.build.store.local import MEMO, OFF, default_directory
    from tileiras.codegen import libdevice, nvjitlink, nvjitlink_library, ptxas
    from tileiras.diagnostics import CompileError
    from tileiras.options import CompileOptions
    from tileiras.processes import helper

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
        # Without a memo, the search for imports takes longer than the rest of this function.
        code = library.code_in_memory = CodeBase(memo=os.path.join(directory, MEMO))
        for row in (library.ROW, *pipeline.STAGES, *pipeline.CPU):
            code.fingerprint(row)
    helper.load_llvm()
    with contextlib.suppress(CompileError, RuntimeError):  # not installed, or no such library: no request needs it,
        nvjitlink_library.version(nvjitlink.find())  # or it reports that
    result = libdevice.find()
    if result is not None:
        with contextlib.suppress(RuntimeError, OSError):  # the request that needs a damaged file reports it
            result.keep_in_memory()
        helper.stop()


def _modules() -> Iterator[str]:
    for package in PACKAGES:
        name = f"tileiras.{package}"
        yield name
        imported = importlib.import_module(name)
        for module in pkgutil.walk_packages(imported.__path__, name + "."):
            if _is_answered(module.name) and not module.name.endswith(".__main__"):
                yield module.name


def _is_answered(module: str) -> bool:
    """Whether commands that the service answers may load a module."""
    answered = [f"tileiras.cli.{name.replace('-', '_')}" for name in protocol.PROGRAMS]
    return module not in LEFT_OUT and (not module.startswith(OTHER_PROGRAMS) or module in answered)


def threads() -> int:
    """Count the threads of this process: a fork copies one of them, and the locks that the others hold."""
    return len(os.listdir("/proc/self/task"))
