"""Debug directives of PTX modules: what LLVM leaves out, and `.file`, `.loc`, labels and sections of several as one.

LLVM 22 prints `.loc` for inlined code without saying where it was inlined; `add_inlining` does, from metadata of the
module.  It changes no other line of a body.

Every module numbers its files and labels from the start and has sections of its own.  In the one module files of one
name have one number, labels say which module they are from, and sections of one name follow each other: references to
a section's start become offsets of the part that was the module's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from tileiras.codegen.kernel_metadata import STRING_OPERAND, unescaped_bytes
from tileiras.codegen.ptx import PtxEntry, PtxModule
from tileiras.targets.nvptx import INLINED_METADATA

INLINED_PTX = (7, 2)
"""PTX ISA, ".loc": function_name and inlined_at."""

_FILE = re.compile(r'^[ \t]*\.file[ \t]+(\d+)[ \t]+("(?:[^"\\]|\\.)*")[^\n]*\n?', re.MULTILINE)
_LOC = re.compile(r"^([ \t]*\.loc[ \t]+)(\d+)(?=[ \t])|(\binlined_at[ \t]+)(\d+)(?=[ \t])", re.MULTILINE)
_POSITION = re.compile(r"^([ \t]*\.loc[ \t]+)(\d+)[ \t]+(\d+)[ \t]+(\d+)", re.MULTILINE)
_LABEL = re.compile(r"\$L__[\w$]+")
_SECTION = re.compile(r"^[ \t]*\.section[ \t]+(\.\w+)[ \t]*\n?[ \t]*\{(.*?)\}[ \t]*\n?", re.MULTILINE | re.DOTALL)
_DATUM = re.compile(r"^\.b(8|16|32|64)[ \t]+(.+?)[ \t]*(?://[^\n]*)?$")

_DECL_FILE, _CALL_FILE = 0x3A, 0x58
_FORMS = {0x01: 8, 0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x0C: 1, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x0E: 4, 0x10: 8}
"""Sizes in bytes of DWARF 2's forms of fixed size (DWARF 2, 7.5.4): what LLVM writes for NVPTX, addresses 8 bytes."""
_STRING, _BLOCK1 = 0x08, 0x0A
_LEB128 = (0x0D, 0x0F, 0x15)
_UNIT_HEADER = 11


def finish(module: PtxModule, ir: str, *, inlining: bool) -> None:
    """What LLVM leaves out of the debug directives of a module that it made of `ir`, or writes as ptxas cannot read."""
    positions = inlined_positions(ir) if inlining else {}
    if positions:
        add_inlining(module, positions)
        module.version = max(module.version, INLINED_PTX)
    spell_file_names(module)


def spell_file_names(module: PtxModule) -> None:
    """Writes names of files as ptxas (13.5) reads them: it knows no escapes, and ASCII only.

    Other bytes become `%C3`, as in a URL.  A backslash stays: ptxas takes it for what separates folders.
    """
    for index, piece in enumerate(module.pieces):
        if isinstance(piece, str) and ".file" in piece:
            module.pieces[index] = _FILE.sub(lambda m: f'\t.file\t{m[1]} "{spelled(unescape(m[2]))}"\n', piece)


def spelled(name: str) -> str:
    data = name.encode(errors="surrogateescape")
    return "".join(chr(b) if 32 <= b < 127 and b != 34 else f"%{b:02X}" for b in data)


Position = tuple[str, int, int]
"""File, line and column as LLVM prints them."""


class Inlined(NamedTuple):
    """A position's own column, which function it is in, and where that was inlined; None for code that was not."""

    column: int
    function: bytes = b""
    call: Position | None = None


def inlined_positions(ir: str) -> dict[Position, Inlined]:
    """What a module of LLVM IR says in `!tileiras.inlined`."""
    found: dict[Position, Inlined] = {}
    start = ir.rfind(f"\n!{INLINED_METADATA} = ")
    if start < 0:
        return found
    ir = ir[start:]
    for node in ir[ir.index("{") + 1 : ir.index("}")].split(", "):
        row = re.search(rf"^{re.escape(node)} = !\{{(.*)\}}$", ir, re.MULTILINE)
        assert row is not None
        path, *names = map(unescaped_bytes, STRING_OPERAND.findall(row[1]))
        line, printed, column, *call = map(int, re.findall(r"(?<=i32 )\d+", row[1]))
        inlined = (names[0], (names[1].decode(), call[0], call[1])) if names else ()
        found[path.decode(), line, printed] = Inlined(column, *inlined)
    return found


