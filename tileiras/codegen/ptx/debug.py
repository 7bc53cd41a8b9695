"""Debug directives of a PTX module: add those that LLVM omits, and rewrite those that ptxas cannot parse.

LLVM 22 prints `.loc` for inlined code without saying where it was inlined; `add_inlining` does, from metadata of the
module.  It changes no other line of a body.
"""

from __future__ import annotations

import re

from tileiras.codegen.kernel_metadata import STRING_OPERAND, unescaped_bytes
from tileiras.codegen.ptx import PtxEntry, PtxModule
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.nvptx import INLINED_METADATA

DEBUG_SECTIONS_PTX = (7, 5)
"""PTX ISA, ".section": differences of labels, which LLVM writes into its tables of names."""

INLINED_PTX = (7, 2)
"""PTX ISA, ".loc": function_name and inlined_at."""

# Compiled when first used: most kernels need neither.
FILE = r'(?m)^[ \t]*\.file[ \t]+(\d+)[ \t]+("(?:[^"\\]|\\.)*")[^\n]*\n?'
_POSITION = r"(?m)^([ \t]*\.loc[ \t]+)(\d+)[ \t]+(\d+)[ \t]+(\d+)"


def finish(module: PtxModule, ir: str, *, inlining: bool) -> None:
    """Complete the debug directives of a module that LLVM generated from `ir`; rewrite those that ptxas cannot parse.

    Without `inlining`, for PTX versions that cannot express it, only the columns of positions are restored.
    """
    positions = inlined_positions(ir)
    if positions:
        if inlining:
            module.version = max(module.version, INLINED_PTX)
        else:
            positions = {key: Inlined(row.column) for key, row in positions.items()}
        add_inlining(module, positions)
    spell_file_names(module)


def spell_file_names(module: PtxModule) -> None:
    """Write names of files in the form that ptxas (13.5) parses: no escapes, and ASCII only.

    Other bytes become `%C3`, as in a URL.  A backslash stays: ptxas treats it as a separator of folders.
    """
    for index, piece in enumerate(module.pieces):
        # LLVM escapes bytes that are not printable ASCII.
        if isinstance(piece, str) and "\\" in piece:
            module.pieces[index] = re.sub(FILE, lambda m: f'\t.file\t{m[1]} "{spell(unescape(m[2]))}"\n', piece)


def spell(name: str) -> str:
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
    """Read `!tileiras.inlined` of a module of LLVM IR."""
    result: dict[Position, Inlined] = {}
    start = ir.rfind(f"\n!{INLINED_METADATA} = ")
    if start < 0:
        return result
    nodes = dict(line.split(" = ", 1) for line in ir[start:].split("\n") if " = " in line)
    for node in nodes[f"!{INLINED_METADATA}"][2:-1].split(", "):
        row = nodes[node]
        path, *names = map(unescaped_bytes, STRING_OPERAND.findall(row))
        line, printed, column, *call = map(int, re.findall(r"(?<=i32 )\d+", STRING_OPERAND.sub("", row)))
        inlined = (names[0], (names[1].decode(), call[0], call[1])) if names else ()
        result[path.decode(), line, printed] = Inlined(column, *inlined)
    return result


def add_inlining(module: PtxModule, positions: dict[Position, Inlined]) -> None:
    """Say of inlined code which function it is from and where that was inlined (PTX ISA, ".loc")."""
    numbers = {
        unescape(match[2]): int(match[1])
        for piece in module.pieces
        if isinstance(piece, str)
        for match in re.finditer(FILE, piece)
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

    def loc_of(key: Position) -> str:
        row = positions.get(key)
        if row is None or row.call is None:
            return place(key)
        label = labels.setdefault(row.function, f"$L__info_string{len(labels)}")
        return f"{place(key)}, function_name {label}, inlined_at {place(row.call)}"

    for piece in module.pieces:
        if not isinstance(piece, PtxEntry):
            continue
        result: set[Position] = set()

        def directive(match: re.Match[str], printed: set[Position] = result) -> str:
            key = (files[int(match[2])], int(match[3]), int(match[4]))
            # ptxas takes a place for inlined_at from an earlier .loc only: calls first, from the outside in.
            chain = [key]
            while (row := positions.get(chain[-1])) is not None and row.call is not None:
                chain.append(row.call)
            lines = [f"{match[1]}{loc_of(call)}\n" for call in reversed(chain[1:]) if call not in printed]
            printed.update(chain)
            return "".join(lines) + match[1] + loc_of(key)

        piece.body = re.sub(_POSITION, directive, piece.body)
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
        entry = match[1]
        return bytes([int(entry, 8)]) if len(entry) == 3 else _LETTERS.get(entry, entry)

    return re.sub(rb"\\([0-7]{3}|.)", byte, text[1:-1].encode()).decode(errors="surrogateescape")


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
