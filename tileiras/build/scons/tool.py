"""The SCons tool: an action and a builder per stage, and the pseudo-builders that combine them.

    env.TileKernel(source, sm=..., opt=..., emit=..., entries=..., **options) -> the product's nodes
    env.TileTree(directory, ...)                                              -> those of every kernel below it
    env.TileWatch()                                                           -> the target that keeps them built
    env.TileExport, TileRead, TileAA, TileAS, TileLLVM, TilePTX, TileCubin    one stage

Construction variables: TILE_SM and TILE_EMIT (one or several, with commas or in a list), TILE_OPT, TILE_OPTIONS (dict
of further options), TILE_BUILDDIR, TILE_CACHE and TILE_EXECUTOR (dask://HOST:PORT).  A host project's values win over
the defaults set here.  A wrong argument is reported with its line of the SConstruct.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import SCons.Action
import SCons.Builder
import SCons.Node.FS
import SCons.Scanner
import SCons.Script
import SCons.Util

from tileiras import build, pipeline
from tileiras.build import discover
from tileiras.build.ledger.lock import turn
from tileiras.build.scons import arguments, gating, kernels, patches, products
from tileiras.build.scons.action import (
    BUILDERS,
    REPORT,
    StageAction,
    step_of,
    task_callbacks,
)
from tileiras.build.scons.declare import before_build
from tileiras.build.scons.places import build_folder, from_top, named_from_top, source_name
from tileiras.build.scons.sessions import locks, session, take_turns
from tileiras.build.scons.trees import TreeDeclaration, collector_off
from tileiras.build.scons.variables import BadVariable, construction_variables
from tileiras.build.scons.variants import requested_options
from tileiras.build.store.local import default_directory
from tileiras.build.watch.targets import Single, Tree
from tileiras.diagnostics import ExitCode

command_line = arguments.locate(construction_variables)
"""The construction variables that the words `NAME=VALUE` of a command line set: for `Environment` in an SConstruct."""

_LATER = {
    "TileHeader": ("cpp", "tile_header"),
    "TileObject": ("cpp", "tile_object"),
    "TileLibrary": ("cpp", "tile_library"),
    "TileFatbin": ("fatbins", "tile_fatbin"),
    "TileCompiler": ("compiler_library", "tile_compiler"),
    "TileReport": ("reports", "tile_report"),
    "TileCheck": ("checks", "tile_check"),
}
"""Pseudo-builders whose files are loaded by the first call: file and function."""


@arguments.locate
def tile_kernel(
    env: Any,
    source: Any,
    sm: str | Iterable[str] | None = None,
    opt: int | str | None = None,
    emit: str | Iterable[str] | None = None,
    entries: str | Iterable[str] | None = None,
    **options: Any,
) -> list[Any]:
    """Declare the stages of one or several sources for one or several targets and products; return the products.

    `sm` and `emit` are one or several words, with commas or in a list.  `entries` limits the kernels to those named; it
    is needed when the source does not exist yet.  Kernels that are clean according to the manifest of the last build
    are declared when their nodes are needed.
    """
    parts: list[Any] = []
    variants = kernels.variants(env, sm, opt, emit, entries, options)
    build = build_folder(env)
    take_turns(env)
    with collector_off():
        for node in kernels.sources(env, source):
            path, name = node.srcnode().abspath, source_name(node)
            for variant in variants:
                _note(Single(path, name, variant.options, variant.emit, build, variant.entries))
                parts += kernels.kernel(env, node, variant, lambda nodes: _add_products(env, nodes))
    return products.Products(parts)


def _add_products(env: Any, nodes: list[Any]) -> None:
    """Record the nodes that TileKernel and TileTree return.

    Without Default() and targets SCons builds the top folder; products outside it are made its dependencies.
    """
    _products.update(nodes)
    # A CleanNode is up to date, wherever its products are, and is not made a dependency.
    top = env.Dir("#")
    outside = [node for node in nodes if not node.is_under(top)]
    if outside:
        env.Depends(top, outside)


@arguments.locate
def tile_tree(
    env: Any,
    directory: Any,
    sm: str | Iterable[str] | None = None,
    opt: int | str | None = None,
    emit: str | Iterable[str] | None = None,
    entries: str | Iterable[str] | None = None,
    **options: Any,
) -> list[Any]:
    """`tile_kernel` for every kernel source below a directory, in alphabetical order.

    Kernels that are clean according to the manifest of the last build are declared as plain files.  Python sources
    are left out, with one line of output, if the front end is not installed, and for targets older than their
    `TILEIRAS_REQUIRES`.
    """
    top = _existing_folder(env, directory)
    variants = requested_options(env, sm, opt, emit, options)
    only = arguments.entry_names(entries)
    take_turns(env)
    base = top.srcnode()
    if base.abspath == env.Dir(from_top(build_folder(env))).abspath:
        raise BadVariable(f"TILE_BUILDDIR={build_folder(env)}: artifacts would become sources of the tree there")
    _note(Tree(base.abspath, named_from_top(base.path), variants, build_folder(env), only))
    with collector_off():
        nodes = TreeDeclaration(env, top, variants, only).products(_products.update)
        _add_products(env, nodes.in_short())
    return nodes


def _existing_folder(env: Any, directory: Any) -> Any:
    """The node of an existing folder; raises BadVariable for anything else."""
    path = arguments.path_or_node("directory", directory)
    try:
        top = path if isinstance(path, SCons.Node.FS.Dir) else env.Dir(path)
    except TypeError:  # of SCons, which looks at the disk
        raise BadVariable(f"{path} is a file; env.TileKernel builds the kernels in it") from None
    if not os.path.isdir(top.srcnode().abspath):
        raise BadVariable(f"there is no folder {top.srcnode().path}")
    return top


_products: set[Any] = set()
"""The nodes that TileKernel and TileTree returned."""

_watched: list[Tree | Single] = []

_scripts: dict[str, None] = {}
"""The SConscripts that called TileKernel or TileTree."""


def _note(item: Tree | Single) -> None:
    _watched.append(item)
    for frame in SCons.Script.call_stack:
        if frame.sconscript is not None:
            _scripts[frame.sconscript.srcnode().abspath] = None


@arguments.locate
def tile_watch(env: Any, name: str = "watch") -> list[Any]:
    """Declare a target that keeps every kernel built that TileTree and TileKernel were called for: `scons watch`.

    If other nodes of the graph are built from the kernels, scons is run with the rest of the command line after each
    build of kernels.
    """
    jobs = SCons.Script.GetOption("num_jobs")
    arguments.text("name", name)
    if name in SCons.Script.COMMAND_LINE_TARGETS:
        patches.use_one_job()

    def action(target: Any, source: Any, env: Any) -> int:
        import signal

        if env["TILE_OVERRIDES"]:
            print("error: a watch takes no overrides: they are for builds", file=sys.stderr)
            return int(ExitCode.CONFIGURATION)

        result = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            # The command that restarts SCons, from the folder in which it was called.
            command = [sys.executable, *sys.orig_argv[1:]]
            consumers = None
            if _has_consumers(env):
                rest = [word for word in command if word != name]
                consumers = build.watch.outputs.Consumers(
                    [*rest, "-Q"], SCons.Script.GetLaunchDir(), _write_line, lambda: turn(locks, _write_line)
                )
            gating.abandon()
            for lock in locks.values():
                lock.release()  # taken again for as long as something is built
            watching = build.watch.loop.Watch(_watched, session(env), list(_scripts), jobs, consumers=consumers)
            return build.watch.loop.forever(watching, SCons.Script.GetLaunchDir(), command)
        finally:
            signal.signal(signal.SIGINT, result)

    return env.AlwaysBuild(env.Alias(name, [], SCons.Action.Action(action, cmdstr=None)))


def _write_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _has_consumers(env: Any) -> bool:
    """Whether a kernel's product is the source of a node with an action of another tool."""
    for node in patches.known_nodes(env.Dir("#")).values():
        # A node that is not known to be a file yet is an Entry.
        if not isinstance(node, SCons.Node.FS.Dir) and node.has_builder():
            action = getattr(node.get_builder(), "action", None)
            own = isinstance(action, StageAction) or getattr(getattr(action, "row", None), "name", "") == REPORT
            if not own and not _products.isdisjoint(node.sources):
                return True
    return False


