"""Schemas of store rows, checked before a row is stored or used.

Rows come from a team's server, whose writers are not trusted, or from a store that an older build has written.  A row
that violates the schema of its key is a miss: `check_row` raises ValueError before any part of the row is used.

    STAGE:DIGEST          a record: the artifacts and diagnostics of one run of a stage
    compile:DIGEST        a record of a whole compilation
    KEY:inputs            the files and variables that a stage read besides its input (`tileiras.inputs`)
    tool-output:DIGEST    an output of ptxas or nvdisasm, of this machine's (`codegen.output_store`): never on a server

A record's head is JSON with the fields of `FIELDS`.  To add a field, a kind of row or a form of artifact, add a row to
`FIELDS`, `_BY_ENDING` or `_CONTENTS`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

import tileiras
from tileiras import build, inputs
from tileiras.pipeline import BY_NAME

INPUTS = ":inputs"
"""Suffix to a record's key that makes the key of its inputs row."""

OWN_INPUTS = ":inputs:own"
"""Suffix for inputs read by a local run: unlike a server's rows, their paths are not confined."""

HEAD_LIMIT = 4 << 20
"""Maximum bytes of a record's head; a parsed JSON list takes up to thirty times as many in memory."""

NOTE_DEPTH = 16
"""Maximum nesting depth of notes."""

PLACE_LIMIT, PLACE_DEPTH = 16 << 10, 64
"""Maximum characters of a place in a diagnostic, and maximum number of parentheses in it."""

WHOLE = "compile"
"""The stage name in keys of whole compilations."""


def check_row(key: str, value: bytes) -> None:
    """Raise ValueError if the bytes violate the schema of the key; keys of unknown kind accept any bytes."""
    kind, _, rest = key.partition(":")
    check = next((check for ending, check in _BY_ENDING.items() if rest.endswith(ending)), None)
    if check is not None:
        check(value)
    elif kind == WHOLE or kind in BY_NAME:
        record = build.store.local.Record.from_bytes(value)
        check_names(key, record.artifacts)
        if record.has_errors and (kind == WHOLE or not BY_NAME[kind].error_code):
            raise ValueError("errors of a stage that makes nothing where it has any")
        for suffix, content in record.artifacts.items():
            end = suffix.rpartition(".")[2]
            if end in _CONTENTS:
                _CONTENTS[end](suffix, content)


_BY_ENDING: dict[str, Callable[[bytes], object]] = {INPUTS: inputs.parse, OWN_INPUTS: inputs.parse}
"""Checks of rows beside a record, by the suffix to the record's key."""


# ---- records ---------------------------------------------------------------------------------------------------------


def head_of(data: bytes) -> dict[str, Any]:
    """The head of a record, its fields checked; raises ValueError."""
    if len(data) > HEAD_LIMIT:
        raise ValueError(f"a head of {len(data)} bytes")
    head = _json(data)
    if not isinstance(head, dict):
        raise ValueError("a head that is no object")
    for name, (check, required) in FIELDS.items():
        if name in head:
            check(head[name])
        elif required:
            raise ValueError(f"a head without {name}")
    return head


def check_names(key: str, names: Iterable[str]) -> None:
    """Raise ValueError if the names of artifacts lack the product or are malformed for the key's kind.

    A stage's product is named by the stage's suffix.  The product of a whole compilation has an empty name; an entry
    is declared by `ENTRY NUL`, and its artifacts follow as `ENTRY NUL SUFFIX`.
    """
    kind, names = key.partition(":")[0], list(names)
    product = "" if kind == WHOLE else BY_NAME[kind].suffix if kind in BY_NAME else None
    if product is not None and product not in names:
        raise ValueError("a record without a product")
    if kind != WHOLE:
        return
    entries: set[str] = set()
    for name in filter(None, names):
        entry, separator, suffix = name.partition("\0")
        if not separator or (suffix and (entry not in entries or "\0" in suffix or "/" in suffix)):
            raise ValueError(f"an artifact of no entry: {name[:40]!r}")
        entries.add(entry)


