"""The C header of kernels for a CPU: their parameters as structures, and their entries.

Members of a C structure lie where NAME.json has the parameters, each aligned to its size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SCALARS = {
    "i1": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "f32": "float", "f64": "double",
}  # fmt: skip
_SIZES = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}
"""Size in bytes -> type of the bits of scalars that C lacks."""

_WORDS = frozenset(
    """auto bool break case char class const continue default delete do double else enum extern false float for goto if
    inline int long namespace new operator private protected public register restrict return short signed sizeof static
    struct switch template this true try typedef union unsigned using virtual void volatile while""".split()
)
"""Words of C and C++ that are no names of parameters."""


def header(document: Mapping[str, Any]) -> str:
    """The text of NAME.h from the content of NAME.json."""
    kernels = document["kernels"]
    guard = f"TILEIRAS_{_identifier(kernels[0]['name'], 'kernels').upper()}_CPU_H"
    lines = [
        "/* Made by tileiras: do not edit. */", f"#ifndef {guard}", f"#define {guard}", "", "#include <stdbool.h>",
        "#include <stdint.h>", "", "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
    ]  # fmt: skip
    for number, kernel in enumerate(kernels):
        lines += [*_kernel(kernel, f"kernel{number}"), ""]
    return "\n".join([*lines, "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def _kernel(kernel: Mapping[str, Any], otherwise: str) -> list[str]:
    spelled = kernel["name"]
    name = _identifier(spelled, otherwise)
    # A symbol that is no name of C is declared under another one.
    symbol = "" if name == spelled else ' __asm__("' + spelled.replace("\\", "\\\\").replace('"', '\\"') + '")'
    lines = [f"/* The parameters of {name}. */", f"struct {name}_parameters {{"]
    names = _names(kernel)
    fields = [f"    {_typed(parameter)}{name};" for parameter, name in zip(kernel["parameters"], names)]
    lines += fields or ["    char none;"]
    lines += ["};", "", f"/* Bytes of memory that a thread which runs {name} has for itself, aligned to 64. */"]
    lines += [f"enum {{ {name}_scratch = {max(1, kernel['scratch'])} }};", ""]
    messages = [_comment(message["assert"]) for message in kernel["messages"]]
    lines += [
        "/* Runs `count` tile blocks of a grid from number `first` on, x fastest.  Ranges may run in several threads,",
        f" * each with its own scratch.  Returns 0{', or the number of an assertion that failed:' if messages else ''}",
        *(f" *     {each}  {text}" for each, text in enumerate(messages, 1)),
        " */",
        f"int32_t {name}(const void *parameters, const int32_t grid[3], int64_t first, int64_t count, void *scratch)"
        f"{symbol};",
    ]
    return lines


def _identifier(name: str, otherwise: str) -> str:
    """A name of C for a symbol: itself where it is one."""
    identifier = re.sub(r"\W", "_", name, flags=re.ASCII)
    return identifier if identifier == name and not identifier[0].isdigit() and identifier not in _WORDS else otherwise


def _names(kernel: Mapping[str, Any]) -> list[str]:
    """The names of the parameters; those that a source does not name are numbered."""
    numbered = re.compile(re.escape(kernel["name"]) + r"_param_\d+")
    return [
        f"p{number}" if numbered.fullmatch(each["name"]) else _identifier(each["name"], f"p{number}")
        for number, each in enumerate(kernel["parameters"])
    ]


def _typed(parameter: Mapping[str, Any]) -> str:
    """The beginning of a declaration."""
    pointer = re.fullmatch(r"ptr<(.*)>", parameter["type"])
    if pointer is not None:
        return f"{_SCALARS.get(pointer.group(1), 'void')} *"
    return f"{_SCALARS.get(parameter['type']) or _SIZES[parameter['size']]} "


def _comment(text: str) -> str:
    return " ".join(text.split()).replace("*/", "* /")
