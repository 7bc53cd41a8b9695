"""Fingerprint of a stage's code: a digest over its modules, which are found by following imports.

The modules are those that the stage's own module imports, directly or not, at the top of a file or inside a function,
and those loaded by name: the dialects of the stage's input and output, and their canonicalization patterns if the stage
canonicalizes.  An edit in one lowering changes only the fingerprints of the stages that import it.  Python's version is
left out on purpose: artifacts are the same under every version.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras.pipeline import Stage
from tileiras.support.command_cache import remembered
from tileiras.support.files import RACY_NS, read_json_object, write_atomically
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    import ast

FORMAT = 2

KNOWN = "fingerprints"
"""Key of the row with the fingerprints of a build directory."""

PASSES = "tileiras.passes"
"""The package whose table `PASSES` has the module of each pass."""

CANONICALIZE = "tileiras.passes.canonicalize"
"""The module that loads the `canonicalization` module of each dialect in its input."""

FRAME = ("tileiras.stages", "tileiras.diagnostics")
"""Modules that are part of every stage's fingerprint."""

MODULE_FRAME = (
    "tileiras.stages.locations",
    "tileiras.stages.units",
    "tileiras.ir.text.parser",
    "tileiras.ir.text.printer",
    "tileiras.ir.verifier",
)
"""Parser, printer and verifier of IR: part of the fingerprint of every stage with IR as input or output."""

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields of the syntax tree with statements, or with handlers of exceptions and cases of `match`, which have bodies."""

EXTERNAL = ("llvmlite", "numpy", "ml_dtypes")
"""Packages whose version is part of the fingerprint of every stage that imports them."""


class CodeBase:
    """The source files of the package at `root` (the folder that holds `tileiras/`) and their imports.

    `memo` names a file that keeps the imports of known file contents between processes: parsing the whole package takes
    several hundred milliseconds, reading the memo ten.  `known` names a log that keeps the fingerprints themselves,
    valid while size, mtime and inode of every source file are unchanged, a check that takes two.
    """

    def __init__(self, root: str | None = None, memo: str | None = None, log_path: str | None = None) -> None:
        if root is None:
            root = os.path.dirname(os.path.dirname(os.path.abspath(tileiras.__file__)))
        self.root = root
        self._memo_path = memo
        self._memo_grew = False
        self._files: dict[str, _File | None] = {}
        self._log_path = log_path
        self._tree: dict[str, list[int]] | None = None
        self._fingerprints: dict[tuple, str] = self._load_log() if log_path is not None else {}

    @functools.cached_property
    def _memo(self) -> dict[str, Any]:
        # Loaded lazily: not needed while all fingerprints are known.
        return read_json_object(self._memo_path) if self._memo_path is not None else {}

    def path(self, module: str) -> str | None:
        """The file of a module of the package, None if it does not exist."""
        base = os.path.join(self.root, *module.split("."))
        for path in (base + ".py", os.path.join(base, "__init__.py")):
            if os.path.isfile(path):
                return path
        return None

    def closure(self, roots: Collection[str]) -> tuple[list[str], list[str]]:
        """The modules of the package that `roots` reach, and the top-level packages outside it; both sorted."""
        inside: set[str] = set()
        outside: set[str] = set()
        stack = [*roots, *(module for root in roots for module in self._lazy(root))]
        while stack:
            module = stack.pop()
            if module.partition(".")[0] != "tileiras":
                outside.add(module.partition(".")[0])
                continue
            if module in inside:
                continue
            file = self._file(module)
            if file is None:
                continue
            inside.add(module)
            parts = module.split(".")
            stack += [".".join(parts[:n]) for n in range(1, len(parts))]
            if module == CANONICALIZE:
                stack += [f"{root}.canonicalization" for root in roots if root.startswith("tileiras.dialects.")]
            for base, name in file.imports:
                stack.append(base)
                stack += self._reached(base, name)
        return sorted(inside), sorted(outside)

    def _reached(self, base: str, name: str) -> list[str]:
        """The modules behind `from base import name`, or behind `import base` when `name` is empty.

        A package with a `_LAZY` table imports a submodule when one of the table's names is used.  An importer of the
        package is assumed to use all of them, except that `import tileiras` alone uses none.
        """
        if base.partition(".")[0] != "tileiras":
            return []
        if name in ("", "*"):
            return [] if base == "tileiras" else self._lazy(base)
        module = f"{base}.{name}"
        reached = [module, *self._lazy(module)] if self._file(module) is not None else []
        file = self._file(base)
        tables = (file.lazy, file.passes) if file is not None else ()
        return [*reached, *(table[name] for table in tables if name in table)]

    def _lazy(self, package: str) -> list[str]:
        """The modules behind a package's `_LAZY` table."""
        file = self._file(package)
        return sorted(set(file.lazy.values())) if file is not None else []

    def fingerprint(self, stage: Stage) -> str:
        """The digest of a stage's code, in hexadecimal."""
        import xxhash

        roots = stage_roots(stage)
        result = self._fingerprints.get(roots)
        if result is None:
            inside, outside = self.closure(roots)
            digest = xxhash.xxh3_128(f"tileiras fingerprint {FORMAT}\n".encode())
            for module in inside:
                file = self._file(module)
                assert file is not None
                digest.update(f"{module} {file.digest}\n".encode())
            for package in EXTERNAL:
                if package in outside:
                    digest.update(f"{package} {_version(package)}\n".encode())
            result = self._fingerprints[roots] = digest.hexdigest()
            self._save_memo()
            self._save_log()
        return result

    def digests(self, stage: Stage) -> dict[str, str]:
        """The inputs of a stage's fingerprint: the digest of every module and the version of every package."""
        inside, outside = self.closure(stage_roots(stage))
        result = {module: file.digest for module in inside if (file := self._file(module)) is not None}
        return {**result, **{package: _version(package) for package in EXTERNAL if package in outside}}

    def _file(self, module: str) -> _File | None:
        if module in self._files:
            return self._files[module]
        path = self.path(module)
        file = None
        if path is not None:
            import xxhash

            with open(path, "rb") as source:
                data = source.read()
            digest = xxhash.xxh3_128_hexdigest(data)
            # Relative imports depend on the module's name, so it is part of the memo's key.
            scan = self._memo.get(_memo_key(module, digest))
            if scan is None:
                package = module if os.path.basename(path) == "__init__.py" else module.rpartition(".")[0]
                scan = _scan(data, path, package)
                self._memo_grew = True
            imports, lazy, passes = scan
            file = _File(digest, [(base, name) for base, name in imports], lazy, passes)
        self._files[module] = file
        return file

    # ---- fingerprints of a tree in which no file changed -------------------------------------------------------------

    def _load_log(self) -> dict[tuple, str]:
        """The fingerprints of the last process, if no source file or package version has changed since."""
        assert self._log_path is not None
        self._tree = tree_state(os.path.join(self.root, "tileiras"))
        row = tileiras.build.ledger.log.Log(self._log_path).value(KNOWN) or {}
        try:
            if (
                row["format"] == FORMAT
                and row["root"] == self.root
                and row["versions"] == {package: _version(package) for package in EXTERNAL}
                and row["files"] == _digest_of(self._tree)
                # A file may have changed again within the same tick of its clock.
                and all(mtime < row["time"] - RACY_NS for _, mtime, _ in self._tree.values())
            ):
                return {tuple(roots): digest for roots, digest in row["fingerprints"]}
        except (KeyError, TypeError):
            pass
        return {}

    def _save_log(self) -> None:
        if self._log_path is None:
            return
        import time

        # The state is from before the files were read: after a concurrent edit it never matches.
        row = {
            "format": FORMAT,
            "root": self.root,
            "versions": {package: _version(package) for package in EXTERNAL},
            "files": _digest_of(self._tree or {}),
            "time": time.time_ns(),
            "fingerprints": sorted([list(roots), digest] for roots, digest in self._fingerprints.items()),
        }
        tileiras.build.ledger.log.put(self._log_path, KNOWN, row)

    def _save_memo(self) -> None:
        if self._memo_path is None or not self._memo_grew:
            return
        # Rows of modules that this process did not read stay; a module that it read keeps only its present content.
        current = {key: scan for key, scan in self._memo.items() if key.partition(":")[0] not in self._files}
        for module, file in self._files.items():
            if file is not None:
                current[_memo_key(module, file.digest)] = [file.imports, file.lazy, file.passes]
        try:
            write_atomically(self._memo_path, json.dumps(current, sort_keys=True).encode())
        except OSError:
            return  # a read-only store: the imports are found again by the next process
        self._memo_grew = False


