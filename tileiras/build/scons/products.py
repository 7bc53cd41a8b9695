"""The result of `TileTree`: a list whose nodes are created on access.

If no kernel of a tree has changed, most builds need only that information.  Aliases and default targets therefore get
one node for each run of consecutive clean kernels, instead of a node for each product.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import SCons.Environment
import SCons.Node
import SCons.Node.Alias
import SCons.Util

from tileiras.build.scons import patches


class Settled:
    """The products of consecutive clean kernels."""

    def __init__(self, text: str, make: Callable[[], list[Any]], signature: Callable[[], str]) -> None:
        """`text` is their name in lists of nodes, `make` creates their nodes, and `signature` returns the concatenated
        signatures of their contents."""
        self.text = text
        self._make = make
        self.signature = functools.cache(signature)
        self.made: list[Any] | None = None
        """The nodes, once created."""

    def nodes(self) -> list[Any]:
        if self.made is None:
            self.made = self._make()
        return self.made


class SettledNode(SCons.Node.Alias.Alias):
    """Stands for the products of clean kernels among the sources of an alias.

    Its signature is that of an alias of those products, so dependents of the outer alias are up to date whether it
    has one node or many.
    """

    def __init__(self, part: Settled) -> None:
        super().__init__(part.text)
        self.part = part
        self.set_state(SCons.Node.up_to_date)

    def get_csig(self) -> str:
        return self.part.signature()


class Products(SCons.Util.NodeList):
    """A list of nodes; those of `Settled` parts are created when the list is read."""

    def __init__(self, parts: Iterable[Any] = (), noted: Callable[[list[Any]], None] = lambda nodes: None) -> None:
        """`parts` are nodes and `Settled`; `noted` is called with the nodes created for the latter."""
        # Not the base class's constructor, which would read `data`.
        self.__dict__.update(_parts=list(parts), _noted=noted, _nodes=None)

    @property
    def data(self) -> list[Any]:
        if self._nodes is None:
            nodes: list[Any] = []
            for part in self._parts:
                if isinstance(part, Settled):
                    nodes += part.nodes()
                    self._noted(part.nodes())
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
        """The list with one node for each `Settled`; the full list if it was read or changed before."""
        if self._nodes is not None:
            return self._nodes
        return [SettledNode(part) if isinstance(part, Settled) else part for part in self._parts]


def _in_short(nodes: Any) -> Any:
    if isinstance(nodes, Products):
        return nodes.in_short()
    if isinstance(nodes, (list, tuple, SCons.Util.UserList)):
        return [_in_short(node) for node in nodes]
    return nodes


def _alias(env: Any, target: Any, source: Any = None, action: Any = None, **keywords: Any) -> Any:
    if not action:  # an action would receive the products
        source = SCons.Util.flatten(_in_short(source)) if SCons.Util.is_List(source) else source
    return SCons.Environment.Base.Alias(env, target, source, action, **keywords)


def _default(env: Any, *targets: Any) -> None:
    patches.set_default_targets(env, [_in_short(target) for target in targets])


def add_methods(env: Any) -> None:
    """Replace an environment's `Alias` and `Default` by versions that do not expand clean kernels."""
    env.AddMethod(_alias, "Alias")
    env.AddMethod(_default, "Default")
