"""tileiras doctor [--json]: a table of installed and missing parts, and the cost of each missing one.

Exit status: 0 where cubins can be made; 1 for a command line that cannot be read; 2 where a part that this needs is
missing or cannot be used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import tileiras
from tileiras import cli
from tileiras.cli import process
from tileiras.cli.process import UsageError
from tileiras.cli.toolkits import PARTS, Part
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.support.extras import EXTRAS

PROGRAM = "tileiras doctor"


def build_parser() -> Any:
    parser = cli.parsers.Parser(PROGRAM, __doc__)
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    return parser


def examine(part: Part) -> dict[str, Any]:
    """The facts about a part, as plain data; `state` is found, missing or broken."""
    facts: dict[str, Any] = {"name": part.name, "kind": part.kind, "needed": part.is_required, "state": "found"}
    try:
        result = part.find()
    except CompileError as error:
        return {**facts, "state": "broken", "cost": part.cost, "reason": error.diagnostics[0].message}
    if result is None:
        return {**facts, "state": "missing", "cost": part.cost, "advice": advice(part)}
    return {**facts, "version": result.version, "place": result.place}


def advice(part: Part) -> str:
    """How a missing part is installed."""
    if not part.package:
        return "it comes with the GPU's driver"
    if any(part.package in packages for packages in EXTRAS.values()):
        return tileiras.support.extras.install(part.package)
    return f"install the package '{part.package}', a dependency of tileiras"


def _store() -> dict[str, Any]:
    """The artifact store of this folder."""
    directory = tileiras.build.store.local.directory_for(os.getcwd())
    at = directory
    while at and not os.path.exists(at) and os.path.dirname(at) != at:
        at = os.path.dirname(at)
    return {"directory": directory, "writable": os.access(at or os.curdir, os.W_OK)}


def report() -> dict[str, Any]:
    """All facts, as plain data."""
    parts = [examine(part) for part in PARTS]
    usable = all(part["state"] == "found" for part in parts if part["needed"])
    package = os.path.dirname(tileiras.__file__)
    return {
        "version": tileiras.__version__, "bytecode": cli.toolkits.versions(), "package": package,
        "python": {"version": sys.version.split()[0], "place": sys.executable},
        "parts": parts, "store": _store(), "cubins": usable,
    }  # fmt: skip


def text_of(facts: dict[str, Any]) -> str:
    """The facts as a table, then the costs of missing parts."""
    python, store = facts["python"], facts["store"]
    rows = [("tileiras", facts["version"], facts["package"]), ("Python", python["version"], python["place"])]
    for part in facts["parts"]:
        state = part["state"]
        entry = part.get("version", "") if state == "found" else state
        rows.append((part["name"], entry, part.get("place", "")))
    rows.append(("store", "" if store["writable"] else "read-only", store["directory"]))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{name:<{widths[0]}}  {version:<{widths[1]}}  {place}".rstrip() for name, version, place in rows]
    for part in facts["parts"]:
        if part["state"] != "found":
            severity = "error" if part["needed"] else "note"
            lines.append(f"{severity}: {part['name']} is {part['state']}: {part['cost']}")
            lines.append(f"  {part.get('advice') or part['reason']}")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The program; returns its exit status."""
    try:
        options = build_parser().parse_args(arguments)
    except SystemExit as stopped:
        return ExitCode.USAGE if stopped.code else ExitCode.SUCCESS
    except UsageError as error:
        process.tell(f"{PROGRAM}: error", error)
        return ExitCode.USAGE
    facts = report()
    if options.json:
        import json

        print(json.dumps(facts, indent=1))
    else:
        print(text_of(facts), end="")
    return ExitCode.SUCCESS if facts["cubins"] else ExitCode.CONFIGURATION
