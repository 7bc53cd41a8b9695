"""The examples of the guides: patches in `docs/patches`, applied to a copy of the compiler."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tileiras.support.named_tuple import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FILE = re.compile(r"^--- (?:a/)?(\S+)\n\+\+\+ b/(\S+)\n", re.MULTILINE)
HUNK = re.compile(r"^@@ .*\n((?:[ +-].*\n)+)", re.MULTILINE)


class Change(NamedTuple):
    """One file of a patch."""

    path: str
    is_new: bool
    hunks: list[str]

    @property
    def added(self) -> int:
        return sum(line.startswith("+") for hunk in self.hunks for line in hunk.splitlines())

    def applied(self, text: str) -> str:
        """The file with all hunks, each at the only place of its context; raises ValueError where that is elsewhere."""
        for hunk in self.hunks:
            lines = hunk.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if line[0] != "+")
            after = "".join(line[1:] for line in lines if line[0] != "-")
            if not self.is_new and text.count(before) != 1:
                raise ValueError(f"{self.path}: {text.count(before)} places for\n{hunk}")
            text = after if self.is_new else text.replace(before, after)
        return text


def changes(name: str) -> list[Change]:
    """The files of `docs/patches/NAME.patch`."""
    _, *parts = FILE.split((ROOT / "docs/patches" / f"{name}.patch").read_text(encoding="utf-8"))
    triples = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return [Change(path, old == "/dev/null", HUNK.findall(text)) for old, path, text in triples]


def patched(name: str, folder: Path) -> Path:
    """A copy of the compiler in `folder`, with the patch."""
    shutil.copytree(ROOT / "tileiras", folder / "tileiras", ignore=shutil.ignore_patterns("__pycache__"))
    for change in changes(name):
        target = folder / change.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() and not change.is_new:
            shutil.copy(ROOT / change.path, target)
        target.write_text(change.applied("" if change.is_new else target.read_text(encoding="utf-8")), encoding="utf-8")
    return folder
