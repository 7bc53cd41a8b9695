"""Traits that only cuda_tile operations have."""

from __future__ import annotations

from typing import Any, Callable, Iterable

from tileiras.ir import (
    Operation,
    SingleBlock,
    SingleBlockImplicitTerminator,
    Trait,
    VerifyError,
    element_type_of,
)


class ElementTypesMatch(Trait):
    """The named fields are tiles of one element type."""

    verifies_locally = True
    __slots__ = ("fields",)

    def __init__(self, *fields: str) -> None:
        self.fields = fields

    def verify(self, op: Operation) -> None:
        first, *others = (element_type_of(getattr(op, name).type) for name in self.fields)
        if any(other is not first for other in others):
            raise VerifyError(f"failed to verify that all of {{{', '.join(self.fields)}}} have the same element type")


class TypesRelate(Trait):
    """A relation between the types of two fields, with its diagnostic; holds if either is absent."""

    verifies_locally = True
    __slots__ = ("sentence", "first", "second", "relation")

    def __init__(self, sentence: str, first: str, second: str, relation: Callable[[Any, Any], bool]) -> None:
        self.sentence = sentence
        self.first = first
        self.second = second
        self.relation = relation

    def verify(self, op: Operation) -> None:
        first, second = getattr(op, self.first), getattr(op, self.second)
        if first is not None and second is not None and not self.relation(first.type, second.type):
            raise VerifyError(f"failed to verify that {self.sentence}")


class GroupTypesMatch(Trait):
    """Two variadic fields have the same types, one by one."""

    verifies_locally = True
    __slots__ = ("first", "second")

    def __init__(self, first: str, second: str) -> None:
        self.first = first
        self.second = second

    def verify(self, op: Operation) -> None:
        first = [value.type for value in getattr(op, self.first)]
        second = [value.type for value in getattr(op, self.second)]
        if first != second:
            raise VerifyError(f"failed to verify that all of {{{self.first}, {self.second}}} have same type")


class SameOperandsAndResultElementType(Trait):
    verifies_locally = True
    __slots__ = ()

    def verify(self, op: Operation) -> None:
        _all_same(op, (element_type_of(v.type) for v in (*op.operands, *op.results)), "element type", " and results")


class SameOperandsShape(Trait):
    verifies_locally = True
    __slots__ = ()

    def verify(self, op: Operation) -> None:
        _all_same(op, (getattr(v.type, "shape", ()) for v in op.operands), "shape", "")


def _all_same(op: Operation, values: Iterable[Any], label: str, of: str) -> None:
    values = list(values)
    if any(value != values[0] for value in values[1:]):
        raise VerifyError(f"requires the same {label} for all operands{of}")


class ParentOneOf(Trait):
    """The operation stands directly inside one of the named operations."""

    __slots__ = ("names",)

    def __init__(self, *names: str) -> None:
        self.names = names

    def verify(self, op: Operation) -> None:
        parent = op.parent_op
        if parent is None or parent.name not in self.names:
            number = "to be one of " if len(self.names) > 1 else ""
            raise VerifyError(f"expects parent op {number}'{', '.join(self.names)}'")


class NoRegionArguments(Trait):
    __slots__ = ()

    def verify(self, op: Operation) -> None:
        for number, region in enumerate(op.regions):
            if region.blocks and region.blocks[0].arguments:
                suffix = f" #{number}" if len(op.regions) > 1 else ""
                raise VerifyError(f"region{suffix} should have no arguments")


class OneBlock(Trait):
    """The named region, the operation's first, has exactly one block."""

    __slots__ = ("region",)

    def __init__(self, region: str) -> None:
        self.region = region

    def verify(self, op: Operation) -> None:
        if len(op.regions[0].blocks) != 1:
            raise VerifyError(f"region #0 ('{self.region}') failed to verify constraint: region with 1 blocks")


class EndsWith(SingleBlockImplicitTerminator):
    """Each region is a block that ends in one of the named operations; the text may leave the first one out."""

    __slots__ = ("others",)

    def __init__(self, terminator: str, *others: str) -> None:
        super().__init__(terminator)
        self.others = others

    def verify(self, op: Operation) -> None:
        SingleBlock.verify(self, op)
        for region in op.regions:
            for block in region.blocks:
                last = block.last
                if last is not None and last.name != self.terminator and last.name not in self.others:
                    raise VerifyError(
                        f"expects regions to end with '{self.terminator}', found '{last.name}'",
                        notes=[
                            (
                                last.location,
                                f"in custom textual format, the absence of terminator implies '{self.terminator}'",
                            )
                        ],
                    )
