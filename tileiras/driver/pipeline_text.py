"""The output of `tileiras --print-pipeline`: the stages, their artifacts and options, and the passes that they run at
a level of optimization."""

from __future__ import annotations

from tileiras import pipeline
from tileiras.driver import tileir_pipeline
from tileiras.options import CompileOptions


def _passes(row: pipeline.Stage, options: CompileOptions) -> list[tuple[str, str]]:
    """The passes of a stage, and the reason for each one's position."""
    import importlib

    module = importlib.import_module(row.module_name)
    selected = row.select(options)
    if hasattr(module, "explained"):
        return module.explained(selected)
    return [(item.name, "") for item in module.passes(selected)] if hasattr(module, "passes") else []


def describe(options: CompileOptions) -> str:
    """The output of `--print-pipeline` for a compilation: the stages, their artifacts and options, their passes; then
    the documented passes of the level with those of this compiler."""
    level = options["opt-level"]
    lines = [f"tileiras -O{level} --gpu-name {options['gpu-name']}: the stages up to a cubin, and their passes", ""]
    runs = {"verifier", "snapshot printer"}
    for number, row in enumerate(pipeline.STAGES, 1):
        text = ", ".join("NAME" + suffix for suffix in (row.suffix, *row.side_suffixes))
        lines.append(f"{number}. {row.name:<7} {row.doc}")
        lines.append(f"           one {row.unit} -> {text}")
        if row.options:
            lines.append(f"           reads {', '.join(row.options)}")
        passes = _passes(row, options)
        runs.update(name.partition("{")[0] for name, _ in passes)
        lines += [f"           {name:<50} {why}".rstrip() for name, why in passes]
    for row in pipeline.CPU:
        lines.append(f"   {row.name:<8} {row.doc}, for a CPU")
        lines.append(f"           one {row.unit} -> " + ", ".join("NAME" + s for s in (row.suffix, *row.side_suffixes)))
        lines.append(f"           reads {', '.join(row.options)}")
    for row in pipeline.BESIDE:
        lines.append(f"   {row.name:<7} {row.doc}")
        beside = ", ".join("NAME" + suffix for suffix in row.reads_beside)
        text = ", ".join("NAME" + suffix for suffix in (row.suffix, *row.side_suffixes))
        lines.append(f"           one {row.unit}, {beside} -> {text}")
    return "\n".join(lines) + f"\n\n{tileir_pipeline.describe(level, runs)}"
