"""Fat binaries of a build: one file with the code of a kernel for several GPUs.

    env.TileFatbin(folder, sources, sm="sm_80,sm_90", ...) -> folder/ENTRY.fatbin of each kernel

The keywords are those of TileKernel but `emit`.  ENTRY.fatbin.json beside the file has the launch descriptions.  With
`tile_launch=True` it has the kernel's bytecode as well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import SCons.Action

from tileiras import pipeline
from tileiras.build.scons import arguments
from tileiras.build.scons.action import checked_options, construction_variable
from tileiras.build.scons.variables import words
from tileiras.build.store.fingerprint import CodeBase
from tileiras.diagnostics import CompileError
from tileiras.options import GPU_NAMES, CompileOptions
from tileiras.stages import fatbin
from tileiras.support.files import write_atomically

ROW = pipeline.FATBIN
(DESCRIPTION,) = ROW.side_suffixes

CUBIN, PTX, DOCUMENT, MODULE = ".cubin", ".ptx", ".json", pipeline.stage("read").suffix

_code = CodeBase()


class FatbinAction(SCons.Action.FunctionAction):
    """Write ENTRY.fatbin and ENTRY.fatbin.json.  Its sources are cubin, PTX and description of each target in turn,
    then the module that is written as bytecode, if any."""

    def __init__(self) -> None:
        super().__init__(self._execute, {})

    def get_presig(self, target: Any, source: Any, env: Any, executor: Any = None) -> bytes:
        options = env["TILE_FATBIN"]
        read = [f"{each['gpu-name']} {each['ptx-version']} {each['bytecode-version']}" for each in options]
        debug = any(each["device-debug"] for each in options)
        return f"tileiras:{ROW.name}:{_code.fingerprint(ROW)}:{','.join(read)}:{debug}".encode()

    def strfunction(self, target: Any, source: Any, env: Any, executor: Any = None) -> str:
        return f"  {'FATBIN':<8} {target[0]}"

    def _execute(self, target: Any, source: Any, env: Any) -> int:
        options = env["TILE_FATBIN"]
        try:
            contents = [node.get_contents() for node in source]
            count = 3 * len(options)
            made = list(zip(*(contents[start:count:3] for start in range(3)), strict=True))
            module = None
            if len(contents) > count:
                module = fatbin.bytecode_of(contents[count], str(source[count]), options[-1]["bytecode-version"])
            images = [fatbin.Compiled(cubin, ptx, [document]) for cubin, ptx, document in made]
            data, document = fatbin.pack(images, module, any(each["device-debug"] for each in options))
            write_atomically(str(target[0]), data)
            write_atomically(str(target[1]), document)
        except CompileError as error:
            sys.stderr.write(error.render() + "\n")
            return error.code
        return 0


def add_method(env: Any, declare: Callable[..., list[Any]]) -> None:
    """Add the pseudo-builder to an environment; `declare` is TileKernel's function."""

    @arguments.located
    def fat_binary(
        env: Any, target: Any, source: Any, sm: str | Iterable[str] | None = None, **keywords: Any
    ) -> list[Any]:
        folder = str(arguments.path_or_node("target", target))
        asked = construction_variable(env, "TILE_SM") if sm is None else sm
        targets = words("sm", asked, GPU_NAMES)
        level = keywords.get("opt", None)
        further = {name: value for name, value in keywords.items() if name not in ("opt", "entries")}
        options = [checked_options(env, gpu, env["TILE_OPT"] if level is None else level, further) for gpu in targets]
        kernels = _by_kernel(declare(env, source, emit="cubin", sm=targets, **keywords))
        return [_declared(env, folder, cubins, options) for cubins in kernels.values()]

    env.AddMethod(fat_binary, "TileFatbin")


def _by_kernel(cubins: list[Any]) -> dict[str, list[Any]]:
    """The cubins of each kernel, in the order of the targets."""
    found: dict[str, list[Any]] = {}
    for node in cubins:
        found.setdefault(os.path.basename(str(node)).removesuffix(CUBIN), []).append(node)
    return found


def _declared(env: Any, folder: str, cubins: list[Any], options: list[CompileOptions]) -> Any:
    stems = [cubin.abspath.removesuffix(CUBIN) for cubin in cubins]
    sources = [part for stem, cubin in zip(stems, cubins, strict=True)
               for part in (cubin, env.File(stem + PTX), env.File(stem + DOCUMENT))]  # fmt: skip
    if all(each["tile-launch"] for each in options):
        sources.append(env.File(stems[-1] + MODULE))
    product = os.path.join(folder, os.path.basename(stems[0]))
    targets = [product + ROW.suffix, product + DESCRIPTION]
    return env.Command(targets, sources, FatbinAction(), TILE_FATBIN=options)[0]
