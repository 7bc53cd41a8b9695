"""Checks of the arguments of pseudo-builders: errors are reported with the line of the SConstruct."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

import SCons.Errors
import SCons.Node

from tileiras.build.scons import patches
from tileiras.build.scons.variables import BadVariable
from tileiras.diagnostics import CompileError

_MISPLACED = re.compile(r"(Directory|File) (.*) found where (?:file|directory) expected", re.DOTALL)
"""Message of SCons' TypeError for a path that already has a node of the other kind."""

_KINDS = {"Directory": ("folder", "file"), "File": ("file", "folder")}


def locate(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of pseudo-builders: wrong arguments are reported as SCons does for its own builders, with the message
    and the line of the SConstruct, without a traceback.

    BadVariable, CompileError and a call that does not match the signature become a UserError.
    """
    signature = inspect.signature(function)

    def checked(*arguments: Any, **keywords: Any) -> Any:
        try:
            try:
                signature.bind(*arguments, **keywords)
            except TypeError as error:
                raise BadVariable(str(error)) from None
            return function(*arguments, **keywords)
        except (BadVariable, SCons.Errors.UserError) as error:
            message, cause = str(error), error
        except CompileError as error:
            message, cause = error.render().removeprefix("error: "), error
        except OSError as error:
            message, cause = f"unable to read '{error.filename}': {error.strerror}", error
        except TypeError as error:
            misplaced = _MISPLACED.match(str(error))
            if misplaced is None:
                raise
            # It may be a user's file, so it is not removed.
            path, (there, due) = os.path.relpath(misplaced[2]), _KINDS[misplaced[1]]
            message, cause = f"{path} is a {there} where a {due} of the build is to be; move it away", error
        raise SCons.Errors.UserError(message) from cause

    patches.as_part_of_scons(checked)
    return functools.wraps(function)(checked)


def entry_names(value: Any) -> list[str] | None:
    """The kernels listed in `entries`; None for all."""
    if value is None:
        return None
    result = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    if not all(isinstance(item, str) for item in result):
        raise BadVariable(f"entries={value!r}: names of kernels are expected, in a list or with commas")
    return list(dict.fromkeys(name.strip() for name in result))


def path_or_node(name: str, value: Any) -> Any:
    """A path or an SCons node, unchanged; a list of one element is unpacked."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if not isinstance(value, (str, os.PathLike, SCons.Node.Node)):
        raise BadVariable(f"{name}: a path or a node is expected, not {value!r}")
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadVariable(f"{name}: a word is expected, not {value!r}")
    return value
