"""Fat binaries of a build: one file with the code of a kernel for several GPUs.

    env.TileFatbin(folder, sources, sm="sm_80,sm_90", ...) -> folder/ENTRY.fatbin of each kernel

The keywords are those of TileKernel but `emit`.  ENTRY.fatbin.json beside the file has the launch descriptions.  With
`tile_launch=True` it has the kernel's bytecode as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from tileiras import pipeline
from tileiras.build.scons import arguments
from tileiras.build.scons.action import checked_options, construction_variable
from tileiras.build.scons.file_action import FileAction
from tileiras.build.scons.variables import words
from tileiras.options import GPU_NAMES, CompileOptions
from tileiras.stages import fatbin
from tileiras.support.files import write_atomically

ROW = pipeline.FATBIN
(DESCRIPTION,) = ROW.side_suffixes

CUBIN, PTX, DOCUMENT, MODULE = ".cubin", ".ptx", ".json", pipeline.stage("read").suffix


def _facts(env: Any) -> str:
    options = env["TILE_FATBIN"]
    words = [f"{each['gpu-name']} {each['ptx-version']} {each['bytecode-version']}" for each in options]
    return f"{','.join(words)}:{any(each['device-debug'] for each in options)}"


def _write(target: Any, source: Any, env: Any) -> None:
    """Write ENTRY.fatbin and ENTRY.fatbin.json from cubin, PTX and description of each target in turn, then the module
    that is written as bytecode, if any."""
    options = env["TILE_FATBIN"]
    contents = [node.get_contents() for node in source]
    count = 3 * len(options)
    result = list(zip(*(contents[start:count:3] for start in range(3)), strict=True))
    module = None
    if len(contents) > count:
        module = fatbin.bytecode_of(contents[count], str(source[count]), options[-1]["bytecode-version"])
    images = [fatbin.Compiled(cubin, ptx, [document]) for cubin, ptx, document in result]
    data, document = fatbin.pack(images, module, any(each["device-debug"] for each in options))
    write_atomically(str(target[0]), data)
    write_atomically(str(target[1]), document)


@arguments.locate
def tile_fatbin(
    env: Any, target: Any, source: Any, sm: str | Iterable[str] | None = None, **keywords: Any
) -> list[Any]:
    """Declare the fat binaries of kernels in the folder `target`."""
    folder = str(arguments.path_or_node("target", target))
    result = construction_variable(env, "TILE_SM") if sm is None else sm
    targets = words("sm", result, GPU_NAMES)
    level = keywords.get("opt", None)
    further = {name: value for name, value in keywords.items() if name not in ("opt", "entries")}
    options = [checked_options(env, gpu, env["TILE_OPT"] if level is None else level, further) for gpu in targets]
    kernels = _by_kernel(env.TileKernel(source, emit="cubin", sm=targets, **keywords))
    return [_fatbin_node(env, folder, cubins, options) for cubins in kernels.values()]


def _by_kernel(cubins: list[Any]) -> dict[str, list[Any]]:
    """The cubins of each kernel, in the order of the targets."""
    kernel: dict[str, list[Any]] = {}
    for node in cubins:
        kernel.setdefault(os.path.basename(str(node)).removesuffix(CUBIN), []).append(node)
    return kernel


def _fatbin_node(env: Any, folder: str, cubins: list[Any], options: list[CompileOptions]) -> Any:
    stems = [cubin.abspath.removesuffix(CUBIN) for cubin in cubins]
    sources = [part for stem, cubin in zip(stems, cubins, strict=True)
               for part in (cubin, env.File(stem + PTX), env.File(stem + DOCUMENT))]  # fmt: skip
    if all(each["tile-launch"] for each in options):
        sources.append(env.File(stems[-1] + MODULE))
    product = os.path.join(folder, os.path.basename(stems[0]))
    targets = [product + ROW.suffix, product + DESCRIPTION]
    return env.Command(targets, sources, FileAction(ROW, _write, _facts), TILE_FATBIN=options)[0]
