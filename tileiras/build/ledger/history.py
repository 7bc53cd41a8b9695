"""Records the last run of each step of a build directory: which artifacts may be kept, and why a stage ran again.

There is one small log for the steps of a file or of an entry, and one per version of the compiler's code.  A row holds
the parts of the step's key and the digests of its artifacts.  It is written before the artifacts and remains valid
afterwards: an artifact may be kept if its content and the step's key match the row, independent of its writer and its
time.  If its row is absent or damaged, a step is performed again.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tileiras.build import NOTES
from tileiras.build.ledger import log
from tileiras.build.ledger.log import Log
from tileiras.inputs import Input, with_title
from tileiras.support.named_tuple import NamedTuple

SAME_KEY = "the key was the same: an artifact was missing or had been changed"

FOLDER = os.path.join(NOTES, "steps")
"""The folder of logs in a build directory; hidden, to be distinct from artifacts."""

SUFFIX = ".log"
"""Appended to a stem, for the log of its steps."""

ELSEWHERE = ".elsewhere"
"""Subfolder of FOLDER for the rows of stage builders whose targets are outside the build directory."""

MODULES = "modules"
"""Key of the row of a log of a fingerprint."""

EARLIER = 4
"""Number of digests of earlier runs that are kept for one artifact."""


class Entry(NamedTuple):
    """The last run of one step: `before` are the parts of the run before it, None for the first."""

    stem: str
    """Relative to the build directory."""
    stage: str
    source: str
    """The name of the source in messages."""
    path: str
    """The source's file, relative to the build directory."""
    variant: str
    """A digest of the options that this stage and those before it read; see `Session.variant`."""
    outcome: str
    parts: dict[str, Any]
    before: dict[str, Any] | None
    digests: dict[str, str]
    """The digests of the artifacts by suffix; empty after a failure."""
    earlier: dict[str, list[str]]
    """Digests of the artifacts of earlier runs, also for suffixes absent from this run."""
    seconds: float | None
    """The duration of the stage run that made the artifacts, if it was recorded."""
    time: float
    """When the step last ran, in seconds since the epoch."""


def noted_inputs(entry: Entry) -> tuple[Input, ...]:
    """Return the inputs that a stage read besides its input file in its last run, with their states at that time."""
    states = entry.parts.get("inputs")
    result = []
    for title, state in states.items() if isinstance(states, dict) else ():
        with contextlib.suppress(ValueError):
            result.append(with_title(title, str(state)))
    return tuple(result)


