"""Results that took minutes, kept in a file of lines of JSON by the inputs of their computation.

Several processes may append to one file: a line is written at once.  A line that was cut off is left out.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from bench.whole_process import vendor_tool
from tileiras.build.store.fingerprint import CodeBase

MODEL = ("tileiras.sim.estimate", "tileiras.sim.emulator", "tileiras.targets.rate_tables")
"""Modules that, with all that they import, decide about the estimate of given machine code."""


def digest(*parts: str | bytes) -> str:
    """Of all parts in their order."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:32]


@functools.cache
def model_version() -> str:
    """A digest of the code and data that estimate."""
    code = CodeBase()
    modules, _ = code.closure(MODEL)
    paths = [path for module in sorted(modules) if (path := code.path(module)) is not None]
    return digest(*(Path(path).read_bytes() for path in paths))


@functools.cache
def reference_version() -> str:
    """A digest of the reference compiler's program; empty without one."""
    program = vendor_tool()
    return "" if program is None else digest(Path(program).read_bytes())


def rows_file(text: str) -> Path | None:
    """The file that an argument `--rows` names; None for an empty one, which keeps no rows."""
    return Path(text) if text else None


class KeptRows:
    """Results by their keys; those of no file are kept nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._rows: dict[str, Any] = {}
        if path is None or not path.exists():
            return
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue
            self._rows[row["key"]] = row["value"]

    def get(self, key: str) -> Any | None:
        return self._rows.get(key)

    def put(self, key: str, value: Any) -> None:
        self._rows[key] = value
        if self._path is None:
            return
        line = json.dumps({"key": key, "value": value}) + "\n"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # A line before that was cut off must not swallow this one.
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                line = "\n" + line
            os.write(handle, line.encode())
        finally:
            os.close(handle)
