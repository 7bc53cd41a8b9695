"""Removal of artifacts whose kernel or entry no longer exists.

A build that has listed a folder of kernels and brought all of them up to date for one variant (target, level and
options) knows every artifact that belongs there.  It removes the other artifacts that history rows of the same variant
name for sources in that folder: those of a deleted source, or of an entry deleted from its source.  A file is removed
only if its content has a digest that a build recorded for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping

from tileiras import build, pipeline
from tileiras.build import NOTES
from tileiras.build.ledger import log
from tileiras.build.ledger.history import Entry, History, remove_empty_folders
from tileiras.build.run.execute import Session
from tileiras.diagnostics import plural
from tileiras.options import CompileOptions
from tileiras.stages import units
from tileiras.support.files import content_digest
from tileiras.support.named_tuple import NamedTuple

COMPLETE = os.path.join(NOTES, "complete.log")
"""In a build directory, by folder and then by variant: the digest of the kernels whose last build left no leftovers."""


class Evaluated(NamedTuple):
    """The kernels of one variant that a build evaluates."""

    folder: str | None
    """The absolute path of a folder that is evaluated completely, or None."""
    variant_folder: str
    """The folder of the variant's artifacts."""
    options: CompileOptions
    kernels: Mapping[str, tuple[str, Collection[str] | None]]
    """By the absolute path of the source: the stem of its artifacts, and its entries or None if unknown."""
    stems: Collection[str] | None = None
    """Absolute stems of sources to which the search is limited; None searches the whole folder of the variant."""


class Removed(NamedTuple):
    """The files removed, or to be removed, for one source or entry."""

    source: str
    entry: str | None
    """The entry's artifact name, None if the whole source is gone."""
    files: list[str]
    edited: list[str]
    """Files at the paths of artifacts with a content that no build wrote; they stay and are not reported again."""

    def __str__(self) -> str:
        subject = self.source if self.entry is None else f"entry {self.entry} of {self.source}"
        edits = f"; left {', '.join(map(os.path.relpath, self.edited))}, not as it was made" if self.edited else ""
        return f"{plural(len(self.files), 'artifact')} of {subject}, which is gone{edits}"


class Leftovers:
    """The artifacts in one build directory whose kernel or entry is gone."""

    def __init__(self, session: Session, is_made: Callable[[str], bool] = lambda path: False) -> None:
        """`is_made(path)`: whether this run builds the path, for any source."""
        assert session.history is not None
        self._session = session
        self._history: History = session.history
        self._is_made = is_made

    # ---- notes: folders without leftovers ----------------------------------------------------------------------------

    def are_none(self, evaluated: Evaluated) -> bool:
        """Whether the last build without leftovers had exactly these kernels."""
        return self.last_listing(evaluated) == listed(evaluated.kernels)

    def last_listing(self, evaluated: Evaluated) -> str | None:
        """The digest of the kernels in the last build of this folder and variant that ended without leftovers."""
        return self._notes(evaluated).get(self._variant(evaluated))

    def may_come(self, evaluated: Evaluated) -> None:
        """Call before a build that may create or leave artifacts of kernels or entries that the notes do not cover.

        Drops the notes of all variants: artifacts that this build leaves may be those of another variant.
        """
        if self._notes(evaluated):
            log.put(self._path, self._place(evaluated), None)

    def note(self, evaluated: Evaluated) -> None:
        """Call after a build that has removed all leftovers."""
        notes = {**self._notes(evaluated), self._variant(evaluated): listed(evaluated.kernels)}
        log.put(self._path, self._place(evaluated), notes)

    def _notes(self, evaluated: Evaluated) -> Mapping[str, str]:
        return log.Log(self._path).value(self._place(evaluated)) or {}

    @property
    def _path(self) -> str:
        return os.path.join(self._history.build, COMPLETE)

    def _place(self, evaluated: Evaluated) -> str:
        folders = (evaluated.variant_folder, evaluated.folder or "")
        return " ".join(map(self._history.relative, folders))

    def _variant(self, evaluated: Evaluated) -> str:
        return self._session.variant(pipeline.STAGES[-1], evaluated.options)

    # ---- removal -----------------------------------------------------------------------------------------------------

    def remove(self, evaluated: Evaluated, only_list: bool = False) -> list[Removed]:
        """Remove or list the leftovers in the folder of a variant; their history rows are deleted with them."""
        result: dict[tuple[str, str | None], Removed] = {}
        stems = self._stems(evaluated)
        for entry in list(self._rows(evaluated)):
            if entry.variant != self._session.variant(pipeline.stage(entry.stage), evaluated.options):
                continue
            path = self._history.absolute(entry.path)
            live = stems.get(path)
            removal = _Removal(self._history, self._is_made, only_list)
            if live is None:
                if path not in evaluated.kernels and _is_in(path, evaluated.folder) and not _is_kernel(path):
                    removal.of_row(entry, None)
            elif self._history.absolute(entry.stem) not in live:
                removal.of_row(entry, os.path.basename(entry.stem))
            else:
                removal.of_entries(entry, live)
            for removed in removal.done:
                row = result.setdefault(
                    (removed.source, removed.entry), Removed(removed.source, removed.entry, [], [])
                )
                row.files.extend(removed.files)
                row.edited.extend(removed.edited)
        for removed in result.values():
            removed.files.sort()
            removed.edited.sort()
        value = [removed for removed in result.values() if removed.files or removed.edited]
        return sorted(value, key=lambda removed: (removed.source, removed.entry or ""))

    def _stems(self, evaluated: Evaluated) -> dict[str, set[str]]:
        """The stems of every source whose entries are known, absolute."""
        stems = {}
        for path, (stem, entries) in evaluated.kernels.items():
            if entries is not None:
                stem = os.path.abspath(stem)
                stems[path] = {stem, *(os.path.join(stem, units.file_stem(name)) for name in entries)}
        return stems

    def _rows(self, evaluated: Evaluated) -> Iterable[Entry]:
        """The history rows that may name leftovers."""
        if evaluated.stems is None:
            yield from self._history.entries(self._history.relative(evaluated.variant_folder))
            return
        for stem in evaluated.stems:
            for row in pipeline.STAGES:
                entry = self._history.entry(stem, row.name) if row.unit == pipeline.FILE or row.reads_files else None
                if entry is not None:
                    yield entry
            yield from self._history.entries(self._history.relative(stem))