def add_inlining(module: PtxModule, positions: dict[Position, Inlined]) -> None:
    """Says of inlined code which function it is from and where that was inlined (PTX ISA, ".loc")."""
    numbers = {
        unescape(match[2]): int(match[1])
        for piece in module.pieces
        if isinstance(piece, str)
        for match in _FILE.finditer(piece)
    }
    files = {number: name for name, number in numbers.items()}
    labels: dict[bytes, str] = {}
    added: dict[str, int] = {}

    def number(name: str) -> int:
        if name not in numbers:
            numbers[name] = added[name] = len(numbers) + 1
        return numbers[name]

    def place(key: Position) -> str:
        name, line, column = key
        row = positions.get(key)
        return f"{number(name)} {line} {row.column if row is not None else column}"

    def written(key: Position) -> str:
        row = positions.get(key)
        if row is None or row.call is None:
            return place(key)
        label = labels.setdefault(row.function, f"$L__info_string{len(labels)}")
        return f"{place(key)}, function_name {label}, inlined_at {place(row.call)}"

    for piece in module.pieces:
        if not isinstance(piece, PtxEntry):
            continue
        said: set[Position] = set()

        def directive(match: re.Match[str], said: set[Position] = said) -> str:
            key = (files[int(match[2])], int(match[3]), int(match[4]))
            # ptxas takes a place for inlined_at from an earlier .loc only: calls first, from the outside in.
            chain = [key]
            while (row := positions.get(chain[-1])) is not None and row.call is not None:
                chain.append(row.call)
            lines = [f"{match[1]}{written(call)}\n" for call in reversed(chain[1:]) if call not in said]
            said.update(chain)
            return "".join(lines) + match[1] + written(key)

        piece.body = _POSITION.sub(directive, piece.body)
    tail = "".join(f'\t.file\t{n} "{escape(name)}"\n' for name, n in added.items())
    if labels:
        strings = "".join(
            f"{label}:\n" + "".join(f".b8 {byte}\n" for byte in (*name, 0)) for name, label in labels.items()
        )
        tail += f"\t.section\t.debug_str\n\t{{\n{strings}\t}}\n"
    module.pieces.append(tail)


_LETTERS = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"b": b"\b", b"f": b"\f"}


def unescape(text: str) -> str:
    """A quoted string of a directive as LLVM writes it: octal numbers for bytes, letters for some of them."""

    def byte(match: re.Match[bytes]) -> bytes:
        given = match[1]
        return bytes([int(given, 8)]) if len(given) == 3 else _LETTERS.get(given, given)

    return re.sub(rb"\\([0-7]{3}|.)", byte, text[1:-1].encode()).decode(errors="surrogateescape")


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


