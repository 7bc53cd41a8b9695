"""Sources and units of compilation: a file is read as a whole; an entry is compiled with the symbols it references.

`entry_modules` makes the modules for the stages from `tileaa` on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tileiras
from tileiras.bytecode.versions import MAGIC, SUPPORTED, is_bytecode, looks_like_mlir
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.ir import Operation

TEXT = "text"
BYTECODE = "bytecode"
PYTHON = "python"
MODULE = "module"
"""A module in memory."""

SUFFIXES = {".mlir": TEXT, ".py": PYTHON, ".tileirbc": BYTECODE}
"""Suffix of a source file -> kind of its content."""

ARTIFACTS = {
    ".tileaa.mlir": "tileas", ".tileas.mlir": "llvm", ".llvm.mlir": "llvm", ".cpu.ll": "object", ".ll": "ptx",
    ".ptx": "cubin", ".cubin": "sass",
}  # fmt: skip
"""Artifacts that can be sources: suffix, which is also the kind -> the stage that reads them."""

DECIDED = tuple(suffix for suffix in ARTIFACTS if suffix != ".tileaa.mlir")
"""Artifacts without a certificate of order: they may have been edited after the decisions of `tileas`."""


MARKS = {".tileaa.mlir": "// -----", ".tileas.mlir": "// -----", ".llvm.mlir": "// -----", ".cpu.ll": "; -----",
         ".ll": "; -----"}
"""Kind -> the line between two modules in a file, as in split input files of MLIR's tools."""


def joined(modules: Sequence[bytes], kind: str) -> bytes:
    """Join modules, which must end in a line break, to one file."""
    return f"{MARKS.get(kind, '// -----')}\n".encode().join(modules)


def pieces(data: bytes, kind: str) -> list[bytes]:
    """Split a file into its modules; empty lines before each one keep the line numbers of the file."""
    mark = MARKS.get(kind, "").encode()
    if not mark or mark not in data:
        return [data]
    items: list[list[bytes]] = [[]]
    for number, line in enumerate(data.split(b"\n")):
        if line.rstrip() == mark:
            items.append([b""] * (number + 1))
        else:
            items[-1].append(line)
    return [b"\n".join(lines) for lines in items if any(map(bytes.strip, lines))] or [data]


def is_text(source: str) -> bool:
    """Whether a str is Tile IR text rather than a path: it has a line break, or a brace and no suffix of a source."""
    return "\n" in source or "{" in source and not source.endswith((*SUFFIXES, *ARTIFACTS))


def bytecode_version(data: bytes) -> str:
    """The version in the header of bytecode, as "13.1"; raises CompileError (code 3) if it is unsupported."""
    version = tuple(data[len(MAGIC) : len(MAGIC) + 2])
    text = ".".join(map(str, version))
    if len(version) < 2:
        raise CompileError.at(None, "input does not correspond to Tile IR bytecode", ExitCode.INVALID_INPUT)
    if version not in SUPPORTED:
        note = tileiras.bytecode.sections.newer_note(data)
        message = f"unsupported Tile IR bytecode version: {text}"
        raise CompileError.at(None, message, ExitCode.INVALID_INPUT, [note] if note is not None else [])
    return text


class Source(NamedTuple):
    """One input: its bytes, the name that messages use, and the file it was read from."""

    data: bytes
    name: str
    path: str | None
    kind: str

    @classmethod
    def read(cls, path: str | os.PathLike, name: str | None = None) -> Source:
        """Raise CompileError if the file cannot be read (code 1) or is not Tile IR (code 3)."""
        path = os.fspath(path)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except (OSError, ValueError) as error:  # ValueError: not a valid file name
            reason = error.strerror if isinstance(error, OSError) else "no such name"
            raise CompileError.at(None, f"unable to read input file '{path}': {reason}", ExitCode.USAGE) from None
        name = name or path.replace(os.sep, "/")
        return cls(data, name, path, kind_of(data, path))

    @property
    def text(self) -> str:
        return self.data.decode()


