"""What the keys of the last run of every step were made of, so that one can say why a stage ran again.

One small file a step below `BUILD/.tileiras/keys`, and one a version of the compiler's code.  Nothing here decides
about a build: a file that is missing or damaged only makes an answer poorer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from tileiras.files import read_json_object, write_atomically
from tileiras.named_tuple import NamedTuple

SAME_KEY = "the key was the same: an artifact was missing or had been changed"

FOLDER = os.path.join(".tileiras", "keys")
"""In a build directory; its name is hidden so that nobody takes it for artifacts."""


def key_of(version: int, parts: Mapping[str, Any]) -> str:
    """The digest that names what a step made; equal parts give equal keys on every machine."""
    import xxhash

    return xxhash.xxh3_128_hexdigest(f"tileiras action {version}\n{json.dumps(parts, sort_keys=True)}".encode())


class Entry(NamedTuple):
    """The last run of one step: `before` are the parts of the run before it, None for the first."""

    stem: str
    stage: str
    source: str
    outcome: str
    parts: dict[str, Any]
    before: dict[str, Any] | None


class History:
    """The records of one build directory."""

    def __init__(self, build: str) -> None:
        self.build = os.path.abspath(build)
        self.folder = os.path.join(self.build, FOLDER)
        self._known_code: set[str] = set()

    def add(self, stem: str, stage: str, source: str, outcome: str, parts: Mapping[str, Any]) -> None:
        name = os.path.relpath(os.path.abspath(stem), self.build)
        if name.split(os.sep)[0] == os.pardir:
            return  # a stage builder whose target is elsewhere
        path = os.path.join(self.folder, f"{name}.{stage}.json")
        earlier = read_json_object(path)
        row = {
            "stem": name.replace(os.sep, "/"),
            "stage": stage,
            "source": source,
            "outcome": outcome,
            "parts": parts,
            "before": earlier.get("parts"),
        }
        self._write(path, row)

    def knows_code(self, fingerprint: str) -> bool:
        if fingerprint not in self._known_code and os.path.isfile(self._code_path(fingerprint)):
            self._known_code.add(fingerprint)
        return fingerprint in self._known_code

    def add_code(self, fingerprint: str, digests: Mapping[str, str]) -> None:
        """Keeps what a fingerprint is made of, to name the module that an edit was in."""
        self._known_code.add(fingerprint)
        self._write(self._code_path(fingerprint), digests)

    def entries(self) -> Iterator[Entry]:
        """All steps, by file name and in no order of stages."""
        for folder, folders, files in os.walk(self.folder):
            folders.sort()
            for name in sorted(files):
                row = read_json_object(os.path.join(folder, name)) if name.endswith(".json") else {}
                if set(Entry._fields) <= row.keys() and isinstance(row["parts"], dict):
                    yield Entry(*(row[field] for field in Entry._fields))

    def entry(self, stem: str, stage: str) -> Entry | None:
        """The last run of one step, when it is known."""
        name = os.path.relpath(os.path.abspath(stem), self.build)
        row = read_json_object(os.path.join(self.folder, f"{name}.{stage}.json"))
        return Entry(*(row[field] for field in Entry._fields)) if set(Entry._fields) <= row.keys() else None

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
        try:
            write_atomically(path, json.dumps(row, sort_keys=True).encode())
        except OSError:
            pass  # A build directory that cannot be written is told of by the stage itself.
