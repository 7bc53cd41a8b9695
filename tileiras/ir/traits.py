"""Traits: properties of operations that generic code queries without knowledge of the class.

A trait is a class; `traits = (Pure, AllTypesMatch("lhs", "rhs"))` on an operation takes classes and instances.  A
trait may check the operation (`verify`) and may imply others by inheriting from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from .attributes import StringAttr, VerifyError
from .types import TensorType, Type, element_type_of

if TYPE_CHECKING:
    from .operation import Operation


class Trait:
    __slots__ = ()

    verifies_locally: ClassVar[bool] = False
    """Whether `verify` looks at nothing but the types of operands and results, and attributes."""

    def verify(self, op: "Operation") -> None:
        """Raise VerifyError when `op` breaks the rule."""


# ---- effects ---------------------------------------------------------------------------------------------------------


class MemoryEffects(Trait):
    """Base of the effect traits.  An operation without effect traits has unknown effects."""

    __slots__ = ()


class NoMemoryEffect(MemoryEffects):
    __slots__ = ()


class Pure(NoMemoryEffect):
    """No effect and always safe to execute: may be removed when unused, repeated or moved."""

    __slots__ = ()


class Convergent(NoMemoryEffect):
    """Depends on the values of other threads at the same place: may be removed when unused, but not repeated, moved or
    merged with an equal operation elsewhere."""

    __slots__ = ()


class MemoryRead(MemoryEffects):
    __slots__ = ()


class MemoryWrite(MemoryEffects):
    __slots__ = ()


class MemoryAllocate(MemoryEffects):
    __slots__ = ()


class RecursiveMemoryEffects(MemoryEffects):
    """Has exactly the effects of the operations in its regions."""

    __slots__ = ()


class MayNotTerminate(Trait):
    """May run forever, which is an effect even when nothing else is."""

    __slots__ = ()


# ---- structure -------------------------------------------------------------------------------------------------------


class Terminator(Trait):
    __slots__ = ()

    def verify(self, op: "Operation") -> None:
        if op.parent is not None and op.next is not None:
            raise VerifyError("must be the last operation in the parent block")


class ReturnLike(Terminator):
    __slots__ = ()


class Leaves(Trait):
    """A terminator after which the nearest enclosing operation of one of the names continues, not its parent."""

    __slots__ = ("names",)

    def __init__(self, *names: str) -> None:
        self.names = names

    def target(self, op: "Operation") -> "Operation | None":
        parent = op.parent_op
        while parent is not None and parent.name not in self.names:
            parent = parent.parent_op
        return parent


class IsolatedFromAbove(Trait):
    """Regions use no value defined outside the operation."""

    __slots__ = ()


class SymbolTable(Trait):
    """Symbols inside have names of their own."""

    __slots__ = ()

    def verify(self, op: "Operation") -> None:
        seen: dict[str, Operation] = {}
        for region in op.regions:
            for block in region.blocks:
                for inner in block.operations:
                    symbol = inner.attributes.get("sym_name")
                    if not isinstance(symbol, StringAttr):
                        continue
                    first = seen.setdefault(symbol.value, inner)
                    if first is not inner:
                        raise VerifyError(
                            f"redefinition of symbol named '{symbol.value}'",
                            location=inner.location,
                            notes=[(first.location, "see existing symbol definition here")],
                            prefix=False,
                        )


class Symbol(Trait):
    """Names itself in the nearest symbol table by its attribute `sym_name`."""

    __slots__ = ()

    def verify(self, op: "Operation") -> None:
        parent = op.parent_op
        if parent is None or parent.has_trait(SymbolTable):
            return
        from .registry import lookup_operation

        # Of an operation that no dialect declares nothing is known.
        if lookup_operation(parent.name) is not None:
            raise VerifyError("symbol's parent must have the SymbolTable trait")


class NoTerminator(Trait):
    __slots__ = ()


class SingleBlock(Trait):
    """Every region has at most one block, which ends in a terminator unless NoTerminator."""

    __slots__ = ()

    def verify(self, op: "Operation") -> None:
        for number, region in enumerate(op.regions):
            if len(region.blocks) > 1:
                raise VerifyError(f"expects region #{number} to have 0 or 1 blocks")
            if region.blocks and not op.has_trait(NoTerminator) and region.blocks[0].last is None:
                raise VerifyError("expects a non-empty block")


class SingleBlockImplicitTerminator(SingleBlock):
    """As SingleBlock, with a terminator that the text may leave out: the operation's name."""

    __slots__ = ("terminator",)

    def __init__(self, terminator: str) -> None:
        self.terminator = terminator

    def verify(self, op: "Operation") -> None:
        super().verify(op)
        for region in op.regions:
            for block in region.blocks:
                last = block.last
                if last is not None and last.name != self.terminator:
                    raise VerifyError(
                        f"expects regions to end with '{self.terminator}', found '{last.name}'",
                        notes=[
                            (
                                last.location,
                                f"in custom textual format, the absence of terminator implies '{self.terminator}'",
                            )
                        ],
                    )


