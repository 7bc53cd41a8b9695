"""The SCons side: an action per stage, a builder per stage, and the pseudo-builders that put them together.

    env.TileKernel(source, sm=..., opt=..., emit=..., entries=..., **options) -> the product's nodes
    env.TileTree(directory, ...)                                              -> those of every kernel below it
    env.TileWatch()                                                           -> the target that keeps them built
    env.TileExport, TileRead, TileAA, TileAS, TileLLVM, TilePTX, TileCubin    one stage

Construction variables: TILE_SM and TILE_EMIT (one or several, with commas or in a list), TILE_OPT, TILE_OPTIONS (dict
of further options), TILE_BUILDDIR, TILE_CACHE and TILE_EXECUTOR (dask://HOST:PORT).  A host project's values win over
the defaults set here.  What is wrong with an argument is told with the line of the SConstruct.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import SCons.Action
import SCons.Builder
import SCons.Errors
import SCons.Node
import SCons.Node.FS
import SCons.Scanner
import SCons.Script
import SCons.Util

from tileiras import extras, pipeline, units
from tileiras.build import (
    arguments,
    compiler_library,
    cpp,
    discover,
    dispatch,
    gating,
    plan,
    remark_files,
    standing,
    taskmaster,
    tidying,
    watch,
)
from tileiras.build.display import Display
from tileiras.build.execute import Session, Step, warn_on_stderr
from tileiras.build.fingerprint import CodeBase
from tileiras.build.follow import Follower
from tileiras.build.history import SAME_KEY, History
from tileiras.build.lock import BuildLock, lock_of, turn
from tileiras.build.store import OFF, READ_ONLY, ArtifactStore, default_directory, default_mode, size_limit
from tileiras.build.variables import OWN_NAMES, BadVariable, scheduler_address, words
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.files import digest_if_there
from tileiras.named_tuple import NamedTuple
from tileiras.options import GPU_NAMES, CompileOptions, lookup
from tileiras.pipeline import Stage
from tileiras.targets import target as find_target

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

LABELS = {
    "export": "EXPORT",
    "read": "READ",
    "tileaa": "TILEAA",
    "tileas": "TILEAS",
    "llvm": "LLVM",
    "ptx": "PTX",
    "cubin": "CUBIN",
    "sass": "SASS",
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
        return session(env).signature(self.stage, _step(self.stage, target, source, env).options)

    def strfunction(self, target: Any, source: Any, env: Any, executor: Any = None) -> str | None:
        # The line is printed by the action, which knows whether the stage ran; SCons prints it under -n only.
        return self._line(target) + _asked.mark(target[0]) if SCons.Script.GetOption("no_exec") else None

    def _line(self, target: Any) -> str:
        return f"  {LABELS[self.stage.name]:<8} {target[0]}"

    def _execute(self, target: Any, source: Any, env: Any) -> int:
        step = _step(self.stage, target, source, env)
        display.silent = bool(SCons.Script.GetOption("silent"))
        display.started()
        done = _perform(session(env), step, source[0])
        if done.code:
            done = _blamed(session(env), step, done)
        else:
            session(env).know(step, done.made)
        lines = [self._line(target) + (f" {CACHED}" if done.cached else "")]
        if "explain" in (SCons.Script.GetOption("debug") or ()):
            lines += [f"           {reason}" for reason in _reasons(session(env), step)]
        display.finished(step, done, "\n".join(lines))
        for file in discover.unseen_imports(step.source_path, done.dependencies):
            warn_on_stderr(
                f"{step.source_name} imports {file} in a way that the build cannot see, so that an edit there would "
                "not be noticed; use an import statement"
            )
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


def _is_done(node: Any) -> bool:
    return node.get_state() in gating.DONE


display = Display(_is_done)

_declared_steps: dict[Any, standing.Own] = {}
"""The steps of the pseudo-builders by their nodes."""


def _own(targets: Sequence[Any]) -> standing.Own | None:
    """The step that a task performs; None for a task that is none of ours."""
    found = _declared_steps.get(targets[0])
    if found is None:
        executor = targets[0].get_executor()
        for action in executor.get_action_list() if executor is not None else ():
            if isinstance(action, StageAction):
                env = executor.get_build_env()
                step = _step(action.stage, targets, executor.get_all_sources(), env)
                found = _declared_steps[targets[0]] = standing.Own(session(env), step, False)
    return found


_asked = standing.Asked(_own, display)


_sessions: dict[tuple[str, str, str], Session] = {}


def session(env: Any) -> Session:
    """The session of an environment's store, build directory and executor."""
    directory = env.subst("$TILE_CACHE")
    if directory.startswith("#"):
        directory = env.Dir(directory).abspath
    build = env.Dir(_top(_build_folder(env))).abspath
    executor = env.subst("$TILE_EXECUTOR")
    if executor:
        try:
            scheduler_address(executor)
        except ValueError as error:
            raise SCons.Errors.UserError(str(error)) from None
    found = _sessions.get((directory, build, executor))
    if found is None:
        try:
            store = ArtifactStore(directory, warn_on_stderr, _mode(), _limit())
        except ValueError as error:
            raise SCons.Errors.UserError(str(error)) from None
        idle = _builds_nothing()
        code = CodeBase(memo=store.memo_path) if idle else None
        history = History(build, noting=not _reads_only())
        found = _sessions[directory, build, executor] = Session(store, code, history)
        if executor and not idle:
            found.cluster = _cluster(executor)
    return found


