"""A temporary project for build tests: kernels, an SConstruct, a store, and the compiler of this checkout."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

from loaded_scons import Loaded

from tileiras.build.store.local import MEMO

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

IMPORTS = os.path.join(CHECKOUT, ".pytest_cache", MEMO)
"""The imports of this checkout's modules by content, in the form of a store: a new store would parse all modules."""

SCONSTRUCT = """\
import os
from tileiras.build import command_line, tool
env = Environment(tools=[tool], ENV=os.environ, **command_line(ARGUMENTS))
Default(env.TileTree("kernels"))
"""

_STAGE = re.compile(r"^  (EXPORT|READ|TILEAA|TILEAS|LLVM|PTX|CUBIN) +(\S+)( \(cached\))?$", re.MULTILINE)


class Build(NamedTuple):
    """The results of one run of scons."""

    code: int
    output: str
    errors: str

    @property
    def ran(self) -> list[str]:
        """`stage artifact` of the stages that ran, in order, artifacts without their folders."""
        return [f"{m[1].lower()} {os.path.basename(m[2])}" for m in _STAGE.finditer(self.output) if not m[3]]

    @property
    def stages(self) -> list[str]:
        """The names of the stages that ran, in order."""
        return [line.split(" ")[0] for line in self.ran]

    @property
    def cached(self) -> list[str]:
        """The names of the stages served from the store, in order."""
        return [m[1].lower() for m in _STAGE.finditer(self.output) if m[3]]


class Project:
    """A folder with `kernels/` in it; `compiler` is the folder that holds the package."""

    def __init__(self, folder: str, *, store: str | None = None, compiler: str = CHECKOUT) -> None:
        self.folder = str(folder)
        self.compiler = compiler
        self.store = store or os.path.join(self.folder, "store")
        os.makedirs(os.path.join(self.folder, "kernels"), exist_ok=True)
        begin_with_imports(self.store)
        self.write("SConstruct", SCONSTRUCT)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def write(self, name: str, text: str) -> None:
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name: str) -> bytes:
        with open(self.path(name), "rb") as file:
            return file.read()

    def artifacts(self, folder: str = "build") -> dict[str, bytes]:
        """Every file below the build folder, by its path in it."""
        result = {}
        for base, folders, files in os.walk(self.path(folder)):
            folders[:] = [name for name in folders if not name.startswith(".")]  # the build's own notes
            for name in files:
                path = os.path.join(base, name)
                with open(path, "rb") as file:
                    result[os.path.relpath(path, self.path(folder))] = file.read()
        return dict(sorted(result.items()))

    def delete_build(self) -> None:
        shutil.rmtree(self.path("build"))

    def scons(self, *arguments: str, expect: int | None = 0, **environment: str) -> Build:
        """Run scons; check its exit code unless `expect` is None."""
        store = environment.setdefault("TILEIRAS_CACHE_DIR", self.store)
        if store != self.store:
            begin_with_imports(store)
        build = run_scons(list(arguments), self.folder, {**os.environ, "PYTHONPATH": self.compiler, **environment})
        keep_imports(store)
        assert "Traceback" not in build.errors + build.output, build.errors
        assert expect is None or build.code == expect, build.output + build.errors
        return build

    def copy_compiler(self) -> str:
        """Give this project its own compiler, which may be edited; return the folder that holds the package."""
        self.compiler = self.path("compiler")
        # With its bytecode, which is valid for copies as well: they have the times of the originals.
        shutil.copytree(os.path.join(CHECKOUT, "tileiras"), os.path.join(self.compiler, "tileiras"))
        return self.compiler


_loaded: list[Loaded] = []
"""The loaded processes; the first one is next."""


def run_scons(arguments: list[str], folder: str, environment: dict[str, str]) -> Build:
    """Run SCons, without its imports if it is that of this checkout in an environment like this process's."""
    if environment["PYTHONPATH"] == CHECKOUT:
        if not _loaded:
            _loaded.extend(Loaded(CHECKOUT) for _ in range(2))
        if _loaded[0].suits(environment):
            _loaded.append(_loaded.pop(0))
            return Build(*_loaded[-1].run(arguments, folder, environment))
    done = subprocess.run(
        [sys.executable, "-m", "SCons", *arguments], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return Build(done.returncode, done.stdout, done.stderr)


def begin_with_imports(store: str) -> None:
    """Copy `IMPORTS` into a store that does not exist yet."""
    if os.path.isabs(store) and os.path.exists(IMPORTS):
        with contextlib.suppress(FileExistsError):
            os.makedirs(store)
            shutil.copy2(IMPORTS, os.path.join(store, MEMO))


def keep_imports(store: str) -> None:
    """Take over a store's imports if they are newer than `IMPORTS`."""
    memo = os.path.join(store, MEMO)
    if not os.path.exists(memo) or os.path.exists(IMPORTS) and os.path.getmtime(IMPORTS) >= os.path.getmtime(memo):
        return
    os.makedirs(os.path.dirname(IMPORTS), exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(IMPORTS), delete=False) as file, open(memo, "rb") as source:
        shutil.copyfileobj(source, file)
    os.replace(file.name, IMPORTS)


def axpy(name: str, *, width: int = 256, comment: str = "", operation: str = "addf") -> str:
    """The text of an entry: y = x OP x on one tile of `width` elements per block."""
    rounding = " rounding<nearest_even>" if operation in ("addf", "subf", "mulf") else ""
    return f"""\
{comment}  entry @{name}(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>) {{
    %block, %by, %bz = get_tile_block_id : tile<i32>
    %width = constant <i32: {width}> : tile<i32>
    %first = muli %block, %width : tile<i32>
    %first_1 = reshape %first : tile<i32> -> tile<1xi32>
    %first_n = broadcast %first_1 : tile<1xi32> -> tile<{width}xi32>
    %lane = iota : tile<{width}xi32>
    %index = addi %first_n, %lane : tile<{width}xi32>
    %x_1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %x_n = broadcast %x_1 : tile<1xptr<f32>> -> tile<{width}xptr<f32>>
    %x_at = offset %x_n, %index : tile<{width}xptr<f32>>, tile<{width}xi32> -> tile<{width}xptr<f32>>
    %y_1 = reshape %y : tile<ptr<f32>> -> tile<1xptr<f32>>
    %y_n = broadcast %y_1 : tile<1xptr<f32>> -> tile<{width}xptr<f32>>
    %y_at = offset %y_n, %index : tile<{width}xptr<f32>>, tile<{width}xi32> -> tile<{width}xptr<f32>>
    %v, %t = load_ptr_tko weak %x_at : tile<{width}xptr<f32>> -> tile<{width}xf32>, token
    %w = {operation} %v, %v{rounding} : tile<{width}xf32>
    %u = store_ptr_tko weak %y_at, %w : tile<{width}xptr<f32>>, tile<{width}xf32> -> token
    return
  }}
"""


def module(*entries: str) -> str:
    return "cuda_tile.module @kernels {\n" + "\n".join(entries) + "}\n"
