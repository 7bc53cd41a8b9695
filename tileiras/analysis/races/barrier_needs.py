"""Properties of operations that determine the barriers around them."""

from __future__ import annotations

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas import names
from tileiras.ir import MemoryRead, MemoryWrite, Operation, Value
from tileiras.layout.encoding import is_in_shared


def is_read_by_threads(buffer: Value) -> bool:
    """Whether threads load from a buffer, and not only asynchronous dots read it in place."""
    return any(isinstance(user, tileas.CopyOp) and not is_in_shared(user.result.type) for user in buffer.users)


def accesses_buffer(op: Operation) -> bool:
    """Whether an operation is a load of threads from a buffer in shared memory, or a store to one."""
    if isinstance(op, tileas.CopyOp):
        return not is_in_shared(op.result.type)
    return isinstance(op, (tileas.StoreTensorOp, tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp))


def is_of_pair(op: Operation) -> bool:
    """Whether an operation is a dot that one CTA issues for two."""
    return op.name == names.TENSOR_DOT and op.atom.is_of_pair  # type: ignore[attr-defined]


def is_of_cluster(last: Operation) -> bool:
    """Whether CTAs of a cluster fill each other's stages of a pipe, or of an earlier one that is not in use yet."""
    current: Operation | None = last
    while current is not None:
        if current.name == names.CREATE_PIPELINE and current.ctas is not None:  # type: ignore[attr-defined]
            return True
        if current is not last and current.regions:
            return False
        current = current.prev
    return False


def is_followed(op: Operation) -> bool:
    """Whether a later operation of the block may depend on an operation's effects on memory."""
    current = op.next
    while current is not None:
        if current.regions or current.has_trait(MemoryRead) or current.has_trait(MemoryWrite):
            return True
        current = current.next
    return False
