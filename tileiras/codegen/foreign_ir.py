"""Checks of LLVM IR from other producers: constructs for another machine, or that no launch can satisfy.

Text that this compiler generates passes.  Errors that LLVM would ignore, or abort on, are reported with their location:
in the triple and the data layout, launch attributes in their strings and in `!nvvm.annotations`, scalable parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tileiras.codegen.ir_text import line_of_file
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Locatable, Severity
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.launch import DIMENSIONS, LAUNCH_ATTRIBUTES, NUMBER, LaunchValue, check_launch_attributes
from tileiras.targets.nvptx import DATA_LAYOUT, triple_error


class Finding(NamedTuple):
    offset: int
    message: str
    note: str = ""


def check(ir: str, sm: int, location: Locatable | None = None) -> None:
    """Raise CompileError (code 5) with all errors of a module for `sm_<sm>`.

    `location` is the kernel's; in a file of LLVM IR, each error has its own line.
    """
    items = [*_targets(ir), *_processors(ir), *_scalable(ir), *_launch_attributes(ir, sm), *_annotations(ir)]
    if items:
        raise CompileError(
            [
                Diagnostic(
                    Severity.ERROR, _place(ir, finding.offset, location), finding.message,
                    [Diagnostic.note(None, finding.note)] if finding.note else [],
                )
                for finding in items
            ],
            ExitCode.COMPILE_FAILURE,
        )  # fmt: skip


def _place(ir: str, offset: int, location: Locatable | None) -> Locatable | None:
    line_start = ir.rfind("\n", 0, offset) + 1
    return line_of_file(location, ir.count("\n", 0, offset) + 1, offset - line_start + 1) or location


# ---- the machine -----------------------------------------------------------------------------------------------------

# Patterns kept as strings are compiled on demand: generated text does not need them.
# The search for a pattern that begins with a literal letter is ten times as fast as for one that begins with `^`.
_TARGET = re.compile(r'target (triple|datalayout) = "([^"]*)"')


def _starts_line(ir: str, offset: int) -> bool:
    return not ir[ir.rfind("\n", 0, offset) + 1 : offset].strip()


def _targets(ir: str) -> Iterator[Finding]:
    # They precede the definitions that they apply to; of several, LLVM uses the last.
    for match in _TARGET.finditer(ir):
        kind, value = match.groups()
        if not _starts_line(ir, match.start()):
            continue
        if kind == "triple":
            wrong = triple_error(value)
            if wrong:
                yield Finding(match.start(2), wrong)
        else:
            wrong = _layout_error(value)
            if wrong:
                note = f"the GPU's is '{DATA_LAYOUT}'"
                yield Finding(match.start(2), f"data layout of another machine: {wrong}", note)


_PROCESSOR = r'"target-cpu"="([^"]*)"'


def _processors(ir: str) -> Iterator[Finding]:
    for match in re.finditer(_PROCESSOR, ir) if '"target-cpu"' in ir else ():
        if re.fullmatch(r"sm_[0-9]+[af]?", match[1]) is None:
            yield Finding(match.start(), f"functions are for '{match[1]}', which is no GPU")


_ALIGNMENTS = {
    "i1": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128, "i256": 256, "f16": 16, "f32": 32, "f64": 64,
    "v16": 16, "v32": 32, "v64": 64, "v128": 128,
}  # fmt: skip
"""Bits, by type, as NVPTX aligns them."""

TENSOR_MEMORY = 6
"""The address space whose addresses have 32 bits."""


def _layout_error(layout: str) -> str:
    """The first part of a data layout that differs from NVPTX's; "" for an empty one and for those of older LLVMs."""
    words = [word for word in layout.split("-") if word] if layout != DATA_LAYOUT else []
    for word in words:
        pointer = re.fullmatch(r"p(\d*):(\d+)(:\d+)*", word)
        scalar = re.fullmatch(r"([ifv]\d+):(\d+)(:\d+)?", word)
        if pointer is not None:
            same = int(pointer[2]) == (32 if pointer[1] == str(TENSOR_MEMORY) else 64)
        elif scalar is not None:
            same = _ALIGNMENTS.get(scalar[1]) == int(scalar[2])
        else:
            same = re.fullmatch(r"e|n\d+(:\d+)*", word) is not None  # native widths are hints
        if not same:
            return f"'{word}'"
    if words and not any(word.startswith("i64:") for word in words):
        return "i64 is aligned to 32 bits where nothing is said"
    return ""


_KERNEL = r"(?m)^define [^\n@]*\bptx_kernel\b[^\n@]*@[^\n(]*\(([^\n]*<vscale[^\n]*)$"


def _scalable(ir: str) -> Iterator[Finding]:
    if "<vscale" not in ir:
        return
    for match in re.finditer(_KERNEL, ir):
        number = match[1].partition("<vscale")[0].count(",")
        yield Finding(match.start(), f"argument {number} has scalable type; not supported in NVVM kernels")


# ---- launches --------------------------------------------------------------------------------------------------------

_DEFINITION = re.compile(r"define\b.*?\{[ \t]*$", re.MULTILINE | re.DOTALL)
_GROUP = r"(?m)^attributes (#\d+) = \{([^\n]*)\}"
_ATTRIBUTE = re.compile(r'"(nvvm\.[\w.]+)"(?:="([^"]*)")?')
_BY_LLVM_NAME = {row.llvm_name: row for row in reversed(LAUNCH_ATTRIBUTES.values())}


def _launch_attributes(ir: str, sm: int) -> Iterator[Finding]:
    if '"nvvm.' not in ir:
        return
    groups = dict(re.findall(_GROUP, ir)) if "\nattributes #" in ir else {}
    for definition in _DEFINITION.finditer(ir):
        if not _starts_line(ir, definition.start()):
            continue
        entry = definition[0]
        entry += "".join(groups.get(group, "") for group in re.findall(r"#\d+", entry)) if groups else ""
        values = {
            row.name: _value(row.kind, text)
            for name, text in _ATTRIBUTE.findall(entry)
            if (row := _BY_LLVM_NAME.get(name)) is not None
        }
        for name, wrong in check_launch_attributes(values, sm):
            yield Finding(definition.start(), f"'{name}' attribute {wrong}")


def _value(kind: str, text: str) -> LaunchValue:
    numbers = text.split(",")
    if kind in (DIMENSIONS, NUMBER):
        if not all(re.fullmatch(r"\s*-?[0-9]+\s*", number) for number in numbers):
            return None
        return tuple(map(int, numbers)) if kind == DIMENSIONS else int(numbers[0]) if len(numbers) == 1 else None
    return True if not text else None


_ANNOTATION = (
    r'!"((?:maxntid|reqntid)[xyz]|cluster_dim_[xyz]|minctasm|maxnreg|maxclusterrank|cluster_max_blocks)",\s*([^,}]*)'
)
"""A launch attribute in the older form of an annotation; LLVM converts it to an attribute."""


def _annotations(ir: str) -> Iterator[Finding]:
    for match in re.finditer(_ANNOTATION, ir) if "!nvvm.annotations" in ir else ():
        value = re.fullmatch(r"i(?:32|64) ([0-9]+)", match[2].strip())
        if value is None or not 0 < int(value[1]) < 1 << 31:
            yield Finding(match.start(), f"'{match[1]}' annotation must be a positive number, got {match[2].strip()}")
