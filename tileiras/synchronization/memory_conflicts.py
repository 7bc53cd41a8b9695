"""Pairs of memory operations that need a barrier between them.

A token edge from one memory operation to another requires that the second sees the first's effect.  If another thread
had that effect, a barrier has to stand between; none is needed if both only read, or if the same threads access the
same addresses in both.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.alias import AliasAnalysis, address_of
from tileiras.analysis.divisibility import DivisibilityAnalysis
from tileiras.analysis.incoming import incoming
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects import scf
from tileiras.dialects.nv_tileas import names
from tileiras.ir import MemoryWrite, Operation, TensorType, Value
from tileiras.layout.encoding import held_layout
from tileiras.layout.linear_layout import LinearLayout

_VIEWED = (aa.TiledLoadOp, aa.TiledStoreOp)
_POINTED = (aa.LoadOp, aa.StoreOp)
_ASYNCHRONOUS = (tileas.AsyncTiledLoadOp, tileas.AsyncLoadOp, tileas.AsyncWaitOp)
_MEMORY = (*_VIEWED, *_POINTED, *_ASYNCHRONOUS, aa.TiledAtomicRMWOp, aa.AtomicRMWOp, aa.AtomicCASOp)


class MemoryConflicts:
    """Conflicts in a function, or in one of its agents, whose tiles are distributed over `num_warps` warps."""

    def __init__(self, func: aa.FuncOp, num_warps: int) -> None:
        self._func = func
        self._num_warps = num_warps
        self._facts: DivisibilityAnalysis | None = None
        self._aliases = AliasAnalysis()

    def meet(self, first: Any, second: Any, carried: bool) -> bool:
        """Whether a thread's access of `second` may require that another thread's access of `first` is complete.

        `carried`: `first` may be of an earlier iteration, so that equal names need not be equal values.
        """
        if isinstance(first, tileas.AsyncWaitOp) or self._by_one_thread(first) and self._by_one_thread(second):
            return False  # a barrier follows each wait for copies
        # Effects observed by one thread's acquire, or published by its release, concern all threads.
        if first.mem_semantic.value in ("acquire", "acq_rel") or second.mem_semantic.value in ("release", "acq_rel"):
            return True
        if not (first.has_trait(MemoryWrite) or second.has_trait(MemoryWrite)):
            return False
        if not self._aliases.may_alias(address_of(first), address_of(second)):
            return False
        layout = self._layout(second.data) if isinstance(second, (*_VIEWED, *_POINTED)) else None
        if layout is None or not isinstance(first, (*_VIEWED, *_POINTED)):
            return True
        if self._layout(first.data) != layout:
            return True
        # One of several threads that hold an element stores it, and all of them load it.
        free = layout.free_variable_masks()
        loads = any(isinstance(op, (aa.TiledLoadOp, aa.LoadOp)) for op in (first, second))
        if loads and (free["lane"] or free["warp"]):
            return True
        if isinstance(first, _VIEWED) and isinstance(second, _VIEWED):
            view = first.view
            if view is not second.view:
                return True
            # Tiles of a partition are disjoint or equal; equal ones are laid out alike over the threads.
            partition = view.type.traversal_strides == view.type.shape
            if partition and (not carried or not _in_loop(view)):
                return False
            return carried or list(first.coords) != list(second.coords)
        if isinstance(first, _POINTED) and isinstance(second, _POINTED):
            return carried or first.pointer is not second.pointer or not self._distinct(first.pointer)
        return True

    def _layout(self, value: Value) -> LinearLayout:
        return held_layout(value.type, self._num_warps)

    def _by_one_thread(self, op: Any) -> bool:
        """Whether only the first thread executes the access: it is of a single element, and not a load by all."""
        if isinstance(op, _ASYNCHRONOUS) or op.name == names.TMA_STORE:
            return False
        if isinstance(op, (aa.TiledLoadOp, aa.LoadOp)) and op.mem_semantic.value == "weak":
            return False
        value = op.pointer if isinstance(op, (aa.AtomicRMWOp, aa.AtomicCASOp)) else op.data
        return not isinstance(value.type, TensorType) or value.type.num_elements == 1

    def _distinct(self, pointer: Value) -> bool:
        """Whether the pointers of a tile are known to differ from each other."""
        shape = pointer.type.shape if isinstance(pointer.type, TensorType) else ()
        long = [d for d, n in enumerate(shape) if n > 1]
        if len(long) != 1:
            return not long
        if self._facts is None:
            self._facts = DivisibilityAnalysis(self._func)
        return self._facts.contiguity(pointer)[long[0]] == shape[long[0]]


def reaches_memory(op: Operation | None) -> bool:
    """Whether an operation accesses memory through pointers or views."""
    return isinstance(op, _MEMORY) or op is not None and op.name == names.TMA_STORE


def operations_before(token: Value) -> dict[Operation, bool]:
    """The memory operations that a token waits for; true for those that may be of an earlier iteration."""
    operations: dict[Operation, bool] = {}
    _collect(token, operations, set(), False)
    return operations


def _collect(token: Value, writers: dict[Operation, bool], seen: set[tuple[Value, bool]], carried: bool) -> None:
    if (token, carried) in seen or (token, True) in seen:
        return
    seen.add((token, carried))

    handed_on = incoming(token)
    if handed_on is not None:
        for value, around in handed_on:
            _collect(value, writers, seen, carried or around)
        return
    op: Any = token.defining_op
    if reaches_memory(op):
        writers[op] = writers.get(op, False) or carried
    # Order is transitive: behind an operation that needs no barrier, the earlier ones still have to be ordered.
    for operand in op.operands:
        if isinstance(operand.type, aa.MemTokenType):
            _collect(operand, writers, seen, carried)


def _in_loop(value: Value) -> bool:
    """Whether a value is defined in a loop."""
    return value.defining_op is not None and any(scf.loops_around(value.defining_op))
