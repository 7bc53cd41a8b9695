"""Packages of kernels compiled ahead of time: fat binaries, their launch descriptions, and a loader that needs neither
this compiler nor a toolkit.

The loader is `tileiras.runtime` with its imports from the rest of the compiler replaced (`REPLACED`): it takes the
driver through ctypes, and the standard library.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import tileiras
from tileiras.build import fat_binary
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode
from tileiras.options import CompileOptions
from tileiras.stages import units
from tileiras.support.files import stem
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.drivers import cuda_for

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

LOADER = {
    **{name: f"runtime/{name}" for name in (
        "__init__.py", "arguments.py", "bound.py", "cpu.py", "driver.py", "fat_binaries.py", "launch_facts.py",
        "packaged.py",
    )},
    "tensor_map.py": "codegen/tensor_map.py",
}  # fmt: skip
"""The files of the loader -> those of the compiler."""

REPLACED = {
    "from tileiras.codegen import tensor_map": "from . import tensor_map",
    "from tileiras.support.named_tuple import NamedTuple": "from typing import NamedTuple",
}
"""Imports of the loader's files that a launch executes -> those in the package."""

_INIT = '''"""Kernels compiled by tileiras {version}; launching them needs the CUDA driver and nothing else.

    import {name}
    {name}.launch("{entry}", grid, [{parameters}])

`python -m {name}` lists the kernels.
"""

from ._runtime import ArgumentError, DriverError, available
from ._runtime.packaged import Package

__all__ = ["ArgumentError", "DriverError", "available", "bind", "kernels", "launch"]

_package = Package(__path__[0])
kernels, launch, bind = _package.kernels, _package.launch, _package.bind
'''

_MAIN = "from . import _package\n\nprint(_package.describe())\n"

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The archive holds no times, so that equal kernels give equal bytes."""


class Package(NamedTuple):
    """The files of a package by their paths in it, and the inputs and diagnostics of the compilation."""

    files: dict[str, bytes]
    dependencies: list[str]
    diagnostics: list[Diagnostic]


def compile_package(name: str, sources: Sequence[units.Source], targets: Sequence[CompileOptions]) -> Package:
    """The package `name` with the kernels of all sources, compiled for each target.

    Raises CompileError: code 2 for a name that Python cannot import, and for two kernels or sources of one name.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise CompileError.at(None, f"'{name}' is no name of a Python package", ExitCode.CONFIGURATION)
    package = Package({}, [], [])
    kernels: dict[str, Any] = {}
    images: dict[str, list[str]] = {}
    for source in sources:
        image = f"{stem(source.name)}.fatbin"
        if image in images:
            raise CompileError.at(None, f"two sources are called '{stem(source.name)}'", ExitCode.CONFIGURATION)
        artifact = fat_binary.compile_for(source, targets)
        package.dependencies.extend(artifact.dependencies)
        package.diagnostics.extend(artifact.diagnostics)
        document = artifact.kernels[0].artifacts[tileiras.stages.fatbin.DESCRIPTION]
        described = json.loads(document)["images"]
        package.files.update({image: artifact.data, f"{image}.json": document})
        images[image] = [_form(each, artifact.data) for each in described]
        for kernel in described[0]["kernels"]:
            if kernel["name"] in kernels:
                message = f"kernel '{kernel['name']}' is in {kernels[kernel['name']]['image']} and {image}"
                raise CompileError.at(None, message, ExitCode.CONFIGURATION)
            kernels[kernel["name"]] = {"image": image, "parameters": [each["type"] for each in kernel["parameters"]]}
    manifest = {"kernels": kernels, "images": images}
    package.files["kernels.json"] = (json.dumps(manifest, indent=1) + "\n").encode()
    package.files.update(_code(name, kernels))
    return package


def _form(image: Mapping[str, Any], fat: bytes) -> str:
    """An image in words: `sm_90 cubin`, `sm_90 PTX 8.0 (drivers from CUDA 12.0 on)`."""
    if image["form"] != "ptx":
        return f"{image['target']} {image['form']}"
    version = re.search(rb"\n\.version (\d+)\.(\d+)\n\.target " + image["target"].encode(), fat)
    if version is None:
        return f"{image['target']} PTX"
    ptx = int(version[1]), int(version[2])
    return "{} PTX {}.{} (drivers from CUDA {}.{} on)".format(image["target"], *ptx, *cuda_for(ptx))


def _code(name: str, kernels: Mapping[str, Any]) -> dict[str, bytes]:
    """The modules of a package."""
    entry, kernel = next(iter(kernels.items()))
    names = ", ".join(f"argument_{number}" for number in range(len(kernel["parameters"])))
    init = _INIT.format(version=tileiras.__version__, name=name, entry=entry, parameters=names)
    files = {"__init__.py": init.encode(), "__main__.py": _MAIN.encode()}
    for copied, path in LOADER.items():
        with open(os.path.join(_ROOT, *path.split("/")), encoding="utf-8") as file:
            text = file.read()
        for old, new in REPLACED.items():
            text = text.replace(old, new)
        files[f"_runtime/{copied}"] = text.encode()
    return files


def wheel(name: str, version: str, files: Mapping[str, bytes]) -> bytes:
    """A wheel with the files of a package (PyPA, "Binary distribution format")."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: >=3.9\n"
    tags = f"Wheel-Version: 1.0\nGenerator: tileiras {tileiras.__version__}\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members = {f"{name}/{path}": data for path, data in sorted(files.items())}
    members.update({f"{info}/METADATA": metadata.encode(), f"{info}/WHEEL": tags.encode()})
    lines = [f"{path},sha256={_digest(data)},{len(data)}" for path, data in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,\n"]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in members.items():
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
