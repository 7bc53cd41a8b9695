"""Places of verdicts: from the lines of an artifact that a build checked to those of the user's source."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tileiras.diagnostics import Locatable
from tileiras.ir import FileLineColLoc, Operation

from .coverage import place
from .verdict import Verdict


def places_in(module: Operation, source: Operation) -> Callable[[str], Locatable | None]:
    """The location in `source` of a place in `module`, which is the same module read with other locations.

    A place outside of the module is a location in another file; the empty place has no location.
    """
    locations = {place(own): op.location for own, op in zip(module.walk(), source.walk(), strict=True)}

    def find(text: str) -> Locatable | None:
        if not text or text in locations:
            return locations.get(text)
        file, line, column = text.rsplit(":", 2)
        return FileLineColLoc(file, int(line), int(column))

    return find


def relocate(verdict: Verdict, find: Callable[[str], Locatable | None]) -> Verdict:
    """The verdict with the places that `find` gives."""

    def new(text: str) -> str:
        location = find(text)
        position = location.resolve() if location is not None else None
        return text if position is None else f"{position.filename}:{position.line}:{position.column}"

    return dataclasses.replace(
        verdict,
        findings=tuple(dataclasses.replace(each, location=new(each.location)) for each in verdict.findings),
        uncovered=tuple(each._replace(location=new(each.location)) for each in verdict.uncovered),
        location=new(verdict.location),
        order=_relocate(verdict.order, new),
    )


def _relocate(data: Any, new: Callable[[str], str]) -> Any:
    """Replace the places in JSON values."""
    if isinstance(data, dict):
        return {k: new(v) if k == "location" else _relocate(v, new) for k, v in data.items()}
    return [_relocate(each, new) for each in data] if isinstance(data, list) else data
