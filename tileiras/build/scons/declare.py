"""Declares the stages of a kernel as nodes of SCons."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import SCons.Errors
import SCons.Node
import SCons.Script

from tileiras import build, pipeline
from tileiras.build import discover, plan
from tileiras.build.run.execute import Session
from tileiras.build.scons import gating, patches, products, pruning, staleness
from tileiras.build.scons.action import BUILDERS, declared_steps, display, is_done
from tileiras.build.scons.patches import note_artifacts, note_source
from tileiras.build.scons.places import from_top, overrides_folder, path_from_top, source_name, variant_folder
from tileiras.build.scons.sessions import builds_nothing, session
from tileiras.build.step import Step
from tileiras.diagnostics import CompileError
from tileiras.options import CompileOptions
from tileiras.stages import units
from tileiras.support.named_tuple import NamedTuple

_prunings: dict[Session, pruning.Pruning] = {}


def prune(session: Session, listing: pruning.Listing) -> None:
    """Schedule removal of leftovers; not with --question, nor --interactive, which declares once and builds often."""
    if SCons.Script.GetOption("interactive") or SCons.Script.GetOption("question"):
        return
    if session not in _prunings:
        _prunings[session] = pruning.Pruning(session, is_done, display.note)
    _prunings[session].add(listing)


_environments: dict[int, Any] = {}
"""The environments in which stages were declared, by identity."""


def before_build(targets: Sequence[Any]) -> None:
    """Hook: called with the targets that SCons is about to build."""
    products.open_readers_of(patches.made_files)
    gating.begin()
    for env in _environments.values():
        patches.avoid_default_environment(env)
    for pruning_ in _prunings.values():
        pruning_.restrict(targets)
    sessions = dict.fromkeys(own.session for own in declared_steps.values())
    servers = [item for item in sessions if item.store.remote is not None]
    if not servers or builds_nothing():
        return
    reached = _reached(targets)
    for server in servers:
        steps = [own.step for node, own in declared_steps.items()
                 if own.session is server and node in reached and not own.is_clean]  # fmt: skip
        build.scons.lookahead.look_ahead(server, steps)


def _reached(targets: Sequence[Any]) -> set[Any]:
    """The first targets of the steps on which targets depend."""

    def below(node: Any) -> list[Any]:
        is_folder = isinstance(node, SCons.Node.FS.Dir)
        return [own for own in declared_steps if own.is_under(node)] if is_folder else []

    builders = (node.get_executor(create=0) for node in pruning.reached_from(targets, below) if node.has_builder())
    return {executor.get_all_targets()[0] for executor in builders if executor is not None}


class Declared(NamedTuple):
    products: list[Any]
    nodes: list[Any]
    """All nodes of the chain, the products among them."""
    stem: str
    entries: list[str]


def declare(
    env: Any, node: Any, options: CompileOptions, emit: str, only: Sequence[str] | None, is_clean: bool = False
) -> Declared:
    """Declare the stages of one source; `is_clean` if all of its artifacts are clean according to the manifest."""
    _environments[id(env)] = env
    name = source_name(node)
    path = node.srcnode().abspath
    entries = list(only) if only is not None else entries_of(path, name)
    stem = plan.stem(variant_folder(env, options), path, name)
    source = path_from_top(env, node)
    note_source(node)
    edited = overrides_folder(env)
    if edited:
        display.overrides[edited] = None
    chain = plan.plan(path, name, source, stem, options, emit, entries, edited)
    result = {source: node}
    every: list[Any] = []
    here = session(env)
    for step in chain.steps:
        nodes = _declare_step(env, here, result[step.input], step)
        row = declared_steps.get(nodes[0])
        declared_steps[nodes[0]] = staleness.DeclaredStep(here, step, is_clean and (row is None or row.is_clean))
        result.update(zip(step.outputs, nodes, strict=True))
        every += nodes
    if SCons.Script.GetOption("clean"):
        for path in build.remark_files.remark_files(chain.steps):
            env.Clean(every, from_top(path))
    display.idle = builds_nothing()
    if not display.idle:
        build.remark_files.remove_remarks(chain.steps)
    display.add(chain.steps, result, [result[product] for product in chain.products])
    return Declared([result[product] for product in chain.products], every, stem, entries)


_steps: dict[tuple[Session, str, str], tuple[Step, Any, list[Any]]] = {}
"""Declared steps, by session, stem and stage: the step, the node of its source and its own nodes."""


def _declare_step(env: Any, session: Session, source: Any, step: Step) -> list[Any]:
    """The nodes of a step; existing ones are reused when a kernel is declared again for another product."""
    place = (session, step.stem, step.stage.name)
    row = _steps.get(place)
    if row is not None and row[0].is_as(step) and row[1] is source:
        return row[2]
    builder = getattr(env, BUILDERS[step.stage.name])
    nodes = builder([from_top(output) for output in step.outputs], source, TILE_STEP=step)
    for own in nodes:
        # The node may have been marked clean, by the manifest, before this declaration.
        if own.get_state() != SCons.Node.no_state:
            own.set_state(SCons.Node.no_state)
            own.clear()
    # Artifacts are replaced atomically; SCons must not remove them first, since other processes may be reading them.
    env.Precious(nodes)
    further = [*step.beside.values(), *(step.locations if step.stage.needs_locations(step.options) else ())]
    if further:
        env.Depends(nodes, [env.File(from_top(file)) for file in further])
    if step.stage.unit == pipeline.FILE:
        note_artifacts(step.stem, nodes)
    _steps[place] = step, source, nodes
    return nodes


_known_entries: dict[tuple, list[str]] = {}


def entries_of(path: str, name: str) -> list[str]:
    """The entries of a source; empty if it cannot be parsed, which its stages will report."""
    try:
        status = os.stat(path)
    except OSError:
        raise SCons.Errors.UserError(
            f"{name} does not exist; entries=[...] is needed for a source that the build makes"
        ) from None
    key = (path, status.st_mtime_ns, status.st_size)
    if key not in _known_entries:
        try:
            _known_entries[key] = discover.entry_names(units.Source.read(path, name))
        except CompileError:
            _known_entries[key] = []
    return _known_entries[key]