def _builds_nothing() -> bool:
    """Whether this run of SCons only answers or removes; it makes nothing in the build directory."""
    return _reads_only() or bool(SCons.Script.GetOption("clean"))


_READING = ("no_exec", "help", "question")
"""Options of runs that leave a build directory as it is."""

_locks: dict[str, BuildLock] = {}
"""The build directories that this process writes in."""


def _reads_only() -> bool:
    return any(SCons.Script.GetOption(name) for name in _READING)


def _take_turns(env: Any) -> None:
    """Waits until no other process writes in an environment's build directory, and keeps others out from now on.

    To be called before anything is read there, SCons' own signatures included, which it reads for the first target.
    """
    build = env.Dir(_top(_build_folder(env))).abspath
    if build not in _locks and not _reads_only():
        _locks[build] = lock_of(build, lambda line: print(line, file=sys.stderr))
        _locks[build].acquire()


_tidyings: dict[Session, tidying.Tidying] = {}


def _tidy(session: Session, listing: tidying.Listing) -> None:
    """Has what gone kernels left removed; not in interactive sessions, which declare once and build often."""
    if SCons.Script.GetOption("interactive") or SCons.Script.GetOption("question"):
        return
    if session not in _tidyings:
        _tidyings[session] = tidying.Tidying(session, _is_done, display.note)
    _tidyings[session].add(listing)


def _asked_for(targets: Sequence[Any]) -> None:
    for found in _tidyings.values():
        found.asked_for(targets)


def _cluster(executor: str) -> Any:
    from tileiras.build.cluster import JOBS, Cluster

    try:
        cluster = Cluster(executor, warn_on_stderr)
    except (ValueError, ImportError) as error:
        raise SCons.Errors.UserError(str(error)) from None
    if SCons.Script.GetOption("num_jobs") == 1:
        SCons.Script.SetOption("num_jobs", JOBS)
    return cluster


def _mode() -> str:
    """The store's mode: SCons' own --cache-disable and --cache-readonly, else the environment's."""
    if SCons.Script.GetOption("cache_disable"):
        return OFF
    if SCons.Script.GetOption("cache_readonly"):
        return READ_ONLY
    try:
        return default_mode()
    except ValueError as error:
        raise SCons.Errors.UserError(str(error)) from None


def _limit() -> int:
    try:
        return size_limit()
    except ValueError as error:
        raise SCons.Errors.UserError(f"TILEIRAS_CACHE_SIZE: {error}") from None


def _step(stage: Stage, target: Sequence[Any], source: Sequence[Any], env: Any) -> Step:
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
        _name(origin),
        origin.srcnode().abspath,
        _options(env, _one_target(env), env["TILE_OPT"], {}),
        locations=_locations_beside(stage, str(first)),
    )


def _one_target(env: Any) -> str:
    """The target of a stage that is called alone; raises BadVariable for several."""
    found = words("TILE_SM", _variable(env, "TILE_SM"), GPU_NAMES)
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


