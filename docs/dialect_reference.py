"""Writes the reference of a dialect from its declarations.

    python docs/dialect_reference.py            rewrites every page of docs/dialects/
    python docs/dialect_reference.py cuda_tile  prints one page

A test compares the pages with what this prints, so a declaration and its page cannot part.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Iterable

HERE = os.path.dirname(os.path.abspath(__file__))
DIALECTS = ("cuda_tile", "nvgpu")
"""Dialects with a page."""

NOTICE = "<!-- Written by docs/dialect_reference.py from the declarations in tileiras/dialects/: change those. -->"


def page(dialect: str) -> str:
    """The page of a dialect, in Markdown."""
    from tileiras.ir import EnumAttr, registry

    registry.load_dialect(dialect)
    prefix = dialect + "."
    types = _named(registry.TYPES, prefix)
    attributes = _named(registry.ATTRIBUTES, prefix)
    operations = _named(registry.OPERATIONS, prefix)
    enums = [cls for cls in attributes if issubclass(cls, EnumAttr)]
    others = [cls for cls in attributes if cls not in enums]
    lines = [NOTICE, f"# {dialect}", "", _module_doc(dialect), ""]
    lines += ["## Types", ""]
    for cls in types:
        lines += _attribute(cls, prefix, "!")
    lines += ["## Enums", ""]
    for cls in enums:
        lines += _enum(cls, prefix)
    lines += ["## Attributes", ""]
    for cls in others:
        lines += _attribute(cls, prefix, "#")
    lines += ["## Operations", ""]
    groups: dict[str, list] = {}
    for cls in operations:
        group = getattr(cls, "group", "")
        # Where an operation has a field of this name, it names no group.
        groups.setdefault(group if group and isinstance(group, str) else "Operations", []).append(cls)
    for group in sorted(groups):
        lines += [f"### {group}", ""]
        for cls in groups[group]:
            lines += _operation(cls, prefix)
    return "\n".join(lines).rstrip() + "\n"


def _named(table: dict[str, Any], prefix: str) -> list[Any]:
    """The classes of a dialect by name, without second names and without what exists for tests only."""
    return [
        cls
        for name, cls in sorted(table.items())
        if name.startswith(prefix) and cls.name == name and not cls.__module__.endswith(".testing")
    ]


def _module_doc(dialect: str) -> str:
    module = sys.modules[f"tileiras.dialects.{dialect}"]
    return (module.__doc__ or "").strip()


def _doc(cls: type) -> str:
    return " ".join((cls.__doc__ or "").split())


def _facts(*facts: tuple[str, Any]) -> str:
    return " · ".join(f"{name} {value}" for name, value in facts if value is not None)


def _table(header: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> list[str]:
    rows = [tuple(str(cell).replace("|", "\\|") for cell in row) for row in rows]
    if not rows:
        return []
    return [
        f"| {' | '.join(header)} |",
        f"|{'---|' * len(header)}",
        *(f"| {' | '.join(row)} |" for row in rows),
        "",
    ]


def _attribute(cls: Any, prefix: str, mark: str) -> list[str]:
    tag = getattr(cls, "bytecode_tag", None)
    since = getattr(cls, "parameter_since", {})
    rows = [(f"`{name}`", since.get(name, cls.since or "")) for name in getattr(cls, "parameters", ())]
    return [
        f"### `{mark}{cls.name}`",
        "",
        _doc(cls),
        "",
        _facts(("since", cls.since), ("bytecode tag", tag)),
        "",
        *_table(("parameter", "since"), rows),
        *_table(
            ("newer element type", "since"),
            [(f"`{element}`", version) for element, version in getattr(cls, "element_since", {}).items()],
        ),
    ]


def _enum(cls: Any, prefix: str) -> list[str]:
    rows = [(f"`{case}`", number, cls.case_since.get(case, cls.since)) for case, number in cls.cases.items()]
    return [
        f"### `#{cls.name}`",
        "",
        _doc(cls),
        "",
        _facts(("since", cls.since)),
        "",
        *_table(("case", "number", "since"), rows),
    ]


def _operation(cls: Any, prefix: str) -> list[str]:
    from tileiras.ir import describe

    rows = []
    for field in cls.fields:
        kind = field.kind if field.arity == "one" else f"{field.arity} {field.kind}"
        demands = "" if field.constraint is None else describe(field.constraint)
        default = f"; {_default_text(field.default)} when absent" if field.default is not None else ""
        rows.append((f"`{field.name}`", kind, demands, field.since or cls.since or "", field.doc + default))
    form = [f"    {cls.name[len(prefix) :]} {' '.join(cls.assembly_format.split())}", ""] if cls.assembly_format else []
    opcode = f"{cls.opcode:#x}" if cls.opcode is not None else None
    traits = ", ".join(dict.fromkeys(type(trait).__name__ for trait in cls.trait_instances)) or None
    return [
        f"#### `{cls.name}`",
        "",
        _doc(cls),
        "",
        _facts(("since", cls.since), ("opcode", opcode), ("traits", traits)),
        "",
        *form,
        *_table(("part", "kind", "what it may be", "since", "meaning"), rows),
    ]


def _default_text(value: Any) -> str:
    if callable(value):
        return value.__name__.replace("_", " ")
    return f"`{getattr(value, 'value', value)}`"


def main(arguments: list[str]) -> int:
    sys.path.insert(0, os.path.dirname(HERE))
    if arguments:
        for dialect in arguments:
            sys.stdout.write(page(dialect))
        return 0
    for dialect in DIALECTS:
        with open(os.path.join(HERE, "dialects", f"{dialect}.md"), "w", encoding="utf-8", newline="\n") as file:
            file.write(page(dialect))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
