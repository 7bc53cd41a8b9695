"""Alias analysis of an `nv_tileaa.func`: pointers lead to allocations, globals, or memory passed to the kernel.

Two accesses can conflict only if they may lead to the same memory.  An allocation is new memory, to which no earlier
pointer leads; globals are distinct, but a launch may pass the address of one.
"""

from __future__ import annotations

from typing import Any

from tileiras.analysis.incoming import incoming
from tileiras.dialects import nv_tileaa as aa
from tileiras.ir import BlockArgument, Operation, Value, element_type_of

GIVEN = "given"
"""The origin of the kernel's arguments: unknown memory passed by the launch."""

Origin = Any
"""GIVEN, the symbol of a global, or the result of an `alloca`."""

_ACCESSES = (aa.LoadOp, aa.TiledLoadOp, aa.AtomicRMWOp, aa.AtomicCASOp)
"""Operations that take addresses, but whose results are loaded from memory."""


class AliasAnalysis:
    """The origins of the pointers of one function, computed on demand."""

    def __init__(self) -> None:
        self._known: dict[Value, frozenset[Origin] | None] = {}

    def origins(self, value: Value) -> frozenset[Origin] | None:
        """The origins to which a pointer, memref or view may lead; None if unknown."""
        if value not in self._known:
            self._known[value] = self._find(value, set())
        return self._known[value]

    def may_alias(self, first: Value, second: Value) -> bool:
        """Whether accesses through two pointers, memrefs or views may overlap."""
        a, b = self.origins(first), self.origins(second)
        if a is None or b is None:
            return True
        return any(_same(x, y) for x in a for y in b)

    # ---- flow --------------------------------------------------------------------------------------------------------

    def _find(self, value: Value, visiting: set[Value]) -> frozenset[Origin] | None:
        if value in visiting:
            return frozenset()
        visiting.add(value)
        handed_on = incoming(value)
        if handed_on is not None:
            return self._union([source for source, _ in handed_on], visiting)
        op: Any = value.block.parent_op if isinstance(value, BlockArgument) else value.defining_op
        if isinstance(value, BlockArgument):
            return frozenset((GIVEN,)) if isinstance(op, aa.FuncOp) else None
        if isinstance(op, aa.AllocaOp):
            return frozenset((value,))
        if isinstance(op, aa.GetGlobalOp):
            return frozenset((op.symbol.root,))
        if isinstance(op, aa.BlockTileOp):
            return self._find(op.source, visiting)
        if isinstance(op, aa.MakeMemRefOp):
            return self._find(op.base, visiting)
        pointers = [operand for operand in op.operands if isinstance(element_type_of(operand.type), aa.PtrType)]
        if not pointers or isinstance(op, _ACCESSES):
            return None
        return self._union(pointers, visiting)

    def _union(self, values: list[Value], visiting: set[Value]) -> frozenset[Origin] | None:
        result: frozenset[Origin] = frozenset()
        for value in values:
            origins = self._find(value, visiting)
            if origins is None:
                return None
            result |= origins
        return result


def _same(first: Origin, second: Origin) -> bool:
    """Whether two origins may be the same memory."""
    if first == second:
        # An `alloca` in a loop gives a new address in each iteration, but the previous ones are dead by then.
        return True
    return not (isinstance(first, Value) or isinstance(second, Value)) and GIVEN in (first, second)


def address_of(op: Operation) -> Value:
    """The pointer, view or descriptor of a view that a memory operation accesses memory through."""
    return next(getattr(op, name) for name in ("view", "pointer", "desc") if hasattr(op, name))


def data_of(op: Operation) -> Value:
    """The value that a memory operation moves."""
    return op.value if isinstance(op, (aa.AtomicRMWOp, aa.AtomicCASOp)) else op.data  # type: ignore[attr-defined]
