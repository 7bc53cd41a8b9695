"""The SCons action that runs a stage, and the mapping from nodes to steps."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import SCons.Action
import SCons.Script
import SCons.Util

from tileiras import pipeline
from tileiras.build.ledger.history import SAME_KEY
from tileiras.build.run import dispatch
from tileiras.build.run.execute import Session
from tileiras.build.scons import gating, staleness
from tileiras.build.scons.display import Display
from tileiras.build.scons.places import source_name
from tileiras.build.scons.sessions import session
from tileiras.build.scons.variables import OWN_NAMES, BadVariable, words
from tileiras.build.step import Step
from tileiras.diagnostics import ExitCode
from tileiras.options import CPU_NAMES, GPU_NAMES, CompileOptions, lookup
from tileiras.pipeline import Stage
from tileiras.support.files import digest_if_there

BUILDERS = {
    "export": "TileExport",
    "read": "TileRead",
    "tileaa": "TileAA",
    "tileas": "TileAS",
    "llvm": "TileLLVM",
    "ptx": "TilePTX",
    "cpu-llvm": "TileCpuLLVM",
    "object": "TileCpuObject",
    "shared": "TileCpuShared",
    "cubin": "TileCubin",
    "sass": "TileSASS",
}
"""Builders of the stages of the chain; checks are declared by `TileCheck`."""

LABELS = {
    "export": "EXPORT",
    "read": "READ",
    "tileaa": "TILEAA",
    "tileas": "TILEAS",
    "llvm": "LLVM",
    "ptx": "PTX",
    "cpu-llvm": "CPU-LLVM",
    "object": "OBJECT",
    "shared": "SHARED",
    "cubin": "CUBIN",
    "sass": "SASS",
    "check": "CHECK",
}
"""First word of an output line, by stage."""

CACHED = "(cached)"

REPORT = "report"
"""Name of the row of a report, whose action does not make a node a consumer of kernels."""


class StageAction(SCons.Action.FunctionAction):
    """Runs one stage.

    Its signature consists of the stage's code, options and tools.  By default SCons would take the bytecode of
    `_execute`, which changes with Python's version and not with the functions that it calls.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        super().__init__(self._execute, {})

    def get_presig(self, target: Any, source: Any, env: Any, executor: Any = None) -> bytes:
        return session(env).signature(self.stage, step_of(self.stage, target, source, env).options)

    def strfunction(self, target: Any, source: Any, env: Any, executor: Any = None) -> str | None:
        # `_execute` prints the line, since it knows whether the stage ran; SCons prints it under -n only.
        return self._line(target) + task_callbacks.mark(target[0]) if SCons.Script.GetOption("no_exec") else None

    def _line(self, target: Any) -> str:
        return f"  {LABELS[self.stage.name]:<8} {target[0]}"

    def _execute(self, target: Any, source: Any, env: Any) -> int:
        # SCons takes a digest of each name in this function when a tool is set up.
        return self._run(target, source, env)

    def _run(self, target: Any, source: Any, env: Any) -> int:
        step = step_of(self.stage, target, source, env)
        display.silent = bool(SCons.Script.GetOption("silent"))
        display.begin()
        report = _perform(session(env), step, source[0])
        if report.code:
            report = _blame(session(env), step, report)
        else:
            session(env).know(step, report.digests)
        by = f" (overridden by {os.path.relpath(step.override)})" if step.override is not None else ""
        lines = [self._line(target) + (f" {CACHED}" if report.cached else "") + by]
        if "explain" in (SCons.Script.GetOption("debug") or ()):
            lines += [f"           {reason}" for reason in _reasons(session(env), step)]
        display.finished(step, report, "\n".join(lines))
        return report.code


def _perform(session: Session, step: Step, source: Any) -> dispatch.Report:
    """Perform a step, repeated while its source changes meanwhile: SCons must not record the earlier digest."""
    jobs = SCons.Script.GetOption("num_jobs")
    if step.stage.unit != pipeline.FILE or source.has_builder():
        return dispatch.perform(session, step, jobs)
    while True:
        before = source.get_csig()
        report = dispatch.perform(session, step, jobs)
        if not os.path.isfile(step.input):
            return report
        now = SCons.Util.hash_file_signature(step.input)
        if now == before:
            return report
        # The target's record of its source refers to this object.
        source.get_ninfo().csig = now


