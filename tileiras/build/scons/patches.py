"""All points at which this package changes or reads SCons besides its documented interface.

`PATCHES` lists the points with their reasons and with the tests that fail if a release of SCons changes them;
`tests/build/test_patches.py` looks each of them up in the installed release.  Tried with SCons `TRIED`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import SCons.Defaults
import SCons.Environment
import SCons.Node
import SCons.Node.FS
import SCons.SConsign
import SCons.Script
import SCons.Script.Main
import SCons.Taskmaster

from tileiras.support.named_tuple import NamedTuple

TRIED = ("4.5.2", "4.11.1")
"""The oldest and the newest release of SCons with which the tests named in `PATCHES` were run."""


class Patch(NamedTuple):
    """A point inside of SCons."""

    points: tuple[str, ...]
    """Names in SCons, from the module on."""
    reason: str
    test: str
    """File and name of the test that fails if SCons changes."""


PATCHES = (
    Patch(
        ("SCons.Taskmaster.Taskmaster", "SCons.Taskmaster.Task.make_ready_all", "SCons.Taskmaster.find_cycle"),
        "SCons does not compare a target's own content: damaged targets are rebuilt, before consumers read them.  "
        "Under -k it reports parents of failed nodes as dependency cycles.",
        "test_damaged_artifacts.py::test_every_kind_of_artifact_is_repaired",
    ),
    Patch(
        ("SCons.Node.FS.Dir.sconsign", "SCons.SConsign.DB", "SCons.SConsign.ForDirectory"),
        "The database has one row a folder, read and written as a whole: half of the time of a build with one edited "
        "kernel among a thousand.",
        "test_signatures.py::test_a_build_accesses_only_records_of_its_kernels",
    ),
    Patch(
        ("SCons.SConsign.write", "SCons.SConsign.DB_sync_list", "SCons.Script.Main.exit_status"),
        "A database that cannot be written ends SCons with a traceback.",
        "test_full_disk.py::test_a_full_build_directory",
    ),
    Patch(
        ("SCons.Node.FS.RootDir._lookup_abs", "SCons.Node.FS.Dir.entry_abspath"),
        "Nodes of clean products are made without accessing the disk, and all nodes are listed for `scons watch`.",
        "test_gating.py::test_a_clean_product_is_an_ordinary_source_of_others",
    ),
    Patch(
        ("SCons.Node.FS.RootDir._lookup_abs",),
        "A clean kernel has no nodes until a path of its artifacts is looked up: then its stages are declared.",
        "test_gated_kernels.py::test_a_stage_is_built_by_its_path",
    ),
    Patch(
        ("SCons.Defaults._default_env", "SCons.Environment.default_decide_source"),
        "SCons would create the default environment, and search all tools, to ask it for the CacheDir of each target.",
        "test_tool.py::test_a_build_creates_no_default_environment_unrequested",
    ),
    Patch(
        ("SCons.Script._Set_Default_Targets",),
        "`Default` of clean products does not create their nodes.",
        "test_products.py::test_an_alias_has_one_node_for_kernels_that_are_as_they_were",
    ),
    Patch(
        ("SCons.Script.Main.OptionsParser",),
        "`scons watch` runs in the main thread, which alone can be interrupted; SetOption does not override -j.",
        "test_watch.py::test_scons_watch_restarts_for_scripts_and_the_compiler",
    ),
)


def as_part_of_scons(function: Callable[..., Any]) -> None:
    """Give a function the file name of a module of SCons: SCons reports errors at the innermost frame outside of its
    own folder, which is then the user's line (`test_sconstruct_mistakes.py`)."""
    own = os.path.join(os.path.dirname(os.path.abspath(SCons.__file__)), "tileiras.py")
    function.__code__ = function.__code__.replace(co_filename=own)


def use_one_job() -> None:
    """Run serially, independent of -j."""
    SCons.Script.Main.OptionsParser.values.num_jobs = 1


