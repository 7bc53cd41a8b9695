"""When the operations of a software-pipelined loop begin: iterative modulo scheduling after Rau (1994).

    graph = Graph(nodes, edges)
    placed = place(graph, budget_ratio=6)      or None
    placed.interval          cycles between the beginnings of consecutive iterations
    placed.starts[node]      cycle at which it begins in its own iteration

A node occupies each of its units for some cycles from its start on; a unit serves one node at a time, so the
reservations of two nodes must not overlap modulo the interval.  An edge requires its target to begin at least `latency`
cycles after its source of the iteration `distance` before.  Every placement returned satisfies both; the result is a
function of the graph alone.

Cycles are integers of any unit: `dependence_graph` rounds them to `LoopGraph.grain`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tileiras.support.named_tuple import NamedTuple

BUDGET_RATIO = 6
"""Placements per node that a search makes at one interval (Rau: of 2 to 6, higher values hardly find more)."""

MOST_INTERVALS = 256
"""Intervals that are tried before a search gives up."""


class Node(NamedTuple):
    """An operation, or several, placed together; `busy`: cycles by unit."""

    name: str
    busy: Mapping[str, int] = {}


class Edge(NamedTuple):
    """`target` begins at least `latency` cycles after `source` of the iteration `distance` before."""

    source: int
    target: int
    latency: int
    distance: int = 0


class Graph(NamedTuple):
    """The nodes of an iteration, in program order, and their dependences."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]

    @property
    def resource_mii(self) -> int:
        """The cycles for which an iteration occupies its busiest unit; at least 1."""
        total: dict[str, int] = {}
        for node in self.nodes:
            for unit, cycles in node.busy.items():
                total[unit] = total.get(unit, 0) + cycles
        return max([1, *total.values()])

    @property
    def table_size(self) -> int:
        """The entries of the reservation table at the least interval: one for each unit and cycle."""
        return self.mii * len({unit for node in self.nodes for unit, cycles in node.busy.items() if cycles})

    @property
    def recurrence_mii(self) -> int:
        """The least interval that every recurrence allows; at least 1.

        Raises ValueError where a recurrence has no distance: such a loop cannot be executed.
        """
        edges = _in_cycles(len(self.nodes), self.edges)
        if not edges:
            return 1
        low, high = 1, max(1, sum(max(0, edge.latency) for edge in edges))
        if _has_positive_cycle(len(self.nodes), edges, high):
            raise ValueError("a recurrence without distance")
        while low < high:
            middle = (low + high) // 2
            if _has_positive_cycle(len(self.nodes), edges, middle):
                low = middle + 1
            else:
                high = middle
        return low

    @property
    def mii(self) -> int:
        """The minimum initiation interval: no placement has a smaller interval."""
        return max(self.resource_mii, self.recurrence_mii)


