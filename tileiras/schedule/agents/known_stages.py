"""Stages of pipes that a barrier of the CTA shows to be empty: to acquire one takes no wait, to release it no arrival.

    scf.for ... {                                       scf.for ... {
      consumer_release %held                              consumer_release %held {known}
      %full = consumer_wait ...                           %full = consumer_wait ...
      barrier id = 0                             ->       barrier id = 0
      if a later iteration exists {                       if a later iteration exists {
        %empty = producer_acquire %p, %i                    %empty = producer_acquire %p, %i {known}
        tma_load ... into %empty                            tma_load ... into %empty

A ring of boxes beside one that threads copy has such a barrier in each iteration: all warps have released a stage
before the barrier, and one thread fills that stage after it.  Threads that have loaded from it still execute their
fence between their reads and the writes of the asynchronous proxy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras import analysis, dialects
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Operation, UnitAttr

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa


def know_empty_stages(func: aa.FuncOp) -> None:
    """Marks acquires and releases of such stages `known`, in place, in a function of nv_tileas with its barriers."""
    pipes = [op for op in func.body.blocks[0].operations if op.name == names.CREATE_PIPELINE]
    if not pipes:
        return
    ends: dict[Operation | None, list[Operation]] = {}
    for op in func.walk():
        if isinstance(op, (dialects.nv_tileas.pipes.ProducerAcquireOp, dialects.nv_tileas.pipes.ConsumerReleaseOp)):
            ends.setdefault(analysis.pipes.pipe_of(op.token), []).append(op)
    for pipe in pipes:
        protocol = analysis.pipes.protocol_of(pipe)
        of_threads = protocol.empty != "agent" and not protocol.fills_by_commit
        if pipe.ctas is not None or pipe.groups is not None or not of_threads:
            continue
        own = ends.get(pipe, [])
        acquires = [op for op in own if isinstance(op, dialects.nv_tileas.pipes.ProducerAcquireOp) and op.fresh is None]
        releases = [op for op in own if isinstance(op, dialects.nv_tileas.pipes.ConsumerReleaseOp) and op.last is None]
        if acquires and _are_apart(releases, acquires):
            for op in (*acquires, *releases):
                op.attributes["known"] = UnitAttr()


def _are_apart(releases: list[Operation], acquires: list[Operation]) -> bool:
    """Whether the releases and the acquires of a pipe are in one loop of the function, and a barrier of the whole CTA
    stands between the former and the latter in each iteration."""
    loop = _loop_around(acquires[0])
    if loop is None or any(_loop_around(op) is not loop for op in (*releases, *acquires)):
        return False
    block = loop.body.block
    places = {op: number for number, op in enumerate(block.operations)}
    barriers = [at for op, at in places.items() if isinstance(op, tileas.BarrierOp) and op.threads is None]
    last = max((places[block.find_ancestor_op(op)] for op in releases), default=0)
    first = min(places[block.find_ancestor_op(op)] for op in acquires)
    return any(last < at < first for at in barriers)


def _loop_around(op: Operation) -> scf.ForOp | None:
    """The innermost loop around an operation, branches apart, if it is one with a counter and not an agent's."""
    around = op.parent_op
    while isinstance(around, scf.IfOp):
        around = around.parent_op
    return around if isinstance(around, scf.ForOp) and analysis.pipes.agent_of(around) is None else None
