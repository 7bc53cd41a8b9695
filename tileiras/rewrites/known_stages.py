"""Stages that a barrier of the CTA shows to be empty: nobody waits for them, and nobody says that they are.

    scf.for ... {                                       scf.for ... {
      consumer_release %held                              consumer_release %held {known}
      %full = consumer_wait ...                           %full = consumer_wait ...
      barrier id = 0                             ->       barrier id = 0
      if a later iteration exists {                       if a later iteration exists {
        %empty = producer_acquire %p, %i                    %empty = producer_acquire %p, %i {known}
        tma_load ... into %empty                            tma_load ... into %empty

A ring of boxes beside one that threads copy has such a barrier in each iteration: all warps have released a stage
before it, and one thread fills that behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Operation, UnitAttr

if TYPE_CHECKING:
    from tileiras.dialects import nv_tileaa as aa


def know_empty_stages(func: aa.FuncOp) -> None:
    """Marks what acquires and releases such stages, in a function of nv_tileas that has its barriers, in place."""
    pipes = [op for op in func.body.blocks[0].operations if op.name == names.CREATE_PIPELINE]
    if not pipes:
        return
    # Loaded for kernels with pipes only.
    from tileiras.analysis.pipes import pipe_of, protocol_of
    from tileiras.dialects.nv_tileas.pipes import ConsumerReleaseOp, ProducerAcquireOp

    ends = [op for op in func.walk() if isinstance(op, (ProducerAcquireOp, ConsumerReleaseOp))]
    for pipe in pipes:
        protocol = protocol_of(pipe)
        of_threads = protocol.empty != "agent" and protocol.fence != "before release" and not protocol.fills_by_commit
        if pipe.ctas is not None or pipe.groups is not None or not of_threads:
            continue
        own = [op for op in ends if pipe_of(op.token) is pipe]
        acquires = [op for op in own if isinstance(op, ProducerAcquireOp) and op.fresh is None]
        releases = [op for op in own if isinstance(op, ConsumerReleaseOp) and op.last is None]
        if acquires and _are_apart(releases, acquires):
            for op in (*acquires, *releases):
                op.attributes["known"] = UnitAttr()


def _are_apart(releases: list[Operation], acquires: list[Operation]) -> bool:
    """Whether all of a pipe are in one loop of the function, and all threads of the CTA meet between these and those
    in each iteration."""
    loop = _loop_around(acquires[0])
    if loop is None or any(_loop_around(op) is not loop for op in (*releases, *acquires)):
        return False
    block = loop.body.block
    places = {op: number for number, op in enumerate(block.operations)}
    barriers = [at for op, at in places.items() if isinstance(op, tileas.BarrierOp) and op.threads is None]
    last = max((places[_in_block(op, block)] for op in releases), default=0)
    first = min(places[_in_block(op, block)] for op in acquires)
    return any(last < at < first for at in barriers)


def _in_block(op: Operation, block: object) -> Operation:
    while op.parent is not block:
        assert op.parent_op is not None, "it is in the block"
        op = op.parent_op
    return op


def _loop_around(op: Operation) -> scf.ForOp | None:
    """The innermost loop around an operation that no agent's program is between; None where an agent does it."""
    around = op.parent_op
    while isinstance(around, scf.IfOp):
        around = around.parent_op
    if not isinstance(around, scf.ForOp):
        return None
    outer: Operation | None = around
    while outer is not None:
        if outer.name == names.AGENT_SWITCH:
            return None
        outer = outer.parent_op
    return around