def _options(env: Any, sm: str, opt: int | str, further: dict[str, Any]) -> CompileOptions:
    """Raises BadVariable and CompileError."""
    common = env["TILE_OPTIONS"]
    if not isinstance(common, Mapping):
        raise BadVariable(f"TILE_OPTIONS={common!r}: a dict of options is expected")
    given = {lookup(name).name: value for name, value in {**common, **further}.items()}
    for name, own in OWN_NAMES.items():
        if name in given:
            raise BadVariable(f"option '{name}' is called '{own}' here")
    return CompileOptions({**given, "gpu-name": sm, "opt-level": opt})


# ---- pseudo-builders -------------------------------------------------------------------------------------------------


@arguments.located
def tile_kernel(
    env: Any,
    source: Any,
    sm: str | Iterable[str] | None = None,
    opt: int | str | None = None,
    emit: str | Iterable[str] | None = None,
    entries: str | Iterable[str] | None = None,
    **options: Any,
) -> list[Any]:
    """Declares the stages of one or several sources for one or several targets and products; returns the products.

    `sm` and `emit` are one or several words, with commas or in a list.  `entries` limits the kernels to those named; it
    is needed when the source does not exist yet.
    """
    nodes: list[Any] = []
    session(env)
    variants = _variants(env, sm, opt, emit, options)
    only = arguments.entry_names(entries)
    _take_turns(env)
    for node in _sources(env, source):
        if only is not None and not node.has_builder():
            _check_entries(node, only)
        for values, product in variants:
            path = node.srcnode().abspath
            _note(watch.Single(path, _name(node), values, product, _build_folder(env), only))
            declared = _declare(env, node, values, product, only)
            nodes += declared.products
            listing = tidying.Listing(None, _absolute(env, _folder(env, values)), values)
            known = declared.entries if only is None else None
            listing.add(path, _absolute(env, declared.stem), known, declared.products, declared.nodes)
            _tidy(session(env), listing)
    _add_products(env, nodes)
    return nodes


def _add_products(env: Any, nodes: list[Any]) -> None:
    """Notes what TileKernel and TileTree return.

    Without Default() and targets SCons builds the top folder.  What is elsewhere belongs to it all the same.
    """
    _products.update(nodes)
    top = env.Dir("#")
    outside = [node for node in nodes if not node.is_under(top)]
    if outside:
        env.Depends(top, outside)


def _sources(env: Any, source: Any) -> list[Any]:
    """The nodes of files; raises BadVariable for anything else."""
    found: list[Any] = []
    for item in SCons.Script.Flatten([source]):
        try:
            nodes = env.arg2nodes(arguments.path_or_node("source", item), env.File)
        except TypeError:  # of SCons, which looks at the disk
            nodes = [None]
        if any(node is None or isinstance(node, SCons.Node.FS.Dir) for node in nodes):
            raise BadVariable(f"{item} is a folder; env.TileTree builds the kernels in it")
        found += nodes
    return found


def _check_entries(node: Any, wanted: Sequence[str]) -> None:
    """Raises BadVariable for a kernel that a source has not, as far as the source can be read."""
    path = node.srcnode().abspath
    known = _entries(path, _name(node)) if os.path.isfile(path) else []
    missing = [name for name in wanted if name not in known] if known else []
    if missing:
        raise BadVariable(f"entries: {_name(node)} has no kernel {missing[0]}; it has {', '.join(known)}")


def _variants(
    env: Any,
    sm: str | Iterable[str] | None,
    opt: int | str | None,
    emit: str | Iterable[str] | None,
    options: dict[str, Any],
) -> list[tuple[CompileOptions, str]]:
    """The options and the product's name for every target and product; raises BadVariable and CompileError."""
    level = env["TILE_OPT"] if opt is None else opt
    emit = emit or _variable(env, "TILE_EMIT")
    products = words("emit", emit, pipeline.EMIT) if emit else []
    found = []
    for target in words("sm", _variable(env, "TILE_SM") if sm is None else sm, GPU_NAMES):
        values = _options(env, target, level, options)
        found += [(values, product) for product in products or [pipeline.TIERS[values["opt-level"]]]]
    return found


def _variable(env: Any, name: str) -> Any:
    """A construction variable's value; a list stays one, which SCons would write with spaces."""
    value = env[name]
    return env.subst(value) if isinstance(value, str) else value


