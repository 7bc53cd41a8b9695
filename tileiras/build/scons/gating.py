"""Selects the kernels that must be declared: the SCons side of the manifest.

The time of a build without changes is that of making and walking nodes, so the stages of a clean kernel are not
declared.  `tile_full=1`, `-c`, `--tree` and `--debug=explain` build the full graph.
"""

from __future__ import annotations

import atexit
import collections
import functools
import gc
import os
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

import SCons.Node
import SCons.Node.FS
import SCons.Script
import SCons.Util

from tileiras import pipeline
from tileiras.build import discover
from tileiras.build.ledger.history import noted_inputs
from tileiras.build.ledger.manifest import FOLDER, FileState, Manifest, Row
from tileiras.build.run.execute import Session
from tileiras.build.scons import patches
from tileiras.build.scons.variables import FULL, flag
from tileiras.build.tuned import path_of
from tileiras.build.watch import lease
from tileiras.inputs import FOLDER as FOLDER_KIND
from tileiras.inputs import MODULE, OF_PATHS, UNSEEN, places, states, with_title
from tileiras.options import CompileOptions
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.build.scons.declare import Declared

DONE = (SCons.Node.up_to_date, SCons.Node.executed)
"""States of a node that the run has brought up to date."""


class Tree(NamedTuple):
    """The kernels of one variant: those of a folder, as requested from `TileTree`, or those of `TileKernel`."""

    folder: str | None
    variant_folder: str
    """The folder of its artifacts.  Both paths are absolute."""
    emit: str
    entries: Sequence[str] | None

    def name(self, build: str) -> str:
        """Return the file name of its manifest in a build directory."""
        import xxhash

        variant = os.path.relpath(self.variant_folder, build).replace(os.sep, "-")
        folder = os.path.relpath(self.folder, build) if self.folder is not None else None
        words = (folder, None if self.entries is None else tuple(self.entries))
        return f"{variant}-{self.emit}-{xxhash.xxh3_64_hexdigest(repr(words).encode())}.log"


class Kernel(NamedTuple):
    """One source of a tree; `key` names its row."""

    path: str
    stem: str
    options: CompileOptions
    key: str


class _Run(NamedTuple):
    """A kernel whose stages were declared."""

    kernel: Kernel
    before: list[FileState]
    """The states of its inputs before the build."""
    signature: str
    declaration: Declared
    was_clean: bool