class History:
    """The records of one build directory; read-only without `noting`."""

    def __init__(self, build: str, noting: bool = True) -> None:
        self.build = os.path.abspath(build)
        self._noting = noting
        self.folder = os.path.join(self.build, FOLDER)
        self._known_code: set[str] = set()

    def add(
        self,
        stem: str,
        stage: str,
        source: str,
        path: str,
        variant: str,
        outcome: str,
        parts: Mapping[str, Any],
        digests: Mapping[str, str],
        seconds: float | None = None,
    ) -> None:
        """Record a run, replacing the row of the previous run.  `stem` and `path` may be relative to the working
        directory; `seconds` is the duration of the stage."""
        last = self.entry(stem, stage)
        before = last.parts if last is not None else None
        earlier = _earlier(last, digests) if last is not None else {}
        self._put(Entry(
            self.relative(stem), stage, source, self.relative(path), variant, outcome, {**parts}, before, {**digests},
            earlier, seconds, time.time(),
        ))  # fmt: skip

    def set_variant(self, entry: Entry, variant: str) -> None:
        """Record that the artifacts of a row are also valid for another variant, which replaces the row's."""
        self._put(entry._replace(variant=variant))

    def relative(self, path: str) -> str:
        return os.path.relpath(os.path.abspath(path), self.build).replace(os.sep, "/")

    def absolute(self, name: str) -> str:
        return os.path.normpath(os.path.join(self.build, name))

    def _log_path(self, stem: str) -> str:
        name = self.relative(stem)
        if name.split("/")[0] == os.pardir:
            import xxhash

            name = f"{ELSEWHERE}/{xxhash.xxh3_64_hexdigest(name.encode())}"
        return os.path.join(self.folder, name + SUFFIX)

    def _put(self, entry: Entry) -> None:
        if self._noting:
            log.put(self._log_path(self.absolute(entry.stem)), entry.stage, entry)

    def knows_code(self, fingerprint: str) -> bool:
        if fingerprint not in self._known_code and os.path.isfile(self._code_path(fingerprint)):
            self._known_code.add(fingerprint)
        return fingerprint in self._known_code

    def add_code(self, fingerprint: str, digests: Mapping[str, str]) -> None:
        """Store the module digests of a fingerprint, to identify the edited module later."""
        self._known_code.add(fingerprint)
        if self._noting:
            log.put(self._code_path(fingerprint), MODULES, digests)

    def entries(self, below: str = "") -> Iterator[Entry]:
        """Yield all steps, or those with stems in a folder of the build directory, sorted by stem."""
        for folder, folders, files in os.walk(os.path.join(self.folder, below)):
            folders.sort()
            for name in sorted(files):
                if name.endswith(SUFFIX):
                    steps = Log(os.path.join(folder, name))
                    yield from filter(None, (_entry(steps, stage) for stage in sorted(steps.keys())))

    def entry(self, stem: str, stage: str) -> Entry | None:
        """Return the last run of one step; None if it is unknown."""
        return _entry(Log(self._log_path(stem)), stage)

    def forget(self, entry: Entry) -> None:
        """Remove the row of a step, and the folders that become empty."""
        path = self._log_path(self.absolute(entry.stem))
        log.put(path, entry.stage, None)
        if not Log(path).keys():
            with contextlib.suppress(OSError):
                os.unlink(path)
            remove_empty_folders(os.path.dirname(path), self.folder)

    def forget_earlier(self, entry: Entry, suffixes: Iterable[str]) -> None:
        """Remove the digests of earlier artifacts with the given suffixes from a row."""
        drop = set(suffixes)
        earlier = {suffix: digests for suffix, digests in entry.earlier.items() if suffix not in drop}
        self._put(entry._replace(earlier=earlier))

    def differences(self, entry: Entry) -> list[str]:
        """List the differences between an entry's key and the previous one; empty if the keys are equal."""
        if entry.before is None:
            return ["the first time in this build directory"]
        lines = []
        for name in sorted({*entry.parts, *entry.before}):
            old, new = entry.before.get(name), entry.parts.get(name)
            if old == new:
                continue
            if name == "code":
                lines += self._code_differences(str(old), str(new))
            elif isinstance(old, dict) and isinstance(new, dict):
                for item in sorted({*old, *new}):
                    if old.get(item) != new.get(item):
                        lines.append(f"{name}: {item}: {old.get(item, 'absent')} -> {new.get(item, 'absent')}")
            elif name in ("source name", "input", "locations"):
                lines.append({"input": "the input's bytes", "locations": "the lines of the source"}.get(name, name))
            else:
                lines.append(f"{name}: {old} -> {new}")
        return lines

    def _code_differences(self, old: str, new: str) -> list[str]:
        before, after = (Log(self._code_path(code)).value(MODULES) for code in (old, new))
        if not before or not after:
            return ["the stage's code"]
        changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
        return [f"the stage's code: {name}" for name in changed]

    def _code_path(self, fingerprint: str) -> str:
        return os.path.join(self.folder, ".code", fingerprint)


def _entry(steps: Log, stage: str) -> Entry | None:
    """The row of one step; None if it is absent."""
    row = steps.value(stage)
    return Entry(*row) if row is not None else None


def _earlier(last: Entry, current: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the digests of earlier artifacts to remember: the present artifact may be of the last run or an earlier
    one."""
    earlier = {suffix: [*digests] for suffix, digests in last.earlier.items()}
    for suffix, digest in last.digests.items():
        digests = earlier.setdefault(suffix, [])
        if digest not in digests:
            digests.append(digest)
    for suffix, digests in earlier.items():
        earlier[suffix] = [digest for digest in digests if digest != current.get(suffix)][-EARLIER:]
    return {suffix: digests for suffix, digests in earlier.items() if digests}


def remove_empty_folders(folder: str, top: str) -> None:
    """Remove an empty folder, and its ancestors below `top` that become empty."""
    while folder.startswith(top + os.sep):
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)
