"""The action that runs a stage, and the step that a node stands for."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import SCons.Action
import SCons.Script
import SCons.Util

from tileiras import pipeline
from tileiras.build import dispatch, gating, standing
from tileiras.build.display import Display
from tileiras.build.execute import Session
from tileiras.build.history import SAME_KEY
from tileiras.build.places import source_name
from tileiras.build.sessions import session
from tileiras.build.step import Step
from tileiras.build.variables import OWN_NAMES, BadVariable, words
from tileiras.diagnostics import ExitCode
from tileiras.files import digest_if_there
from tileiras.options import GPU_NAMES, CompileOptions, lookup
from tileiras.pipeline import Stage

BUILDERS = {
    "export": "TileExport",
    "read": "TileRead",
    "tileaa": "TileAA",
    "tileas": "TileAS",
    "llvm": "TileLLVM",
    "ptx": "TilePTX",
    "cubin": "TileCubin",
    "sass": "TileSASS",
}
"""Of the stages of the chain; `TileCheck` declares checks."""

LABELS = {
    "export": "EXPORT",
    "read": "READ",
    "tileaa": "TILEAA",
    "tileas": "TILEAS",
    "llvm": "LLVM",
    "ptx": "PTX",
    "cubin": "CUBIN",
    "sass": "SASS",
    "check": "CHECK",
}
"""What an output line starts with."""

CACHED = "(cached)"


class StageAction(SCons.Action.FunctionAction):
    """Runs one stage.

    Its signature is the stage's code, options and tools.  SCons would take the bytecode of this very function instead,
    which changes with Python's version and does not change with what the function calls.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        super().__init__(self._execute, {})

    def get_presig(self, target: Any, source: Any, env: Any, executor: Any = None) -> bytes:
        return session(env).signature(self.stage, step_of(self.stage, target, source, env).options)

    def strfunction(self, target: Any, source: Any, env: Any, executor: Any = None) -> str | None:
        # The line is printed by the action, which knows whether the stage ran; SCons prints it under -n only.
        return self._line(target) + asked.mark(target[0]) if SCons.Script.GetOption("no_exec") else None

    def _line(self, target: Any) -> str:
        return f"  {LABELS[self.stage.name]:<8} {target[0]}"

    def _execute(self, target: Any, source: Any, env: Any) -> int:
        step = step_of(self.stage, target, source, env)
        display.silent = bool(SCons.Script.GetOption("silent"))
        display.started()
        done = _perform(session(env), step, source[0])
        if done.code:
            done = _blamed(session(env), step, done)
        else:
            session(env).know(step, done.made)
        by = f" (overridden by {os.path.relpath(step.override)})" if step.override is not None else ""
        lines = [self._line(target) + (f" {CACHED}" if done.cached else "") + by]
        if "explain" in (SCons.Script.GetOption("debug") or ()):
            lines += [f"           {reason}" for reason in _reasons(session(env), step)]
        display.finished(step, done, "\n".join(lines))
        return done.code


def _perform(session: Session, step: Step, source: Any) -> dispatch.Report:
    """Performs a step, again as long as its source is saved meanwhile: SCons must not note it as what it was before."""
    jobs = SCons.Script.GetOption("num_jobs")
    if step.stage.unit != pipeline.FILE or source.has_builder():
        return dispatch.perform(session, step, jobs)
    while True:
        before = source.get_csig()
        done = dispatch.perform(session, step, jobs)
        if not os.path.isfile(step.input):
            return done
        now = SCons.Util.hash_file_signature(step.input)
        if now == before:
            return done
        # What the target's own record has of its source is this object.
        source.get_ninfo().csig = now


def _blamed(session: Session, step: Step, done: dispatch.Report) -> dispatch.Report:
    """The report of a failure, which is none of the source when somebody has changed the artifact that was read."""
    known = session.known.get(os.path.abspath(step.input))
    if known is None or known == digest_if_there(step.input):
        return done
    message = f"error: {step.input} is not as it was made any more: something else wrote it during the build"
    return done._replace(text=message, code=int(ExitCode.CONFIGURATION))


def _reasons(session: Session, step: Step) -> list[str]:
    """What of a step's key was not as it was when it last ran."""
    entry = session.history.entry(step.stem, step.stage.name) if session.history is not None else None
    if entry is None:
        return []
    return session.history.differences(entry) or [SAME_KEY]


def is_done(node: Any) -> bool:
    return node.get_state() in gating.DONE


display = Display(is_done)

declared_steps: dict[Any, standing.Own] = {}
"""The steps of the pseudo-builders by their nodes."""


def _own(targets: Sequence[Any]) -> standing.Own | None:
    """The step that a task performs; None for a task that is none of ours."""
    found = declared_steps.get(targets[0])
    if found is None:
        executor = targets[0].get_executor()
        for action in executor.get_action_list() if executor is not None else ():
            if isinstance(action, StageAction):
                env = executor.get_build_env()
                step = step_of(action.stage, targets, executor.get_all_sources(), env)
                found = declared_steps[targets[0]] = standing.Own(session(env), step, False)
    return found


asked = standing.Asked(_own, display)


def step_of(stage: Stage, target: Sequence[Any], source: Sequence[Any], env: Any) -> Step:
    """The step of a node: what the pseudo-builder said, or what follows from the files of a stage builder's call."""
    step = env.get("TILE_STEP")
    if step is not None:
        return step
    main = str(target[0])
    stem = main.removesuffix(stage.suffix)
    wanted = [str(node).removeprefix(stem) for node in target]
    first = origin = source[0]
    while origin.sources:
        origin = origin.sources[0]
    return Step(
        stage,
        str(first.rfile()),
        stem,
        wanted,
        source_name(origin),
        origin.srcnode().abspath,
        checked_options(env, _one_target(env), env["TILE_OPT"], {}),
        locations=_locations_beside(stage, str(first)),
    )


def _one_target(env: Any) -> str:
    """The target of a stage that is called alone; raises BadVariable for several."""
    found = words("TILE_SM", construction_variable(env, "TILE_SM"), GPU_NAMES)
    if len(found) > 1:
        raise BadVariable(f"TILE_SM={','.join(found)}: a stage that is called alone has one target")
    return found[0]


def _locations_beside(stage: Stage, source: str) -> list[str]:
    """The location files beside an artifact, nearest first; for a stage that sees no module, the last of them."""
    earlier = pipeline.STAGES[: pipeline.STAGES.index(stage)]
    if stage.unit == pipeline.FILE or not source.endswith(earlier[-1].suffix):
        return []
    stem = source.removesuffix(earlier[-1].suffix)
    found = [stem + row.location_suffix for row in reversed(earlier) if row.makes_module]
    return found if pipeline.takes_module(stage) else found[-1:]


def checked_options(env: Any, sm: str, opt: int | str, further: dict[str, Any]) -> CompileOptions:
    """Raises BadVariable and CompileError."""
    common = env["TILE_OPTIONS"]
    if not isinstance(common, Mapping):
        raise BadVariable(f"TILE_OPTIONS={common!r}: a dict of options is expected")
    given = {lookup(name).name: value for name, value in {**common, **further}.items()}
    for name, own in OWN_NAMES.items():
        if name in given:
            raise BadVariable(f"option '{name}' is called '{own}' here")
    return CompileOptions({**given, "gpu-name": sm, "opt-level": opt})


def construction_variable(env: Any, name: str) -> Any:
    """A construction variable's value; a list stays one, which SCons would write with spaces."""
    value = env[name]
    return env.subst(value) if isinstance(value, str) else value
