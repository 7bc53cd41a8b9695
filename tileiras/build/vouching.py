"""What a build need not look at, because the monitor has seen that nobody touched it.

Beside a manifest lies its token: a moment of one monitor (see `tileiras.fsmonitor`), and the digest of the manifest
that a build wrote or found to be right after that moment.  While the monitor is the same, the files of that manifest,
and of no other one, are as its rows say unless the monitor names them.  A build therefore asks before it looks at any
file, and notes that answer's moment when it has compared everything that can have changed since the last one.

Whatever a token has besides decides whether a tree has to be listed: what it was declared for, and what was found.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence

from tileiras.build import NOTES
from tileiras.build.manifest import Manifest
from tileiras.build.tuned import SUFFIX as TUNED
from tileiras.files import read_json_object, write_atomically
from tileiras.fsmonitor import client
from tileiras.named_tuple import NamedTuple
from tileiras.units import PYTHON, SUFFIXES

FORMAT = 2

SUFFIX = ".token"

SEEN = (*SUFFIXES, TUNED)
"""Files in a folder of kernels whose content decides about what is built; of the others, it is their being there."""

MARKS = ("SConstruct",)
"""Files that make a folder no part of the tree."""


class Token(NamedTuple):
    """A note beside a manifest."""

    epoch: str
    number: int
    signatures: dict[str, str]
    """By the first stage of its kernels, the signature of all rows; empty where the tree has to be listed anyway."""
    listed: str
    """A digest of the kernels."""
    reads: dict[str, list[list[str]]] = {}
    """What the modules of kernels read besides the tree, by source, as rows of the manifest have it."""


def read(manifest: Manifest) -> Token | None:
    """The token of this very manifest."""
    found = read_json_object(manifest.path + SUFFIX)
    try:
        if found["format"] == FORMAT and manifest.digest and found["manifest"] == manifest.digest:
            signatures, reads = dict(found["signatures"]), dict(found["reads"])
            return Token(found["epoch"], int(found["number"]), signatures, found["listed"], reads)
    except (KeyError, TypeError, ValueError):
        pass
    return None


def write(manifest: Manifest, token: Token) -> None:
    """Notes that the manifest holds since a moment."""
    stored = {"format": FORMAT, "manifest": manifest.digest, **token._asdict()}
    try:
        write_atomically(manifest.path + SUFFIX, json.dumps(stored).encode(), checked=True)
    except OSError:
        pass  # the next build looks at everything


class Vouching:
    """The answer for one tree: its folder and the build directory, both absolute."""

    def __init__(self, folder: str, build: str, tokens: Sequence[Token | None]) -> None:
        since: dict[str, int] = {}
        for token in tokens:
            if token is not None:
                since[token.epoch] = min(token.number, since.get(token.epoch, token.number))
        self._folder, self._build = folder, build
        self._roots = os.path.realpath(folder), os.path.realpath(build)
        self._since = since
        self.answer = self.ask()

    def ask(self) -> client.Answer | None:
        """What the monitor says; also asked in vain, it watches from then on."""
        notes = os.path.join(self._roots[1], NOTES)
        return client.ask(notes, [(self._roots[0], SEEN), (self._roots[1], ())], self._since)

    def changed(self, token: Token | None) -> list[str] | None:
        """The files that can have changed since a token was written, as absolute paths; None for all."""
        answer = self.answer
        if token is None or answer is None or answer.changed is None or token.epoch != answer.epoch:
            return None
        return [self._named(path) for path, number in sorted(answer.changed.items()) if number > token.number]

    def _named(self, path: str) -> str:
        """A real path as the build has it.  A folder of kernels may be inside the build directory, or around it."""
        for root, own in sorted(zip(self._roots, (self._folder, self._build), strict=True), reverse=True):
            if path.startswith(root + os.sep):
                return own + path[len(root) :]
        return path


def is_of_tree(path: str, folder: str) -> bool:
    """Whether a file can be one that decides which kernels a folder has."""
    name = os.path.basename(path)
    return path.startswith(folder + os.sep) and (name.endswith(SEEN) or name in MARKS)


def is_text(path: str) -> bool:
    """Whether there is a file that is a kernel by its name, whatever is in it."""
    try:
        kind = SUFFIXES.get(os.path.splitext(path)[1])
        return kind is not None and kind != PYTHON and stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False
