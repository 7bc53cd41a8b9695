"""Dependencies of a product as a rule for make: the files that compilers write for Make, Ninja, CMake and Meson."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tileiras.cli.outputs import STANDARD
from tileiras.options import OPTIONS, CompileOptions


def rule(products: Sequence[str], dependencies: Sequence[str]) -> bytes:
    """`products: dependencies`; files below the working directory are named from there, standard input is left out."""
    here = os.getcwd() + os.sep
    result, prerequisites = (
        " ".join(_escape(path.removeprefix(here)) for path in paths if path != STANDARD)
        for paths in (products, dict.fromkeys(dependencies))
    )
    return os.fsencode(f"{result}: {prerequisites}".rstrip() + "\n")


def option_files(options: CompileOptions) -> list[str]:
    """The files that options name, whose content a product depends on."""
    result: list[str] = []
    for option in OPTIONS.values():
        value = options[option.name] if option.local else None
        paths = (value,) if isinstance(value, str) else value if isinstance(value, (tuple, list)) else ()
        result += [path for path in paths if os.path.isfile(path)]
    return result


def _escape(path: str) -> str:
    """A path as make reads it in a rule: a backslash before spaces, `#` and backslashes, dollars twice."""
    for character in "\\ #":
        path = path.replace(character, "\\" + character)
    return path.replace("$", "$$")
