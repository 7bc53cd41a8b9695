"""Debug directives of several PTX modules as those of one: `.file`, `.loc`, labels and DWARF sections.

Every module numbers its files and labels from the start and has sections of its own.  In the one module files of one
name have one number, labels say which module they are from, and sections of one name follow each other: references to
a section's start become offsets of the part that was the module's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tileiras.codegen.ptx.debug import FILE

_LOC = re.compile(r"^([ \t]*\.loc[ \t]+)(\d+)(?=[ \t])|(\binlined_at[ \t]+)(\d+)(?=[ \t])", re.MULTILINE)
_LABEL = re.compile(r"\$L__[\w$]+")
_SECTION = re.compile(r"^[ \t]*\.section[ \t]+(\.\w+)[ \t]*\n?[ \t]*\{(.*?)\}[ \t]*\n?", re.MULTILINE | re.DOTALL)
_DATUM = re.compile(r"^\.b(8|16|32|64)[ \t]+(.+?)[ \t]*(?://[^\n]*)?$")

_DECL_FILE, _CALL_FILE = 0x3A, 0x58
_FORMS = {0x01: 8, 0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x0C: 1, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x0E: 4, 0x10: 8}
"""Sizes in bytes of DWARF 2's forms of fixed size (DWARF 2, 7.5.4) that LLVM emits for NVPTX; addresses have 8."""
_STRING, _BLOCK1 = 0x08, 0x0A
_LEB128 = (0x0D, 0x0F, 0x15)
_UNIT_HEADER = 11


class DebugMerge:
    """Merges the debug directives of modules, one at a time; `text` is the merged text at module scope."""

    __slots__ = ("_files", "_sections", "_sizes", "_module", "_numbers")

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._sections: dict[str, list[str]] = {}
        self._sizes: dict[str, int] = {}
        self._module = -1
        self._numbers: dict[int, int] = {}

    def take(self, pieces: Sequence[str]) -> list[str]:
        """A module's pieces of text and bodies for the merged module, without the parts that go to `text`."""
        self._module += 1
        self._numbers = {}
        for piece in pieces:
            for match in re.finditer(FILE, piece):
                self._numbers[int(match[1])] = self._files.setdefault(match[2], len(self._files) + 1)
        changed = []
        items: list[tuple[str, str]] = []
        for piece in pieces:
            items += _SECTION.findall(piece)
            piece = _SECTION.sub("", re.sub(FILE, "", piece))
            changed.append(_LABEL.sub(self._label, _LOC.sub(self._loc, piece)))
        self._add(items)
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
        """Append the module's own sections."""
        bodies = {name: [line for line in body.split("\n") if line.strip()] for name, body in sections}
        if ".debug_info" in bodies:
            bodies[".debug_info"] = self._with_files(bodies[".debug_info"], bodies[".debug_abbrev"])
        own = re.compile("|".join(rf"{re.escape(name)}(?![\w.])" for name in bodies) or "(?!)")
        before = dict(self._sizes)

        def shift(match: re.Match[str]) -> str:
            start = before.get(match[0], 0)
            # ptxas 13.5 omits offsets added to `.debug_info`; the sections of a cubin do not move later.
            return str(start) if start else match[0]

        for name, lines in bodies.items():
            entry = self._sections.setdefault(name, [])
            for line in lines:
                datum = _DATUM.match(line.strip())
                if datum is None:
                    entry.append(_LABEL.sub(self._label, line))
                    continue
                self._sizes[name] = self._sizes.get(name, 0) + int(datum[1]) // 8
                entry.append(own.sub(shift, _LABEL.sub(self._label, line)))

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
    """A section's content, with zeros for values that only the assembler knows."""
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
    file_attributes = []
    at = _UNIT_HEADER
    while at < len(data):
        code, at = _leb128(data, at)
        for attribute, form in table.get(code, ()):
            if attribute in (_DECL_FILE, _CALL_FILE):
                file_attributes.append(at)
            if form == _STRING:
                at = data.index(0, at) + 1
            elif form == _BLOCK1:
                at += 1 + data[at]
            elif form in _LEB128:
                _, at = _leb128(data, at)
            else:
                at += _FORMS[form]
    return file_attributes
