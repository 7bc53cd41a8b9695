"""python -m bench corpus --sources DIR [--targets sm_90,...] [--checked sm_90] [--only TEXT]

Kernels of libraries that are in production, from checkouts below DIR (DIR/NAME for a repository owner/NAME): captured
as bytecode, compiled for the targets by us and, where it is installed, by the vendor's tool, and checked by
`tileiras.check`.  Nothing of the libraries is kept here but a table (corpus_table.py): repository, commit, path, digest
and the parameters of a typical launch.  A file of another digest is compiled all the same, and marked.

A kernel's module is executed with stand-ins for all that is not installed (torch, triton, ...); modules beside it are
real.  Registers, stack and shared memory are those that cuobjdump prints of both cubins.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import re
import subprocess
import sys
import tempfile
import time
import types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NamedTuple

import cuda.tile

import tileiras
from bench.corpus_table import KERNELS, Kernel
from tileiras.codegen import toolkit
from tileiras.diagnostics import CompileError

TARGETS = "sm_80,sm_90,sm_100,sm_120"


class Anything(types.ModuleType):
    """A stand-in for a module, and for all that is in it: it may be called, subscripted, compared and used as a
    decorator, which leaves the function as it is."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__version__ = "0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self.__name__ == "torch" and isinstance(getattr(cuda.tile, name, None), cuda.tile.DType):
            return getattr(cuda.tile, name)  # the front end takes torch's element types for its own
        return Anything(f"{self.__name__}.{name}")

    def __call__(self, *arguments: Any, **_: Any) -> Any:
        only = arguments[0] if len(arguments) == 1 else None
        return only if isinstance(only, (types.FunctionType, type)) else Anything(f"{self.__name__}()")

    def __getitem__(self, _: Any) -> Any:
        return self

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return ()

    def __or__(self, _: Any) -> Any:
        return self

    def __ge__(self, _: Any) -> bool:
        return True

    __ror__, __gt__, __le__, __lt__ = __or__, __ge__, __ge__, __ge__


class StandIns(MetaPathFinder, Loader):
    """Finds what is not installed, after all others."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        first = name.partition(".")[0]
        installed = first in sys.stdlib_module_names or first in ("cuda", "tileiras", "numpy")
        return None if installed else ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return Anything(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def load(root: Path, kernel: Kernel) -> Any:
    """The kernel's function; packages around its file are not executed, modules beside it are."""
    parts = kernel.path.removesuffix(".py").split("/")
    parts = parts[1:] if parts[0] == "src" else parts
    folder = root / kernel.path
    for depth in range(len(parts) - 1, 0, -1):
        folder = folder.parent
        package = types.ModuleType(".".join(parts[:depth]))
        package.__path__ = [str(folder)]
        sys.modules.setdefault(package.__name__, package)
    name = ".".join(parts)
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, root / kernel.path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        stand_ins = StandIns()
        sys.meta_path.append(stand_ins)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        finally:
            sys.meta_path.remove(stand_ins)
    return getattr(sys.modules[name], kernel.name)


class Row(NamedTuple):
    kernel: Kernel
    target: str
    ours: str
    vendor: str
    verdict: str


def usage(cubin: bytes, folder: Path) -> str:
    """`40 registers, 0 stack, 1024 shared` by cuobjdump; empty without it."""
    program = toolkit.find_program("cuobjdump")
    if program is None:
        return ""
    (folder / "k.cubin").write_bytes(cubin)
    process = subprocess.run([program, "-res-usage", folder / "k.cubin"], capture_output=True, text=True, check=False)
    match = re.search(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)", process.stdout)
    return "/".join(match.groups()) if match else ""


def ours(bytecode: bytes, target: str, folder: Path) -> str:
    start = time.perf_counter()
    try:
        artifact = tileiras.compile(bytecode, gpu_name=target, emit="cubin", tile_launch=True)
    except CompileError as error:
        return f"refused: {error.diagnostics[0].message}"
    return f"{usage(artifact.data, folder)} in {time.perf_counter() - start:.1f} s"


def vendor(bytecode: bytes, target: str, folder: Path, seconds: float) -> str:
    program = toolkit.find_program("tileiras")
    if program is None:
        return ""
    (folder / "k.bc").write_bytes(bytecode)
    command = [program, folder / "k.bc", "--gpu-name", target, "-o", folder / "v.cubin"]
    start = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"not ended in {seconds:.0f} s"
    if done.returncode:
        return f"refused: {done.stderr.splitlines()[0] if done.stderr else done.returncode}"
    return f"{usage((folder / 'v.cubin').read_bytes(), folder)} in {time.perf_counter() - start:.1f} s"


def verdict(bytecode: bytes, target: str, budget: float) -> str:
    try:
        result = tileiras.check(bytecode, gpu_name=target, budget=budget)
    except CompileError as error:
        return error.diagnostics[0].message
    return result.status


def rows(root: Path, kernel: Kernel, targets: list[str], given: argparse.Namespace, folder: Path) -> list[Row]:
    path = root / kernel.path
    if not path.exists():
        return [Row(kernel, "", "not in the checkout", "", "")]
    try:
        function = load(root, kernel)
        # The front end refuses element types that its target does not have.
        value = tileiras.compile(
            function, signature=kernel.signature, gpu_name=targets[-1], emit="bytecode", bytecode_version=kernel.version
        )
        bytecode = value.data
    except Exception as error:  # a row of the table, whatever a library's module does
        return [Row(kernel, "", f"not captured: {type(error).__name__}: {str(error).splitlines()[0]}", "", "")]
    result = []
    for target in targets:
        judged = verdict(bytecode, target, given.budget) if target == given.checked else ""
        result.append(Row(kernel, target, ours(bytecode, target, folder),
                         vendor(bytecode, target, folder, given.seconds), judged))  # fmt: skip
    return result


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench corpus")
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--checked", default="sm_90", help="the target whose code is checked")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of a check")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit of the vendor's tool")
    parser.add_argument("--only", default="")
    options = parser.parse_args(words or [])
    print("| kernel | target | ours | vendor | check |\n|---|---|---|---|---|")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for kernel in KERNELS:
            if options.only not in f"{kernel.repository}/{kernel.path}:{kernel.name}":
                continue
            root = options.sources / kernel.repository.rpartition("/")[2]
            file = root / kernel.path
            same = not file.exists() or hashlib.sha256(file.read_bytes()).hexdigest()[:16] == kernel.digest
            for row in rows(root, kernel, options.targets.split(","), options, Path(folder)):
                # A type that the target does not have is refused by both.
                alone = row.ours.startswith("refused") and not row.vendor.startswith("refused")
                failed |= not row.target or alone or row.verdict == "wrong"
                name = f"{root.name}: {kernel.name}{'' if same else ' (another version)'}"
                print(f"| {name} | {row.target} | {row.ours} | {row.vendor} | {row.verdict} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