@arguments.locate
def _side_targets(target: list[Any], source: list[Any], env: Any) -> tuple[list[Any], list[Any]]:
    """Emitter of the stage builders called alone: adds the side artifacts that the stage writes and reads."""
    if env.get("TILE_STEP") is None:
        take_turns(env)
        main = str(target[0])
        for row in (*pipeline.STAGES, *pipeline.CPU):
            if main.endswith(row.suffix):
                stem = main.removesuffix(row.suffix)
                step = step_of(row, target, source, env)
                target = target + [env.File(stem + suffix) for suffix in row.artifacts(step.options)[1:]]
                beside = [env.File(path) for path in step.beside.values()]
                env.Depends(target, [node for node in beside if node.has_builder() or node.exists()])
    return target, source


def _imported_modules(node: Any, env: Any, path: Any) -> list[Any]:
    """Scanner of cuTile Python sources: the modules of their own folder that they import, directly or not."""
    imported_modules = [env.File(file) for file in discover.imported_files(node.rfile().abspath)]
    for module in imported_modules:
        patches.note_source(module)
    return imported_modules


def generate(env: Any, **keywords: Any) -> None:
    """Set up an environment: the hook that SCons calls for a tool."""
    patches.install_taskmaster(before_build, task_callbacks.is_stale, task_callbacks.may_run)
    patches.report_unwritable_database()
    patches.offer_paths(env.Dir("#"), kernels.open_path)
    gating.finish_at_exit()
    env.SetDefault(
        TILE_SM="sm_90",
        TILE_OPT=3,
        TILE_EMIT="",
        TILE_OPTIONS={},
        TILE_BUILDDIR="build",
        TILE_CACHE=default_directory(env.Dir("#").abspath),
        TILE_EXECUTOR="",
        TILE_OVERRIDES="",
        TILE_CHECK=False,
    )
    scanner = SCons.Scanner.ScannerBase(function=_imported_modules, name="tileiras", skeys=[".py"])
    for stage in (*pipeline.STAGES, *pipeline.CPU):
        env["BUILDERS"][BUILDERS[stage.name]] = SCons.Builder.Builder(
            action=StageAction(stage),
            suffix=stage.suffix,
            emitter=_side_targets,
            source_scanner=scanner if stage.reads_files else None,
        )
    env.AddMethod(tile_kernel, "TileKernel")
    env.AddMethod(tile_tree, "TileTree")
    env.AddMethod(tile_watch, "TileWatch")
    products.add_methods(env)
    for name, place in _LATER.items():
        env.AddMethod(_loaded_by_call(*place), name)


def _loaded_by_call(file: str, function: str) -> Callable[..., Any]:
    def method(env: Any, *arguments: Any, **keywords: Any) -> Any:
        return getattr(getattr(build.scons, file), function)(env, *arguments, **keywords)

    patches.as_part_of_scons(method)
    return method


def exists(env: Any) -> bool:
    return True
