"""Loops that one thread executes: it waits for stages of pipes, copies boxes from or to memory, and issues dots into
tensor memory."""

from __future__ import annotations

from tileiras import analysis
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Operation, Pure
from tileiras.layout.encoding import is_in_shared

_WORK = (names.TENSOR_DOT, names.TMA_STORE_STAGE)
_CONSUMES = (names.CONSUMER_WAIT, names.CONSUMER_RELEASE)
_PRODUCES = (names.PRODUCER_ACQUIRE, names.PRODUCER_COMMIT, names.TMA_LOAD)
_OF_ONE_THREAD = (names.CONSUMER_TOKEN, names.PRODUCER_TOKEN, names.PIPE_ITERATOR, aa.MemTokenType.name)
"""Types of values that no other thread uses behind the loop, or that have no representation at run time."""


def is_done_by_one_thread(loop: scf.ForOp) -> bool:
    """Whether the other threads of an agent can skip a loop: it contains dots into tensor memory or copies of boxes to
    memory, no operation of other threads, and no result that they use."""
    inside = [op for op in loop.walk() if op is not loop]
    if not any(op.name in _WORK for op in inside):
        return False
    if any(result.has_uses and result.type.name not in _OF_ONE_THREAD for result in loop.results):
        return False
    return all(map(_is_done_by_one_thread, inside))


def _is_done_by_one_thread(op: Operation) -> bool:
    if op.name in _CONSUMES or op.name in _PRODUCES or op.name == names.PRODUCER_TAIL:
        # Most kernels with loops have no pipes.
        pipe = analysis.pipes.pipe_of(op.operands[0])
        if pipe is None:
            return False
        protocol = analysis.pipes.protocol_of(pipe)
        if op.name == names.PRODUCER_TAIL:  # waits for stages that dots of this thread have read
            return protocol.is_drained_by_one_thread
        return protocol.is_drained_by_one_thread if op.name in _CONSUMES else protocol.is_filled_by_one_thread
    if isinstance(op, tileas.CopyOp):
        return is_in_shared(op.result.type)
    control = isinstance(op, (scf.ForOp, scf.IfOp, scf.YieldOp, tileas.CreateMemTokenOp, tileas.JoinMemTokenOp))
    return control or op.name in _WORK or op.has_trait(Pure)
