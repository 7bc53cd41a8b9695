"""Inputs that a stage reads besides its input file: their rows in the store, and their current states."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tileiras import inputs
from tileiras.build.step import Step
from tileiras.build.store.local import ArtifactStore
from tileiras.build.store.schema import INPUTS, OWN_INPUTS
from tileiras.inputs import Input
from tileiras.support.files import read_if_there


def inputs_key(key: str) -> str:
    """Return the key of the rows of inputs that a step read besides its input file."""
    return key + INPUTS


def stored_inputs(store: ArtifactStore, step: Step, key: str, ask: bool) -> tuple[Input, ...] | None:
    """Return the stored rows of a key's inputs; None if they are absent or must not be looked up."""
    own = store.get(key + OWN_INPUTS)
    stored = own if own is not None else store.fetch(inputs_key(key), ask)
    try:
        rows = inputs.parse(stored) if stored is not None else None
    except ValueError:
        return None  # written by another program
    if rows is None or own is not None:
        return rows
    source = read_if_there(step.source_path)
    return rows if source is not None and inputs.confinement.admits(rows, _folder(step), source) else None


def states_now(step: Step, rows: Iterable[Input]) -> tuple[Input, ...]:
    """Return the rows of a stage's further inputs with their current states."""
    return tuple(inputs.kinds.now(rows, _folder(step)))


def _folder(step: Step) -> str:
    """Return the folder to which file names in rows of inputs are relative."""
    return os.path.dirname(os.path.realpath(step.source_path))
