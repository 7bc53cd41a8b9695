"""Data derived from the declarations of an operation class, for its construction and for access to its fields."""

from __future__ import annotations

from operator import methodcaller
from typing import TYPE_CHECKING, Any

from .attributes import Attribute, DenseArrayAttr, EnumAttr, StringAttr, UnitAttr
from .fields import Field, all_required
from .traits import AllTypesMatch, AttrSizedOperandSegments, AttrSizedResultSegments, SameOperandsAndResultType
from .types import i32

if TYPE_CHECKING:
    from .operation import Operation


class Signature:
    """The data of a class that its constructor uses, computed for the first of its operations."""

    __slots__ = (
        "operands", "ones", "attributes", "results", "result", "typed_as", "sized_operands", "sized_results", "forms",
    )  # fmt: skip

    operands: int
    """How many there are; -1 where some are optional or several."""
    ones: list[int]
    attributes: list[tuple[str, str, Any]]
    """Accessor, name and declaration of each."""
    results: list[str]
    result: str
    """The name of the only result, where there is always just one, else empty."""
    sized_operands: bool
    sized_results: bool
    typed_as: int | None
    """The operand whose type all results have."""
    forms: set[tuple]
    """The types of operands and results, and how many each field takes, with which one was built before."""

    @classmethod
    def of(cls, op: type[Operation], infers: bool) -> Signature:
        """`infers`: the class has rules of its own for the types of its results."""
        self = op._signature = cls()
        self.forms = set()
        self.operands = len(op.operand_fields) if all_required(op.operand_fields) else -1
        self.ones = [1] * len(op.operand_fields)
        self.attributes = [(field.accessor, field.name, field) for field in op.attribute_fields]
        self.results = [field.accessor for field in op.result_fields]
        # No field has an empty name.
        self.result = self.results[0] if len(self.results) == 1 and all_required(op.result_fields) else ""
        self.sized_operands = op.has_trait(AttrSizedOperandSegments)
        self.sized_results = op.has_trait(AttrSizedResultSegments)
        self.typed_as = None
        if not infers:
            self.typed_as = typed_as(op)
        return self


def typed_as(op: type[Operation]) -> int | None:
    """The position of the operand whose type all results have, by its declaration or by the traits; None if absent."""
    if op.typed_as is not None:
        return op.typed_as
    for trait in op.trait_instances if op.result_fields else ():
        if isinstance(trait, SameOperandsAndResultType):
            return 0
        if isinstance(trait, AllTypesMatch) and all(field.name in trait.fields for field in op.result_fields):
            for position, field in enumerate(op.operand_fields):
                if field.name in trait.fields:
                    return position
    return None


def accessor_of(field: Field, position: int, of_kind: tuple[Field, ...]) -> property:
    """The property `op.<field>`, which reads the operation's lists."""
    kind, name = field.kind, field.name
    if kind == "attribute":
        default = field.default
        if callable(default):
            # `in` and not `or`: an empty array is false.
            return property(lambda op: op.attributes[name] if name in op.attributes else default(op), doc=field.doc)
        return property(lambda op: op.attributes.get(name, default), doc=field.doc)
    if kind == "region":
        if field.variadic:
            return property(lambda op: op._regions[position:], doc=field.doc)
        return property(lambda op: op._regions[position] if position < len(op._regions) else None, doc=field.doc)
    if kind == "successor":
        if field.variadic:
            return property(lambda op: op._successors[position:], doc=field.doc)
        return property(lambda op: op._successors[position], doc=field.doc)
    flexible = [p for p, f in enumerate(of_kind) if f.arity != "one"]
    slot = "_operands" if kind == "operand" else "_results"
    if field.arity == "one" and all(position < p for p in flexible):
        if kind == "operand":
            return property(lambda op: op._operands[position], doc=field.doc)
        return property(lambda op: op._results[position], doc=field.doc)
    spans = methodcaller(f"{kind}_spans")

    def read(op: Operation) -> Any:
        result = spans(op)
        if result is None:
            raise ValueError(f"'{op.name}' does not have the {kind}s that it declares")
        start, end = result[position]
        values = getattr(op, slot)[start:end]
        if field.variadic:
            return values
        return values[0] if values else None

    return property(read, doc=field.doc)


def sizes_of(value: Attribute | None) -> tuple[int, ...] | None:
    """The elements of a segment sizes attribute."""
    if value is None:
        return None
    return value.elements if isinstance(value, DenseArrayAttr) and value.element_type is i32 else None


def gather(
    cls: type[Operation], fields: tuple[Field, ...], positional: tuple, by_name: dict[str, Any]
) -> tuple[list, list]:
    """A flat list of the values given for `fields`, and how many each took."""
    if len(positional) > len(fields):
        raise TypeError(f"{cls.__name__} takes {len(fields)} operands, got {len(positional)}")
    if len(positional) == len(fields) and all_required(fields) and None not in positional:
        return list(positional), [1] * len(positional)
    flat: list[Any] = []
    sizes: list[int] = []
    for position, field in enumerate(fields):
        value = positional[position] if position < len(positional) else by_name.pop(field.accessor, None)
        if field.variadic:
            values = tuple(value) if value is not None else ()
        elif value is None:
            if field.arity == "one":
                raise TypeError(f"{cls.__name__} needs {field.kind} '{field.accessor}'")
            values = ()
        else:
            values = (value,)
        flat += values
        sizes.append(len(values))
    return flat, sizes


def as_attribute(field: Field, value: object) -> Attribute | None:
    """Convert a constructor's argument to an attribute.  Raises TypeError."""
    if value is None or isinstance(value, Attribute):
        return value
    if value is False:
        return None
    if value is True:
        return UnitAttr()
    if isinstance(value, str):
        constraint = field.constraint
        if isinstance(constraint, type) and issubclass(constraint, EnumAttr):
            return constraint(value)
        return StringAttr(value)
    raise TypeError(f"attribute '{field.name}' takes an attribute, got {value!r}")
