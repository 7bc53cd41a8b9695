"""Field declarations: the parts of an operation, written once.

    class AddFOp(Operation, name="cuda_tile.addf", traits=(Pure,)):
        lhs = operand(FloatTile, "left hand side")
        rounding_mode = attribute(RoundingModeAttr, "how the sum is rounded")
        sum = result(FloatTile, "the sums")

    class SubFOp(AddFOp, name="cuda_tile.subf"): ...

The head holds the name and the traits, the body the parts; an operation that has all its parts from its base is a row
of a table, one line.  The text form, the verifier, cloning, the bytecode and the generated reference all read these
lists.  A constraint is a type or attribute class, or any object with `satisfied_by(value) -> bool` and a `description`
(MLIR's summary, as in "operand #0 must be <description>, but got ...").
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable

from .attributes import Attribute

if TYPE_CHECKING:
    from .operation import Operation
    from .types import Type


class Constraint:
    """A predicate over a type or an attribute, with its description for diagnostics.

    `only_type` is the single type that satisfies it, if there is just one: text then omits the type.
    """

    __slots__ = ("predicate", "description")

    only_type: Any = None

    def __init__(self, predicate: Callable[[Any], bool], description: str) -> None:
        self.predicate = predicate
        self.description = description

    def satisfied_by(self, value: Attribute) -> bool:
        return self.predicate(value)


class AnyOf(Constraint):
    """One of several constraints, classes or instances."""

    __slots__ = ("options",)

    def __init__(self, *options: AnyConstraint, description: str | None = None) -> None:
        self.options = options
        super().__init__(
            lambda value: any(satisfies(option, value) for option in options),
            description or " or ".join(describe(option) for option in options),
        )


class TypedAttribute(Constraint):
    """A number attribute of one type: IntegerAttr or FloatAttr of `value_type`, DenseArrayAttr of such elements.

    Assembly formats write it without the type.
    """

    __slots__ = ("attribute_class", "value_type")

    def __init__(self, attribute_class: type, value_type: Type, description: str) -> None:
        self.attribute_class = attribute_class
        self.value_type = value_type
        super().__init__(self._fits, description)

    def _fits(self, value: Attribute) -> bool:
        if not isinstance(value, self.attribute_class):
            return False
        return self.value_type in (getattr(value, "element_type", None), getattr(value, "type", None))


if TYPE_CHECKING:
    from typing import Protocol

    class Predicate(Protocol):
        """Constraints of dialects that are not derived from `Constraint`."""

        description: str

        def satisfied_by(self, value: Attribute) -> bool: ...

    AnyConstraint = type[Attribute] | Attribute | Constraint | Predicate | None


any_type = Constraint(lambda value: True, "any type")
any_attribute = Constraint(lambda value: True, "any attribute")


def satisfies(constraint: AnyConstraint, value: Attribute) -> bool:
    """Whether a type or attribute fulfils a constraint (None demands nothing)."""
    if constraint is None:
        return True
    if isinstance(constraint, type):
        return isinstance(value, constraint)
    if isinstance(constraint, Attribute):
        return value is constraint
    return constraint.satisfied_by(value)


def only_type(constraint: AnyConstraint) -> Any:
    """The one type that a constraint allows; None if there are several."""
    if isinstance(constraint, Attribute):
        return constraint
    if isinstance(constraint, type):
        return constraint() if constraint.name and not constraint.parameters else None
    return getattr(constraint, "only_type", None)


def describe(constraint: AnyConstraint) -> str:
    if isinstance(constraint, type):
        return getattr(constraint, "description", None) or constraint.name or constraint.__name__
    if isinstance(constraint, Attribute):
        return str(constraint)
    return constraint.description


class Field:
    """One declared part of an operation.

    `kind` is "operand", "result", "attribute", "region" or "successor"; `arity` is "one", "optional" or "variadic";
    `since` is the Tile IR version that introduced the field.  `accessor` is the Python name under which the class
    declares the field, and `name` its name in the IR: the same, unless that name is reserved in Python or the core.
    """

    __slots__ = ("kind", "constraint", "doc", "arity", "since", "default", "name", "accessor", "fitting")

    def __init__(
        self,
        kind: str,
        constraint: AnyConstraint,
        doc: str,
        arity: str,
        since: str | None,
        default: Attribute | Callable[[Any], Attribute] | None = None,
        name: str = "",
    ) -> None:
        self.kind = kind
        self.constraint = constraint
        self.doc = doc
        self.arity = arity
        self.since = since
        self.default = default
        self.name = name
        self.accessor = ""
        self.fitting: set[Any] = set()
        """Types that are known to fulfil the constraint."""

    def __get__(self, op: Any, owner: Any) -> Any:
        """Read the part of an operation; on first use the field is replaced by a property in its class."""
        return self if op is None else owner.make_accessor(self).__get__(op, owner)

    def __set__(self, op: Operation, value: object) -> None:
        raise AttributeError(f"'{type(op).__name__}.{self.accessor}' is declared, and not to be set")

    def fits(self, type: Type) -> bool:
        """Whether a type satisfies the constraint; types are immutable, so a positive result is cached."""
        if type in self.fitting:
            return True
        if not satisfies(self.constraint, type):
            return False
        self.fitting.add(type)
        return True

    def default_of(self, op: Operation) -> Any:
        """The value of this attribute in an operation without it; None if it has no default."""
        return self.default(op) if callable(self.default) else self.default

    @property
    def optional(self) -> bool:
        return self.arity == "optional"

    @property
    def variadic(self) -> bool:
        return self.arity == "variadic"

    def __repr__(self) -> str:
        return f"<{self.arity} {self.kind} {self.name}>"


def operand(constraint: AnyConstraint = any_type, doc: str = "", *, since: str | None = None, name: str = "") -> Any:
    return Field("operand", constraint, doc, "one", since, name=name)


def optional_operand(constraint: AnyConstraint = any_type, doc: str = "", *, since: str | None = None) -> Any:
    return Field("operand", constraint, doc, "optional", since)


def variadic_operand(constraint: AnyConstraint = any_type, doc: str = "", *, since: str | None = None) -> Any:
    return Field("operand", constraint, doc, "variadic", since)


def result(constraint: AnyConstraint = any_type, doc: str = "", *, since: str | None = None, name: str = "") -> Any:
    return Field("result", constraint, doc, "one", since, name=name)


def optional_result(constraint: AnyConstraint = any_type, doc: str = "", *, since: str | None = None) -> Any:
    return Field("result", constraint, doc, "optional", since)


def variadic_result(constraint: AnyConstraint = any_type, doc: str = "", *, since: str | None = None) -> Any:
    return Field("result", constraint, doc, "variadic", since)


def attribute(
    constraint: AnyConstraint = any_attribute,
    doc: str = "",
    *,
    optional: bool = False,
    default: Attribute | Callable[[Any], Attribute] | None = None,
    since: str | None = None,
    name: str = "",
) -> Any:
    """An attribute; with a `default` it may be absent and then reads as the default.

    The default is an attribute, or a function of the operation where it depends on the operands.  A declarative
    assembly format has no place for the latter.
    """
    arity = "optional" if optional or default is not None else "one"
    return Field("attribute", constraint, doc, arity, since, default, name)


def region(doc: str = "", *, optional: bool = False, since: str | None = None) -> Any:
    return Field("region", None, doc, "optional" if optional else "one", since)


def variadic_region(doc: str = "", *, since: str | None = None) -> Any:
    return Field("region", None, doc, "variadic", since)


def successor(doc: str = "", *, since: str | None = None) -> Any:
    return Field("successor", None, doc, "one", since)


def variadic_successor(doc: str = "", *, since: str | None = None) -> Any:
    return Field("successor", None, doc, "variadic", since)


@functools.lru_cache(maxsize=4096)
def all_required(fields: tuple[Field, ...]) -> bool:
    """Whether each field takes exactly one value."""
    return all(field.arity == "one" for field in fields)


def segments(
    fields: tuple[Field, ...], total: int, sizes: tuple[int, ...] | None
) -> tuple[tuple[int, int], ...] | None:
    """(start, end) of each field in a flat list of `total` values; None when the counts do not fit.

    With at most one field that is not "one" the sizes follow from `total`; otherwise `sizes` (the operation's
    segment-size attribute) gives them.
    """
    if sizes is None:
        flexible = sum(field.arity != "one" for field in fields)
        if flexible > 1:
            return None
        spare = total - (len(fields) - flexible)
        sizes = tuple(1 if field.arity == "one" else spare for field in fields)
    if len(sizes) != len(fields) or sum(sizes) != total:
        return None
    spans = []
    start = 0
    for field, size in zip(fields, sizes):
        if size < 0 or field.arity == "one" and size != 1 or field.arity == "optional" and size > 1:
            return None
        spans.append((start, start + size))
        start += size
    return tuple(spans)