@arguments.located
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

    Kernels that the manifest of the last build shows to be clean are declared as plain files.  Python sources are
    left out, with one line saying so, where the front end that reads them is not installed, and for targets older than
    their `TILEIRAS_REQUIRES`.
    """
    top = _existing_folder(env, directory)
    variants = _variants(env, sm, opt, emit, options)
    only = arguments.entry_names(entries)
    _take_turns(env)
    base = top.srcnode()
    _note(watch.Tree(base.abspath, _named(base.path), variants, _build_folder(env), only))
    with _collector_off():
        nodes = _declare_tree(env, top, variants, only)
        _add_products(env, nodes)
    return nodes


def _existing_folder(env: Any, directory: Any) -> Any:
    """The node of a folder that is there; raises BadVariable for anything else."""
    given = arguments.path_or_node("directory", directory)
    try:
        top = given if isinstance(given, SCons.Node.FS.Dir) else env.Dir(given)
    except TypeError:  # of SCons, which looks at the disk
        raise BadVariable(f"{given} is a file; env.TileKernel builds the kernels in it") from None
    if not os.path.isdir(top.srcnode().abspath):
        raise BadVariable(f"there is no folder {top.srcnode().path}")
    return top


_products: set[Any] = set()
"""The nodes that TileKernel and TileTree returned."""

_watched: list[watch.Tree | watch.Single] = []
_scripts: dict[str, None] = {}
"""What was declared, and the SConscripts that did."""


def _note(item: watch.Tree | watch.Single) -> None:
    _watched.append(item)
    for frame in SCons.Script.call_stack:
        if frame.sconscript is not None:
            _scripts[frame.sconscript.srcnode().abspath] = None


def _build_folder(env: Any) -> str:
    """The build directory, absolute or from the top, which SCons writes as `#build` or `#/build` as well."""
    folder = env.subst("$TILE_BUILDDIR")
    return folder[1:].lstrip("/") if folder.startswith("#") else folder


@arguments.located
def tile_watch(env: Any, name: str = "watch") -> list[Any]:
    """Declares a target that keeps every kernel built that TileTree and TileKernel were called for: `scons watch`.

    Where the graph makes something of the kernels, scons is run beside, with the rest of the command line, whenever
    they were built.
    """
    jobs = SCons.Script.GetOption("num_jobs")
    arguments.text("name", name)
    if name in SCons.Script.COMMAND_LINE_TARGETS:
        # Serially SCons runs actions in the main thread, the only one that an interrupt ends.  SetOption would leave
        # what the command line says.
        SCons.Script.Main.OptionsParser.values.num_jobs = 1

    def action(target: Any, source: Any, env: Any) -> int:
        import signal

        kept = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            # Started again as SCons was, from the folder that it was called in.
            command = [sys.executable, *sys.orig_argv[1:]]
            follower = None
            if _has_consumers(env):
                rest = [word for word in command if word != name]
                follower = Follower(
                    [*rest, "-Q"], SCons.Script.GetLaunchDir(), _write_line, lambda: turn(_locks, _write_line)
                )
            gating.abandon()
            for lock in _locks.values():
                lock.release()  # taken again for as long as something is built
            watching = watch.Watch(_watched, session(env), list(_scripts), jobs, follower=follower)
            return watch.forever(watching, SCons.Script.GetLaunchDir(), command)
        finally:
            signal.signal(signal.SIGINT, kept)

    return env.AlwaysBuild(env.Alias(name, [], SCons.Action.Action(action, cmdstr=None)))


def _write_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _has_consumers(env: Any) -> bool:
    """Whether anything but our own stages is made from a kernel's product."""
    for node in list(env.Dir("#").root._lookupDict.values()):
        # What is not known to be a file yet is an Entry.
        if not isinstance(node, SCons.Node.FS.Dir) and node.has_builder():
            own = isinstance(getattr(node.get_builder(), "action", None), StageAction)
            if not own and not _products.isdisjoint(node.sources):
                return True
    return False


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """Nodes stay until the end; looking for garbage among them, then and later, takes a third of a null build."""
    import gc

    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def _declare_tree(
    env: Any, top: Any, variants: Sequence[tuple[CompileOptions, str]], entries: Sequence[str] | None
) -> list[Any]:
    own = session(env)
    gate = gating.Gate.of(env, own)
    folders = [_folder(env, values) for values, _ in variants]
    root = env.Dir("#")
    base = top.srcnode()
    listings = [
        tidying.Listing(base.abspath, _absolute(env, folder), values)
        for (values, _), folder in zip(variants, folders, strict=True)
    ]
    nodes: list[Any] = []
    left_out = LeftOut(str(top))
    for path in discover.kernel_files(base.abspath):
        full = os.path.join(base.abspath, path)
        left_out.sources += 1
        if path.endswith(".py") and not discover.has_front_end():
            left_out.python += 1
            for listing in listings:
                listing.add(full, "", None)
            continue
        name = _named(os.path.join(base.path, path))
        least = discover.required_target(full) if path.endswith(".py") else None
        for (values, product), folder, listing in zip(variants, folders, listings, strict=True):
            stem = plan.stem(folder, full, name)
            absolute = os.path.join(listing.variant_folder, stem[len(folder) + 1 :])
            if least is not None and not find_target(values["gpu-name"]).meets(str(least)):
                left_out.too_old.setdefault(values["gpu-name"], []).append(f"{top.File(path)} (sm_{least})")
                listing.add(full, absolute, None)
                continue
            kernel = gating.Kernel(full, stem, values, product, entries)
            clean = gate.clean(kernel) if gate is not None else None
            if clean is not None and not clean.declared:
                products = gating.settled(root, clean.products)
                nodes += products
                listing.add(full, absolute, clean.entries if entries is None else None, products)
                continue
            before = gate.observe(kernel) if gate is not None else None
            declared = _declare(env, top.File(path), values, product, entries, settled=clean is not None)
            nodes += declared.products
            if gate is not None:
                listing.has_new_entries |= gate.entries(kernel) != declared.entries
                gate.declared(kernel, before, declared.products, declared.nodes, declared.entries)
            known = declared.entries if entries is None else None
            listing.add(full, absolute, known, declared.products, declared.nodes)
    for listing in listings:
        _tidy(own, listing)
    left_out.say()
    return nodes


