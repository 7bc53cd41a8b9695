"""What every step of a build directory last made, and of what: which artifacts may be kept, and why a stage ran again.

One small file a step below `BUILD/.tileiras/keys`, and one a version of the compiler's code.  A row holds what the
step's key was made of and the digests of the artifacts that it gave.  It is written before the artifacts, and is true
whatever happens afterwards: an artifact may be kept when its content and the step's key are those of the row,
regardless of who wrote it and when.  Without its row, or with a damaged one, a step is performed again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tileiras.build import NOTES
from tileiras.files import read_json_object, write_atomically
from tileiras.inputs import Input, with_title
from tileiras.named_tuple import NamedTuple

SAME_KEY = "the key was the same: an artifact was missing or had been changed"

FOLDER = os.path.join(NOTES, "keys")
"""In a build directory; its name is hidden so that nobody takes it for artifacts."""

ELSEWHERE = ".elsewhere"
"""In that folder: the rows of stage builders whose targets are outside the build directory."""

EARLIER = 4
"""Digests that are kept of what earlier runs gave for one artifact."""


def key_of(version: int, parts: Mapping[str, Any]) -> str:
    """The digest that names what a step made; equal parts give equal keys on every machine."""
    import xxhash

    return xxhash.xxh3_128_hexdigest(f"tileiras action {version}\n{json.dumps(parts, sort_keys=True)}".encode())


class Entry(NamedTuple):
    """The last run of one step: `before` are the parts of the run before it, None for the first."""

    stem: str
    """Relative to the build directory."""
    stage: str
    source: str
    """What messages call the source."""
    path: str
    """The source's file, relative to the build directory."""
    variant: str
    """A digest of the options that this stage and those before it read; see `Session.variant`."""
    outcome: str
    parts: dict[str, Any]
    before: dict[str, Any] | None
    made: dict[str, str]
    """The digests of the artifacts by suffix; empty after a failure."""
    earlier: dict[str, list[str]]
    """Digests of what earlier runs gave, also under suffixes that this run has not."""


def noted_inputs(entry: Entry) -> tuple[Input, ...]:
    """What a stage read besides its input when it last ran, with the states of then."""
    noted = entry.parts.get("inputs")
    found = []
    for title, state in noted.items() if isinstance(noted, dict) else ():
        with contextlib.suppress(ValueError):
            found.append(with_title(title, str(state)))
    return tuple(found)


