"""The results of `TileTree` and `TileKernel`: lists whose nodes are created on access.

If no kernel has changed, most builds need only that information.  Aliases and default targets therefore get one node
for each run of consecutive clean kernels, instead of a node for each product.

A clean kernel that reads a file which the build makes may be out of date when that file is: the stages of such kernels
are declared after all when every SConscript has been read (`open_readers_of`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Set
from typing import Any

import SCons.Environment
import SCons.Node
import SCons.Node.Alias
import SCons.Util

from tileiras.build.scons import patches


class CleanProducts:
    """The products of consecutive clean kernels."""

    def __init__(
        self,
        text: str,
        make: Callable[[], list[Any]],
        signature: Callable[[], str],
        open_readers: Callable[[Set[str]], None],
    ) -> None:
        """`text` is their name in lists of nodes, `make` creates their nodes, and `signature` returns the concatenated
        signatures of their contents.  `open_readers` declares the stages of the kernels that read one of some files.
        """
        self.text = text
        self._make = make
        self.signature = signature
        self.open_readers = open_readers
        self.existing: list[Any] | None = None
        """The nodes, once created."""
        self.late_products: list[Any] = []
        """The products of kernels whose stages were declared after all."""
        _parts.append(self)

    def nodes(self) -> list[Any]:
        if self.existing is None:
            self.existing = self._make()
        return self.existing


class CleanNode(SCons.Node.Alias.Alias):
    """Stands for the products of clean kernels among the sources of an alias.

    Its signature is that of an alias of those products, so dependents of the outer alias are up to date whether it
    has one node or many.
    """

    def __init__(self, parts: list[CleanProducts]) -> None:
        super().__init__(parts[0].text)
        self.parts = parts
        self.set_state(SCons.Node.up_to_date)
        _in_lists.append(self)

    def get_csig(self) -> str:
        return "".join(part.signature() for part in self.parts)

    def depend(self) -> None:
        """Depend on the products whose stages have been declared meanwhile."""
        self.sources = [node for part in self.parts for node in part.late_products]
        if self.sources:
            self.set_state(SCons.Node.no_state)

    def build(self, **keywords: Any) -> None:
        """There is no action, as for other aliases."""


_parts: list[CleanProducts] = []

_in_lists: list[CleanNode] = []


def open_readers_of(made_files: Callable[[], Set[str]]) -> None:
    """Declare the stages of clean kernels that read files which the build makes; call before the build begins."""
    files = made_files() if _parts else ()
    for part in _parts[:] if files else ():
        part.open_readers(files)
    for node in _in_lists:
        node.depend()


class Products(SCons.Util.NodeList):
    """A list of nodes; those of `CleanProducts` parts are created when the list is read."""

    def __init__(self, parts: Iterable[Any] = (), on_nodes: Callable[[list[Any]], None] = lambda nodes: None) -> None:
        """`parts` are nodes and `CleanProducts`; `on_nodes` is called with the nodes created for the latter."""
        # Not the base class's constructor, which would read `data`.
        self.__dict__.update(_parts=list(parts), _on_nodes=on_nodes, _nodes=None)

    @property
    def data(self) -> list[Any]:
        if self._nodes is None:
            nodes: list[Any] = []
            for part in self._parts:
                if isinstance(part, CleanProducts):
                    nodes += part.nodes()
                    self._on_nodes(part.nodes())
                else:
                    nodes.append(part)
            self.__dict__["_nodes"] = nodes
        return self._nodes

    @data.setter
    def data(self, nodes: list[Any]) -> None:
        self.__dict__["_nodes"] = list(nodes)

    def __copy__(self) -> SCons.Util.NodeList:
        return SCons.Util.NodeList(self.data)

    def in_short(self) -> list[Any]:
        """The list with one node for consecutive `CleanProducts`; the full list if it was read or changed before."""
        return _in_short(self)

    def parts(self) -> list[Any]:
        """The nodes and `CleanProducts`; only nodes if the list was read or changed before."""
        return self._nodes if self._nodes is not None else self._parts


def _all_parts(nodes: Any) -> Iterable[Any]:
    if isinstance(nodes, Products):
        yield from nodes.parts()
    elif isinstance(nodes, (list, tuple, SCons.Util.UserList)):
        for item in nodes:
            yield from _all_parts(item)
    else:
        yield nodes


def _in_short(nodes: Any) -> list[Any]:
    """A flat list of nodes, with one node for consecutive `CleanProducts`."""
    result: list[Any] = []
    for is_clean, group in itertools.groupby(_all_parts(nodes), lambda part: isinstance(part, CleanProducts)):
        result += [CleanNode(list(group))] if is_clean else group
    return result


def _alias(env: Any, target: Any, source: Any = None, action: Any = None, **keywords: Any) -> Any:
    if not action:  # an action would receive the products
        source = _in_short(source) if SCons.Util.is_List(source) else source
    return SCons.Environment.Base.Alias(env, target, source, action, **keywords)


def _default(env: Any, *targets: Any) -> None:
    patches.set_default_targets(env, _in_short(targets))


def add_methods(env: Any) -> None:
    """Replace an environment's `Alias` and `Default` by versions that do not expand clean kernels."""
    env.AddMethod(_alias, "Alias")
    env.AddMethod(_default, "Default")