class LeftOut:
    """The kernel sources of a tree that are not compiled: a line for those that need what is not installed, and one for
    each target that others are not for."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.sources = self.python = 0
        self.too_old: dict[str, list[str]] = {}
        """Target -> files, and the targets that they need."""

    def say(self) -> None:
        if self.python:
            hint = extras.install("cuda-tile")
            print(
                f"tileiras: {self.python} of {self.sources} kernel sources in {self.folder} are cuTile Python, "
                f"which is not installed, and are left out; to build them, {hint}"
            )
        for target, files in self.too_old.items():
            print(f"tileiras: left out for {target}, as they need a newer one: {', '.join(files)}")


class _Declared(NamedTuple):
    products: list[Any]
    nodes: list[Any]
    """All nodes of the chain, the products among them."""
    stem: str
    entries: list[str]


def _declare(
    env: Any, node: Any, options: CompileOptions, emit: str, only: Sequence[str] | None, settled: bool = False
) -> _Declared:
    """Declares the stages of one source; `settled` when the manifest shows all of its artifacts to be as made."""
    name = _name(node)
    path = node.srcnode().abspath
    entries = list(only) if only is not None else _entries(path, name)
    stem = plan.stem(_folder(env, options), path, name)
    source = str(node.rfile())
    planned = plan.plan(path, name, source, stem, options, emit, entries)
    made = {source: node}
    every: list[Any] = []
    here = session(env)
    for step in planned.steps:
        nodes = _declare_step(env, here, made[step.input], step)
        known = _declared_steps.get(nodes[0])
        _declared_steps[nodes[0]] = standing.Own(here, step, settled and (known is None or known.settled))
        made.update(zip(step.outputs, nodes, strict=True))
        every += nodes
    if SCons.Script.GetOption("clean"):
        for path in remark_files.remark_files(planned.steps):
            env.Clean(every, _top(path))
    display.idle = _builds_nothing()
    if not display.idle:
        remark_files.remove_remarks(planned.steps)
    display.declared(planned.steps, made, [made[product] for product in planned.products])
    return _Declared([made[product] for product in planned.products], every, stem, entries)


_steps: dict[tuple[Session, str, str], tuple[Step, Any, list[Any]]] = {}
"""What was declared, by session, stem and stage: the step, the node of its source and its own nodes."""


def _declare_step(env: Any, session: Session, source: Any, step: Step) -> list[Any]:
    """The nodes of a step; those there are when a kernel is declared once more, for another product."""
    place = (session, step.stem, step.stage.name)
    known = _steps.get(place)
    if known is not None and known[0].is_as(step) and known[1] is source:
        return known[2]
    builder = getattr(env, BUILDERS[step.stage.name])
    nodes = builder([_top(output) for output in step.outputs], source, TILE_STEP=step)
    for own in nodes:
        # The manifest may have shown it to be clean before somebody declared it after all.
        if own.get_state() != SCons.Node.no_state:
            own.set_state(SCons.Node.no_state)
            own.clear()
    # Artifacts are replaced as a whole; SCons need not take them away before, when somebody may be reading them.
    env.Precious(nodes)
    further = [*step.beside.values(), *(step.locations if step.stage.needs_locations(step.options) else ())]
    if further:
        env.Depends(nodes, [env.File(_top(file)) for file in further])
    _steps[place] = step, source, nodes
    return nodes


def _folder(env: Any, options: CompileOptions) -> str:
    """Where the artifacts of one variant are, from the top."""
    return plan.folder(_build_folder(env), options)


def _absolute(env: Any, path: str) -> str:
    """The absolute path of what `_folder` and `plan.stem` name from the top."""
    return env.Dir(_top(path)).abspath


def _top(path: str) -> str:
    return path if path.startswith("#") or os.path.isabs(path) else "#" + path


def _name(node: Any) -> str:
    """What messages and artifacts call a source: its path from the top, or its bare name when it is elsewhere."""
    return _named(node.srcnode().path)


def _named(path: str) -> str:
    if os.path.isabs(path) or path.split(os.sep)[0] == os.pardir:
        path = os.path.basename(path)
    return path.replace(os.sep, "/")


_known_entries: dict[tuple, list[str]] = {}


def _entries(path: str, name: str) -> list[str]:
    """The entries of a source; none when it cannot be read, which its own stages will report."""
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


# ---- the tool --------------------------------------------------------------------------------------------------------


@arguments.located
def _side_targets(target: list[Any], source: list[Any], env: Any) -> tuple[list[Any], list[Any]]:
    """Emitter of the stage builders when they are called alone: what else the stage writes, and is given."""
    if env.get("TILE_STEP") is None:
        _take_turns(env)
        main = str(target[0])
        for row in pipeline.STAGES:
            if main.endswith(row.suffix):
                stem = main.removesuffix(row.suffix)
                step = _step(row, target, source, env)
                target = target + [env.File(stem + suffix) for suffix in row.artifacts(step.options)[1:]]
                beside = [env.File(path) for path in step.beside.values()]
                env.Depends(target, [node for node in beside if node.has_builder() or node.exists()])
    return target, source


def _imported_modules(node: Any, env: Any, path: Any) -> list[Any]:
    """Scanner of cuTile Python sources: the modules of their own folder that they import, directly or not."""
    return [env.File(file) for file in discover.imported_files(node.rfile().abspath)]


def generate(env: Any, **keywords: Any) -> None:
    """Sets an environment up; SCons calls it for a tool."""
    taskmaster.install(_asked_for, _asked.is_stale, _asked.may_run)
    env.SetDefault(
        TILE_SM="sm_90",
        TILE_OPT=3,
        TILE_EMIT="",
        TILE_OPTIONS={},
        TILE_BUILDDIR="build",
        TILE_CACHE=default_directory(env.Dir("#").abspath),
        TILE_EXECUTOR="",
    )
    scanner = SCons.Scanner.ScannerBase(function=_imported_modules, name="tileiras", skeys=[".py"])
    for stage in pipeline.STAGES:
        env["BUILDERS"][BUILDERS[stage.name]] = SCons.Builder.Builder(
            action=StageAction(stage),
            suffix=stage.suffix,
            emitter=_side_targets,
            source_scanner=scanner if stage.reads_files else None,
        )
    env.AddMethod(tile_kernel, "TileKernel")
    env.AddMethod(tile_tree, "TileTree")
    env.AddMethod(tile_watch, "TileWatch")
    cpp.add_methods(env, tile_kernel)
    compiler_library.add_method(env)


def exists(env: Any) -> bool:
    return True
