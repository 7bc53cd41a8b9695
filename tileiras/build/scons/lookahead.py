"""Prefetches from a team's server the rows that a build may need.

A stage's key depends on the output of the previous stage, so a chain of five stages needs five sequential replies.
Kernels are independent, however: all keys known at one time form a wave, which costs one round trip for any number of
kernels.  Received rows are put into the store; a miss ends its chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tileiras.build.run.execute import Session
from tileiras.build.step import Step
from tileiras.build.store.key import inputs_key, key_of
from tileiras.build.store.local import REFRESH, VERIFY, Record
from tileiras.build.store.schema import INPUTS
from tileiras.support.files import read_if_there

AT_ONCE = 1000
"""Chains whose artifacts are held in memory at the same time."""


def look_ahead(session: Session, steps: Sequence[Step]) -> None:
    """Fetch into the store the server's rows that the steps of a build would look up one by one.

    `steps` are in an order in which they can be performed.  Writes no artifact, and does not raise for failures of the
    server.
    """
    store = session.store
    if store.remote is None or store.remote.failure is not None or store.mode in (REFRESH, VERIFY):
        return
    makers = {output: step for step in steps for output in step.outputs}
    followers: dict[int, list[Step]] = {}
    first: list[Step] = []
    for step in steps:
        maker = makers.get(step.input)
        if maker is None:
            first.append(step)
        else:
            followers.setdefault(id(maker), []).append(step)
    for start in range(0, len(first), AT_ONCE):
        _Waves(session, followers).run(first[start : start + AT_ONCE])


class _Waves:
    """The waves of some chains."""

    def __init__(self, session: Session, followers: dict[int, list[Step]]) -> None:
        self._session = session
        self._followers = followers
        self._contents: dict[str, bytes] = {}
        """Path -> content of the artifacts in the store, as a build would write them."""
        self._listed: set[int] = set()
        """Steps whose row of inputs has been requested."""

    def run(self, ready: list[Step]) -> None:
        while ready and self._session.store.remote is not None and self._session.store.remote.failure is None:
            keys: dict[str, list[Step]] = {}
            following: list[Step] = []
            for step in ready:
                following += self._step(step, keys)
            rows = self._session.store.fetch_ahead(list(keys))
            for key, result in keys.items():
                for step in result:
                    following += self._take(step, key, rows.get(key))
            ready = following

    def _step(self, step: Step, keys: dict[str, list[Step]]) -> Iterable[Step]:
        """Add the key to request for a step; return the next steps if its artifacts are already valid."""
        session = self._session
        if step.input not in self._contents and session.staleness(step).digests is not None:
            return self._followers.get(id(step), ())
        data = self._read(step.input)
        if data is None:
            return ()
        beside = {suffix: content for suffix, path in step.beside.items() if (content := self._read(path)) is not None}
        parts = session.parts(step, data, beside, self._read)
        key = key_of(step.stage.name, parts)
        if step.stage.reads_files and id(step) not in self._listed:
            self._listed.add(id(step))
            keys.setdefault(inputs_key(key), []).append(step)
            return ()
        full = session.with_inputs(step, key, parts, ask=False)
        if full is not None:
            keys.setdefault(full, []).append(step)
        return ()

    def _read(self, path: str) -> bytes | None:
        entry = self._contents.get(path)
        return entry if entry is not None else read_if_there(path)

    def _take(self, step: Step, key: str, row: bytes | None) -> Iterable[Step]:
        """Return the steps that a received row makes available."""
        if row is None:
            return ()
        if step.stage.reads_files and key.endswith(INPUTS):
            return (step,)
        try:
            record = Record.from_bytes(row)
        except ValueError:
            return ()  # reported when the build performs the step
        if any(suffix not in record.artifacts for suffix in step.suffixes):
            return ()
        self._contents.update((step.stem + suffix, record.artifacts[suffix]) for suffix in step.suffixes)
        return self._followers.get(id(step), ())