class _Removal:
    """Removes the leftovers that one row names; results are appended to `done`."""

    def __init__(self, history: History, is_made: Callable[[str], bool], only_list: bool) -> None:
        self._history = history
        self._is_made = is_made
        self._only_list = only_list
        self.done: list[Removed] = []

    def of_row(self, entry: Entry, unit: str | None) -> None:
        """Remove the artifacts that a row names, and the row; `unit` is their entry."""
        self._remove(entry, unit, _digests(entry))
        if not self._only_list:
            self._history.forget(entry)

    def of_entries(self, entry: Entry, live: Collection[str]) -> None:
        """Remove artifacts that a stage of a whole file wrote for entries no longer in the file."""
        result: dict[str, dict[str, list[str]]] = {}
        stage = pipeline.stage(entry.stage)
        for suffix, digests in _digests(entry).items():
            for own in (stage.suffix, stage.location_suffix) if suffix.startswith("/") else ():
                unit = suffix[1:].removesuffix(own)
                if suffix.endswith(own) and self._history.absolute(f"{entry.stem}/{unit}") not in live:
                    result.setdefault(unit, {})[suffix] = digests
                    break
        for unit, by_suffix in result.items():
            self._remove(entry, unit, by_suffix)
        if result and not self._only_list:
            self._history.forget_earlier(entry, [suffix for by_suffix in result.values() for suffix in by_suffix])

    def _remove(self, entry: Entry, unit: str | None, by_suffix: Mapping[str, Collection[str]]) -> None:
        """Remove files whose digest is among the recorded ones, and folders that become empty."""
        removed = Removed(entry.source, unit, [], [])
        for suffix, digests in by_suffix.items():
            path = self._history.absolute(entry.stem + suffix)
            try:
                if self._is_made(path):
                    continue
                if os.path.islink(path) or content_digest(path) not in digests:
                    removed.edited.append(path)
                    continue
                if not self._only_list:
                    os.unlink(path)
                    remove_empty_folders(os.path.dirname(path), self._history.build)
            except OSError:
                continue  # removed meanwhile
            removed.files.append(path)
        self.done.append(removed)


def _digests(entry: Entry) -> dict[str, list[str]]:
    """The present and earlier digests of a step's artifacts, by suffix."""
    result = {suffix: [digest] for suffix, digest in entry.digests.items()}
    for suffix, digests in entry.earlier.items():
        result[suffix] = [*result.get(suffix, ()), *digests]
    return result


def listed(kernels: Iterable[str]) -> str:
    """A digest of the kernels' paths."""
    import xxhash

    return xxhash.xxh3_128_hexdigest("\n".join(sorted(kernels)).encode())


def _is_in(path: str, folder: str | None) -> bool:
    return folder is not None and path.startswith(folder.rstrip(os.sep) + os.sep)


def _is_kernel(path: str) -> bool:
    """Whether the file exists and may be a kernel, even if the build did not treat it as one."""
    try:
        return os.path.isfile(path) and (not path.endswith(".py") or build.discover.exports(path))
    except OSError:
        return True
