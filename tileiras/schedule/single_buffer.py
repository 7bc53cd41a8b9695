"""Loops whose loads have one stage each, which a copy fills again as soon as the dots that read it are complete.

    D1 reads K, its result is used, D2 reads V:

      dot D1 of K(i)
      wait for D1, and with it for D2 of the previous iteration
      start the copies of K(i + 1) and of V(i)
      ... users of the result of D1 ...
      wait for the copies
      dot D2 of V(i)

Attention is such a loop: the wait for the scores, which its threads need anyway, shows that all previous dots are
complete, and the threads' computation on the scores hides the copies.  A ring would take two stages of each tile for
this, or three where a dot is to be in flight between iterations.

Dots that threads execute themselves are complete where the next operation begins; for all warps a barrier establishes
this:

      wait for K(i)
      start the copy of V(i)
      dot D1 of K(i)
      start the copy of K(i + 1)
      ... users of the result of D1 ...
      wait for V(i)
      dot D2 of V(i)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.analysis.dots_in_flight import is_of_tensor_memory
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.ir import Operation, Value
from tileiras.support.named_tuple import NamedTuple

from .staging import StagedLoad


class Turns(NamedTuple):
    """When the single stages of a loop's loads are filled again.

    `refill`: the operation of the loop's body before which the copies start; `ahead`: the loads whose copies then start
    for the next iteration, which the dots `scoring` read; `own`: those for this iteration, which the dots `adding`
    read; these copies are waited for before the first of them.  `by_threads`: threads execute the dots, and the copies
    for this iteration start as soon as those of the previous one have arrived.
    """

    refill: Operation
    ahead: list[StagedLoad]
    own: list[StagedLoad]
    scoring: list[Operation]
    adding: list[Operation]
    by_threads: bool = False


def turns_of(loop: scf.ForOp, staged: Sequence[StagedLoad]) -> Turns | None:
    """How a loop uses one stage of each load; None unless all loads are read by dots into tensor memory in the loop's
    own body, some before the first use of a dot's result and some after it."""
    block = loop.body.block
    places = {op: number for number, op in enumerate(block.operations)}
    refill = min((op for dot in places if (op := _first_use(dot, places)) is not None), key=places.__getitem__,
                 default=None)  # fmt: skip
    if refill is None:
        return None
    ahead: list[StagedLoad] = []
    own: list[StagedLoad] = []
    scoring: set[Operation] = set()
    adding: set[Operation] = set()
    for each in staged:
        dots = _readers(each)
        if dots is None or any(dot.parent is not block for dot in dots) or not _is_ordered_by_yields(each, block.last):
            return None
        before = {places[dot] < places[refill] for dot in dots}
        if len(before) != 1:
            return None
        loads, readers = (ahead, scoring) if before.pop() else (own, adding)
        loads.append(each)
        readers.update(dots)
    if not ahead or not own:
        return None
    return Turns(refill, ahead, own, sorted(scoring, key=places.__getitem__), sorted(adding, key=places.__getitem__))


def turns_of_threads(loop: scf.ForOp, staged: Sequence[StagedLoad]) -> Turns | None:
    """How a loop uses one stage of each load whose dots threads execute; None unless all loads are read by such dots in
    the loop's own body, and not all by the same dots, as nothing would hide their copies then."""
    block = loop.body.block
    places = {op: number for number, op in enumerate(block.operations)}
    readers: list[tuple[StagedLoad, list[Operation]]] = []
    for each in staged:
        dots = _executed_readers(each)
        if not dots or any(dot.parent is not block for dot in dots) or not _is_ordered_by_yields(each, block.last):
            return None
        readers.append((each, sorted(dots, key=places.__getitem__)))
    readers.sort(key=lambda each: places[each[1][0]])
    ahead: list[StagedLoad] = []
    scoring: dict[Operation, None] = {}
    for each, dots in readers:
        if scoring and places[dots[0]] > max(map(places.__getitem__, scoring)):
            break
        ahead.append(each)
        scoring.update(dict.fromkeys(dots))
    adding = {dot: None for _, dots in readers[len(ahead) :] for dot in dots}
    if not ahead or not adding:
        return None
    ordered = sorted(scoring, key=places.__getitem__)
    own = [each for each, _ in readers[len(ahead) :]]
    return Turns(ordered[-1].next, ahead, own, ordered, sorted(adding, key=places.__getitem__), True)


def _executed_readers(staged: StagedLoad) -> list[Operation] | None:
    """The dots executed by threads that read the tile of a load; None where something else reads it."""
    converts = [leaf.convert for leaf in staged.leaves if not leaf.in_place]
    if len(converts) < len(staged.leaves):
        return None
    executed_readers: dict[Operation, None] = {}
    waiting: list[tuple[Value, bool]] = [(staged.load.data, False)]
    while waiting:
        value, converted = waiting.pop()
        for user in value.users:
            if isinstance(user, tileas.VIEW_LIKE):
                waiting.append((user.results[0], converted))
            elif user in converts and not converted:
                waiting.append((user.results[0], True))
            elif converted and isinstance(user, tileas.DotOp):
                executed_readers[user] = None
            else:
                return None
    return list(executed_readers)


def _first_use(dot: Operation, places: dict[Operation, int]) -> Operation | None:
    """The first operation of the body for which threads have to wait for a dot."""
    if not is_of_tensor_memory(dot):
        return None
    users = [dot.parent.find_ancestor_op(user) for user in dot.results[0].users if not _adds_to(user, dot.results[0])]
    first_users = [op for op in users if op is not None and not isinstance(op, scf.YieldOp)]
    return min(first_users, key=places.__getitem__, default=None)


def _adds_to(user: Any, tile: Value) -> bool:
    """Whether a use of a dot's result is as another dot's accumulator, which needs no wait."""
    return is_of_tensor_memory(user) and user.c is tile and tile not in (user.a, user.b)


def _readers(staged: StagedLoad) -> list[Operation] | None:
    """The dots that read the tile of a load in place; None where something else reads it."""
    readers: list[Operation] = []
    converts = [leaf.convert for leaf in staged.leaves if leaf.in_place]
    if len(converts) < len(staged.leaves):
        return None
    waiting = [staged.load.data]
    while waiting:
        for user in waiting.pop().users:
            if is_of_tensor_memory(user):
                readers.append(user)
            elif user in converts or isinstance(user, tileas.VIEW_LIKE):
                waiting.append(user.results[0])
            else:
                return None
    return readers


def _is_ordered_by_yields(staged: StagedLoad, end: Operation) -> bool:
    """Whether nothing in an iteration is ordered after a load, which may then start before the iteration."""
    return all(user is end for user in staged.load.result_token.users)
