"""Verdicts and diagnostics as SARIF 2.1.0, which code scanning shows at the lines of a pull request: a rule a kind of
finding, or the code of a remark.

OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0": the sections are named below.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from tileiras.diagnostics import Diagnostic, Severity, unique

from .verdict import Finding, Verdict

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

RULES = {
    "value": "The code stores a value that the program does not allow.",
    "emulation": "The code violates a rule of PTX: a race, a deadlock, an access outside of arrays.",
    "program": "The program has behaviour that Tile IR leaves undefined or forbids.",
    "undefined": "Elements of a result are undefined by the specification, and were not compared.",
    "excluded": "Launches that were drawn are not allowed by the program.",
    "no-rule": "An operation has no bound of error, so that its dependent values are unbounded.",
    "unjudged": "Something was not judged.",
    "no-launch": "No launch could be made.",
}
"""Kind of finding -> its description."""


def sarif(verdicts: Sequence[Verdict], version: str) -> bytes:
    """The document of verdicts whose files are named from the top of the project; `version` is the checker's."""
    kinds = dict.fromkeys([*RULES, *(finding.kind for verdict in verdicts for finding in verdict.findings)])
    rules = [{"id": kind, "shortDescription": {"text": RULES.get(kind, kind)}} for kind in kinds]
    places = list(kinds)
    results = [
        _result(verdict, finding, places.index(finding.kind)) for verdict in verdicts for finding in verdict.findings
    ]
    properties = {"verdicts": [_short(verdict) for verdict in verdicts]}
    return _document("tileiras-check", version, rules, results, {"properties": properties})


def of_diagnostics(diagnostics: Iterable[Diagnostic], version: str) -> bytes:
    """The document of diagnostics of a compilation; notes are related locations (3.27.22), or lines of the message."""
    value = unique(diagnostics)
    kinds = list(dict.fromkeys(_kind(diagnostic) for diagnostic in value))
    rules = [{"id": kind, "shortDescription": {"text": DIAGNOSTIC_RULES.get(kind, kind)}} for kind in kinds]
    results = []
    for diagnostic in value:
        location = _location_of(diagnostic)
        notes = [(note.message, _location_of(note)) for note in diagnostic.notes]
        related = [{**place, "message": {"text": text}} for text, place in notes if place is not None]
        result: dict[str, Any] = {
            "ruleId": _kind(diagnostic), "ruleIndex": kinds.index(_kind(diagnostic)),
            "level": _LEVELS.get(diagnostic.severity, "note"),
            "message": {"text": "\n".join([diagnostic.message, *(text for text, place in notes if place is None)])},
            "locations": [location] if location is not None else [],
        }  # fmt: skip
        results.append({**result, **({"relatedLocations": related} if related else {})})
    return _document("tileiras", version, rules, results, {})


DIAGNOSTIC_RULES = {
    "error": "The kernel does not compile.", "warning": "The compiler warns of a part of the kernel or its options.",
    "note": "A part of another diagnostic.",
}  # fmt: skip
"""Severity of a diagnostic -> its description; remarks have their own codes."""

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning"}


def _kind(diagnostic: Diagnostic) -> str:
    return getattr(diagnostic, "code", "") or diagnostic.severity.value


def _location_of(diagnostic: Diagnostic) -> dict[str, Any] | None:
    position = diagnostic.position
    return None if position is None else _location(f"{position.filename}:{position.line}:{position.column}")


def _document(
    name: str, version: str, rules: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any]],
    more: Mapping[str, Any],
) -> bytes:  # fmt: skip
    run = {
        # 3.19: a tool component has a name; rules are found by index (3.52.5).
        "tool": {"driver": {"name": name, "version": version, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "results": results,
        **more,
    }
    return (json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n").encode()


def _short(verdict: Verdict) -> dict[str, Any]:
    return {"entry": verdict.entry, "gpu": verdict.gpu_name, **verdict.short()}


def _result(verdict: Verdict, finding: Finding, rule: int) -> dict[str, Any]:
    launch = next((str(each) for each in verdict.launches if each.number == finding.launch), None)
    text = f"{verdict.entry} on {verdict.gpu_name}: {finding.message}"
    location = _location(finding.location or verdict.location)
    properties = {"entry": verdict.entry, "gpu": verdict.gpu_name, "launch": launch, "ptxLine": finding.ptx_line}
    return {
        "ruleId": finding.kind,
        "ruleIndex": rule,
        "level": _level(verdict, finding),
        "message": {"text": text},
        "locations": [location] if location is not None else [],
        "properties": {name: value for name, value in properties.items() if value is not None},
    }


def _level(verdict: Verdict, finding: Finding) -> str:
    if finding in verdict.failures:
        return "error"
    return "warning" if finding.kind in ("program", "no-launch") else "note"


def _location(place: str) -> dict[str, Any] | None:
    """3.28; lines and columns count from 1 (3.30.5), and a place without a line is the file as a whole."""
    parts = place.rsplit(":", 2)
    if len(parts) < 3:
        return None
    file, line, column = parts[0], int(parts[1]), int(parts[2])
    where: dict[str, Any] = {"artifactLocation": {"uri": quote(file), "uriBaseId": "%SRCROOT%"}}
    if line > 0:
        where["region"] = {"startLine": line, **({"startColumn": column} if column > 0 else {})}
    return {"physicalLocation": where}
