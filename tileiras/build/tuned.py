"""KERNEL.tune.json: tuned options for a source, written beside it by a sweep and read by every build.

    {"format": 1, "options": {"sm_90": {"num-warps": 8}}, "found": {...}}

`options` maps each target to options of the source, which apply where the build leaves the default.  They are part of
the keys of the stages that read them, so an edit reruns those stages.  `found` documents the measurement for users.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import tileiras
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.options import OPTIONS, CompileOptions, lookup
from tileiras.support.files import read_if_there

FORMAT = 1

SUFFIX = ".tune.json"

_interned: dict[tuple[bytes, bytes, str], CompileOptions] = {}
"""Interned options: builds compare them by identity."""


def path_of(source: str) -> str:
    """`kernels/softmax.py` -> `kernels/softmax.tune.json`."""
    return os.path.splitext(source)[0] + SUFFIX


def tuned(options: CompileOptions, source: str) -> CompileOptions:
    """The options of a build with the tuned options of a source.  Raises CompileError (code 2) for a file that is
    damaged or names an unknown option."""
    path = path_of(source)
    data = read_if_there(path)
    if data is None:
        return options
    key = (options.canonical(OPTIONS), data, path)
    result = _interned.get(key)
    if result is None:
        entry = _options(data, path).get(options["gpu-name"], {})
        changes = {name: value for name, value in entry.items() if options[name] == OPTIONS[name].default}
        try:
            result = options.replace(**changes) if changes else options
        except CompileError as error:
            raise _wrong(path, error.diagnostics[0].message) from None
        _interned[key] = result
    return result


def _options(data: bytes, path: str) -> dict[str, dict[str, Any]]:
    """Target -> options, by option name with dashes."""
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise _wrong(path, f"format {document['format']} is not known")
        options = {
            target: {lookup(name).name: value for name, value in row.items()}
            for target, row in document["options"].items()
        }
    except CompileError as error:
        raise _wrong(path, error.diagnostics[0].message) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _wrong(path, "not a file of tuned options, as tileiras-sweep writes them") from None
    return options


def _wrong(path: str, message: str) -> CompileError:
    name = os.path.relpath(path).replace(os.sep, "/")
    return CompileError.at(tileiras.ir.location.FileLineColLoc(name, 1, 1), message, ExitCode.CONFIGURATION)


def text(earlier: bytes | None, target: str, options: Mapping[str, Any], best: Mapping[str, Any]) -> bytes:
    """The content of the file with new options for a target; those of other targets are taken from `earlier`."""
    rows: dict[str, Any] = {}
    result: dict[str, Any] = {}
    if earlier is not None:
        try:
            document = json.loads(earlier)
            rows, result = dict(document["options"]), dict(document.get("found", {}))
        except (ValueError, KeyError, TypeError):
            pass  # a damaged file is overwritten
    rows[target] = {lookup(name).name: value for name, value in sorted(options.items())}
    result[target] = dict(best)
    return (json.dumps({"format": FORMAT, "options": rows, "found": result}, indent=2, sort_keys=True) + "\n").encode()