class Gate:
    """The manifest of one folder and variant during one run of SCons."""

    def __init__(self, manifest: Manifest, session: Session, tree: Tree, is_used: bool, closed: bool) -> None:
        self.manifest = manifest
        self.is_used = is_used
        """Whether this run reads and writes the manifest; otherwise, every kernel is declared."""
        self._tree = tree
        self.closed = closed
        """Whether every kernel is declared, independent of the manifest."""
        self._session = session
        self._abandoned = False
        self._signatures: dict[tuple, str] = {}
        self._options: dict[int, CompileOptions] = {}
        self._declared: list[_Run] = []
        self._keys: dict[str, None] = {}
        """Keys of all requested kernels, in order."""
        self._firsts: dict[str, set[str]] = collections.defaultdict(set)
        """First stage -> the signatures of the requested kernels."""
        self.lease = lease.read(manifest)
        self.changes: lease.Changes | None = None
        self.changed: Set[str] | None = None
        """Files that may have changed since the manifest was compared with them; None for all."""
        self.listed = ""
        """A digest of the tree's kernels, if a manifest with a row for each describes the tree completely."""
        self.is_listed = True
        """Whether the run checks every kernel; otherwise, only those that the monitor has named."""

    @staticmethod
    def of(env: Any, session: Session, tree: Tree) -> Gate:
        """Return the gate of a folder and variant.

        It is not used in interactive sessions, which declare once and build often, with -n and -c, which build nothing,
        and with overrides: manifests do not cover new, changed and deleted ones.
        """
        option = SCons.Script.GetOption
        if env["TILE_OVERRIDES"] or option("no_exec") or option("clean") or option("interactive"):
            return Gate(Manifest("", env.Dir("#").abspath), session, tree, False, True)
        assert session.history is not None
        path = os.path.join(session.history.build, FOLDER, tree.name(session.history.build))
        result = _gates.get(path)
        if result is None:
            full = flag(FULL, SCons.Script.ARGUMENTS.get(FULL, "0"))
            closed = full or bool(option("tree_printers")) or "explain" in (option("debug") or ())
            result = _gates[path] = Gate(Manifest(path, env.Dir("#").abspath), session, tree, True, closed)
        return result

    def kernel(self, path: str, stem: str, options: CompileOptions) -> Kernel:
        """A kernel of the tree: its source, the stem of its artifacts and its options."""
        return Kernel._make((path, stem, options, f"{stem}:{self._tree.emit}".replace(os.sep, "/")))

    def clean(self, kernel: Kernel) -> Row | None:
        """Return the row of a kernel that needs no stage to run; None if the manifest cannot establish that."""
        if not self.is_used:
            return None
        key, inputs = kernel.key, None
        self._keys[key] = None
        if kernel.path.endswith(".py"):
            # A new module beside the source can shadow one that was imported from elsewhere.
            inputs = [kernel.path, *discover.imported_files(kernel.path)]
        return self.manifest.clean(key, self._signature(kernel), inputs, self.changed)

    def changed_since_lease(self, answer: lease.Changes) -> list[str] | None:
        """Apply an answer of the monitor; return the files that may have changed, None for all."""
        self.changes = answer
        changed = answer.changed_since(self.lease)
        if changed is not None:
            self.changed = set(map(self.manifest.relative, changed))
        return changed

    def may_read_any(self, files: Set[str]) -> bool:
        """Whether a kernel of a tree may read one of the files, as far as their folders tell."""
        if any(file.startswith(f"{self._tree.folder}{os.sep}") for file in files):
            return True
        if not self.is_listed and self.lease is not None:
            reads = self.lease.reads
        else:
            reads = {row.source: row.reads for row in self.manifest.rows() if row.reads}
        return any(_are_read(self.manifest, source, rows, files) for source, rows in reads.items())

    def still_reads(self) -> bool:
        """Whether the inputs that the modules of all kernels read match the lease."""
        reads = self.lease.reads if self.lease is not None else {}
        try:
            return all(self.manifest.still_reads(source, rows) for source, rows in reads.items())
        except (ValueError, TypeError):
            return False

    def leave_listed(self) -> None:
        """Take the list of the tree's kernels from the lease."""
        assert self.lease is not None
        self.is_listed, self.listed = False, self.lease.listed

    def is_declared(self, kernel: Kernel) -> bool:
        """Whether to declare the stages of a clean kernel anyway: remarks are printed for declared stages only."""
        return self.closed or bool(kernel.options["emit-remarks"])

    def know(self, row: Row) -> None:
        """Pass the digests of a declared clean kernel's artifacts to the session."""
        for index, name in enumerate(row.files):
            self._session.digests[self.manifest.absolute(name)] = row.digest(index)

    def entries(self, kernel: Kernel) -> list[str] | None:
        """Return the entries of a kernel as of its last complete build; None without one."""
        row = self.manifest.row(kernel.key)
        return row.entries if row is not None else None

    def observe(self, kernel: Kernel) -> list[FileState] | None:
        """Return the states of a kernel's inputs before the build reads them; None if they are not recorded."""
        if not self.is_used:
            return None
        inputs = [kernel.path, *(discover.imported_files(kernel.path) if kernel.path.endswith(".py") else ())]
        return self.manifest.observe(inputs)

    def add(self, kernel: Kernel, before: list[FileState] | None, declaration: Declared, was_clean: bool) -> None:
        """Record a kernel whose stages were declared; `finish` decides whether it gets a row."""
        if before is not None:
            self._declared.append(_Run(kernel, before, self._signature(kernel), declaration, was_clean))

    def begin(self) -> None:
        """Before the build, drop the rows of kernels of `TileKernel` that may change.

        A build that is killed may leave artifacts of an entry that the row, valid again after the edit is undone, does
        not have; a tree has a note of folders without leftovers for this.
        """
        if self._tree.folder is None:
            for run in self._declared:
                if not run.was_clean:
                    self.manifest.drop(run.kernel.key)
            self.manifest.save()

    def abandon(self) -> None:
        """Stop updating the manifest."""
        self._abandoned = True

    def finish(self) -> None:
        """After the build, write rows of the kernels that it brought up to date, unless a target failed."""
        if SCons.Script.GetBuildFailures() or self._abandoned:
            return
        whole = all([self._became_row(run) for run in self._declared])
        if self.is_listed:
            self.manifest.keep(self._keys)
            whole &= self.manifest.count == len(self._keys)
        token = self._new_lease(self.changes) if whole and self.changes is not None else None
        self.manifest.save(token._asdict() if token is not None else None)
        if self.changes is not None and self.changes.answer is None:
            self.changes.ask()  # starts the monitor for the next build

    def _became_row(self, run: _Run) -> bool:
        """Set the row of a kernel if the build has brought it up to date; return whether it has a row."""
        kernel, declaration = run.kernel, run.declaration
        if not all(node.get_state() in DONE for node in declaration.nodes):
            return False
        if run.was_clean and all(node.get_state() == SCons.Node.up_to_date for node in declaration.nodes):
            return True
        digests = self._session.digests
        reads = self._reads(kernel)
        if reads is None:
            self.manifest.drop(kernel.key)
            return False
        states_of_targets = {node.abspath: digests.get(node.abspath) for node in declaration.nodes}
        products = [(self.manifest.relative(node.abspath), node.get_csig()) for node in declaration.products]
        return self.manifest.set(
            kernel.key, kernel.path, run.signature, run.before, states_of_targets, products, declaration.entries, reads
        )

    def _reads(self, kernel: Kernel) -> dict[str, str] | None:
        """Return the states of the inputs that a kernel's modules read; None if unknown, or if one is UNSEEN."""
        if not kernel.path.endswith(".py"):
            return {}
        history = self._session.history
        entry = history.entry(self.manifest.absolute(kernel.stem), "export") if history is not None else None
        reads = noted_inputs(entry) if entry is not None else None
        if reads is None or any(row.kind == UNSEEN for row in reads):
            return None
        return states(reads)

    def _new_lease(self, changes: lease.Changes) -> lease.Lease | None:
        """The lease for the monitor's answer, after which every row has been compared; None without an answer."""
        answer = changes.answer
        if answer is None:
            return None
        signatures = self._row_signatures()
        reads = self._all_reads() if "export" in signatures else {}
        return lease.Lease(answer.epoch, answer.number, signatures, self.listed if signatures else "", reads)

    def _all_reads(self) -> dict[str, list[list[str]]]:
        """Map each source to the inputs that its modules read."""
        if self.is_listed or self.lease is None:
            return {row.source: row.reads for row in self.manifest.rows() if row.reads}
        result = dict(self.lease.reads)
        for kernel in (run.kernel for run in self._declared):
            reads = self._reads(kernel)
            result[self.manifest.relative(kernel.path)] = [[*pair] for pair in (reads or {}).items()]
        return {source: reads for source, reads in result.items() if reads}

    def _row_signatures(self) -> dict[str, str]:
        """Map each first stage to the signature common to all rows; empty if signatures differ or the manifest is not
        complete."""
        if not self.is_listed and self.lease is not None:
            return self.lease.signatures
        if not self.listed or any(len(item) > 1 for item in self._firsts.values()):
            return {}
        return {first: min(result) for first, result in sorted(self._firsts.items())}

    def _signature(self, kernel: Kernel) -> str:
        """Return the signature of a kernel's dependencies besides files: code, options, tools, product and entries."""
        first = "export" if kernel.path.endswith(".py") else "read"
        signature = self.signature(kernel.options, first)
        self._firsts[first].add(signature)
        return signature

    def signature(self, options: CompileOptions, first: str) -> str:
        """Return the signature of kernels with this first stage."""
        result = self._signatures.get((id(options), first))
        if result is None:
            import xxhash

            # The options are one object for a whole tree; the reference keeps its id from being reused.
            self._options[id(options)] = options
            emit, only = self._tree.emit, self._tree.entries
            last, _ = pipeline.emit_stage(emit, options["gpu-name"])
            entries = tuple(only) if only is not None else None
            digest = xxhash.xxh3_128(repr((first, emit, entries)).encode())
            # The hash of SCons' signatures is an option (--hash-format).
            digest.update(SCons.Util.hash_signature(b"").encode())
            for row in pipeline.stages_between(first, last.name):
                digest.update(self._session.signature(row, options) + b"\n")
            result = self._signatures[id(options), first] = digest.hexdigest()
        return result