def _blame(session: Session, step: Step, report: dispatch.Report) -> dispatch.Report:
    """The report of a failure; blames the input artifact if it was modified after its stage wrote it."""
    digest = session.digests.get(os.path.abspath(step.input))
    if digest is None or digest == digest_if_there(step.input):
        return report
    message = f"error: {step.input} is not as it was made any more: something else wrote it during the build"
    return report._replace(text=message, code=int(ExitCode.CONFIGURATION))


def _reasons(session: Session, step: Step) -> list[str]:
    """The parts of a step's key that have changed since its last run."""
    entry = session.history.entry(step.stem, step.stage.name) if session.history is not None else None
    if entry is None:
        return []
    return session.history.differences(entry) or [SAME_KEY]


def is_done(node: Any) -> bool:
    return node.get_state() in gating.DONE


display = Display(is_done)

declared_steps: dict[Any, staleness.DeclaredStep] = {}
"""The steps of the pseudo-builders by their nodes."""


def _step_of_task(targets: Sequence[Any]) -> staleness.DeclaredStep | None:
    """The step that a task performs; None for a task of another tool."""
    result = declared_steps.get(targets[0])
    if result is None:
        executor = targets[0].get_executor()
        for action in executor.get_action_list() if executor is not None else ():
            if isinstance(action, StageAction):
                env = executor.get_build_env()
                step = step_of(action.stage, targets, executor.get_all_sources(), env)
                result = declared_steps[targets[0]] = staleness.DeclaredStep(session(env), step, False)
    return result


task_callbacks = staleness.TaskCallbacks(_step_of_task, display)


def step_of(stage: Stage, target: Sequence[Any], source: Sequence[Any], env: Any) -> Step:
    """The step of a node: that of the pseudo-builder, or one derived from the files of a stage builder's call."""
    step = env.get("TILE_STEP")
    if step is not None:
        return step
    main = str(target[0])
    stem = main.removesuffix(stage.suffix)
    suffixes = [str(node).removeprefix(stem) for node in target]
    first = origin = source[0]
    while origin.sources:
        origin = origin.sources[0]
    return Step(
        stage,
        str(first.rfile()),
        stem,
        suffixes,
        source_name(origin),
        origin.srcnode().abspath,
        checked_options(env, _one_target(env), env["TILE_OPT"], {}),
        locations=_locations_beside(stage, str(first)),
    )


def _one_target(env: Any) -> str:
    """The target of a stage builder called alone; raises BadVariable for several."""
    result = words("TILE_SM", construction_variable(env, "TILE_SM"), (*GPU_NAMES, *CPU_NAMES))
    if len(result) > 1:
        raise BadVariable(f"TILE_SM={','.join(result)}: a stage that is called alone has one target")
    return result[0]


def _locations_beside(stage: Stage, source: str) -> list[str]:
    """The location files beside an artifact, nearest first; only the last if the stage does not read a module."""
    earlier = pipeline.up_to(stage)[:-1]
    if stage.unit == pipeline.FILE or not source.endswith(earlier[-1].suffix):
        return []
    stem = source.removesuffix(earlier[-1].suffix)
    result = [stem + row.location_suffix for row in reversed(earlier) if row.makes_module]
    return result if pipeline.takes_module(stage) else result[-1:]


def checked_options(env: Any, sm: str, opt: int | str, further: dict[str, Any]) -> CompileOptions:
    """The options of a compilation, with those of TILE_OPTIONS; raises BadVariable and CompileError."""
    common = env["TILE_OPTIONS"]
    if not isinstance(common, Mapping):
        raise BadVariable(f"TILE_OPTIONS={common!r}: a dict of options is expected")
    result = {lookup(name).name: value for name, value in {**common, **further}.items()}
    for name, own in OWN_NAMES.items():
        if name in result:
            raise BadVariable(f"option '{name}' is called '{own}' here")
    return CompileOptions({**result, "gpu-name": sm, "opt-level": opt})


def construction_variable(env: Any, name: str) -> Any:
    """A construction variable's value; a list stays a list, which `subst` would join with spaces."""
    value = env[name]
    return env.subst(value) if isinstance(value, str) else value