class Placement(NamedTuple):
    """`starts`: the start of each node; `trials`: placements that were made and undone on the way, at all intervals."""

    interval: int
    starts: tuple[int, ...]
    trials: int = 0

    def stage(self, node: int) -> int:
        return self.starts[node] // self.interval

    @property
    def stages(self) -> int:
        """The number of iterations that overlap."""
        return max((start // self.interval for start in self.starts), default=0) + 1

    def order(self) -> list[int]:
        """Nodes in the order in which an iteration of the rewritten loop begins them; those of earlier source
        iterations first where they begin together."""
        return sorted(
            range(len(self.starts)),
            key=lambda node: (self.starts[node] % self.interval, -self.stage(node), node),
        )


def violations(graph: Graph, placement: Placement) -> list[str]:
    """The edges and reservations that a placement violates; empty for a valid one."""
    result = []
    for edge in graph.edges:
        starts = placement.starts
        slack = starts[edge.target] + placement.interval * edge.distance - starts[edge.source] - edge.latency
        if slack < 0:
            result.append(f"{graph.nodes[edge.target].name} begins {-slack} cycles before its dependence allows")
    table = ReservationTable(placement.interval)
    for number, node in enumerate(graph.nodes):
        if not table.fits(node.busy, placement.starts[number]):
            result.append(f"{node.name} keeps a unit that is taken")
        else:
            table.add(number, node.busy, placement.starts[number])
    return result


# ---- searches --------------------------------------------------------------------------------------------------------


def place(graph: Graph, budget_ratio: int = BUDGET_RATIO, least: int = 0, most: int | None = None) -> Placement | None:
    """The placement of the smallest interval, of at least `least`, that the heuristic finds within its budget; None
    where it finds none up to `most`, or in `MOST_INTERVALS` attempts."""
    first = max(graph.mii, least)
    last = first + MOST_INTERVALS - 1
    steps_so_far = 0
    for interval in range(first, min(last, last if most is None else most) + 1):
        starts, steps = _Search(graph, interval).run(budget_ratio * len(graph.nodes))
        steps_so_far += steps
        if starts is not None:
            return Placement(interval, normalize(starts), steps_so_far)
    return None


def place_serially(graph: Graph) -> Placement:
    """A placement without overlap: each node starts as soon as its dependences and units allow, and iterations follow
    each other.  This is the execution of a loop as written."""
    ends = [0] * len(graph.nodes)
    starts = [0] * len(graph.nodes)
    free: dict[str, int] = {}
    before: dict[int, list[Edge]] = {}
    for edge in graph.edges:
        if edge.distance == 0:
            before.setdefault(edge.target, []).append(edge)
    length = 1
    for number, node in enumerate(graph.nodes):
        start = max((starts[edge.source] + edge.latency for edge in before.get(number, ())), default=0)
        start = max([start, *(free.get(unit, 0) for unit, cycles in node.busy.items() if cycles)])
        starts[number] = start
        ends[number] = start + max(node.busy.values(), default=0)
        free.update((unit, start + cycles) for unit, cycles in node.busy.items() if cycles)
        length = max(length, ends[number], start + 1)
    for edge in graph.edges:
        if edge.distance:
            wait = starts[edge.source] + edge.latency - starts[edge.target]
            length = max(length, -(-wait // edge.distance))
    return Placement(length, tuple(starts))


def normalize(starts: Sequence[int]) -> tuple[int, ...]:
    """The same placement with the earliest node at cycle 0."""
    first = min(starts, default=0)
    return tuple(start - first for start in starts)


class ReservationTable:
    """Which nodes occupy each unit at each cycle modulo an interval: one bit per cycle."""

    __slots__ = ("_interval", "_all", "_taken", "_held")

    def __init__(self, interval: int) -> None:
        self._interval = interval
        self._all = (1 << interval) - 1
        self._taken: dict[str, int] = {}
        self._held: dict[int, dict[str, int]] = {}

    def _mask(self, cycles: int, start: int) -> int:
        """The bits of a number of cycles from a start on; all bits where there are more cycles than the interval
        has."""
        if cycles >= self._interval:
            return self._all
        bits = ((1 << cycles) - 1) << start % self._interval
        return bits & self._all | bits >> self._interval

    def fits(self, busy: Mapping[str, int], start: int) -> bool:
        """Whether all units are free."""
        return all(
            cycles <= self._interval and not self._taken.get(unit, 0) & self._mask(cycles, start)
            for unit, cycles in busy.items()
            if cycles
        )

    def add(self, node: int, busy: Mapping[str, int], start: int) -> None:
        masks = {unit: self._mask(cycles, start) for unit, cycles in busy.items() if cycles}
        for unit, mask in masks.items():
            self._taken[unit] = self._taken.get(unit, 0) | mask
        self._held[node] = masks

    def remove(self, node: int) -> None:
        for unit, mask in self._held.pop(node).items():
            self._taken[unit] &= ~mask

    def in_the_way(self, busy: Mapping[str, int], start: int) -> list[int]:
        """The nodes that occupy a unit that another node needs."""
        masks = {unit: self._mask(cycles, start) for unit, cycles in busy.items() if cycles}
        return [node for node, own in self._held.items() if any(own.get(u, 0) & mask for u, mask in masks.items())]


class _Search:
    """The search at one interval."""

    def __init__(self, graph: Graph, interval: int) -> None:
        self._graph = graph
        self._interval = interval
        self._table = ReservationTable(interval)
        self._into: list[list[Edge]] = [[] for _ in graph.nodes]
        self._from: list[list[Edge]] = [[] for _ in graph.nodes]
        for edge in graph.edges:
            self._into[edge.target].append(edge)
            self._from[edge.source].append(edge)
        self._starts: list[int | None] = [None] * len(graph.nodes)
        self._last: list[int] = [-1] * len(graph.nodes)
        """Where each node was placed the last time: a later attempt is after it, so that the search makes progress."""

    def run(self, budget: int) -> tuple[list[int] | None, int]:
        """The start of every node, and the number of placements undone; None where the budget does not suffice."""
        nodes = self._graph.nodes
        if any(cycles > self._interval for node in nodes for cycles in node.busy.values()):
            return None, 0
        heights = self._heights()
        waiting = set(range(len(nodes)))
        undone = 0
        while waiting:
            if budget == 0:
                return None, undone
            budget -= 1
            node = min(waiting, key=lambda each: (-heights[each], each))
            waiting.remove(node)
            victims = self._place(node)
            undone += len(victims)
            waiting.update(victims)
        return [start for start in self._starts if start is not None], undone

    def _heights(self) -> list[int]:
        """Cycles from each node to the end of its dependents: the longest path at this interval."""
        heights = [0] * len(self._graph.nodes)
        changed = True
        while changed:  # there is no positive cycle at an interval of at least the recurrences'
            changed = False
            for edge in reversed(self._graph.edges):
                height = heights[edge.target] + edge.latency - self._interval * edge.distance
                if height > heights[edge.source]:
                    heights[edge.source] = height
                    changed = True
        return heights

    def _place(self, node: int) -> list[int]:
        """Place a node, and return those that have to be placed again because of it."""
        busy = self._graph.nodes[node].busy
        earliest = 0
        for edge in self._into[node]:
            start = self._starts[edge.source]
            if start is not None and edge.source != node:
                earliest = max(earliest, start + edge.latency - self._interval * edge.distance)
        fitting = (t for t in range(earliest, earliest + self._interval) if self._table.fits(busy, t))
        slot = next(fitting, None)
        victims: list[int] = []
        if slot is None:
            slot = max(earliest, self._last[node] + 1)
            victims = self._table.in_the_way(busy, slot)
        victims += [
            edge.target
            for edge in self._from[node]
            if (start := self._starts[edge.target]) is not None and edge.target not in victims
            and start < slot + edge.latency - self._interval * edge.distance
        ]  # fmt: skip
        for other in victims:
            if self._starts[other] is not None:
                self._table.remove(other)
                self._starts[other] = None
        self._table.add(node, busy, slot)
        self._starts[node] = self._last[node] = slot
        return victims


# ---- recurrences -----------------------------------------------------------------------------------------------------


def _in_cycles(count: int, edges: Sequence[Edge]) -> list[Edge]:
    """The edges that are part of a cycle: those within a strongly connected component (Tarjan's algorithm)."""
    following: list[list[int]] = [[] for _ in range(count)]
    for edge in edges:
        following[edge.source].append(edge.target)
    component = _components(following)
    return [edge for edge in edges if component[edge.source] == component[edge.target]]


def _components(following: Sequence[Sequence[int]]) -> list[int]:
    """The number of each node's strongly connected component."""
    count = len(following)
    index: list[int] = [-1] * count
    low, component, stack, result = [0] * count, [-1] * count, [], 0
    for root in range(count):
        if index[root] >= 0:
            continue
        work = [(root, 0)]
        while work:
            node, at = work.pop()
            if at == 0:
                index[node] = low[node] = result
                result += 1
                stack.append(node)
            if at > 0:
                low[node] = min(low[node], low[following[node][at - 1]])
            for number in range(at, len(following[node])):
                other = following[node][number]
                if index[other] < 0:
                    work += [(node, number + 1), (other, 0)]
                    break
                if component[other] < 0:
                    low[node] = min(low[node], index[other])
            else:
                if low[node] == index[node]:
                    while component[node] < 0:
                        component[stack.pop()] = node
    return component


def _has_positive_cycle(count: int, edges: Sequence[Edge], interval: int) -> bool:
    """Whether a recurrence takes longer than its iterations last (Bellman-Ford)."""
    longest = [0] * count
    for _ in range(count):
        changed = False
        for edge in edges:
            at = longest[edge.source] + edge.latency - interval * edge.distance
            if at > longest[edge.target]:
                longest[edge.target] = at
                changed = True
        if not changed:
            return False
    return True