def clean_nodes(top: Any, products: Sequence[Sequence[str]]) -> list[Any]:
    """Return products as plain file nodes marked up to date: otherwise SCons would load and rewrite the .sconsign data
    of their folders.

    `top` is the node of the folder to which paths are relative.  The file information that consumers compare and record
    is filled in, as SCons does when it visits a node; the signature is that of the row.
    """
    if os.sep == "/":
        nodes = [patches.file_node(top, path) for path, _ in products]
    else:
        nodes = [top.fs.File(os.path.join(top.abspath, path)) for path, _ in products]
    for node, (_, signature) in zip(nodes, products, strict=True):
        if not node.has_builder():
            info = node.get_ninfo()
            info.csig, info.timestamp, info.size = signature, node.get_timestamp(), node.get_size()
            node.set_state(SCons.Node.up_to_date)
    return nodes


def reads_any(manifest: Manifest, row: Row, files: Set[str]) -> bool:
    """Whether a kernel may read one of the files, which are absolute paths, some of them of files to come."""
    source = manifest.absolute(row.source)
    if not files.isdisjoint([*map(manifest.absolute, row.inputs), path_of(source)]):
        return True
    return _are_read(manifest, row.source, row.reads, files)


def _are_read(manifest: Manifest, source: str, reads: Sequence[Sequence[str]], files: Set[str]) -> bool:
    """Whether one of the files may be among the inputs that the modules of a source read."""
    base = os.path.dirname(os.path.realpath(manifest.absolute(source)))
    for title, _ in reads:
        kind, name = with_title(title)[:2]
        if kind == MODULE and any(file.endswith(".py") for file in files):
            return True
        if kind in OF_PATHS:
            path = places.path_of(name, base)
            if path in files or kind == FOLDER_KIND and any(os.path.dirname(file) == path for file in files):
                return True
    return False


def begin() -> None:
    """Call when all SConscripts have been read and the build begins."""
    global _began
    _began = not SCons.Script.GetOption("question")
    for gate in _gates.values() if _began else ():
        gate.begin()


@functools.cache
def finish_at_exit() -> None:
    """Update the manifests at the end of the run, after the removal of leftovers, which is registered later."""
    atexit.register(gc.freeze)  # the last function: spares the interpreter's end a scan of all nodes
    atexit.register(lambda: [gate.finish() for gate in _gates.values() if _began])


def abandon() -> None:
    """Stop updating all manifests."""
    for gate in _gates.values():
        gate.abandon()


_began = False


_gates: dict[str, Gate] = {}
