"""Passes inside one level.  `lookup_pass("fuse-fma")` finds `FuseFMA` in `fuse_fma.py`: the name leads to the file."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

from tileiras.diagnostics import CompileError, ExitCode
from tileiras.ir import Pass

if TYPE_CHECKING:
    from tileiras.targets import Target


def lookup_pass(name: str) -> type[Pass]:
    """Raises CompileError (code 2) when there is no such pass."""
    module = f"tileiras.passes.{name.replace('-', '_')}"
    if name.replace("-", "_").isidentifier() and importlib.util.find_spec(module) is not None:
        for value in vars(importlib.import_module(module)).values():
            if isinstance(value, type) and issubclass(value, Pass) and value.name == name:
                return value
    raise CompileError.at(None, f"'{name}' does not refer to a registered pass; known: {', '.join(names())}",
                          ExitCode.CONFIGURATION)  # fmt: skip


def gpu_of(name: str, otherwise: str = "invalid or missing --compute-capability option") -> Target:
    """The target that an option `compute-capability` names; raises CompileError (code 5) for one that there is not."""
    from tileiras.targets import TARGETS

    found = TARGETS.get(name)
    if found is None:
        raise CompileError.at(None, f"{otherwise}: '{name}'")
    return found


def names() -> list[str]:
    """All passes, by their command-line names."""
    import pkgutil

    return sorted(info.name.replace("_", "-") for info in pkgutil.iter_modules(__path__))
