"""The output of `tileiras --print-pipeline`: the stages, their artifacts and options, and their passes."""

from __future__ import annotations

from tileiras import pipeline
from tileiras.options import CompileOptions


def _passes(row: pipeline.Stage) -> list[tuple[str, str]]:
    """The passes of a stage for sm_90 with default options, and the reason for each one's position."""
    import importlib

    module = importlib.import_module(row.module_name)
    options = row.select(CompileOptions({"gpu-name": "sm_90"}))
    if hasattr(module, "explained"):
        return module.explained(options)
    return [(item.name, "") for item in module.passes(options)] if hasattr(module, "passes") else []


def describe() -> str:
    """The output of `--print-pipeline`: the stages, their artifacts and options, and their passes."""
    lines = []
    for number, row in enumerate(pipeline.STAGES, 1):
        made = ", ".join("NAME" + suffix for suffix in (row.suffix, *row.side_suffixes))
        lines.append(f"{number}. {row.name:<7} {row.doc}")
        lines.append(f"           one {row.unit} -> {made}")
        if row.options:
            lines.append(f"           reads {', '.join(row.options)}")
        lines += [f"           {name:<50} {why}".rstrip() for name, why in _passes(row)]
    for row in pipeline.CPU:
        lines.append(f"   {row.name:<8} {row.doc}, for a CPU")
        lines.append(f"           one {row.unit} -> " + ", ".join("NAME" + s for s in (row.suffix, *row.side_suffixes)))
        lines.append(f"           reads {', '.join(row.options)}")
    for row in pipeline.BESIDE:
        lines.append(f"   {row.name:<7} {row.doc}")
        beside = ", ".join("NAME" + suffix for suffix in row.reads_beside)
        made = ", ".join("NAME" + suffix for suffix in (row.suffix, *row.side_suffixes))
        lines.append(f"           one {row.unit}, {beside} -> {made}")
    return "\n".join(lines) + "\n"
