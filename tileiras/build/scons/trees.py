"""Declares the kernels of a folder: stages for kernels that are not clean, and one list of all products."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from typing import Any

import SCons.Script

from tileiras.build import discover
from tileiras.build.ledger import leftovers
from tileiras.build.ledger.manifest import Row
from tileiras.build.scons import gating, pruning
from tileiras.build.scons.declare import entries_of, prune
from tileiras.build.scons.places import named_from_top
from tileiras.build.scons.products import CleanProducts, Products
from tileiras.build.scons.sessions import session
from tileiras.build.scons.variants import Variant
from tileiras.build.tuned import SUFFIX as TUNED
from tileiras.build.tuned import tuned
from tileiras.build.watch import lease
from tileiras.options import CompileOptions
from tileiras.support import extras

MOST_CHANGED = 256
"""Maximum changed files that are looked up in a manifest one by one; with more, the folder is listed."""


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """Disable the cyclic GC, then freeze all objects: nodes live until exit; scans take a third of a null build."""
    import gc

    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


class LeftOut:
    """The kernel sources of a tree that are skipped: one output line for sources without an installed front end, and
    one for each target that is too old for some sources."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.sources = self.python = 0
        self.too_old: dict[str, list[str]] = {}
        """Target -> files, with the targets that they require."""

    def say(self) -> None:
        if self.python:
            hint = extras.install("cuda-tile")
            print(
                f"tileiras: {self.python} of {self.sources} kernel sources in {self.folder} are cuTile Python, "
                f"which is not installed, and are left out; to build them, {hint}"
            )
        for target, files in self.too_old.items():
            print(f"tileiras: left out for {target}, as they need a newer one: {', '.join(files)}")


class _Variant(Variant):
    """A variant for which a folder is declared."""

    def __init__(self, env: Any, base: Any, options: CompileOptions, emit: str, entries: Sequence[str] | None) -> None:
        super().__init__(env, options, emit, entries, base.abspath)
        self.prefixes: dict[str, str] = {}
        """By folder of kernels: the stems of its artifacts without their last component."""
        self.listing = pruning.Listing(base.abspath, self.absolute, options)


