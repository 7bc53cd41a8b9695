"""KERNEL.tune.json: options that a sweep has found for a source, kept beside it and read by every build.

    {"format": 1, "options": {"sm_90": {"num-warps": 8}}, "found": {...}}

`options` has for each target the options that hold for the source where the build leaves them at their defaults; they
are part of the keys of the stages that read them, so that an edit reruns those.  `found` says by what they were found,
for people.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from tileiras.diagnostics import CompileError, ExitCode
from tileiras.files import read_if_there
from tileiras.options import OPTIONS, CompileOptions, lookup

FORMAT = 1

SUFFIX = ".tune.json"

_known: dict[tuple[bytes, bytes, str], CompileOptions] = {}
"""Options that are the same are one object, by which builds know them again."""


def path_of(source: str) -> str:
    """`kernels/softmax.py` -> `kernels/softmax.tune.json`."""
    return os.path.splitext(source)[0] + SUFFIX


def tuned(options: CompileOptions, source: str) -> CompileOptions:
    """The options of a build with those found for a source.  Raises CompileError (code 2) for a file that is damaged,
    or that names what is no option."""
    path = path_of(source)
    data = read_if_there(path)
    if data is None:
        return options
    key = (options.canonical(OPTIONS), data, path)
    found = _known.get(key)
    if found is None:
        given = _options(data, path).get(options["gpu-name"], {})
        changes = {name: value for name, value in given.items() if options[name] == OPTIONS[name].default}
        try:
            found = options.replace(**changes) if changes else options
        except CompileError as error:
            raise _wrong(path, error.diagnostics[0].message) from None
        _known[key] = found
    return found


def _options(data: bytes, path: str) -> dict[str, dict[str, Any]]:
    """Target -> options by their names with dashes."""
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise _wrong(path, f"format {document['format']} is not known")
        found = {
            target: {lookup(name).name: value for name, value in row.items()}
            for target, row in document["options"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _wrong(path, "not a file of tuned options, as tileiras-sweep writes them") from None
    except CompileError as error:
        raise _wrong(path, error.diagnostics[0].message) from None
    return found


def _wrong(path: str, message: str) -> CompileError:
    from tileiras.ir.location import FileLineColLoc

    shown = os.path.relpath(path).replace(os.sep, "/")
    return CompileError.at(FileLineColLoc(shown, 1, 1), message, ExitCode.CONFIGURATION)


def text(earlier: bytes | None, target: str, options: Mapping[str, Any], found: Mapping[str, Any]) -> bytes:
    """The file with what was found for a target; other targets stay as they are in the one there was."""
    rows: dict[str, Any] = {}
    told: dict[str, Any] = {}
    if earlier is not None:
        try:
            document = json.loads(earlier)
            rows, told = dict(document["options"]), dict(document.get("found", {}))
        except (ValueError, KeyError, TypeError):
            pass  # what is damaged is written anew
    rows[target] = {lookup(name).name: value for name, value in sorted(options.items())}
    told[target] = dict(found)
    return (json.dumps({"format": FORMAT, "options": rows, "found": told}, indent=2, sort_keys=True) + "\n").encode()
