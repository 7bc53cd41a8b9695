"""Lives of buffers in a block: a buffer that crosses another one is extended until it contains it."""

from __future__ import annotations

import itertools

from tileiras.operands.fma_dots import Span

SPANS = [Span(first, last, ()) for first, last in itertools.combinations(range(6), 2)]


def test_a_span_joined_with_one_that_it_crosses_contains_it():
    """Otherwise the search for spans that are nested or apart would not end."""
    pairs = [pair for pair in itertools.product(SPANS, repeat=2) if pair[0].crosses(pair[1])]
    assert pairs
    assert not any(one.joined(other).crosses(other) for one, other in pairs)


def test_spans_that_are_nested_or_apart_do_not_cross():
    assert not Span(1, 5, ()).crosses(Span(1, 5, ()))
    assert not Span(1, 4, ()).crosses(Span(0, 5, ()))
    assert not Span(0, 1, ()).crosses(Span(2, 3, ()))
    assert Span(1, 4, ()).crosses(Span(1, 5, ()))
