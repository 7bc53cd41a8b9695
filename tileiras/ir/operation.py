"""Operations.

The shape is MLIR's.  An operation class declares its parts (see `fields`); an instance holds operands, results,
attributes, regions and successors, and is in a block's linked list.
"""

from __future__ import annotations

import functools
from operator import attrgetter
from typing import Any, Callable, ClassVar, Iterable, Iterator, Sequence

from . import registry
from .attributes import Attribute, DenseArrayAttr, VerifyError
from .blocks import Block, Region
from .fields import Field, describe, only_type, satisfies, segments
from .location import UNKNOWN_LOC, Location
from .signatures import Signature, accessor_of, as_attribute, gather, sizes_of, typed_as
from .traits import Trait
from .types import i32
from .values import OpResult, Value

_TYPE = attrgetter("type")

OPERAND_SEGMENTS = "operandSegmentSizes"
RESULT_SEGMENTS = "resultSegmentSizes"


class Operation:
    """Base of all operations; see the module docstring for how a class declares its parts."""

    name: ClassVar[str] = ""
    since: ClassVar[str | None] = None
    opcode: ClassVar[int | None] = None
    traits: ClassVar[tuple] = ()
    assembly_format: ClassVar[str | None] = None
    # Dialect whose prefix the text may leave out in this operation's regions.
    default_dialect: ClassVar[str] = ""
    # The position of the operand whose type all results have, where no trait demands it.
    typed_as: ClassVar[int | None] = None
    # Whether `verify_op` looks at nothing but the types of operands and results, and attributes.
    verifies_locally: ClassVar[bool] = False

    # Set up by __init_subclass__ from the declarations, in order of declaration, bases first.
    fields: ClassVar[tuple[Field, ...]] = ()
    operand_fields: ClassVar[tuple[Field, ...]] = ()
    result_fields: ClassVar[tuple[Field, ...]] = ()
    attribute_fields: ClassVar[tuple[Field, ...]] = ()
    region_fields: ClassVar[tuple[Field, ...]] = ()
    successor_fields: ClassVar[tuple[Field, ...]] = ()
    trait_instances: ClassVar[tuple[Trait, ...]] = ()
    # The classes of the traits and their bases; found when first asked for.
    _trait_classes: ClassVar[frozenset[type] | None] = None
    _signature: ClassVar[Signature | None] = None

    __slots__ = ("_operands", "_results", "attributes", "_regions", "_successors", "location", "parent", "prev",
                 "next", "_order")  # fmt: skip

    attributes: dict[str, Attribute]
    location: Location
    parent: Block | None
    prev: Operation | None
    next: Operation | None

    def __init_subclass__(cls, **members: object) -> None:
        """`members`: further members of the class, given in its head: its name, traits, and for a row of a table of
        operations all that it has besides those of its base."""
        super().__init_subclass__()
        for name, value in members.items():
            setattr(cls, name, value)
        own = {name: field for name, field in cls.__dict__.items() if isinstance(field, Field)}
        if own:
            cls._declare_fields(own)
        if "traits" in cls.__dict__:
            instances = [t for base in cls.__mro__ for t in base.__dict__.get("traits", ())]
            cls.trait_instances = tuple([t() if isinstance(t, type) else t for t in instances])
            cls._trait_classes = None
        if "name" in cls.__dict__ and cls.name:
            registry.OPERATIONS[cls.name] = cls
        cls._signature = None

    @classmethod
    def _declare_fields(cls, own: dict[str, Field]) -> None:
        """Add fields to those of the bases, whose places stay as they are: new fields come last."""
        by_field_name = {field.name: field for field in cls.fields}
        for name, field in own.items():
            field.accessor = name
            field.name = field.name or name
            by_field_name[field.name] = field
            if name in Operation.__dict__:  # `operands` and the like: the core's own list is the field
                delattr(cls, name)
            if field.name != name and field.name not in Operation.__dict__:
                setattr(cls, field.name, field)
        cls.fields = tuple(by_field_name.values())
        for kind in {field.kind: None for field in own.values()}:
            setattr(cls, f"{kind}_fields", tuple([field for field in cls.fields if field.kind == kind]))

    @classmethod
    def make_accessor(cls, field: Field) -> property:
        """Put the property that reads a field into its place in the class that declares it; most are never read."""
        declaring = [base for base in cls.__mro__ if field in getattr(base, "fields", ())][-1]
        of_kind = getattr(declaring, f"{field.kind}_fields")
        accessor = accessor_of(field, of_kind.index(field), of_kind)
        for name in (field.accessor, field.name):
            if isinstance(declaring.__dict__.get(name), Field):
                setattr(declaring, name, accessor)
        return accessor

    # ---- construction ------------------------------------------------------------------------------------------------

    def __init__(
        self, *operands: Value | Sequence[Value] | None, location: Location = UNKNOWN_LOC, **by_name: object
    ) -> None:
        """Build from fields: operands in declaration order or by name, all others by name.  Raises TypeError for
        unknown or missing fields, VerifyError for types and attributes that the declaration does not allow.

        Results are given as types; they may be omitted if a trait or `infer_result_types` determines them.  A variadic
        operand is a sequence, an absent optional one None.  A str is converted to an enum or string attribute, True for
        a unit attribute.
        """
        cls = type(self)
        signature = cls._signature or Signature.of(cls, _infers(cls))
        flat: Any = operands
        sizes = signature.ones
        if len(operands) != signature.operands or None in operands:
            flat, sizes = gather(cls, cls.operand_fields, operands, by_name)
        attributes: dict[str, Attribute] = {}
        for accessor, name, field in signature.attributes:
            value = by_name.pop(accessor, None)
            if value is not None:
                value = value if isinstance(value, Attribute) else as_attribute(field, value)
            if value is not None:
                if not satisfies(field.constraint, value):
                    constraint = describe(field.constraint)
                    raise cls._misbuilt(f"attribute '{name}' failed to satisfy constraint: {constraint}", location)
                attributes[name] = value
            elif field.arity == "one":
                raise cls._misbuilt(f"requires attribute '{name}'", location)
        if signature.sized_operands:
            attributes[OPERAND_SEGMENTS] = DenseArrayAttr(i32, sizes)
        regions: list[Region] = []
        for field in cls.region_fields:
            entry = by_name.pop(field.accessor, None)
            if field.variadic:
                regions += entry or ()
            elif entry is not None or not field.optional:
                regions.append(entry if entry is not None else Region())
        successors: list[Block] = []
        for field in cls.successor_fields:
            entry = by_name.pop(field.accessor)
            successors += entry if field.variadic else (entry,)
        result = by_name.pop(signature.result, None) if by_name else None
        if result is not None:
            types: Any = (result,)
        elif by_name and any(accessor in by_name for accessor in signature.results):
            types, result_sizes = gather(cls, cls.result_fields, (), by_name)
            if signature.sized_results:
                attributes[RESULT_SEGMENTS] = DenseArrayAttr(i32, result_sizes)
        elif signature.typed_as is not None and signature.typed_as < len(flat):
            types = [flat[signature.typed_as].type] * len(signature.results)
        else:
            types = cls.infer_result_types(flat, attributes)
        if by_name:
            raise TypeError(f"{cls.__name__} has no field '{next(iter(by_name))}'")
        self._setup(flat, types, attributes, regions, successors, location)
        # Nearly all operations are built with types that one was built with before.
        form = (*map(_TYPE, flat), None, *types)
        if signature.operands < 0:
            form += tuple(sizes)
        if form not in signature.forms:
            self._verify_types()
            signature.forms.add(form)

    @classmethod
    def create(
        cls,
        operands: Sequence[Value] = (),
        result_types: Sequence[Any] = (),
        attributes: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
        successors: Sequence[Block] = (),
        location: Location = UNKNOWN_LOC,
    ) -> Any:
        """The raw form: everything in order, nothing inferred; takes over `attributes`."""
        self = cls.__new__(cls)
        self._setup(operands, result_types, {} if attributes is None else attributes, regions, successors, location)
        return self

    def _setup(
        self,
        operands: Sequence[Value],
        types: Sequence[Any],
        attributes: dict,
        regions: Sequence[Region],
        successors: Sequence[Block],
        location: Location,
    ) -> None:
        operands = self._operands = tuple(operands)
        for value in operands:
            uses = value._uses
            uses[self] = uses.get(self, 0) + 1
        # Nearly all operations have one result or none.
        if len(types) == 1:
            self._results = (OpResult(types[0], self, 0),)
        else:
            self._results = tuple([OpResult(type, self, index) for index, type in enumerate(types)])
        self.attributes = attributes
        if regions:
            self._regions = tuple(regions)
            for region in self._regions:
                region.parent = self
        else:
            self._regions = ()
        self._successors = tuple(successors)
        self.location = location
        self.parent = self.prev = self.next = None
        self._order = 0

    def _verify_types(self) -> None:
        """Raise VerifyError, without using a value, if an operand or result has a type that the declaration
        forbids."""
        from .verifier import verify_types

        try:
            verify_types(self)
        except VerifyError as error:
            self.drop_all_references()
            raise self._misbuilt(error.message, self.location) from None

    @classmethod
    def _misbuilt(cls, message: str, location: Location) -> VerifyError:
        return VerifyError(f"'{cls.name}' op {message}", location, prefix=False)

    @classmethod
    def infer_result_types(cls, operands: Sequence[Value], attributes: dict[str, Attribute]) -> list[Any]:
        """Types of the results, for operations where they follow from the operands and attributes."""
        if not cls.result_fields:
            return []
        position = typed_as(cls)
        if position is not None and position < len(operands):
            return [operands[position].type for _ in cls.result_fields]
        types = [only_type(field.constraint) for field in cls.result_fields]
        if None in types:
            raise TypeError(f"{cls.__name__} needs its result types: they do not follow from its operands")
        return types

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _set_operands(self, values: Iterable[Value]) -> None:
        new = tuple(values)
        for value in self._operands:
            uses = value._uses
            count = uses[self] - 1
            if count:
                uses[self] = count
            else:
                del uses[self]
        for value in new:
            uses = value._uses
            uses[self] = uses.get(self, 0) + 1
        self._operands = new

    operands = property(attrgetter("_operands"), _set_operands)

    def set_operand(self, index: int, value: Value) -> None:
        self.operands = (*self._operands[:index], value, *self._operands[index + 1 :])

    # Read all the time: a getter that is no Python function costs a third.
    results = property(attrgetter("_results"))
    regions = property(attrgetter("_regions"))

    def _set_successors(self, blocks: Iterable[Block]) -> None:
        self._successors = tuple(blocks)

    successors = property(attrgetter("_successors"), _set_successors)

    @property
    def parent_op(self) -> Operation | None:
        block = self.parent
        return block.parent.parent if block is not None and block.parent is not None else None

    @property
    def dialect(self) -> str:
        return self.name.partition(".")[0]

    @classmethod
    def has_trait(cls, trait: type[Trait]) -> bool:
        classes = cls._trait_classes
        if classes is None:
            classes = cls._trait_classes = frozenset(base for t in cls.trait_instances for base in type(t).__mro__)
        return trait in classes

    @classmethod
    def get_trait(cls, trait: type[Trait]) -> Any:
        """The instance of `trait` on this class, None without one."""
        return next((t for t in cls.trait_instances if isinstance(t, trait)), None)

    def operand_spans(self) -> Spans:
        """(start, end) per operand field; None when the operand count does not fit the declaration."""
        return _operand_spans(type(self), len(self._operands), self.attributes.get(OPERAND_SEGMENTS))

    def result_spans(self) -> Spans:
        return _result_spans(type(self), len(self._results), self.attributes.get(RESULT_SEGMENTS))

    # ---- hooks -------------------------------------------------------------------------------------------------------

    def verify_op(self) -> None:
        """Rules of this operation beyond structure, types and traits; raises VerifyError."""

    warnings: ClassVar[Callable[[Any], Iterable[str]] | None] = None
    """A method of classes with warnings about legal but probably unintended uses; called by the verifier."""

    def fold(self) -> Sequence[Value | Attribute] | None:
        """One value or constant attribute per result when the operation can be replaced by them, else None."""
        return None

    # ---- changes -----------------------------------------------------------------------------------------------------

    def detach(self) -> Operation:
        """Take the operation out of its block, keeping it alive."""
        block = self.parent
        if block is not None:
            before, after = self.prev, self.next
            if before is None:
                block.first = after
            else:
                before.next = after
            if after is None:
                block.last = before
            else:
                after.prev = before
            self.parent = self.prev = self.next = None
        return self

    def erase(self) -> None:
        """Remove the operation and its regions.  Its results must be unused."""
        for result in self._results:
            if result._uses:
                raise ValueError(f"erasing '{self.name}', whose result #{result.index} is still used")
        self.drop_all_references()
        self.detach()

    def drop_all_references(self) -> None:
        """Stop using any value or block, here and in every region."""
        if self._operands:
            self.operands = ()
        self._successors = ()
        for region in self._regions:
            for block in region.blocks:
                for op in block.operations:
                    op.drop_all_references()

    def become(self, cls: type[Operation]) -> None:
        """Make the operation, with all that it has, one of a class that has the same fields.  Verifies nothing."""
        self.__class__ = cls

    def replace_all_uses_with(self, values: Sequence[Value]) -> None:
        for result, value in zip(self._results, values, strict=True):
            result.replace_all_uses_with(value)

    def move_before(self, other: Operation) -> None:
        block = other.parent
        assert block is not None
        self.detach()
        block.insert_before(self, other)

    def clone(self, mapping: dict[Value, Value] | None = None, blocks: dict[Block, Block] | None = None) -> Any:
        """A deep copy; operands go through `mapping`, which learns the new results and block arguments."""
        mapping = {} if mapping is None else mapping
        blocks = {} if blocks is None else blocks
        get = mapping.get
        copy = type(self).create(
            [get(value, value) for value in self._operands],
            [result.type for result in self._results],
            dict(self.attributes),
            [Region() for _ in self._regions],
            [blocks.get(block, block) for block in self._successors],
            self.location,
        )
        for old, new in zip(self._results, copy._results):
            mapping[old] = new
        for old_region, new_region in zip(self._regions, copy._regions):
            old_region.clone_into(new_region, mapping, blocks)
        return copy

    # ---- queries -----------------------------------------------------------------------------------------------------

    def walk(self) -> Iterator[Operation]:
        """This operation and all inside it, pre-order, in textual order.  The current one may be erased."""
        yield self
        for region in self._regions:
            for block in region.blocks:
                op = block.first
                while op is not None:
                    following = op.next
                    if op._regions:
                        yield from op.walk()
                    else:
                        yield op
                    op = following

    def is_before_in_block(self, other: Operation) -> bool:
        block = self.parent
        assert block is not None and block is other.parent
        if not block.order_valid:
            block.renumber()
        return self._order < other._order

    def is_ancestor_of(self, other: Operation) -> bool:
        """True for the operation itself as well."""
        at: Operation | None = other
        while at is not None and at is not self:
            at = at.parent_op
        return at is self

    def __str__(self) -> str:
        from .text.printer import print_op

        return print_op(self)

    def __repr__(self) -> str:
        return f"<{self.name} at {self.location!r}>"


Spans = tuple[tuple[int, int], ...] | None


@functools.lru_cache(maxsize=4096)  # every look at an operation asks, and few operations differ in this
def _operand_spans(cls: type[Operation], count: int, sizes: Attribute | None) -> Spans:
    return segments(cls.operand_fields, count, sizes_of(sizes))


@functools.lru_cache(maxsize=4096)
def _result_spans(cls: type[Operation], count: int, sizes: Attribute | None) -> Spans:
    return segments(cls.result_fields, count, sizes_of(sizes))


def _infers(cls: type[Operation]) -> bool:
    return cls.infer_result_types.__func__ is not Operation.infer_result_types.__func__  # type: ignore[attr-defined]
