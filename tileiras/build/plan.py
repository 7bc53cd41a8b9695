"""The steps of one source for one target, in order: the SCons tool declares them, watch mode runs them."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from tileiras import pipeline
from tileiras.build import discover
from tileiras.build.overrides import find
from tileiras.build.step import Step
from tileiras.build.tuned import tuned
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.options import CompileOptions
from tileiras.stages import units
from tileiras.support.named_tuple import NamedTuple


class Plan(NamedTuple):
    steps: list[Step]
    products: list[str]
    """The requested files."""


def folder(build: str, options: CompileOptions) -> str:
    """Return the folder of the artifacts of one variant."""
    return os.path.join(build, options["gpu-name"], f"O{options['opt-level']}")


def stem(variant: str, path: str, name: str, beside: Collection[str] | None = None) -> str:
    """Return the stem of a source's artifacts; `variant` is the result of `folder`, `beside` as in `artifact_stem`."""
    return os.path.join(variant, os.path.dirname(name), discover.artifact_stem(path, beside))


def plan(
    path: str, name: str, source: str, stem: str, options: CompileOptions, emit: str, entries: Sequence[str],
    overrides: str = "",
) -> Plan:  # fmt: skip
    """The steps from a source to the product of `emit`.

    path: the user's file.  source: its path as the first step opens it.  name: its name in messages.  options: those of
    the build, to which those of KERNEL.tune.json are added.  overrides: the folder with artifacts that replace those of
    stages, if any.
    Raises CompileError (code 2) for an `emit` that does not exist or does not follow from the source, and for a
    KERNEL.tune.json that is damaged; code 5 for an override without a certificate of order that the options require.
    """
    options = tuned(options, path)
    last, _ = pipeline.emit_stage(emit, options["gpu-name"])
    steps: list[Step] = []
    chain: list[Step] = []

    def add(stage: str, input: str, base: str, suffixes: Sequence[str], entry: str | None = None, tables=()) -> Step:
        step = Step(pipeline.stage(stage), input, base, suffixes, name, path, options, entry, tables)
        if chain:
            chain[-1].next = step
        chain.append(step)
        steps.append(step)
        return step

    current = source
    if path.endswith(".py"):
        current = add("export", current, stem, pipeline.stage("export").artifacts(options)).outputs[0]
    if last.name == "export":
        if current == source:
            raise CompileError.at(None, f"emit=bytecode: {name} is not cuTile Python", ExitCode.CONFIGURATION)
        return Plan(steps, [current])
    read_stage = pipeline.stage("read")
    own = [read_stage.suffix, read_stage.location_suffix]
    stems = {entry: "/" + units.file_stem(entry) for entry in entries}
    slices = [unit + suffix for unit in stems.values() for suffix in own] if last.name != "read" else []
    outputs = add("read", current, stem, own + slices).outputs
    if last.name == "read" or not stems:
        # Without entries no kernel is compiled; the stage `read` reports the reason.
        return Plan(steps, outputs[:1])
    products = []
    for position, (entry, unit) in enumerate(stems.items()):
        current = outputs[2 + 2 * position]
        beside = [stem + unit + read_stage.location_suffix]
        if len(stems) > 1:
            # Entries are compiled in parallel, so none is the successor of `read`.
            chain.clear()
        edited = find(overrides, options["gpu-name"], entry)
        earlier: tuple[str, ...] = ()
        for row in pipeline.stages_between("tileaa", last.name):
            suffixes = row.artifacts(options)
            tables = beside if pipeline.takes_module(row) else beside[-1:]
            step = add(row.name, current, stem + unit, suffixes, entry, tables)
            if row.name in edited:
                if row.suffix in units.DECIDED:
                    pipeline.require_certificate(options, os.path.relpath(edited[row.name]))
                step.override = edited[row.name]
                earlier += (row.name,)
            step.overridden = earlier
            current = step.outputs[0]
            if row.makes_module:
                beside = [stem + unit + row.location_suffix, *beside]
        products.append(current)
    return Plan(steps, products)
