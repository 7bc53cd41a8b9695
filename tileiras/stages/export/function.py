"""Kernels that a program has as functions, in a cell of a notebook or a module, without a file that lists them.

The front end takes a function's text from `linecache`, where notebooks put their cells.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tileiras.diagnostics import CompileError, with_lines
from tileiras.stages import StageContext, StageOptions
from tileiras.stages.export import PROCESS, Place, checked_signature, export_requests, load_front_end
from tileiras.support.named_tuple import NamedTuple


class Exported(NamedTuple):
    """Bytecode, and the text that its places are in: a file, or a cell."""

    bytecode: bytes
    name: str
    text: str


def export(
    kernel: Any,
    signature: str | Mapping[str, Sequence[int | str]] | Sequence[int | str],
    options: StageOptions,
    name: str | None = None,
) -> Exported:
    """A function, with or without `@ct.kernel`, as bytecode.

    `signature` has the form of the parameters in TILEIRAS_EXPORT, for a kernel of the function's name, or is a
    dictionary from kernel names to such.  `name` replaces the text's path from the working directory in messages.

    Raises CompileError: code 2 without the front end, 3 for mistakes in the function or the signature.  Raises
    TypeError if `kernel` is not a function.
    """
    load_front_end()
    import cuda.tile as ct

    if not isinstance(kernel, ct.kernel):
        if not hasattr(kernel, "__code__"):
            raise TypeError(f"a kernel is a Python function, not {type(kernel).__name__}")
        kernel = ct.kernel(kernel)
    function = kernel._pyfunc
    file = function.__code__.co_filename
    text = "".join(linecache.getlines(file, function.__globals__))
    context = StageContext(source_name=name or _name(file), source_path=file)
    place = Place(text.encode(), context)
    at = (function.__code__.co_firstlineno, 1)
    try:
        data = _bytecode(kernel, signature, options, place, at)
    except CompileError as error:
        error.diagnostics = with_lines(error.diagnostics, place.name, text)
        raise
    return Exported(data, place.name, text)


def _bytecode(
    kernel: Any,
    signature: str | Mapping[str, Sequence[int | str]] | Sequence[int | str],
    options: StageOptions,
    place: Place,
    at: tuple[int, int],
) -> bytes:
    by_name = signature if isinstance(signature, Mapping) else {kernel._pyfunc.__name__: signature}
    if not by_name:
        raise place.error(*at, "a dictionary of signatures has at least one")
    with PROCESS:
        signatures = [checked_signature(key, kernel, _parameters(value), place, at) for key, value in by_name.items()]
        first = next(iter(by_name))
        return export_requests([(kernel, signatures, first)], options, place, {first: at})


def _parameters(signature: str | Sequence[int | str]) -> tuple:
    """A signature of one parameter may stand for itself."""
    return tuple(signature) if isinstance(signature, (tuple, list)) else (signature,)


def _name(file: str) -> str:
    """A file's path from the working directory where it lies below that, else its bare name, as that of a cell."""
    below = os.path.relpath(file) if os.path.isfile(file) else os.pardir
    return os.path.basename(file) if below.startswith(os.pardir) else below.replace(os.sep, "/")
