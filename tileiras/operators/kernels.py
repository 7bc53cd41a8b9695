"""The images of a declaration's kernels, and the arguments of each operator checked against its kernel."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

import tileiras
from tileiras import stages
from tileiras.diagnostics import Diagnostic
from tileiras.options import CompileOptions
from tileiras.stages import units
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets import cpu

from .declaration import Declaration, Operator, Scalar, Tensor
from .expressions import Expression, parse, refuse

_POINTEES = {"u8": "i8", "bool": "i1"}
"""Element type of a tensor -> that of Tile IR, where the names differ: Tile IR has no signs."""

_TARGET = re.compile(rb"(?m)^\.target\s+(\w+)")

_INTEGERS, _FLOATS = ("i1", "i8", "i16", "i32", "i64"), ("f16", "bf16", "tf32", "f32", "f64")


class Image(NamedTuple):
    """A kernel for a target; `description` is its part of NAME.json."""

    arch: str
    """The target of the code, with its letter: `sm_90a`; of a CPU its name."""
    data: bytes
    description: Mapping[str, Any]


class Compiled(NamedTuple):
    images: list[Image]
    dependencies: list[str]
    """Files that were read."""
    diagnostics: list[Diagnostic]


def compiled(declaration: Declaration, folder: str) -> Compiled:
    """Compile the source of a declaration for all its targets; its path is relative to `folder`.

    Raises CompileError.
    """
    path = os.path.join(folder, declaration.source)
    source = units.Source.read(path)
    entry = Compiled([], [path], [])
    for gpu in declaration.gpus:
        result = {name.replace("_", "-"): value for name, value in declaration.options.items()}
        options = CompileOptions({**result, "gpu-name": gpu})
        opened, names = source, {}
        if source.kind == units.PYTHON:
            exported = tileiras.build.library.exported(source, options)
            opened, names = exported.source, json.loads(exported.parameters)
            entry.dependencies.extend(exported.dependencies)
            entry.diagnostics.extend(exported.diagnostics)
        emit = "obj" if cpu.is_cpu(gpu) else declaration.emit
        listed = tileiras.build.library.compile_with(opened, options, "obj" if emit == "obj" else "ptx")
        entry.diagnostics.extend(listed.diagnostics)
        for kernel in listed.kernels:
            data = kernel.artifacts.get(".cpu.o" if emit == "obj" else ".ptx")
            if emit == "cubin":
                data = tileiras.build.library.compile_with(opened, options, "cubin", entry=kernel.name).data
            assert data is not None and kernel.metadata is not None
            match = _TARGET.search(kernel.artifacts.get(".ptx", b""))
            image = stages.embed.Image(gpu, False, data, kernel.metadata)
            image_with_names = stages.embed.with_names(image, names.get(kernel.name, ()))
            entry.images.append(Image(match[1].decode() if match else gpu, data, image_with_names.description))
    return entry


def arguments_of(operator: Operator, images: list[Image]) -> tuple[str | Expression, ...]:
    """The arguments of an operator's kernel: as declared, or by the names of the kernel's parameters.

    Raises CompileError for a kernel that does not exist, and for arguments that are not those of the kernel.
    """
    where = f"operator.{operator.name}: "
    own = [image for image in images if image.description["name"] == operator.kernel]
    if not own:
        names = ", ".join(dict.fromkeys(image.description["name"] for image in images))
        raise refuse(f"{where}no kernel '{operator.kernel}' in the source; it has: {names}")
    parameters = own[0].description["parameters"]
    arguments = operator.arguments
    if arguments is None:
        arguments = tuple(_by_name(parameter["name"], operator, where) for parameter in parameters)
    if len(arguments) != len(parameters):
        raise refuse(
            f"{where}kernel '{operator.kernel}' takes {len(parameters)} arguments, {len(arguments)} are declared"
        )
    for image in own:
        for number, (argument, parameter) in enumerate(zip(arguments, image.description["parameters"])):
            mismatch = _mismatch(argument, parameter["type"], operator)
            if mismatch is not None:
                result = argument if isinstance(argument, str) else argument.text
                raise refuse(f"{where}argument {number} of kernel '{operator.kernel}' is {mismatch}, not '{result}'")
    return arguments


def _by_name(name: str, operator: Operator, where: str) -> str | Expression:
    """`a`, `a_size0`, `a_stride1`, or a scalar or dimension of the name of a parameter."""
    if name in operator.tensors() or name in operator.scalars():
        return name
    for tensor in operator.tensors():
        for suffix, method in (("_size", "size"), ("_stride", "stride")):
            start, _, at = name.rpartition(suffix)
            if start == tensor and at.isdigit():
                return parse(f"{tensor}.{method}({at})", f"{where}arguments", operator.names())
    if name in operator.dimensions():
        return parse(name, f"{where}arguments", operator.names())
    raise refuse(f"{where}the kernel's parameter '{name}' is nothing declared; 'arguments' is needed")


def _mismatch(argument: str | Expression, type: str, operator: Operator) -> str | None:
    """The kind of argument that a parameter expects; None if the argument is of it."""
    if isinstance(argument, Expression):
        return None if type in _INTEGERS else f"of type {type}"
    each = operator.tensors().get(argument) or operator.scalars()[argument]
    if isinstance(each, Scalar):
        accepted = {"int": _INTEGERS, "float": _FLOATS, "bool": ("i1",)}[each.kind]
        return None if type in accepted else f"of type {type}"
    assert isinstance(each, Tensor)
    pointee = _POINTEES.get(each.dtype, each.dtype)
    # Kernels of a CPU have pointers without a type.
    return None if type in ("ptr", f"ptr<{pointee}>") else f"of type {type}"