def set_default_targets(env: Any, targets: Sequence[Any]) -> None:
    """As SCons' `Default`, for nodes."""
    SCons.Script._Set_Default_Targets(env, targets)


# ---- task master -----------------------------------------------------------------------------------------------------

# SCons compares the sources and the action of a target with its records, but not the target's own content.  Therefore
# `is_stale` is called for every task once its sources are up to date: a target whose content is not that of its last
# build is rebuilt.
#
# When SCons 4.11 continues after an error (`scons -k`), it may end with "Found dependency cycle(s)".  A node that is
# visited after one of its children has failed is marked as failed, but its waiting parents are not notified and stay in
# the list in which SCons searches for cycles at the end.

_is_stale: Callable[[Sequence[Any]], bool] | None = None
_may_run: Callable[[Sequence[Any], bool], None] | None = None
_before_build: Callable[[Sequence[Any]], None] | None = None


class Taskmaster(SCons.Taskmaster.Taskmaster):
    def __init__(self, targets: Any = (), tasker: Any = None, *further: Any, **keywords: Any) -> None:
        if tasker is not None and tasker.make_ready is not SCons.Taskmaster.Task.make_ready_all:  # as -c has it
            tasker = _with_staleness(tasker)
        if _before_build is not None:
            _before_build(targets)
        super().__init__(list(targets), tasker, *further, **keywords)

    def cleanup(self) -> None:
        if SCons.Script.GetOption("keep_going"):
            waiting = self.pending_children
            self.pending_children = {node for node in waiting if SCons.Taskmaster.find_cycle([node], set())}
        super().cleanup()


@functools.cache
def _with_staleness(tasker: type) -> type:
    """Derive a task class that rebuilds stale targets and, under -n, targets with a source that may change."""

    def make_ready(self: Any) -> None:
        stale = _is_stale is not None and _is_stale(self.targets)
        # No action runs under -n, so sources have the content of the last build.
        if _may_run is not None and SCons.Script.GetOption("no_exec") and _is_source_made(self.targets):
            current = not stale and _is_current(self.targets)
            _may_run(self.targets, current)
            stale |= current
        result = [node.always_build for node in self.targets]
        for node in self.targets if stale else ():
            node.always_build = True
        try:
            tasker.make_ready(self)  # type: ignore[attr-defined]
        finally:
            for node, value in zip(self.targets, result, strict=True):
                node.always_build = value

    return type(tasker.__name__, (tasker,), {"make_ready": make_ready})


def _is_source_made(targets: Sequence[Any]) -> bool:
    """Whether targets of an action have a source that the run would make."""
    executor = targets[0].get_executor()
    if executor is None or not executor.get_action_list():
        return False  # a source, an alias or a folder
    return any(child.get_state() == SCons.Node.executed for node in targets for child in node.children())


def _is_current(targets: Sequence[Any]) -> bool:
    """Whether targets are up to date as far as SCons can tell."""
    for node in targets:
        node.disambiguate().make_ready()
        if node.always_build or not node.is_up_to_date():
            return False
    return True


def install_taskmaster(
    before_build: Callable[[Sequence[Any]], None],
    is_stale: Callable[[Sequence[Any]], bool],
    may_run: Callable[[Sequence[Any], bool], None],
) -> None:
    """Replace SCons' Taskmaster; must be called before SCons creates it, after reading all SConscripts.

    `before_build` is called with the targets of the run, and `is_stale` with the targets of every task: whether to
    rebuild them.  `may_run` is called under `-n` with targets that have a source which would be built, and with whether
    they are otherwise up to date.
    """
    global _before_build, _is_stale, _may_run
    _before_build, _is_stale, _may_run = before_build, is_stale, may_run
    SCons.Taskmaster.Taskmaster = Taskmaster


# ---- database of signatures ------------------------------------------------------------------------------------------

