"""One kernel of a cuTile Python file with other values of its `ct.Constant` parameters than TILEIRAS_EXPORT gives it,
for sweeps over tile sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.diagnostics import CompileError, ExitCode
from tileiras.stages import StageContext, StageOptions
from tileiras.support.named_tuple import NamedTuple

from . import PROCESS, Place, _export_lines, _imported, _parameter_names, _requests, export_requests, load_front_end
from .signatures import slot_names

if TYPE_CHECKING:
    from cuda.tile.compilation import KernelSignature

Constant = bool | int | float


class Variants(NamedTuple):
    """A kernel as the file exports it, and with other constants."""

    constants: dict[str, Constant]
    """Of the kernel as the file exports it, by the names of its parameters."""
    slots: list[str]
    """The names of the compiled kernel's parameters (`signatures.slot_names`); empty if unknown."""
    made: list[bytes | CompileError]
    """For each row of constants the bytecode, or why the front end does not export it."""


def export(
    source: bytes, options: StageOptions, context: StageContext, entry: str, rows: Sequence[Mapping[str, Constant]]
) -> Variants:
    """The kernel `entry` of the file with the text `source`, once for each row: name -> value of the constants that
    the row replaces.

    Raises CompileError: the errors of reading the file, and with code 2, at the kernel's place in TILEIRAS_EXPORT, for
    a kernel that is not exported, an unknown constant, and a value of another type.
    """
    load_front_end()
    place = Place(source, context)
    with PROCESS, _imported(place) as namespace:
        lines = _export_lines(place.text)
        at = lines.get(entry, lines.get(None, (1, 1)))
        for kernel, signatures, _ in _requests(namespace, place):
            for signature in signatures:
                if signature.symbol == entry:
                    return _variants(kernel, signature, place, options, lines, at, rows)
    raise _wrong(place, at, f"the file exports no kernel '{entry}'")


def _variants(
    kernel: Any, signature: KernelSignature, place: Place, options: StageOptions,
    lines: Mapping[str | None, tuple[int, int]], at: tuple[int, int], rows: Sequence[Mapping[str, Constant]],
) -> Variants:  # fmt: skip
    names = _parameter_names(kernel) or []
    own = {name: each.value for name, each in zip(names, signature.parameters)
           if isinstance(getattr(each, "value", None), (bool, int, float))}  # fmt: skip
    variants: list[bytes | CompileError] = []
    for row in rows:
        changed = _change(signature, names, own, {name: _value(name, value, own, place, at, signature.symbol)
                                                   for name, value in row.items()})  # fmt: skip
        try:
            variants.append(export_requests([(kernel, [changed], signature.symbol)], options, place, lines))
        except CompileError as error:
            variants.append(error)
    slots = slot_names(names, signature.parameters) if names else None
    return Variants(own, slots or [], variants)


def _change(
    signature: KernelSignature, names: Sequence[str], own: Mapping[str, Constant], values: Mapping[str, Constant]
) -> KernelSignature:
    """The signature with other constants."""
    from cuda.tile import compilation

    parameters = [values.get(name, own[name]) if name in own else each
                  for name, each in zip(names, signature.parameters)]  # fmt: skip
    return compilation.KernelSignature(parameters, signature.calling_convention, signature.symbol)


def _value(
    name: str, value: Constant, own: Mapping[str, Constant], place: Place, at: tuple[int, int], entry: str
) -> Constant:
    """A value as one of the type that the constant has in the file."""
    if name not in own:
        names = ", ".join(own) or "none"
        raise _wrong(place, at, f"'{entry}' has no constant '{name}'; its constants are: {names}")
    kind = type(own[name])
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise _wrong(place, at, f"constant '{name}' of '{entry}' is of type {kind.__name__}, which {value!r} is not")
    return value


def _wrong(place: Place, at: tuple[int, int], message: str) -> CompileError:
    return CompileError.at(place.location(place.path, *at), message, ExitCode.CONFIGURATION)
