"""Modulo placement of random graphs: dependences and units hold, intervals are no smaller than the bounds, and the
exact search agrees with exhaustive search."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileiras.schedule.exact_placement import improve
from tileiras.schedule.modulo_placement import Edge, Graph, Node, Placement, place, place_serially, violations

UNITS = ("tensor", "MUFU", "L2")


@st.composite
def graphs(draw, most_nodes=12, most_cycles=9):
    count = draw(st.integers(1, most_nodes))
    nodes = tuple(
        Node(f"n{number}", draw(st.dictionaries(st.sampled_from(UNITS), st.integers(0, most_cycles), max_size=2)))
        for number in range(count)
    )
    edges = []
    for _ in range(draw(st.integers(0, 2 * count))):
        source, target = draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))
        distance = draw(st.integers(0 if source < target else 1, 2))
        edges.append(Edge(source, target, draw(st.integers(0, 2 * most_cycles)), distance))
    return Graph(nodes, tuple(edges))


@given(graphs())
@settings(max_examples=300, deadline=None)
def test_placements_keep_dependences_and_units(graph):
    placed = place(graph)
    assert placed is not None
    assert violations(graph, placed) == []
    assert placed.interval >= graph.mii == max(graph.resource_mii, graph.recurrence_mii)
    assert sorted(placed.order()) == list(range(len(graph.nodes)))
    assert place(graph) == placed


@given(graphs())
@settings(max_examples=200, deadline=None)
def test_serial_placements_are_right_and_no_shorter(graph):
    serial = place_serially(graph)
    assert violations(graph, serial) == []
    assert serial.interval >= graph.mii
    assert serial.stages == 1


@given(graphs(most_nodes=7, most_cycles=5))
@settings(max_examples=150, deadline=None)
def test_the_exact_search_is_never_worse(graph):
    placed = place(graph)
    exact = improve(graph, placed)
    if exact.placement is not None:
        assert violations(graph, exact.placement) == []
        assert graph.mii <= exact.placement.interval < placed.interval
    elif placed.interval == graph.mii:
        assert exact.proven




@given(graphs(most_nodes=3, most_cycles=3))
@settings(max_examples=60, deadline=None)
def test_proven_intervals_are_least(graph):
    placed = place(graph)
    exact = improve(graph, placed)
    assert exact.proven
    least = (exact.placement or placed).interval
    for starts in product(range(14), repeat=len(graph.nodes)) if least > 1 else ():
        assert violations(graph, Placement(least - 1, starts))


@given(graphs())
@settings(max_examples=200, deadline=None)
def test_the_recurrence_bound_is_the_largest_ratio_of_a_cycle(graph):
    """By walks of up to as many steps as there are nodes: latency of a cycle over its distance."""
    count = len(graph.nodes)
    leaving = [[edge for edge in graph.edges if edge.source == node] for node in range(count)]
    best = 1
    for start in range(count):
        reach = {(start, 0): 0}
        for _ in range(count):
            following = {}
            for (node, distance), latency in reach.items():
                for edge in leaving[node]:
                    at = (edge.target, distance + edge.distance)
                    following[at] = max(following.get(at, -1), latency + edge.latency)
            reach = following
            for (node, distance), latency in reach.items():
                if node == start and distance:
                    best = max(best, -(-latency // distance))
    assert graph.recurrence_mii == best


def test_a_recurrence_without_distance_is_refused():
    graph = Graph((Node("a"), Node("b")), (Edge(0, 1, 1), Edge(1, 0, 1)))
    with pytest.raises(ValueError, match="without distance"):
        graph.recurrence_mii  # noqa: B018


def test_eviction_finds_placements_that_greed_does_not():
    """A long reservation that has to be in one piece, placed behind short ones of higher priority."""
    nodes = (Node("a", {"tensor": 1}), Node("b", {"tensor": 1}), Node("c", {"tensor": 4}))
    graph = Graph(nodes, (Edge(0, 1, 3), Edge(1, 2, 1)))
    placed = place(graph)
    assert placed.interval == graph.mii == 6 and violations(graph, placed) == []


def test_the_next_dot_overlaps_the_exponentials():
    """Two stages: the next iteration's product under this one's exponentials."""
    nodes = (Node("product", {"tensor": 50}), Node("exponentials", {"MUFU": 45}))
    graph = Graph(nodes, (Edge(0, 1, 60), Edge(1, 1, 45, 1)))
    placed = place(graph)
    assert placed.interval == 50 and placed.stages == 2
    assert place_serially(graph).interval == 105


def test_violations_are_found():
    graph = Graph((Node("a", {"L2": 2}), Node("b", {"L2": 2})), (Edge(0, 1, 2),))
    assert violations(graph, Placement(4, (0, 2))) == []
    assert violations(graph, Placement(3, (0, 2))) == ["b keeps a unit that is taken"]
    assert violations(graph, Placement(4, (2, 0))) == ["b begins 4 cycles before its dependence allows"]
