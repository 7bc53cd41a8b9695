"""Discovery of kernel sources and their entries before any stage runs."""

from __future__ import annotations

import ast
import operator
import os
import re
from collections.abc import Collection, Iterator

import tileiras
from tileiras import bytecode
from tileiras.build import NOTES
from tileiras.stages.units import BYTECODE, PYTHON, SUFFIXES, TEXT, Source, entries_of, entry_name
from tileiras.support.named_tuple import NamedTuple

EXPORT_NAME = "TILEIRAS_EXPORT"
"""The dictionary of a cuTile Python file that lists the kernels to export (see `tileiras.stages.export`)."""

REQUIRES_NAME = "TILEIRAS_REQUIRES"
"""The oldest target that a cuTile Python file supports, such as "sm_90"; trees skip the file for older targets."""

_REQUIRES = re.compile(rb"^" + REQUIRES_NAME.encode() + rb"\s*=\s*[\"']sm_(\d+)[\"']", re.MULTILINE)

_ENTRY = re.compile(
    r'"cuda_tile\.entry"(?P<generic>)'
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|//[^\n]*"
    r'|(?<![\w.$@%#!-])(?:cuda_tile\.)?entry\s+@(?:(?P<name>[\w.$-]+)|"(?P<quoted>(?:[^"\\]|\\.)*)")'
)


def entry_names(source: Source) -> list[str]:
    """The names of a source's entries in order; raises CompileError if it has to be parsed and is malformed.

    Text and Python are scanned and need not be correct: errors are left to the stages to report.
    """
    if source.kind == TEXT:
        names = []
        for match in _ENTRY.finditer(source.text):
            if match["generic"] is not None:
                return _entries_by_reading(source)
            name = match["name"] or match["quoted"]
            if name and name not in names:
                names.append(name)
        return names
    if source.kind == PYTHON:
        names = exported_names(source.data)
        if names is not None:
            return names
    if source.kind == BYTECODE:
        return bytecode.entry_names(source.data, source.name)
    return _entries_by_reading(source)


def exported_names(text: bytes) -> list[str] | None:
    """The literal keys of a Python file's TILEIRAS_EXPORT; None if that is absent or its keys are computed."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == EXPORT_NAME for target in targets):
            value = getattr(node, "value", None)
            keys = value.keys if isinstance(value, ast.Dict) else [None]
            names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            return names if len(names) == len(keys) else None
    return None


def _entries_by_reading(source: Source) -> list[str]:
    options = tileiras.options.CompileOptions({"gpu-name": "sm_90"})
    data = source.data
    for row in (
        (tileiras.pipeline.stage("export"), tileiras.pipeline.stage("read"))
        if source.kind == PYTHON
        else (tileiras.pipeline.stage("read"),)
    ):
        context = tileiras.stages.StageContext(source_name=source.name, source_path=source.path)
        data = tileiras.pipeline.run_stage(row, data, options, context).output
    return [entry_name(op) for op in entries_of(data)]


class Folder(NamedTuple):
    """A folder with kernel sources."""

    below: str
    """Its path from the folder of the search, with a separator behind it; empty for that folder."""
    names: frozenset[str]
    kernels: list[str]
    """The names of the kernel sources, sorted."""


def kernel_files(directory: str) -> list[str]:
    """The kernel sources below a directory, relative to it and sorted; hidden files are left out.

    A Python file is a kernel source if it assigns TILEIRAS_EXPORT.  Subfolders with an SConstruct, which are projects
    of their own, and build directories are not searched.
    """
    return [folder.below + name for folder in kernel_folders(directory) for name in folder.kernels]


def kernel_folders(directory: str, below: str = "") -> Iterator[Folder]:
    """Yield the folders with the sources of `kernel_files`, each before its subfolders; `below` is its path."""
    kernels: list[str] = []
    folders = []
    with os.scandir(directory) as scan:
        entries = sorted(scan, key=operator.attrgetter("name"))
    for entry in entries:
        name = entry.name
        if name.startswith("."):
            continue  # an editor's lock file, for example
        kind = SUFFIXES.get(name[name.rfind(".") :])
        if kind is not None and entry.is_file():
            if kind != PYTHON or exports(entry.path):
                kernels.append(name)
        elif not name.startswith("__") and not entry.is_symlink() and entry.is_dir():
            folders.append(entry)
    if kernels:
        yield Folder(below, frozenset(entry.name for entry in entries), kernels)
    for entry in folders:
        if not os.path.isfile(os.path.join(entry.path, "SConstruct")) and not is_build_directory(entry.path):
            yield from kernel_folders(entry.path, below + entry.name + os.sep)


def is_build_directory(folder: str) -> bool:
    """Whether a folder is a build directory: it has a subfolder with the build's records."""
    return os.path.isdir(os.path.join(folder, NOTES))


