"""The least interval of a small loop: an exhaustive search, for loops where the heuristic's interval is not provably
least.

At a given interval a node is placed by its start modulo the interval, its *row*, and by its stage.  Nodes that occupy
no unit are unconstrained by rows, so their edges are joined to paths (`_longest_paths`); the rows of the other nodes
are tried in turn, each time with a check that stages exist: a system of integer difference constraints, which is
feasible if the graph has no positive cycle.
"""

from __future__ import annotations

from tileiras.support.named_tuple import NamedTuple

from .modulo_placement import Edge, Graph, Placement, ReservationTable, normalize

MOST_NODES = 10
"""The most nodes that occupy a unit; the number of rows to try is exponential in it."""

MOST_CHECKS = 4000
"""The most rows that are tried at all intervals together; beyond it the result is unknown."""

_NONE = -(1 << 60)
"""No path."""


class Exact(NamedTuple):
    """`placement`: one of a smaller interval than the given one, None where none was found; `proven`: whether no
    smaller interval is possible."""

    placement: Placement | None
    proven: bool


def improve(graph: Graph, placement: Placement, checks: int = MOST_CHECKS) -> Exact:
    """The placement of the least interval below that of a given one, by exhaustive search.

    Not tried where more than `MOST_NODES` nodes occupy a unit; given up after `checks` rows.
    """
    if placement.interval == graph.mii:
        return Exact(None, True)
    if sum(1 for node in graph.nodes if any(node.busy.values())) > MOST_NODES:
        return Exact(None, False)
    checks_left = checks
    for interval in range(graph.mii, placement.interval):
        search = _Rows(graph, interval, checks_left)
        starts = search.run()
        checks_left = search.left
        if starts is not None:
            return Exact(Placement(interval, normalize(starts), placement.trials), True)
        if checks_left <= 0:
            return Exact(None, False)
    return Exact(None, True)


class _Rows:
    """The search at one interval."""

    def __init__(self, graph: Graph, interval: int, checks: int) -> None:
        self._graph = graph
        self._interval = interval
        self._paths = _longest_paths(len(graph.nodes), graph.edges, interval)
        self._table = ReservationTable(interval)
        keeping = [number for number, node in enumerate(graph.nodes) if any(node.busy.values())]
        self._keeping = sorted(keeping, key=lambda each: (-max(graph.nodes[each].busy.values()), each))
        self._rows: dict[int, int] = {}
        self.left = checks

    def run(self) -> list[int] | None:
        """The starts of all nodes; None if the interval is infeasible, or `left` is used up."""
        if any(cycles > self._interval for node in self._graph.nodes for cycles in node.busy.values()):
            return None
        return self._starts() if self._try(0) else None

    def _try(self, at: int) -> bool:
        if at == len(self._keeping):
            return True
        node = self._keeping[at]
        busy = self._graph.nodes[node].busy
        # Rows can be counted from anywhere: the first node's is the first.
        for row in range(self._interval if at else 1):
            if not self._table.fits(busy, row):
                continue
            if self.left <= 0:
                return False
            self.left -= 1
            self._rows[node] = row
            if self._stages() is not None:
                self._table.add(node, busy, row)
                if self._try(at + 1):
                    return True
                self._table.remove(node)
            del self._rows[node]
        return False

    def _stages(self) -> dict[int, int] | None:
        """The least stages of the nodes that have rows; None if no stages satisfy the constraints."""
        stages = dict.fromkeys(self._rows, 0)
        for _ in range(len(stages) + 1):
            changed = False
            for source, row in self._rows.items():
                for target, other in self._rows.items():
                    path = self._paths[source][target]
                    if path == _NONE:
                        continue
                    least = stages[source] - (other - row - path) // self._interval
                    if least > stages[target]:
                        stages[target] = least
                        changed = True
            if not changed:
                return stages
        return None

    def _starts(self) -> list[int]:
        stages = self._stages()
        assert stages is not None
        starts = {node: row + self._interval * stages[node] for node, row in self._rows.items()}
        # Free nodes start as early as their placed predecessors allow; no placed node waits for them longer.
        for node in range(len(self._graph.nodes)):
            if node not in starts:
                earliest = [starts[p] + self._paths[p][node] for p in self._rows if self._paths[p][node] != _NONE]
                starts[node] = max(earliest, default=_NONE)
        free = [node for node in starts if node not in self._rows]
        _settle(self._graph, self._interval, starts, free)
        return [starts[node] for node in range(len(self._graph.nodes))]


def _settle(graph: Graph, interval: int, starts: dict[int, int], free: list[int]) -> None:
    """Give the `free` nodes the earliest starts that their edges allow, in place; nodes without placed predecessors
    start as late as an iteration's length before all others."""
    node_starts = [start for node, start in starts.items() if start != _NONE]
    span = sum(max(0, edge.latency) + interval * edge.distance for edge in graph.edges)
    origin = min(node_starts, default=0) - span
    for node in free:
        if starts[node] == _NONE:
            starts[node] = origin
    waiting = set(free)
    for _ in range(len(graph.nodes) + 1):
        changed = False
        for edge in graph.edges:
            if edge.target in waiting:
                least = starts[edge.source] + edge.latency - interval * edge.distance
                if least > starts[edge.target]:
                    starts[edge.target] = least
                    changed = True
        if not changed:
            return


def _longest_paths(count: int, edges: tuple[Edge, ...], interval: int) -> list[list[int]]:
    """The longest path between any two nodes (Floyd-Warshall); there are no positive cycles."""
    paths = [[_NONE] * count for _ in range(count)]
    for edge in edges:
        length = edge.latency - interval * edge.distance
        paths[edge.source][edge.target] = max(paths[edge.source][edge.target], length)
    for middle in range(count):
        after = paths[middle]
        for row in paths:
            first = row[middle]
            if first == _NONE:
                continue
            for target, length in enumerate(after):
                if length != _NONE and first + length > row[target]:
                    row[target] = first + length
    return paths
