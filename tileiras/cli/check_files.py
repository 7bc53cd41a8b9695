"""Verdicts that builds have written, and the files that `tileiras-check` writes for CI."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras.build import NOTES
from tileiras.cli.process import UsageError
from tileiras.support.files import read_if_there

if TYPE_CHECKING:
    from tileiras.check.verdict import Verdict
    from tileiras.diagnostics import Locatable

SUFFIX = ".check.json"


def of_builds(paths: Sequence[str]) -> Iterator[tuple[Verdict, str]]:
    """The verdicts in files and below folders, each with the folder that its source is named from.

    Those of builds have lines of ENTRY.cuda_tile.mlir, which become those of the source as it is now.
    Raises UsageError for a file that is not a verdict, and for a verdict on PTX other than the file beside it.
    """
    from tileiras.check.places import relocate
    from tileiras.check.verdict import Verdict

    for path in _files(paths):
        try:
            with open(path, encoding="utf-8") as file:
                verdicts = [Verdict.from_json(each) for each in json.load(file)]
        except (ValueError, TypeError) as problem:
            raise UsageError(f"{path} is no verdict: {problem}") from None
        stem = path.removesuffix(SUFFIX)
        ptx = read_if_there(stem + ".ptx")
        for verdict in verdicts:
            if ptx is not None and verdict.ptx != hashlib.sha256(ptx).hexdigest():
                raise UsageError(f"{path} is of other PTX than {stem}.ptx", "hint: scons check=1 makes it anew")
            folder, find = _places(stem)
            yield relocate(verdict, find), folder


def _files(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        if not os.path.isdir(path):
            yield path
            continue
        items = []
        for folder, folders, names in os.walk(path):
            if NOTES in folders:  # which has a row of each step under the name of its stage
                folders.remove(NOTES)
            items += [os.path.join(folder, name) for name in names if name.endswith(SUFFIX)]
        if not items:
            raise UsageError(f"no verdict is below {path}", "hint: scons check=1 makes one of each kernel")
        yield from sorted(items)


def _places(stem: str) -> tuple[str, Callable[[str], Locatable | None]]:
    """The folder of a build's sources, and the places in them that its artifacts' lines have."""
    module, table = read_if_there(stem + ".cuda_tile.mlir"), read_if_there(stem + ".cuda_tile.loc")
    build = _build_of(stem)
    if module is None or table is None or build is None:
        return os.curdir, lambda place: None
    from tileiras.check.places import places_in

    entry = tileiras.build.ledger.history.History(build, noting=False).entry(stem, "check")
    if entry is None:
        return os.curdir, lambda place: None
    own = tileiras.ir.parse_module(module.decode(), os.path.basename(stem) + ".cuda_tile.mlir")
    source = tileiras.ir.parse_module(module.decode(), "")
    tileiras.stages.locations.LocationTable.from_bytes(table, None, entry.source).attach(source)
    file = os.path.normpath(os.path.join(build, entry.path))
    has_suffix = file.replace(os.sep, "/").endswith("/" + entry.source)
    return file[: -len(entry.source)] if has_suffix else os.path.dirname(file), places_in(own, source)


def _build_of(stem: str) -> str | None:
    """The build directory that an artifact is in."""
    folder = os.path.dirname(os.path.abspath(stem))
    while not os.path.isdir(os.path.join(folder, NOTES)):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def path_from_here(name: str, folder: str) -> str:
    """The name of a file for CI: relative to the working directory; the base name if it is outside or unknown."""
    for path in (name, os.path.join(folder, name)):
        if os.path.exists(path):
            relative = os.path.relpath(path)
            inside = not os.path.isabs(relative) and relative.split(os.sep)[0] != os.pardir
            return (relative if inside else os.path.basename(path)).replace(os.sep, "/")
    return os.path.basename(name) if os.path.isabs(name) else name


def documents(verdicts: Sequence[tuple[Verdict, str]], junit_file: Any, sarif_file: Any) -> list[tuple[Any, bytes]]:
    """The content of each requested file."""
    if junit_file is None and sarif_file is None:
        return []
    from tileiras.check.junit import junit
    from tileiras.check.sarif import sarif

    local = [_from_here(verdict, folder) for verdict, folder in verdicts]
    contents = []
    if junit_file is not None:
        contents.append((junit_file, junit(local)))
    if sarif_file is not None:
        contents.append((sarif_file, sarif(local, tileiras.__version__)))
    return contents


def _from_here(verdict: Verdict, folder: str) -> Verdict:
    """The verdict with its files named from the working directory."""

    def new(place: str) -> str:
        parts = place.rsplit(":", 2)
        return ":".join([path_from_here(parts[0], folder), *parts[1:]]) if len(parts) == 3 else place

    findings = tuple(dataclasses.replace(each, location=new(each.location)) for each in verdict.findings)
    uncovered = tuple(each._replace(location=new(each.location)) for each in verdict.uncovered)
    return dataclasses.replace(verdict, findings=findings, uncovered=uncovered, location=new(verdict.location))
