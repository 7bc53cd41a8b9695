"""Installed packages as inputs: name, version and the file digests in RECORD (packaging.python.org, "Recording
installed projects"), so that their files need not be read.

Lines of RECORD that differ between two installations of the same files are ignored: scripts, whose first line contains
the path of the environment, compiled modules, and the installer's files in the package's own `.dist-info`.
"""

from __future__ import annotations

import functools
import os
import re
import sys

from tileiras.inputs import ABSENT
from tileiras.support.command_cache import remembered
from tileiras.support.files import read_if_there

SUFFIX = ".dist-info"

_OF_INSTALLATION = re.compile(rb"^(?:\"?\.\.[^\n]*|[^\n,]*\.dist-info/[^\n]*|[^\n]*,,\r?)\n?", re.MULTILINE)

_REQUIRES = re.compile(rb"^Requires-Dist: *([A-Za-z0-9._-]+)([^\n]*)", re.MULTILINE)


def normal(name: str) -> str:
    """Normalize a package's name for comparison."""
    return re.sub(r"[-_.]+", "-", name).lower()


def state(name: str) -> str:
    """Return the version and the digest of an installed package; `ABSENT` if it is not installed."""
    folder = _folders().get(name)
    if folder is None:
        return ABSENT
    version = os.path.basename(folder).removesuffix(SUFFIX).partition("-")[2]
    record = os.path.join(folder, "RECORD")
    try:
        status = os.stat(record)
    except OSError:
        return version
    return f"{version} {_record_digest(record, status.st_size, status.st_mtime_ns, status.st_ino)}"


def files(name: str) -> list[str]:
    """List the files whose change indicates a change of the package, for a rule of make: RECORD, if present."""
    folder = _folders().get(name)
    record = os.path.join(folder, "RECORD") if folder is not None else ""
    return [record] if os.path.isfile(record) else []


def owner(module: str, folder: str) -> str | None:
    """Return the package that installed a top-level module in a folder of the import path."""
    try:
        return _owners(folder, os.stat(folder).st_mtime_ns, module)
    except OSError:
        return None


def with_required(name: str) -> list[str]:
    """List a package and its installed requirements, transitively."""
    folders = _folders()
    names = [name]
    for each in names:
        folder = folders.get(each)
        text = read_if_there(os.path.join(folder, "METADATA")) if folder is not None else None
        head = (text or b"").partition(b"\n\n")[0]
        for required, marker in _REQUIRES.findall(head):
            own = normal(required.decode())
            if own in folders and own not in names and b"extra" not in marker:
                names.append(own)
    return names


def _folders() -> dict[str, str]:
    """Map package names to their `.dist-info` folders on the import path; the first folder wins."""
    key = []
    for folder in dict.fromkeys(sys.path):
        try:
            key.append((folder, os.stat(folder or os.curdir).st_mtime_ns))
        except OSError:
            continue
    return _listed(tuple(key))


@remembered
@functools.lru_cache(4)
def _listed(folders: tuple[tuple[str, int], ...]) -> dict[str, str]:
    infos: dict[str, str] = {}
    for folder, _ in folders:
        try:
            names = sorted(name for name in os.listdir(folder or os.curdir) if name.endswith(SUFFIX))
        except OSError:
            continue
        for name in names:
            infos.setdefault(normal(name.partition("-")[0]), os.path.join(folder, name))
    return infos


@remembered
@functools.lru_cache(256)
def _owners(folder: str, changed: int, module: str) -> str | None:
    own = [info for info in _listed(((folder, changed),)).items()]
    lines = re.compile(rb"^" + re.escape(module.encode()) + rb"(?:/|\.[^,/\n]*,)", re.MULTILINE)
    for name, info in sorted(own, key=lambda item: item[0] != normal(module)):
        record = read_if_there(os.path.join(info, "RECORD"))
        if record is not None and lines.search(record):
            return name
    return None


@remembered
@functools.lru_cache(256)
def _record_digest(path: str, *state: int) -> str:
    import xxhash

    return xxhash.xxh3_128_hexdigest(_OF_INSTALLATION.sub(b"", read_if_there(path) or b""))