# SCons has one row for each folder, which it reads and writes as a whole.  Here the artifacts of each kernel have a row
# of their own, of the same form, and kernel sources are not recorded: for a file without a builder, SCons only caches
# its digest, which is valid while the file's mtime is unchanged.  All other files of a folder stay in its row.
#
# An artifact recorded in both rows, by this version and another one, cannot wrongly pass as up to date: its content is
# compared with the digest that its step recorded (`staleness`).

class _Place:
    """Stands in for a folder in SCons' database; its row holds the artifacts of one kernel."""

    def __init__(self, folder: Any, stem: str) -> None:
        self._folder = folder
        self._name = stem + ".*"
        """Not the name of a file, so the row cannot be that of a folder."""
        self.fs = folder.fs
        self.is_under = folder.is_under

    def get_tpath(self) -> str:
        return os.path.join(self._folder.get_tpath(), self._name)

    def get_internal_path(self) -> str:
        return os.path.join(self._folder.get_internal_path(), self._name)


class FolderSignatures:
    """The result of `Dir.sconsign()` for a folder with kernels, or with artifacts of several kernels."""

    def __init__(self, folder: Any) -> None:
        self._folder = folder
        self._others: Any = folder._sconsign
        """The folder's own row, opened on first use."""
        self._rows: dict[str, Any] = {}
        """Rows by stem of the kernel's artifacts."""
        self._stems: dict[str, str] = {}
        """Stem by name of the artifact."""
        self._sources: dict[str, Any] = {}
        """The nodes of kernels' sources, by name."""

    @staticmethod
    def of(folder: Any) -> FolderSignatures:
        """The signatures of a folder's node, installed in the node on first use."""
        if not isinstance(folder._sconsign, FolderSignatures):
            folder._sconsign = FolderSignatures(folder)
        return folder._sconsign

    def add_artifacts(self, stem: str, nodes: Iterable[Any]) -> None:
        """Record a kernel's artifacts in a row of their own."""
        self._stems.update((node.name, stem) for node in nodes)

    def add_source(self, node: Any) -> None:
        """Exclude a file from the database, unless it has a builder."""
        self._sources[node.name] = node

    def _is_source(self, name: str) -> bool:
        node = self._sources.get(name)
        return node is not None and not node.has_builder()

    def _row(self, name: str) -> Any:
        stem = self._stems.get(name)
        # With SConsignFile(None) each folder has a database file of its own, and rows are not split.
        if stem is None or SCons.SConsign.ForDirectory is not SCons.SConsign.DB:
            if self._others is None:
                self._others = SCons.SConsign.ForDirectory(self._folder)
            return self._others
        if stem not in self._rows:
            self._rows[stem] = SCons.SConsign.DB(_Place(self._folder, stem))
        return self._rows[stem]

    # ---- called by SCons, which writes every opened row at its end ---------------------------------------------------

    def get_entry(self, name: str) -> Any:
        if self._is_source(name):
            raise KeyError(name)
        return self._row(name).get_entry(name)

    def set_entry(self, name: str, entry: Any) -> None:
        if not self._is_source(name):
            self._row(name).set_entry(name, entry)

    def store_info(self, name: str, node: Any) -> None:
        if not self._is_source(name):
            self._row(name).store_info(name, node)

    def merge(self) -> None:
        for row in [self._others, *self._rows.values()]:
            if row is not None:
                row.merge()


def note_artifacts(stem: str, nodes: Sequence[Any]) -> None:
    """Record a file's artifacts in a row of their own, limited to those in the folder of the first one.

    stem: their path without suffixes.  Artifacts in the folders of the file's entries stay in the rows of those
    folders.
    """
    folder = nodes[0].dir
    FolderSignatures.of(folder).add_artifacts(os.path.basename(stem), [node for node in nodes if node.dir is folder])


def note_source(node: Any) -> None:
    """Exclude a source file from the database; a copy in a variant directory is recorded as usual."""
    if node.srcnode() is node:
        FolderSignatures.of(node.dir).add_source(node)


@functools.cache
def report_unwritable_database() -> None:
    """Report a database that cannot be written as an error of the build (code 2), instead of SCons' traceback."""
    SCons.SConsign.write = _reporting(SCons.SConsign.write)