def _json(data: bytes) -> Any:
    """Parse JSON; raises ValueError if it is malformed, repeats a name in an object or nests too deeply."""
    try:
        return json.loads(data, parse_constant=_refuse, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("JSON that nests too deeply") from None


def _refuse(word: str) -> None:
    raise ValueError(f"a number that is {word}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("an object with a name twice")
    return result


def _check_lengths(value: Any) -> None:
    """`[suffix, bytes]` of each artifact, in the order of their contents after the head."""
    names: set[str] = set()
    for row in _list(value, "artifacts"):
        if not isinstance(row, list) or len(row) != 2:
            raise ValueError("an artifact that is no pair")
        suffix, size = _text(row[0], "an artifact's suffix"), row[1]
        if type(size) is not int or size < 0:
            raise ValueError(f"an artifact's size that is no number of bytes: {suffix!r}")
        if suffix in names or ".." in suffix.split("/"):
            raise ValueError(f"an artifact's suffix that is invalid: {suffix!r}")
        names.add(suffix)


def _check_diagnostics(value: Any) -> None:
    """As `tileiras.stages.locations.encode_diagnostics` writes them."""
    if not isinstance(value, dict):
        raise ValueError("diagnostics that are no object")
    rows = _list(value.get("diagnostics"), "diagnostics")
    if not rows and "files" not in value:
        return
    _texts(value.get("files"), "files of diagnostics")
    for row in rows:
        _check_diagnostic(row)
    if rows:
        try:
            tileiras.stages.locations.decode_diagnostics(value, "<input>", tileiras.stages.locations.LocationTable(()))
        except (IndexError, AssertionError, RecursionError) as error:
            raise ValueError(f"a diagnostic's place that is invalid: {error}") from None


def _check_diagnostic(row: Any, depth: int = 0) -> None:
    """`[severity, place, message, notes]`, followed by a list of fields for a remark."""
    if depth > NOTE_DEPTH or not isinstance(row, list) or len(row) not in (4, 5):
        raise ValueError("a diagnostic that is no list of four or five")
    _text(row[0], "a diagnostic's severity")
    place = _text(row[1], "a diagnostic's place")
    if len(place) > PLACE_LIMIT or place.count("(") > PLACE_DEPTH or not place:
        raise ValueError("a diagnostic's place that is invalid")
    _text(row[2], "a diagnostic's message")
    for note in _list(row[3], "notes"):
        _check_diagnostic(note, depth + 1)
    if len(row) == 5:
        _check_remark(row[4])


def _check_remark(row: Any) -> None:
    """Codes with arguments, details, function."""
    if not isinstance(row, list) or len(row) != 3:
        raise ValueError("a remark that is no list of three")
    _text(row[2], "a remark's function")
    _check_pairs(row[1], (str,))
    for each in _list(row[0], "codes of a remark"):
        if not isinstance(each, list) or len(each) != 2:
            raise ValueError("a code without arguments")
        _text(each[0], "a code")
        _check_pairs(each[1], (int, str))


def _check_pairs(value: Any, types: tuple[type, ...]) -> None:
    for pair in _list(value, "arguments of a remark"):
        if not isinstance(pair, list) or len(pair) != 2 or type(pair[1]) not in types:
            raise ValueError("an argument of a remark that is no name and value")
        _text(pair[0], "an argument's name")


def _check_seconds(value: Any) -> None:
    if type(value) not in (int, float) or not math.isfinite(value) or value < 0:
        raise ValueError("a time that is no number of seconds")


FIELDS: dict[str, tuple[Callable[[Any], object], bool]] = {
    "artifacts": (_check_lengths, True),
    "diagnostics": (_check_diagnostics, True),
    "inputs": (inputs.from_json, False),
    "seconds": (_check_seconds, False),
}
"""Fields of a record's head: name -> the check of its value, and whether it is required."""


def _list(value: Any, label: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{label} that are no list")
    return value


def _text(value: Any, label: str) -> str:
    """A string encodable as UTF-8, with surrogate escapes for undecodable bytes of file names (PEP 383)."""
    if not isinstance(value, str):
        raise ValueError(f"{label} that is no string")
    value.encode("utf-8", "surrogateescape")
    return value


def _texts(value: Any, label: str) -> list[str]:
    return [_text(item, label) for item in _list(value, label)]


# ---- contents of artifacts -------------------------------------------------------------------------------------------


def _check_utf8(suffix: str, content: bytes) -> None:
    content.decode()


def _check_object(suffix: str, content: bytes) -> None:
    """JSON of at most HEAD_LIMIT bytes with an object or a list at the top."""
    if len(content) > HEAD_LIMIT or not isinstance(_json(content), (dict, list)):
        raise ValueError(f"{suffix[-40:]} is no JSON")


_CONTENTS: dict[str, Callable[[str, bytes], None]] = {
    "mlir": _check_utf8,
    "ll": _check_utf8,
    "ptx": _check_utf8,
    "json": _check_object,
}
"""Checks of contents on which readers of artifacts rely, by the extension of the suffix."""
