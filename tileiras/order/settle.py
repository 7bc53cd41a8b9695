"""Facts of values that follow from those of their sources, without recursion: chains of operations may be long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tileiras.ir import Value

Fact = TypeVar("Fact")


def settle(
    value: Value,
    facts: dict[Value, Fact],
    unknown: Fact,
    sources_of: Callable[[Value], Sequence[Value]],
    fact_of: Callable[[Value, Sequence[Value]], Fact],
) -> Fact:
    """The fact of a value, after those of its sources, which `facts` keeps.  A value that is its own source has the
    fact `unknown` meanwhile."""
    if value in facts:
        return facts[value]
    facts[value] = unknown
    sources = sources_of(value)
    stack: list[tuple[Value, Sequence[Value], Iterator[Value]]] = [(value, sources, iter(sources))]
    while stack:
        each, sources, rest = stack[-1]
        for source in rest:
            if source not in facts:
                facts[source] = unknown
                below = sources_of(source)
                stack.append((source, below, iter(below)))
                break
        else:
            stack.pop()
            facts[each] = fact_of(each, sources)
    return facts[value]
