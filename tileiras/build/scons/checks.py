"""env.TileCheck(kernels): a verdict beside the PTX of each kernel.

    kernels = env.TileTree("kernels")
    env.Alias("check", env.TileCheck(kernels))

The stage `check` is a step like the others, with a key, the store, workers and diagnostics.  It depends on
ENTRY.cuda_tile.mlir, ENTRY.ptx and ENTRY.json and on the checker's own code: a comment in a source does not rerun it,
edited PTX does.  A verdict of wrong code, or of a faulty program, fails every build; ENTRY.check.json is kept, and is
read from the store.
"""

from __future__ import annotations

import ast
import os
from typing import Any

import SCons.Util

from tileiras import pipeline
from tileiras.build.run.execute import Session
from tileiras.build.scons import arguments, staleness
from tileiras.build.scons.action import StageAction, checked_options, declared_steps
from tileiras.build.scons.places import from_top
from tileiras.build.scons.sessions import session
from tileiras.build.scons.variables import BadVariable
from tileiras.build.step import Step
from tileiras.options import CompileOptions

PTX = pipeline.stage("ptx")
READ = pipeline.stage("read")
MADE_OF_PTX = (".ptx", ".cubin", ".sass")


@arguments.locate
def tile_check(env: Any, kernels: Any) -> list[Any]:
    """Declare the verdicts of kernels: nodes that TileKernel or TileTree returned, with PTX or a product of it."""
    nodes = SCons.Util.flatten([kernels])
    if not nodes or any(isinstance(each, str) for each in nodes):
        raise BadVariable("kernels: expected the nodes that TileKernel or TileTree returned")
    here = session(env)
    stems = {os.path.splitext(str(node))[0]: node for node in nodes if str(node).endswith(MADE_OF_PTX)}
    if not stems:
        raise BadVariable("kernels: a check is of PTX or a cubin; the build makes neither")
    return [verdict for stem, node in stems.items() for verdict in _verdict_node(env, _step(env, here, node, stem))]


def _verdict_node(env: Any, step: Step) -> list[Any]:
    first = env.File(from_top(step.outputs[0]))
    if first.has_builder():  # declared by an earlier call with the same kernel
        return [first]
    sources = [from_top(path) for path in (step.input, *step.beside.values())]
    nodes = env.Command([from_top(path) for path in step.outputs], sources, StageAction(step.stage), TILE_STEP=step)
    # Like the artifacts of other stages, they are replaced atomically.
    env.Precious(nodes)
    declared_steps[nodes[0]] = staleness.DeclaredStep(session(env), step, False)
    return nodes[:1]


def _step(env: Any, here: Session, node: Any, stem: str) -> Step:
    """The check of a kernel, with the source and options of the step that makes its product."""
    own = declared_steps.get(node)
    if own is not None:
        name, path, options = own.step.source_name, own.step.source_path, own.step.options
    else:
        name, path, options = _last_source(env, here, stem)
    row = pipeline.CHECK
    tables = [stem + READ.location_suffix]
    return Step(row, stem + READ.suffix, stem, row.artifacts(options), name, path, options, locations=tables)


def _last_source(env: Any, here: Session, stem: str) -> tuple[str, str, CompileOptions]:
    """Source name, source path and options of a kernel without declared stages, from the records of its last build.

    Without records, the source is the artifact of the stage `read`, with the options of the environment.
    """
    entries = {row.name: here.history.entry(stem, row.name) for row in pipeline.STAGES} if here.history else {}
    outcome = entries.get(PTX.name)
    result: dict[str, str] = {}
    for entry in entries.values():
        result.update(entry.parts.get("options", {}) if entry is not None else {})
    if outcome is None or not result:
        target = str(env.subst("$TILE_SM")).split(",")[0]
        file = stem + READ.suffix
        return os.path.basename(file), os.path.abspath(file), checked_options(env, target, env["TILE_OPT"], {})
    assert here.history is not None
    options = CompileOptions({name: ast.literal_eval(value) for name, value in result.items()})
    return outcome.source, here.history.absolute(outcome.path), options
