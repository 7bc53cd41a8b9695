"""What `TileTree` returns: a list of nodes that are made when somebody looks at them.

Of a tree in which nothing changed, most builds want to know nothing but that.  An alias of it, and the default targets,
have one node for each run of kernels that are as they were, in the place of a node for each product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import SCons.Environment
import SCons.Node
import SCons.Node.Alias
import SCons.Util


class Settled:
    """Products in a row that are as a build made them."""

    def __init__(self, text: str, make: Callable[[], list[Any]], signature: Callable[[], str]) -> None:
        """`text` is what they are called in lists of nodes, `make` makes their nodes, and `signature` is the signatures
        of their content, one behind the other."""
        self.text = text
        self._make = make
        self.signature = signature
        self.made: list[Any] | None = None
        """The nodes, once there are any."""

    def nodes(self) -> list[Any]:
        if self.made is None:
            self.made = self._make()
        return self.made


class SettledNode(SCons.Node.Alias.Alias):
    """Stands for products that are as a build made them, among the sources of an alias.

    It has the signature that an alias has of those products, so that what depends on the outer alias is up to date
    whether there is one node or many.
    """

    def __init__(self, part: Settled) -> None:
        super().__init__(part.text)
        self.part = part
        self.set_state(SCons.Node.up_to_date)

    def get_csig(self) -> str:
        return self.part.signature()


class Products(SCons.Util.NodeList):
    """A list of nodes, of which `Settled` ones are made when it is read."""

    def __init__(self, parts: Iterable[Any] = (), noted: Callable[[list[Any]], None] = lambda nodes: None) -> None:
        """`parts` are nodes and `Settled`; `noted` is told of the nodes that are made of these."""
        # Not that of the list, which would read it.
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
        """The same with one node for each `Settled`, unless somebody has read or changed the list."""
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
    if not action:  # which would be given the products
        source = SCons.Util.flatten(_in_short(source)) if SCons.Util.is_List(source) else source
    return SCons.Environment.Base.Alias(env, target, source, action, **keywords)


def _default(env: Any, *targets: Any) -> None:
    import SCons.Script

    SCons.Script._Set_Default_Targets(env, [_in_short(target) for target in targets])


def add_methods(env: Any) -> None:
    """Has an environment's `Alias` and `Default` take a tree as a whole."""
    env.AddMethod(_alias, "Alias")
    env.AddMethod(_default, "Default")
