"""Decides whether the existing artifacts of a step may be kept: the one answer that SCons, watches and workers get."""

from __future__ import annotations

from collections.abc import Mapping

from tileiras import inputs
from tileiras.build.ledger.history import History, noted_inputs
from tileiras.build.step import Step, lie_there, read_beside
from tileiras.build.store.key import Keys, states_now
from tileiras.support.files import digest_if_there, read_if_there
from tileiras.support.named_tuple import NamedTuple

FAILED = "failed"
"""The outcome of a run with errors, with or without artifacts."""

_OF_FILES = ("beside", "locations", "inputs", "override")
"""Parts of a key that depend on files besides the input."""


class Staleness(NamedTuple):
    """The artifacts of a step compared with the record of its last run."""

    digests: Mapping[str, str] | None
    """Their digests by suffix if the step is up to date, else None."""
    damaged: str | None = None
    """An artifact whose content differs from the one that the same step wrote."""


def staleness(keys: Keys, history: History | None, step: Step) -> Staleness:
    """Whether the existing artifacts of a step are those that performing it would write.

    They are if the row of its last run has the step's key and the digests of their content, independent of their
    writer and of builds in between.
    """
    entry = history.entry(step.stem, step.stage.name) if history is not None else None
    data = read_if_there(step.input) if entry is not None else None
    if entry is None or data is None or not set(step.suffixes) <= entry.digests.keys():
        return Staleness(None)
    if entry.outcome == FAILED:  # errors are reported in every build
        return Staleness(None)
    parts = keys.parts(step, data, read_beside(step))
    if step.stage.reads_files:
        parts["inputs"] = inputs.states(states_now(step, noted_inputs(entry)))
    if parts != entry.parts:
        return Staleness(None)
    whole = True
    for suffix in step.suffixes:
        digest = digest_if_there(step.stem + suffix)
        if digest is not None and digest != entry.digests[suffix]:
            # An artifact of an earlier run, left by a killed build, does not count as damaged.
            is_earlier = digest in entry.earlier.get(suffix, ())
            return Staleness(None, None if is_earlier else step.stem + suffix)
        whole &= digest is not None
    if not whole:
        return Staleness(None)
    variant = keys.variant(step.stage, step.options)
    if entry.variant != variant and history is not None:
        history.set_variant(entry, variant)
    return Staleness({suffix: entry.digests[suffix] for suffix in step.suffixes})


def may_be_kept(keys: Keys, history: History | None, step: Step) -> bool:
    """Whether the artifacts of a step are valid provided that the files it reads are unchanged."""
    entry = history.entry(step.stem, step.stage.name) if history is not None else None
    if entry is None or not lie_there(step, entry.digests):
        return False
    now = keys.parts(step, b"", {})
    return all(now.get(name) == entry.parts.get(name) for name in {*now, *entry.parts} - {"input", *_OF_FILES})
