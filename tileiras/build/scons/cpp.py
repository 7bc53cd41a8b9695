"""Kernels in a C++ build: a header, an object file or a library with their images, as ordinary nodes.

    env.TileHeader("kernels.h", sources, ...)    -> the header
    env.TileObject("kernels", sources, ...)      -> the object with the images
    env.TileLibrary("kernels", sources, ...)     -> the static library; its header is on CPPPATH

`sources` and the keywords are those of TileKernel; `emit` is `ptx`, `cubin`, `fatbin` or several, `namespace` the C++
namespace, by default the target's name.  All images of a fat binary are one array.  With a CPU among the targets, the
object and the library hold its code as well (`tileiras::run_on`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tileiras import cpp_folder, pipeline
from tileiras.build.scons import arguments
from tileiras.build.scons.action import construction_variable
from tileiras.build.scons.file_action import FileAction
from tileiras.build.scons.variables import BadVariable, words
from tileiras.options import CPU_NAMES, GPU_NAMES
from tileiras.pipeline import Stage
from tileiras.stages import embed
from tileiras.support.files import write_atomically
from tileiras.targets.cpu import is_cpu

ROW = Stage("embed", pipeline.FILE, "", (), (), "images to C++", module="tileiras.stages.embed")

FATBIN = pipeline.FATBIN.name
EMITS = ("ptx", "cubin", FATBIN)
OBJECT = pipeline.stage("object").suffix

(PARAMETERS,) = pipeline.stage("export").side_suffixes

Make = Callable[[Sequence[embed.Image], str], bytes]
"""A function that returns the text of a C++ file with images, given its namespace."""


def _embed(env: Any, target: str, make: Make, images: list[Any], namespace: str) -> list[Any]:
    """Declare a C++ file of images and their descriptions in turn, then the names of cuTile kernels' parameters."""

    def write(target: Any, source: Any, env: Any) -> None:
        contents = [node.get_contents() for node in source]
        names = [data for node, data in zip(source, contents) if str(node).endswith(PARAMETERS)]
        result = contents[: len(contents) - len(names)]
        pairs = zip(result[::2], result[1::2], strict=True)
        images = [image for pair in pairs for image in embed.Image.all_of(*pair)]
        write_atomically(str(target[0]), make(embed.with_file_names(images, names), env["TILE_NAMESPACE"]))

    action = FileAction(ROW, write, lambda env: f"{make.__name__}:{env['TILE_NAMESPACE']}")
    return env.Command(target, images, action, TILE_NAMESPACE=namespace)


def _images(env: Any, target: str, sources: Any, emit: str | Iterable[str], keywords: dict[str, Any]) -> list[Any]:
    """Images and their descriptions in turn, by kernel and then target, and names of cuTile kernels' parameters."""
    items: list[Any] = []
    names: dict[Any, None] = {}
    own = {name: value for name, value in keywords.items() if name != "sm"}
    if not any("tensor_maps" in item or "tensor-maps" in item for item in (keywords, env["TILE_OPTIONS"])):
        keywords = {**keywords, "tensor_maps": "host"}  # the loader creates maps, from the descriptions
    result = {name: value for name, value in keywords.items() if name != "sm"}
    entry = keywords.get("sm") or construction_variable(env, "TILE_SM")
    targets = words("sm", entry, (*GPU_NAMES, *CPU_NAMES))
    gpus, cpus = ([target for target in targets if is_cpu(target) is kind] for kind in (False, True))
    if len(cpus) > 1:
        raise BadVariable(f"sm={','.join(cpus)}: a program is linked with the code of one CPU")
    forms = words("emit", emit or env["TILE_EMIT"] or "ptx", EMITS) if gpus else []
    for word, sm, options in (*((word, gpus, result) for word in forms), *(("obj", cpus, own) for _ in cpus)):
        if word == FATBIN:
            products = env.TileFatbin(f"{target}_fatbins", sources, sm=sm, **options)
        else:
            products = env.TileKernel(sources, emit=word, sm=sm, **options)
        for node in products:
            suffix = OBJECT if word == "obj" else os.path.splitext(node.abspath)[1]
            described = pipeline.FATBIN.side_suffixes[0] if word == FATBIN else ".json"
            document = node.abspath.removesuffix(suffix) + described
            items += [node, env.File(document)]
            names.update(dict.fromkeys(_exported_names(node)))
    return [*items, *names]


def _objects(images: Sequence[Any]) -> list[Any]:
    """The objects for a CPU among the images."""
    return [node for node in images if str(node).endswith(OBJECT)]


def _libraries(images: Sequence[Any]) -> list[str]:
    """The libraries of a program with the images."""
    if os.name == "nt":
        return []
    return ["dl", "m", "pthread"] if _objects(images) else ["dl"]


def _exported_names(product: Any) -> list[Any]:
    """NAME.parameters.json of the cuTile Python file that a product is made from; empty for other sources."""
    node = product
    while node.sources:
        beside = [target for target in node.get_executor().get_all_targets() if str(target).endswith(PARAMETERS)]
        if beside:
            return beside
        node = node.sources[0]
    return []


@arguments.locate
def tile_header(
    env: Any, target: Any, source: Any, emit: str | Iterable[str] = "", namespace: str = "", **keywords: Any
) -> list[Any]:
    """Declare the header `target`."""
    target, images, namespace = _begin(env, target, source, emit, namespace, keywords)
    return _embed(env, target, embed.header, images, namespace)


@arguments.locate
def tile_object(
    env: Any, target: Any, source: Any, emit: str | Iterable[str] = "", namespace: str = "", **keywords: Any
) -> list[Any]:
    """Declare the object `target`."""
    target, images, namespace = _begin(env, target, source, emit, namespace, keywords)
    text = _embed(env, f"{target}_images.cpp", embed.source, images, namespace)
    return [*env.Object(target, text), *_objects(images)]


@arguments.locate
def tile_library(
    env: Any, target: Any, source: Any, emit: str | Iterable[str] = "", namespace: str = "", **keywords: Any
) -> list[Any]:
    """Declare the static library `target` and its header."""
    target, images, namespace = _begin(env, target, source, emit, namespace, keywords)
    result = _embed(env, f"{target}.h", embed.header, images, namespace)
    env.AppendUnique(CPPPATH=[result[0].dir], LIBS=_libraries(images))
    text = _embed(env, f"{target}_images.cpp", embed.source, images, namespace)
    return env.StaticLibrary(target, [*text, *_objects(images)])


def _begin(
    env: Any, target: Any, source: Any, emit: str | Iterable[str], namespace: str, keywords: dict[str, Any]
) -> tuple[str, list[Any], str]:
    """The target's name, the images, and the namespace; the folder of `tileiras.hpp` is added to CPPPATH."""
    target = str(arguments.path_or_node("target", target))
    env.AppendUnique(CPPPATH=[cpp_folder()])
    images = _images(env, target, source, emit, keywords)
    return target, images, arguments.text("namespace", namespace) or _namespace(target)


def _namespace(target: str) -> str:
    return embed.identifier(os.path.splitext(os.path.basename(str(target)))[0])