def _reporting(write: Callable[[], None]) -> Callable[[], None]:
    def write_or_report() -> None:
        try:
            write()
        except OSError as error:
            reason = error.strerror or str(error)
            names = {str(getattr(database, "_file_name", "")): database for database in SCons.SConsign.DB_sync_list}
            for name, database in names.items():
                # Prevent a second attempt when the process ends, and remove the partial file.
                database._needs_sync = False
                with contextlib.suppress(OSError, AttributeError, TypeError):
                    os.unlink(database._tmp_name)
            name = error.filename or os.path.relpath(next(filter(None, names), ".sconsign.dblite"))
            message = f"unable to write '{name}': {reason}; the next build looks at everything anew"
            print(f"error: {message}", file=sys.stderr)
            SCons.Script.Main.exit_status = 2

    return write_or_report


# ---- nodes and environments ------------------------------------------------------------------------------------------

def file_node(top: Any, path: str) -> Any:
    """Return the node of a regular file with a normalized path, like SCons but without accessing the disk."""
    if path.startswith(("/", "..")):
        absolute = os.path.normpath(os.path.join(top.abspath, path))
        return top.root._lookup_abs(absolute, SCons.Node.FS.File)
    parent = top
    *folders, name = path.split("/")
    for folder in folders:
        parent = _node(SCons.Node.FS.Dir, folder, parent, top)
    return _node(SCons.Node.FS.File, name, parent, top)


def _node(kind: type, name: str, parent: Any, top: Any) -> Any:
    """Return a node in a folder, like `RootDir._lookup_abs` but without checking its kind on disk."""
    node = parent.entries.get(name)
    if node is None:
        absolute = parent.entry_abspath(name)
        node = top.root._lookupDict.get(absolute)
        if node is None:
            node = kind(name, parent, top.fs)
            top.root._lookupDict[absolute] = parent.entries[name] = node
            parent.implicit = None
            return node
    node.must_be_same(kind)
    return node


def known_nodes(top: Any) -> dict[str, Any]:
    """Every node of a file or folder that the run has made so far, by absolute path."""
    return top.root._lookupDict


def is_made(node: Any) -> bool:
    """Whether a file has a builder, or other nodes have to be built before it."""
    return node.has_builder() or bool(node.depends or node.prerequisites or node.side_effect)


def made_files() -> set[str]:
    """The absolute paths of the files that the build may make or change."""
    nodes = known_nodes(SCons.Node.FS.get_default_fs().Top).items()
    return {path for path, node in nodes if not isinstance(node, SCons.Node.FS.Dir) and is_made(node)}


class _Nodes(dict):
    """The nodes of a root by path; `lookup` is called for a path without a node."""

    def __init__(self, nodes: dict[str, Any], lookup: Callable[[str], None]) -> None:
        super().__init__(nodes)
        self._lookup = lookup

    def __missing__(self, path: str) -> Any:
        self._lookup(path)
        if path in self:
            return self[path]
        raise KeyError(path)  # SCons creates the node


def offer_paths(top: Any, lookup: Callable[[str], None]) -> None:
    """Call `lookup` with each absolute path that is looked up and has no node yet; it may create the node."""
    if not isinstance(top.root._lookupDict, _Nodes):
        top.root._lookupDict = _Nodes(top.root._lookupDict, lookup)


def avoid_default_environment(env: Any) -> None:
    """Set CacheDir and Decider of an environment to the defaults, if there is no default environment.

    Otherwise SCons would create the default environment to query both for every target, and search all default tools
    again, which takes as long as bringing a kernel up to date.  All SConscripts have been read, so no SConscript
    configures the default environment later.
    """
    if SCons.Defaults._default_env is None:
        if not hasattr(env, "_CacheDir_path"):
            env._CacheDir_path = None
        if env.decide_source is SCons.Environment.default_decide_source:
            env.Decider("content")
