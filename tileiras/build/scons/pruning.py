"""The kernels that a run of SCons declares in its folders, and the removal of leftovers at its end: see `leftovers`."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import SCons.Node.FS
import SCons.Script

from tileiras.build.ledger.leftovers import Evaluated, Leftovers
from tileiras.build.run.execute import Session
from tileiras.build.scons.products import CleanNode, CleanProducts
from tileiras.options import CompileOptions


class Listing:
    """The kernels of one folder (or one kernel) for one variant, as they are declared."""

    def __init__(self, folder: str | None, variant_folder: str, options: CompileOptions) -> None:
        self.folder = folder
        self.variant_folder = variant_folder
        self.options = options
        self.kernels: dict[str, tuple[str, Sequence[str] | None]] = {}
        self.nodes: list[Any] = []
        """The nodes of all stages that were declared."""
        self.products: list[Any] = []
        """The products of kernels whose stages were declared."""
        self.clean: list[CleanProducts] = []
        """The products of kernels without declared stages."""
        self.has_new_entries = False
        """Whether a kernel has other entries than when its artifacts were last found complete."""
        self.has_no_leftovers = False
        """Whether the last build of exactly these kernels has removed all leftovers."""

    def add(
        self,
        path: str,
        stem: str,
        entries: Sequence[str] | None,
        products: Sequence[Any] = (),
        nodes: Sequence[Any] = (),
    ) -> None:
        """Add a kernel; `entries` are None if not all are known, `stem` is absolute."""
        self.kernels[path] = (stem, entries)
        self.products += products
        self.nodes += nodes

    def evaluated(self) -> Evaluated:
        stems = None if self.folder is not None else [stem for stem, _ in self.kernels.values()]
        return Evaluated(self.folder, self.variant_folder, self.options, self.kernels, stems)


class Pruning:
    """The listings of one build directory in one run."""

    def __init__(self, session: Session, is_done: Callable[[Any], bool], note: Callable[[str], None]) -> None:
        self._session = session
        self._is_done = is_done
        self._note = note
        self._listings: list[Listing] = []
        self._only_lists = bool(SCons.Script.GetOption("no_exec"))
        self._cleans = bool(SCons.Script.GetOption("clean"))
        self._leftovers = Leftovers(session, self._is_made)
        self._every: list[Listing] = []
        self._made: set[str] | None = None
        atexit.register(self.finish)

    def add(self, listing: Listing) -> None:
        """Add a complete listing; its leftovers are searched until a run finds no more."""
        self._listings.append(listing)
        self._every.append(listing)
        if listing.folder is None:
            return
        evaluated = listing.evaluated()
        listing.has_no_leftovers = not listing.has_new_entries and self._leftovers.are_none(evaluated)
        if not listing.has_no_leftovers and not self._only_lists:
            self._leftovers.may_come(evaluated)

    def finish(self) -> None:
        """After the build, remove the leftovers of listings whose kernels are all up to date."""
        for listing in self._listings:
            if not all(map(self._is_done, listing.nodes)) or (listing.has_no_leftovers and not self._cleans):
                continue
            evaluated = listing.evaluated()
            for removed in self._leftovers.remove(evaluated, self._only_lists):
                if self._cleans:
                    for path in removed.files:
                        self._note(f"Removed {os.path.relpath(path)}")
                else:
                    self._note(f"tileiras: {'would remove' if self._only_lists else 'removed'} {removed}")
            if listing.folder is not None and not self._only_lists and not listing.has_no_leftovers:
                self._leftovers.note(evaluated)

    def restrict(self, targets: Sequence[Any]) -> None:
        """Restrict the listings to the targets of the run: a listing is complete only if all its kernels are built."""
        if not SCons.Script.COMMAND_LINE_TARGETS:
            return
        reached = reached_from(targets)
        folders = [node for node in reached if isinstance(node, SCons.Node.FS.Dir)]
        self._listings = [
            listing
            for listing in self._listings
            if all(node in reached or any(map(node.is_under, folders)) for node in listing.products)
            and _are_reached(listing, reached, folders)
        ]

    def _is_made(self, path: str) -> bool:
        """Whether a node of this run is made at a path."""
        if self._made is None:
            self._made = {node.abspath for listing in self._every for node in listing.nodes}
        return path in self._made


def _are_reached(listing: Listing, reached: set[Any], folders: Sequence[Any]) -> bool:
    """Whether the run builds the products of a listing that have no stages."""
    if any(_is_in(listing.variant_folder, folder.abspath) for folder in folders):
        return True
    whole = {part for node in reached if isinstance(node, CleanNode) for part in node.parts}
    return all(
        part in whole or (part.existing is not None and reached.issuperset(part.existing)) for part in listing.clean
    )  # fmt: skip


def _is_in(folder: str, outer: str) -> bool:
    return folder == outer or folder.startswith(outer.rstrip(os.sep) + os.sep)


def reached_from(targets: Sequence[Any], below: Callable[[Any], Iterable[Any]] = lambda node: ()) -> set[Any]:
    """Return the targets and all nodes that they depend on, as known before files are scanned.

    `below` returns further nodes that a node stands for.
    """
    nodes: set[Any] = set()
    stack = list(targets)
    while stack:
        node = stack.pop()
        if node not in nodes:
            nodes.add(node)
            stack += [*node.sources, *node.depends, *below(node)]
    return nodes