def exports(path: str) -> bool:
    with open(path, "rb") as file:
        return re.search(rb"^" + EXPORT_NAME.encode() + rb"\b", file.read(), re.MULTILINE) is not None


def required_target(path: str) -> int | None:
    """The number of the oldest target in a Python file's TILEIRAS_REQUIRES, or None."""
    with open(path, "rb") as file:
        match = _REQUIRES.search(file.read())
    return int(match[1]) if match else None


def is_for(path: str, target: str) -> bool:
    """Whether a source is compiled for a target in a tree: Python files may require a newer one."""
    least = required_target(path) if path.endswith(".py") else None
    return least is None or tileiras.targets.cpu.is_cpu(target) or tileiras.targets.target(target).meets(str(least))


def artifact_stem(path: str, beside: Collection[str] | None = None) -> str:
    """The base name of a source's artifacts: its name without the suffix.  `beside` are the names in its folder, if
    they are known.

    If several sources differ in their suffix only (a Python file and the bytecode it exports), all but one keep it:
    `vadd.py` gives `vadd`, and `vadd.tileirbc` beside it gives `vadd-tileirbc`.
    """
    # In a build without changes, `os.path.splitext` would take as long as examining a file.
    base = path[path.rfind(os.sep) + 1 :]
    name, _, own = base.rpartition(".")
    if not name:
        return base
    for suffix in SUFFIXES:
        if suffix == f".{own}":
            break
        if (beside is None or name + suffix in beside) and os.path.isfile(path[: -len(own) - 1] + suffix):
            return f"{name}-{own}"
    return name


def has_front_end() -> bool:
    """Whether cuTile Python is installed."""
    from importlib import util

    return util.find_spec("cuda") is not None and util.find_spec("cuda.tile") is not None


def imported_files(path: str) -> list[str]:
    """The files beside a Python file that it imports, directly or transitively; found without executing them."""
    base = os.path.dirname(path)
    result: dict[str, None] = {}
    stack = [path]
    while stack:
        for parts in _imported_names(stack.pop(), base):
            for depth in range(1, len(parts) + 1):
                stem = os.path.join(base, *parts[:depth])
                for file in (stem + ".py", os.path.join(stem, "__init__.py")):
                    if file != path and file not in result and os.path.isfile(file):
                        result[file] = None
                        stack.append(file)
    return sorted(result)


def _imported_names(path: str, base: str) -> list[list[str]]:
    """The modules that a file imports, as lists of path components from `base`, the root of the search."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read(), path)
    except (OSError, SyntaxError, ValueError):
        return []
    package = os.path.relpath(os.path.dirname(path), base).split(os.sep)
    package = [part for part in package if part != os.curdir]
    names: list[list[str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level <= len(package):
            # Level 1 is the package of the file itself.
            start = package[: len(package) - node.level + 1] if node.level else []
            start = [*start, *(node.module.split(".") if node.module else ())]
            names += [start, *([*start, alias.name] for alias in node.names)]
    return names
