"""Reconvergence of diverged threads of a warp: an order of the basic blocks in which each block follows its
predecessors, except along back edges.

Of diverged threads those in the first block run, so that the others wait for them where paths join, as they do after
the synchronisation that ptxas inserts there (BSSY, BSYNC). The blocks of a loop are contiguous, so that the code after
it waits for the last thread that leaves it (F. Bourdoncle, "Efficient chaotic iteration strategies with widenings",
1993: a weak topological order).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..ptx.program import Block

Edges = Sequence[Sequence[int]]


class Meeting:
    """The order, as ``order`` (numbers of blocks) and ``ranks`` (of the blocks, by number)."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.order = np.array(meeting_order(blocks), np.int32)
        self.ranks = np.empty_like(self.order)
        self.ranks[self.order] = np.arange(len(blocks), dtype=np.int32)

    def first(self, places: np.ndarray) -> int:
        """The first of some blocks in the order."""
        return int(self.order[self.ranks[places].min()])


def meeting_order(blocks: Sequence[Block]) -> list[int]:
    """The numbers of the blocks in that order; the first block is the entry."""
    edges = [_successors(blocks, block) for block in blocks]
    return _order(list(range(len(blocks))), edges)


def _successors(blocks: Sequence[Block], block: Block) -> list[int]:
    if block.successors is None:
        return [block.index + 1] if block.index + 1 < len(blocks) else []
    return [each.index for each in block.successors if each.index >= 0]


def _order(nodes: Sequence[int], edges: Edges) -> list[int]:
    """The nodes in order; the first node is the entry."""
    heads: list[int] = []
    for component in reversed(_components(nodes, edges)):
        head = component[0]
        heads.append(head)
        if len(component) > 1:
            body = set(component[1:])
            # First the successors of the head, then other entries of the loop.
            following = [node for node in edges[head] if node in body]
            heads += _order(list(dict.fromkeys([*following, *sorted(body)])), edges)
    return heads


def _components(nodes: Sequence[int], edges: Edges) -> list[list[int]]:
    """Strongly connected components of the subgraph, predecessors first; each begins with the node by which a walk
    from the first node enters it (R. Tarjan, "Depth-first search and linear graph algorithms", 1972)."""
    inside = set(nodes)
    numbers: dict[int, int] = {}
    lowest: dict[int, int] = {}
    open_nodes: list[int] = []
    closed: set[int] = set()
    components: list[list[int]] = []
    for root in nodes:
        if root in numbers:
            continue
        walk = [(root, iter(edges[root]))]
        numbers[root] = lowest[root] = len(numbers)
        open_nodes.append(root)
        while walk:
            node, following = walk[-1]
            for successor in following:
                if successor not in inside or successor in closed:
                    continue
                if successor not in numbers:
                    numbers[successor] = lowest[successor] = len(numbers)
                    open_nodes.append(successor)
                    walk.append((successor, iter(edges[successor])))
                    break
                lowest[node] = min(lowest[node], numbers[successor])
            else:
                walk.pop()
                if walk:
                    lowest[walk[-1][0]] = min(lowest[walk[-1][0]], lowest[node])
                if lowest[node] == numbers[node]:
                    at = open_nodes.index(node)
                    components.append(open_nodes[at:])
                    closed.update(open_nodes[at:])
                    del open_nodes[at:]
    return components