class TreeDeclaration:
    """One call of `TileTree`; `top` is the node of its folder."""

    def __init__(
        self, env: Any, top: Any, variants: Sequence[tuple[CompileOptions, str]], entries: Sequence[str] | None
    ) -> None:
        self._env = env
        self._top = top
        self._base = top.srcnode()
        self._base_path = self._base.path
        self._root = env.Dir("#")
        self._variants = [_Variant(env, self._base, values, product, entries) for values, product in variants]
        self._left_out = LeftOut(str(top))
        self._parts: list[Any] = []
        self._clean: list[tuple[_Variant, Row]] = []
        """Clean kernels that are not yet in `_parts`."""
        self._opened: dict[str, Any] = {}
        """Products of clean kernels whose stages were declared after all, by their paths in the manifest."""

    def products(self, on_nodes: Callable[[list[Any]], None]) -> Products:
        """Declare the kernels that are not clean; returns the products of all kernels in alphabetical order.

        `on_nodes` is called with nodes of clean products when they are created later.
        """
        gates = [variant.gate for variant in self._variants]
        asks = lease.is_offered() and not SCons.Script.GetOption("question") and all(gate.is_used for gate in gates)
        changed = self._ask(gates) if asks else None
        if changed is None or not self._without_listing(gates, changed):
            self._list()
        return Products(self._parts, on_nodes)

    def _list(self) -> None:
        """List the folder and declare or skip each of its kernels."""
        base = self._base.abspath
        # Relative names take less time to resolve than names from the root.
        near = "" if os.getcwd() == self._root.abspath else None
        for variant in self._variants:
            variant.gate.manifest.near = near
        for folder in discover.kernel_folders(base):
            is_tuned = any(name.endswith(TUNED) for name in folder.names)
            for name in folder.kernels:
                path = folder.below + name
                full = base + os.sep + path
                self._left_out.sources += 1
                if path.endswith(".py") and not discover.has_front_end():
                    self._left_out.python += 1
                    for variant in self._variants:
                        variant.listing.add(full, "", None)
                    continue
                for variant in self._variants:
                    self._kernel(variant, path, full, folder.names, is_tuned)
        self._end_part()
        whole = not self._left_out.python and not self._left_out.too_old
        for variant in self._variants:
            variant.gate.manifest.near = None
            prune(session(self._env), variant.listing)
            if variant.gate.changes is not None and whole:
                variant.gate.listed = leftovers.listed(variant.listing.kernels)
        self._left_out.say()

    # ---- without listing: changes reported by the file-system monitor ------------------------------------------------

    def _ask(self, gates: Sequence[gating.Gate]) -> set[str] | None:
        """The files, relative to the top, that may have changed since the manifests were written; None if unknown."""
        history = session(self._env).history
        assert history is not None
        changes = lease.Changes(self._base.abspath, history.build, [gate.lease for gate in gates])
        result: set[str] = set()
        for changed in [gate.changed_since_lease(changes) for gate in gates]:
            if changed is None:
                return None
            result.update(changed)
        return set(map(gates[0].manifest.relative, result))

    def _without_listing(self, gates: Sequence[gating.Gate], changed: set[str]) -> bool:
        """Declare the changed kernels without listing the folder; returns False if the manifests do not suffice."""
        if not self._is_told(gates):
            return False
        places = self._places(gates, changed)
        words = [gate.manifest.signatures() for gate in gates]
        if places is None or any(len(word) != gates[0].manifest.count for word in words):
            return False
        for gate in gates:
            gate.leave_listed()
        first = 0
        for place, path in sorted(places.items()):
            self._leave(gates, words, first, place)
            for variant in self._variants:
                self._kernel(variant, os.path.relpath(path, self._base.abspath), path)
            self._end_part()
            first = place + 1
        self._leave(gates, words, first, gates[0].manifest.count)
        return True

    def _is_told(self, gates: Sequence[gating.Gate]) -> bool:
        """Whether the manifests have a row for each kernel with the requested options, and there are no leftovers."""
        result = leftovers.Leftovers(session(self._env))
        for variant, gate in zip(self._variants, gates, strict=True):
            token = gate.lease
            if token is None or not token.signatures or token.listed != gates[0].lease.listed:
                return False
            if gate.closed or variant.options["emit-remarks"]:
                return False
            if "export" in token.signatures and not discover.has_front_end():
                return False
            if not gate.still_reads():
                return False
            for first, signature in token.signatures.items():
                if gate.signature(variant.options, first) != signature:
                    return False
            if result.last_listing(variant.listing.evaluated()) != token.listed:
                return False
        return True

    def _places(self, gates: Sequence[gating.Gate], changed: set[str]) -> dict[int, str] | None:
        """The places and paths of the kernels with changed files; None if the folder has to be listed.

        That is so if a changed file may be a new kernel, or may affect a kernel, without being named in a row.
        """
        if len(changed) > MOST_CHANGED:
            return None
        places: dict[int, str] = {}
        result = [gate.manifest.naming(sorted(changed)) for gate in gates]
        for name in sorted(changed):
            path = gates[0].manifest.absolute(name)
            rows = [row for by_name in result for row in by_name[name]]
            for place, row in rows:
                source = places[place] = gates[0].manifest.absolute(row.source)
                if name not in row.inputs:
                    continue
                if not lease.is_text(path):
                    return None
                if self._variants[0].entries is None and entries_of(source, row.source) != row.entries:
                    return None  # artifacts of deleted entries have to be removed
            if not rows and lease.is_of_tree(path, self._base.abspath):
                return None
        return places

    def _leave(self, gates: Sequence[gating.Gate], words: Sequence[Sequence[str]], first: int, end: int) -> None:
        """Add a part for the kernels between two places, which are the same in all manifests."""
        if first == end:
            return

        def rows() -> list[tuple[_Variant, Row]]:
            sides = zip(*(gate.manifest.rows()[first:end] for gate in gates), strict=True)
            return [pair for side in sides for pair in zip(self._variants, side, strict=True)]

        def signature() -> str:
            return "".join(word for side in zip(*(item[first:end] for item in words), strict=True) for word in side)

        self._add_part(len(gates) * (end - first), rows, signature)

    def _add_part(
        self, count: int, rows: Callable[[], list[tuple[_Variant, Row]]], signature: Callable[[], str]
    ) -> CleanProducts:
        """Add a part for clean kernels; `signature` is that of their products in the manifests."""

        def nodes() -> list[Any]:
            return gating.clean_nodes(self._root, [product for _, row in rows() for product in row.products])

        def signature_now() -> str:
            if not self._opened:
                return signature()
            stated = [product for _, row in rows() for product in row.products]
            return "".join(self._opened[path].get_csig() if path in self._opened else word for path, word in stated)

        def open_readers(files: Set[str]) -> None:
            part.late_products += self._open_readers(rows, files)

        part = CleanProducts(f"{self._top} ({count} as they were)", nodes, signature_now, open_readers)
        self._parts.append(part)
        return part

    def _open_readers(self, rows: Callable[[], list[tuple[_Variant, Row]]], files: Set[str]) -> list[Any]:
        """Declare the stages of the clean kernels that read one of some files; returns their products."""
        if not any(variant.gate.may_read_any(files) for variant in self._variants):
            return []
        result: list[Any] = []
        for variant, row in rows():
            if gating.reads_any(variant.gate.manifest, row, files):
                full = variant.gate.manifest.absolute(row.source)
                variant.gate.changes = None  # the kernels of the tree may be others than the lease has
                nodes = self._kernel(variant, os.path.relpath(full, self._base.abspath), full, opened=True)
                self._opened.update((variant.gate.manifest.relative(node.abspath), node) for node in nodes)
                result += nodes
        return result

    # ---- one kernel --------------------------------------------------------------------------------------------------

    def _kernel(
        self, variant: _Variant, path: str, full: str, beside: Collection[str] | None = None, is_tuned: bool = True,
        opened: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Declare or skip a kernel, and return the declared products.

        `beside` are the names in its folder, if it was listed, `is_tuned` whether it may have options of its own.
        `opened` kernels are declared though their files match the manifest.
        """
        below = path[: path.rfind(os.sep) + 1]
        prefix = variant.prefixes.get(below)
        if prefix is None:
            name = named_from_top(os.path.join(self._base_path, path))
            prefix = variant.prefixes[below] = os.path.join(variant.folder, os.path.dirname(name), "")
        stem = prefix + discover.artifact_stem(full, beside)
        listing, gate = variant.listing, variant.gate
        if path.endswith(".py") and not discover.is_for(full, target := variant.options["gpu-name"]):
            least = discover.required_target(full)
            self._left_out.too_old.setdefault(target, []).append(f"{self._top.File(path)} (sm_{least})")
            listing.add(full, variant.absolute_stem(stem), None)
            return []
        options = tuned(variant.options, full) if is_tuned else variant.options
        kernel = gate.kernel(full, stem, options)
        row = gate.clean(kernel) if not opened else None
        if row is not None:
            if not gate.is_declared(kernel):
                self._clean.append((variant, row))
                listing.add(full, variant.absolute_stem(stem), variant.known_entries(row.entries))
                return []
            gate.know(row)
        self._end_part()
        products = variant.declare(self._env, self._top.File(path), kernel, listing, row, is_clean=row is not None)
        self._parts += products
        return products

    def _end_part(self) -> None:
        """Add a part for the clean kernels collected since the last part."""
        rows, self._clean = self._clean, []
        if not rows:
            return
        part = self._add_part(
            len(rows), lambda: rows, lambda: "".join(product[1] for _, row in rows for product in row.products)
        )
        for variant in self._variants:
            variant.listing.clean.append(part)