class DebugMerge:
    """Takes the debug directives of one module after the other; `text` is all that stands at module scope for them."""

    __slots__ = ("_files", "_sections", "_sizes", "_module", "_numbers")

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._sections: dict[str, list[str]] = {}
        self._sizes: dict[str, int] = {}
        self._module = -1
        self._numbers: dict[int, int] = {}

    def take(self, pieces: Sequence[str]) -> list[str]:
        """A module's pieces of text and bodies as they are in the one module, less what `text` has."""
        self._module += 1
        self._numbers = {}
        for piece in pieces:
            for match in _FILE.finditer(piece):
                self._numbers[int(match[1])] = self._files.setdefault(match[2], len(self._files) + 1)
        changed = []
        found: list[tuple[str, str]] = []
        for piece in pieces:
            found += _SECTION.findall(piece)
            piece = _SECTION.sub("", _FILE.sub("", piece))
            changed.append(_LABEL.sub(self._label, _LOC.sub(self._loc, piece)))
        self._add(found)
        return changed

    @property
    def text(self) -> str:
        files = [f"\t.file\t{number} {name}\n" for name, number in self._files.items()]
        sections = [
            f"\t.section\t{name}\n\t{{\n" + "".join(line + "\n" for line in lines) + "\t}\n" if lines
            else f"\t.section\t{name}\t{{\t}}\n"
            for name, lines in self._sections.items()
        ]  # fmt: skip
        return "".join((*files, *sections))

    def _loc(self, match: re.Match[str]) -> str:
        return f"{match[1] or match[3]}{self._numbers[int(match[2] or match[4])]}"

    def _label(self, match: re.Match[str]) -> str:
        return f"{match[0]}_{self._module}" if self._module else match[0]

    def _add(self, sections: list[tuple[str, str]]) -> None:
        """Appends the module's own sections."""
        bodies = {name: [line for line in body.split("\n") if line.strip()] for name, body in sections}
        if ".debug_info" in bodies:
            bodies[".debug_info"] = self._with_files(bodies[".debug_info"], bodies[".debug_abbrev"])
        own = re.compile("|".join(rf"{re.escape(name)}(?![\w.])" for name in bodies) or "(?!)")
        before = dict(self._sizes)

        def moved(match: re.Match[str]) -> str:
            start = before.get(match[0], 0)
            # ptxas 13.5 leaves out what is added to `.debug_info`; sections of a cubin are not moved any more.
            return str(start) if start else match[0]

        for name, lines in bodies.items():
            kept = self._sections.setdefault(name, [])
            for line in lines:
                datum = _DATUM.match(line.strip())
                if datum is None:
                    kept.append(_LABEL.sub(self._label, line))
                    continue
                self._sizes[name] = self._sizes.get(name, 0) + int(datum[1]) // 8
                kept.append(own.sub(moved, _LABEL.sub(self._label, line)))

    def _with_files(self, info: list[str], abbreviations: list[str]) -> list[str]:
        """`.debug_info` with the one module's numbers of files."""
        if all(old == new for old, new in self._numbers.items()):
            return info
        table = _abbreviations(_bytes(abbreviations))
        positions, offset = {}, 0
        for index, line in enumerate(info):
            datum = _DATUM.match(line.strip())
            if datum is not None:
                positions[offset] = index
                offset += int(datum[1]) // 8
        data = _bytes(info)
        changed = list(info)
        for at in _file_attributes(data, table):
            changed[positions[at]] = f".b8 {self._numbers[data[at]]}"
        return changed


def _bytes(lines: list[str]) -> bytes:
    """A section's content, with zeros for what only the assembler knows."""
    out = bytearray()
    for line in lines:
        datum = _DATUM.match(line.strip())
        if datum is not None:
            size = int(datum[1]) // 8
            number = int(datum[2], 0) if re.fullmatch(r"-?(0x)?[0-9a-fA-F]+", datum[2]) else 0
            out += (number & (1 << 8 * size) - 1).to_bytes(size, "little")
    return bytes(out)


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _abbreviations(data: bytes) -> dict[int, list[tuple[int, int]]]:
    """Code -> (attribute, form) pairs (DWARF 2, 7.5.3)."""
    table: dict[int, list[tuple[int, int]]] = {}
    code, at = _leb128(data, 0)
    while code:
        _, at = _leb128(data, at)
        at += 1
        pairs = table[code] = []
        while True:
            attribute, at = _leb128(data, at)
            form, at = _leb128(data, at)
            if not attribute and not form:
                break
            pairs.append((attribute, form))
        code, at = _leb128(data, at)
    return table


def _file_attributes(data: bytes, table: dict[int, list[tuple[int, int]]]) -> list[int]:
    """The offsets of all one-byte file numbers of a unit."""
    found = []
    at = _UNIT_HEADER
    while at < len(data):
        code, at = _leb128(data, at)
        for attribute, form in table.get(code, ()):
            if attribute in (_DECL_FILE, _CALL_FILE):
                found.append(at)
            if form == _STRING:
                at = data.index(0, at) + 1
            elif form == _BLOCK1:
                at += 1 + data[at]
            elif form in _LEB128:
                _, at = _leb128(data, at)
            else:
                at += _FORMS[form]
    return found