class History:
    """The records of one build directory; without `noting` they are only read."""

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
        made: Mapping[str, str],
        seconds: float | None = None,
    ) -> None:
        """Notes a run, in the row of the run before it.  `stem` and `path` may be relative to the working directory,
        `seconds` is what the stage takes."""
        file = self._row_path(stem, stage)
        last = read_json_object(file)
        row = {
            "stem": self.relative(stem),
            "stage": stage,
            "source": source,
            "path": self.relative(path),
            "variant": variant,
            "outcome": outcome,
            "parts": parts,
            "before": last.get("parts"),
            "made": made,
            "earlier": _earlier(last, made),
            "seconds": seconds,
        }
        self._write(file, row)

    def set_variant(self, entry: Entry, variant: str) -> None:
        """Notes that what a row tells of was found to be as another variant needs it."""
        self._write(self._row_path(self.absolute(entry.stem), entry.stage), {**entry._asdict(), "variant": variant})

    def relative(self, path: str) -> str:
        return os.path.relpath(os.path.abspath(path), self.build).replace(os.sep, "/")

    def absolute(self, name: str) -> str:
        return os.path.normpath(os.path.join(self.build, name))

    def _row_path(self, stem: str, stage: str) -> str:
        name = self.relative(stem)
        if name.split("/")[0] == os.pardir:
            import xxhash

            name = f"{ELSEWHERE}/{xxhash.xxh3_64_hexdigest(name.encode())}"
        return os.path.join(self.folder, f"{name}.{stage}.json")

    def knows_code(self, fingerprint: str) -> bool:
        if fingerprint not in self._known_code and os.path.isfile(self._code_path(fingerprint)):
            self._known_code.add(fingerprint)
        return fingerprint in self._known_code

    def add_code(self, fingerprint: str, digests: Mapping[str, str]) -> None:
        """Keeps what a fingerprint is made of, to name the module that an edit was in."""
        self._known_code.add(fingerprint)
        self._write(self._code_path(fingerprint), digests)

    def entries(self, below: str = "") -> Iterator[Entry]:
        """All steps, or those whose stems are in a folder of the build directory, by file and in no order of stages."""
        for folder, folders, files in os.walk(os.path.join(self.folder, below)):
            folders.sort()
            for name in sorted(files):
                entry = _entry(os.path.join(folder, name)) if name.endswith(".json") else None
                if entry is not None:
                    yield entry

    def noted(self, entry: Entry) -> float:
        """When the step was last performed, in seconds since the epoch; 0 without its row."""
        try:
            return os.stat(self._row_path(self.absolute(entry.stem), entry.stage)).st_mtime
        except OSError:
            return 0.0

    def seconds(self, entry: Entry) -> float | None:
        """What running the stage took when what lies there was made; None where that was not noted."""
        found = read_json_object(self._row_path(self.absolute(entry.stem), entry.stage)).get("seconds")
        return found if isinstance(found, float) else None

    def entry(self, stem: str, stage: str) -> Entry | None:
        """The last run of one step, when it is known."""
        return _entry(self._row_path(stem, stage))

    def forget(self, entry: Entry) -> None:
        """Removes the row of a step, and the folders that it leaves empty."""
        path = self._row_path(self.absolute(entry.stem), entry.stage)
        with contextlib.suppress(OSError):
            os.unlink(path)
        remove_empty_folders(os.path.dirname(path), self.folder)

    def forget_earlier(self, entry: Entry, suffixes: Iterable[str]) -> None:
        """Removes from a row what it knows of earlier artifacts under some suffixes."""
        earlier = {suffix: digests for suffix, digests in entry.earlier.items() if suffix not in set(suffixes)}
        self._write(self._row_path(self.absolute(entry.stem), entry.stage), {**entry._asdict(), "earlier": earlier})

    def differences(self, entry: Entry) -> list[str]:
        """What of an entry's key was not as before, a line each; none when it was the same key."""
        if entry.before is None:
            return ["never built before in this build directory"]
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
        before, after = read_json_object(self._code_path(old)), read_json_object(self._code_path(new))
        if not before or not after:
            return ["the stage's code"]
        changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
        return [f"the stage's code: {name}" for name in changed]

    def _code_path(self, fingerprint: str) -> str:
        return os.path.join(self.folder, ".code", fingerprint)

    def _write(self, path: str, row: Mapping[str, Any]) -> None:
        if not self._noting:
            return
        try:
            write_atomically(path, json.dumps(row, sort_keys=True).encode(), checked=True)
        except OSError:
            pass  # A build directory that cannot be written is told of by the stage itself.


def _entry(path: str) -> Entry | None:
    """The row in a file; None without one, and for one that is damaged or of another version."""
    row = read_json_object(path)
    if not set(Entry._fields) <= row.keys():
        return None
    if not all(isinstance(row[name], dict) for name in ("parts", "made", "earlier")):
        return None
    return Entry(*(row[field] for field in Entry._fields))


def _earlier(last: Mapping[str, Any], made: Mapping[str, str]) -> dict[str, list[str]]:
    """What is to be remembered of earlier artifacts: an artifact may lie there still, of this run or one before."""
    given, known = last.get("made"), last.get("earlier")
    found: dict[str, list[str]] = {}
    if isinstance(known, dict):
        found = {suffix: [*digests] for suffix, digests in known.items() if isinstance(digests, list)}
    for suffix, digest in given.items() if isinstance(given, dict) else ():
        digests = found.setdefault(suffix, [])
        if digest not in digests:
            digests.append(digest)
    for suffix, digests in found.items():
        found[suffix] = [digest for digest in digests if digest != made.get(suffix)][-EARLIER:]
    return {suffix: digests for suffix, digests in found.items() if digests}


def remove_empty_folders(folder: str, top: str) -> None:
    """Removes a folder that is empty, and those above it that become so, below `top`."""
    while folder.startswith(top + os.sep):
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)
