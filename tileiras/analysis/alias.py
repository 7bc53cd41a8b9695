"""Alias analysis of an `nv_tileaa.func`: pointers lead to allocations, globals, or memory passed to the kernel.

Two accesses can conflict only if they may lead to the same memory.  An allocation is new memory, to which no earlier
pointer leads; globals are distinct, but a launch may pass the address of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras.analysis.derivations import is_derived
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
        self._origins: dict[Value, frozenset[Origin] | None] = {}

    def origins(self, value: Value) -> frozenset[Origin] | None:
        """The origins to which a pointer, memref or view may lead; None if unknown."""
        if value not in self._origins:
            self._origins[value] = self._find(value)
        return self._origins[value]

    def may_alias(self, first: Value, second: Value) -> bool:
        """Whether accesses through two pointers, memrefs or views may overlap."""
        a, b = self.origins(first), self.origins(second)
        if a is None or b is None:
            return True
        return any(_same(x, y) for x in a for y in b)

    # ---- flow --------------------------------------------------------------------------------------------------------

    def _find(self, value: Value) -> frozenset[Origin] | None:
        origins: set[Origin] = set()

        def sources(value: Value) -> Sequence[Value] | None:
            """The pointers that a pointer is derived from, none for an origin, and None for an unknown one."""
            edges = incoming(value)
            if edges is not None:
                return [source for source, _ in edges]
            if isinstance(value, BlockArgument):
                origins.add(GIVEN)
                return () if isinstance(value.block.parent_op, aa.FuncOp) else None
            op: Any = value.defining_op
            if isinstance(op, (aa.AllocaOp, aa.GetGlobalOp)):
                origins.add(value if isinstance(op, aa.AllocaOp) else op.symbol.root)
                return ()
            if isinstance(op, aa.BlockTileOp):
                return [op.source]
            if isinstance(op, aa.MakeMemRefOp):
                return [op.base]
            pointers = [operand for operand in op.operands if isinstance(element_type_of(operand.type), aa.PtrType)]
            return pointers if pointers and not isinstance(op, _ACCESSES) else None

        return frozenset(origins) if is_derived([value], sources) else None


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