class HasParent(Trait):
    """The operation stands directly inside one of the named operations."""

    __slots__ = ("names",)

    def __init__(self, *names: str) -> None:
        self.names = names

    def verify(self, op: "Operation") -> None:
        parent = op.parent_op
        if parent is not None and parent.name not in self.names:
            if len(self.names) == 1:
                raise VerifyError(f"expects parent op '{self.names[0]}'")
            listed = ", ".join(f"'{name}'" for name in self.names)
            raise VerifyError(f"expects parent op to be one of {listed}")


class AttrSizedOperandSegments(Trait):
    """Several variadic or optional operand fields; their sizes are in the attribute `operandSegmentSizes`."""

    __slots__ = ()


class AttrSizedResultSegments(Trait):
    __slots__ = ()


class Commutative(Trait):
    __slots__ = ()


class ConstantLike(Trait):
    """The single result is the constant in the attribute `value`."""

    __slots__ = ()


# ---- types -----------------------------------------------------------------------------------------------------------


class TypeTrait(Trait):
    """A rule about the types of operands and results alone: it holds or not when an operation is built."""

    __slots__ = ()

    verifies_locally = True


class AllTypesMatch(TypeTrait):
    """The named operand and result fields have one type."""

    __slots__ = ("fields",)

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    def verify(self, op: "Operation") -> None:
        first: Type | None = None
        for name in self.fields:
            value = getattr(op, name)
            if value is None:
                continue
            for item in value if isinstance(value, tuple) else (value,):
                if first is None:
                    first = item.type
                elif item.type is not first:
                    raise VerifyError(f"failed to verify that all of {{{', '.join(self.fields)}}} have same type")


class AllElementTypesMatch(TypeTrait):
    """The named fields have one element type."""

    __slots__ = ("fields",)

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    def verify(self, op: "Operation") -> None:
        types = {element_type_of(getattr(op, name).type) for name in self.fields if getattr(op, name) is not None}
        if len(types) > 1:
            raise VerifyError(f"failed to verify that all of {{{', '.join(self.fields)}}} have same element type")


class AllShapesMatch(TypeTrait):
    """The named fields have one shape."""

    __slots__ = ("fields",)

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    def verify(self, op: "Operation") -> None:
        shapes = {getattr(getattr(op, n).type, "shape", ()) for n in self.fields if getattr(op, n) is not None}
        if len(shapes) > 1:
            raise VerifyError(f"failed to verify that all of {{{', '.join(self.fields)}}} have same shape")


class AllRanksMatch(TypeTrait):
    """The named fields have one rank."""

    __slots__ = ("fields",)

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    def verify(self, op: "Operation") -> None:
        ranks = {len(getattr(getattr(op, n).type, "shape", ())) for n in self.fields if getattr(op, n) is not None}
        if len(ranks) > 1:
            raise VerifyError(f"failed to verify that all of {{{', '.join(self.fields)}}} have same rank")


class Elementwise(TypeTrait):
    """Tensors among the operands and results have one shape and one encoding; a scalar stands for a tensor of it."""

    __slots__ = ()

    def verify(self, op: "Operation") -> None:
        result: TensorType | None = None
        for values in (op.operands, op.results):
            for value in values:
                type = value.type
                if not isinstance(type, TensorType):
                    continue
                if result is None:
                    result = type
                elif type.shape != result.shape:
                    raise VerifyError("requires the same shape for all operands and results")
                elif type.encoding is not result.encoding:
                    raise VerifyError("requires the same encoding for all operands and results")
        if result is not None and op.results and not any(isinstance(r.type, TensorType) for r in op.results):
            raise VerifyError("if an operand is non-scalar, then there must be at least one non-scalar result")
        if result is not None and not any(isinstance(v.type, TensorType) for v in op.operands):
            raise VerifyError("if a result is non-scalar, then at least one operand must be non-scalar")


class SameOperandsAndResultType(TypeTrait):
    """All operands and results have one type."""

    __slots__ = ()

    def verify(self, op: "Operation") -> None:
        types = [value.type for value in (*op.operands, *op.results)]
        if any(t is not types[0] for t in types[1:]):
            raise VerifyError("requires the same type for all operands and results")


class SameTypeOperands(TypeTrait):
    __slots__ = ()

    def verify(self, op: "Operation") -> None:
        types = [value.type for value in op.operands]
        if any(t is not types[0] for t in types[1:]):
            raise VerifyError("requires all operands to have the same type")


class SameOperandsAndResultShape(TypeTrait):
    __slots__ = ()

    def verify(self, op: "Operation") -> None:
        shapes = [getattr(value.type, "shape", ()) for value in (*op.operands, *op.results)]
        if any(s != shapes[0] for s in shapes[1:]):
            raise VerifyError("requires the same shape for all operands and results")
