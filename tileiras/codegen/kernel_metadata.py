"""NAME.json: what a launcher has to know about the kernels of a module.

The document is deterministic: keys in a fixed order, two-space indent, one trailing newline.  Sizes and offsets are in
bytes, shapes in (x, y, z) order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tileiras.codegen.ptx import PtxModule
from tileiras.diagnostics import CompileError, Locatable

FORMAT = 1

PARAMETER_LIMIT = 32764
PARAMETER_LIMIT_BEFORE_8_1 = 4352
"""Bytes of kernel parameter space that ptxas accepts, by PTX version; from 8.1 on the larger one on every target."""


class KernelInfo(NamedTuple):
    """What the earlier stages know about one entry and PTX cannot say."""

    parameter_types: tuple[str, ...] = ()
    """Names of the parameters' types as the source has them (`ptr<f32>`, `i32`); PTX types where missing."""
    parameter_names: tuple[str, ...] = ()
    shared_memory: int = 0
    """Bytes of dynamic shared memory the launch must provide."""
    cluster: tuple[int, int, int] = (1, 1, 1)
    hidden: tuple[Mapping[str, Any], ...] = ()
    """Descriptions of hidden parameters, which follow the visible ones: how the host fills each."""


def describe(module: PtxModule, kernels: Mapping[str, KernelInfo], location: Locatable | None = None) -> dict[str, Any]:
    """The document for a module as a dict of plain values; raises CompileError when parameters do not fit."""
    entries = []
    for entry in module.entries:
        info = kernels.get(entry.name, KernelInfo())
        limit = PARAMETER_LIMIT if module.version >= (8, 1) else PARAMETER_LIMIT_BEFORE_8_1
        if entry.parameter_bytes > limit:
            raise CompileError.at(
                location,
                f"Formal parameter space overflowed ({entry.parameter_bytes} bytes required, "
                f"max {limit} bytes allowed) in function {entry.name}",
            )
        parameters = []
        visible = len(entry.parameters) - len(info.hidden)
        for index, parameter in enumerate(entry.parameters[:visible]):
            names, types = info.parameter_names, info.parameter_types
            parameters.append(
                {
                    "name": names[index] if index < len(names) else parameter.name,
                    "type": types[index] if index < len(types) else parameter.type,
                    "offset": parameter.offset,
                    "size": parameter.size,
                }
            )
        hidden = [
            {"name": parameter.name, "offset": parameter.offset, "size": parameter.size, **description}
            for parameter, description in zip(entry.parameters[visible:], info.hidden)
        ]
        block = entry.dimensions("reqntid") or entry.dimensions("maxntid") or (1, 1, 1)
        cluster = entry.dimensions("reqnctapercluster") or info.cluster
        entries.append(
            {
                "name": entry.name,
                "parameters": parameters,
                "hidden_parameters": hidden,
                "block": list(block),
                "cluster": list(cluster),
                "shared_memory": info.shared_memory,
                "tile_launch": "language" in entry.directives,
            }
        )
    return {
        "format": FORMAT,
        "target": module.target,
        "ptx_version": "{}.{}".format(*module.version),
        "kernels": entries,
    }


def to_json(document: Mapping[str, Any]) -> str:
    """The document's text."""
    import json

    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def merge(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One document for several modules of one target, kernels in the order given."""
    first = documents[0]
    return {**first, "kernels": [kernel for document in documents for kernel in document["kernels"]]}