class _File(NamedTuple):
    digest: str
    imports: list[tuple[str, str]]
    """(module, name imported from it or "")."""
    lazy: dict[str, str]
    """The `_LAZY` table of a package: name -> module."""
    passes: dict[str, str]
    """The `PASSES` table of a package: name of a pass -> module."""


def _memo_key(module: str, digest: str) -> str:
    return f"{module}:{FORMAT}:{digest}"


def _scan(data: bytes, path: str, package: str) -> tuple[list[tuple[str, str]], dict[str, str], dict[str, str]]:
    """The imports of a file, its `_LAZY` and its `PASSES` table; its relative imports are relative to `package`.

    The keys of a `FAMILIES` table are submodules that the package loads by name.  The rows of a `DECISIONS` table begin
    with the names of passes, whose modules are in the table `PASSES`.
    """
    import ast

    tree = ast.parse(data, path)
    imports: set[tuple[str, str]] = set()
    imports.update(named_files(tree, package))
    for node in _executed_statements(tree):
        if isinstance(node, ast.Import):
            imports.update((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")
                parent = parent[: len(parent) - node.level + 1]
                base = ".".join([*parent, node.module] if node.module else parent)
            imports.update((base, alias.name) for alias in node.names)
    lazy: dict[str, str] = {}
    passes: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "FAMILIES":
            if isinstance(node.value, ast.Dict):
                imports.update((f"{package}.{ast.literal_eval(key)}", "") for key in node.value.keys if key is not None)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "DECISIONS":
            rows = node.value.elts if isinstance(node.value, ast.Tuple) else []
            imports.update((PASSES, name) for name in map(_first_text, rows) if name)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "PASSES":
            if isinstance(node.value, ast.Dict):
                rows_by_name = zip(node.value.keys, map(_first_text, node.value.values), strict=True)
                passes = {ast.literal_eval(key): f"tileiras.{module}" for key, module in rows_by_name if key}
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            if isinstance(node.targets[0], ast.Name) and node.targets[0].id == "_LAZY":
                for name, module in ast.literal_eval(node.value).items():
                    lazy[name] = module if module.startswith("tileiras.") else f"{package}.{module}"
    return sorted(imports), lazy, passes


def _first_text(node: ast.AST) -> str:
    """The first argument of a call, if it is a literal text; else empty."""
    import ast

    first = node.args[0] if isinstance(node, ast.Call) and node.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def named_files(tree: ast.Module, package: str) -> set[tuple[str, str]]:
    """The imports of functions that name files of packages that the module imports as a whole, such as
    `synchronization.barriers.insert_barriers`: a lazy package loads the file then (`tileiras.support.lazy`).

    `package` holds the module; it and the packages around it are loaded before.
    """
    import ast

    packages: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module == "tileiras":
            packages.update((alias.asname or alias.name, f"tileiras.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            packages.update({alias.name: alias.name for alias in node.names if alias.name == "tileiras"})
    result: set[tuple[str, str]] = set()
    for node in _expressions(tree) if packages else ():
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.insert(0, node.attr)
            node = node.value
        base = packages.get(node.id, "") if isinstance(node, ast.Name) else ""
        for attribute in attributes if base else ():
            inner = f"{base}.{attribute}"
            # `tileiras.compile` and the like are names of the package `tileiras`.
            if base != "tileiras" and not f"{package}.".startswith(f"{inner}."):
                result.add((base, attribute))
            base = inner
    return result


def stage_roots(stage: Stage) -> tuple[str, ...]:
    """The modules from which a stage's imports are followed."""
    tools = [name.partition(":")[0] for name in stage.tools]
    roots = [stage.module_name, *FRAME, *tools, *(f"tileiras.dialects.{name}" for name in stage.dialects)]
    if stage.dialects:
        roots += MODULE_FRAME
    return tuple(dict.fromkeys(roots))


def _executed_statements(tree: ast.Module) -> Iterable[ast.stmt]:
    """The statements of a module except the bodies of `if TYPE_CHECKING:`."""
    import ast

    stack: list[Any] = [*tree.body]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            stack += node.orelse
            continue
        yield node
        for blocks in _BLOCKS:
            stack += getattr(node, blocks, ())


def _expressions(tree: ast.Module) -> Iterable[ast.AST]:
    """The nodes inside of the statements of `_executed_statements`."""
    import ast

    with_statements = ast.stmt, ast.excepthandler, ast.match_case
    for statement in _executed_statements(tree):
        stack = [statement]
        while stack:
            inner = [each for each in ast.iter_child_nodes(stack.pop()) if not isinstance(each, with_statements)]
            yield from inner
            stack += inner


def tree_state(folder: str) -> dict[str, list[int]]:
    """Size, mtime and inode of every Python file below a folder, by path."""
    result: dict[str, list[int]] = {}
    stack = [folder]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    result[entry.path] = [status.st_size, status.st_mtime_ns, status.st_ino]
                elif entry.is_dir() and entry.name != "__pycache__":
                    stack.append(entry.path)
    return result


def _digest_of(tree: dict[str, list[int]]) -> str:
    """A digest of a result of `tree_state`."""
    import marshal

    import xxhash

    return xxhash.xxh3_128_hexdigest(marshal.dumps(sorted(tree.items()), 0))


def _version(package: str) -> str:
    """The version of an installed package, from the name of its metadata's folder; `absent` if not installed.

    `importlib.metadata` returns the same but takes 17 ms to load.
    """
    for folder in sys.path:
        for name in _metadata_folders(folder):
            if name.startswith(package + "-"):
                return name.removeprefix(package + "-").removesuffix(".dist-info")
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "absent"


@remembered
@functools.cache
def _metadata_folders(folder: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(name for name in os.listdir(folder or os.curdir) if name.endswith(".dist-info")))
    except OSError:
        return ()  # an archive, or an entry of `sys.path` that does not exist