def kind_of(data: bytes, path: str = "") -> str:
    """The kind of a source: by content for bytecode, by suffix for Python, text otherwise."""
    if is_bytecode(data):
        return BYTECODE
    kind = SUFFIXES.get(os.path.splitext(path)[1].lower())
    if kind == PYTHON:
        return PYTHON
    result = next((suffix for suffix in ARTIFACTS if path.endswith(suffix)), None)
    mlir = looks_like_mlir(data)
    if result is not None and not mlir:
        if result != ".cubin":
            _check_encoding(data, path)
        return result
    if kind == TEXT and not mlir:
        _check_encoding(data, path)
    cut = kind is None and MAGIC.startswith(data)
    if kind == BYTECODE or cut or b"\x00" in data[:4096] or not _is_utf8(data):
        message = "input does not correspond to Tile IR bytecode"
        if mlir:
            message += " (it looks like MLIR bytecode instead)"
        raise CompileError.at(None, message, ExitCode.INVALID_INPUT)
    return TEXT


def _check_encoding(data: bytes, path: str) -> None:
    if not _is_utf8(data):
        tileiras.ir.encoding.check_encoding(data, path)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def file_stem(name: str) -> str:
    """A file name for an entry: its symbol if valid as a file name, else the symbol sanitized and made unique.

    Mangled names can be longer than file systems allow.
    """
    safe = re.sub(r"[^\w.$-]", "_", name, flags=re.ASCII)
    if safe == name and len(name) <= 120 and not name.startswith((".", "-")):
        return name
    import xxhash

    digest = xxhash.xxh3_64_hexdigest(name.encode("utf-8", "surrogateescape"))
    return f"{safe[:100].lstrip('.-')}-{digest}"


def entry_name(op: Operation) -> str:
    return op.attributes["sym_name"].value


def entries_of(module: Operation) -> list[Operation]:
    """The entry operations of a cuda_tile module in source order."""
    return [op for op in tile_module(module).regions[0].blocks[0].operations if op.name == "cuda_tile.entry"]


def tile_module(module: Operation) -> Operation:
    """The cuda_tile.module itself, or the one inside a builtin.module."""
    if module.name == "builtin.module":
        for op in module.regions[0].blocks[0].operations:
            if op.name == "cuda_tile.module":
                return op
    return module


def entry_modules(module: Operation, only: str | None = None) -> list[tuple[str, Operation]]:
    """One module per entry (or for `only`), in source order: the entry and the symbols that it references.

    They are copies, except that a module with exactly one entry's symbols is returned itself.
    """
    top = tile_module(module)
    body = list(top.regions[0].blocks[0].operations)
    symbols = {op.attributes["sym_name"].value: op for op in body if "sym_name" in op.attributes}
    units = []
    for entry in body:
        if entry.name != "cuda_tile.entry" or only not in (None, entry_name(entry)):
            continue
        references = _reached(entry, symbols)
        if len(references) + 1 == len(body):
            return [(entry_name(entry), top)]
        block = tileiras.ir.Block()
        for op in body:
            if op is entry or op in references:
                block.append(op.clone({}))
        unit = type(top).create(
            attributes=dict(top.attributes), regions=[tileiras.ir.Region([block])], location=top.location
        )
        units.append((entry_name(entry), unit))
    return units


def _reached(entry: Operation, symbols: dict[str, Operation]) -> set[Operation]:
    """The operations of the module that `entry` references by symbol, directly or transitively, without itself."""
    references: set[Operation] = set()
    stack = [entry]
    while stack:
        for op in stack.pop().walk():
            for attribute in op.attributes.values():
                if isinstance(attribute, tileiras.ir.SymbolRefAttr):
                    target = symbols.get(attribute.root)
                    if target is not None and target is not entry and target not in references:
                        references.add(target)
                        stack.append(target)
    return references


def module_text(module: Operation) -> bytes:
    """A module as an artifact: printed without locations, which are in the table beside it."""
    text = tileiras.ir.print_op(module)
    return (text if text.endswith("\n") else text + "\n").encode("utf-8", "surrogateescape")
