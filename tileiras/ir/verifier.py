"""The verifier: structure, then declared types, then traits, then the operation's own rules, then dominance.

The first rule that fails is reported per operation; its message carries MLIR's prefix ("'dialect.op' op ...") and the
operation's location.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from tileiras.diagnostics import OPERATION_ERROR, Diagnostic, DiagnosticEngine, ExitCode, Severity

from .attributes import VerifyError
from .blocks import Block, Region
from .dominance import DominanceInfo
from .fields import Field, all_required, describe, satisfies
from .location import Location
from .operation import OPERAND_SEGMENTS, RESULT_SEGMENTS, Operation
from .traits import IsolatedFromAbove, NoTerminator, SingleBlock, Terminator, Trait, TypeTrait
from .values import Value

_TYPE = attrgetter("type")

MAX_ACCEPTED = 1 << 14
"""Operations of a class, by types and attributes, that are remembered as verified."""


def verify(op: Operation, engine: DiagnosticEngine | None = None, code: int = ExitCode.INVALID_INPUT) -> None:
    """Check `op` and everything inside it.

    Raises CompileError with `code` and every diagnostic found; with an engine, emits there and does not raise.
    """
    own = DiagnosticEngine() if engine is None else engine
    _Verification(own).tree(op)
    if engine is None:
        own.raise_if_errors(code)


def diagnose(op: Operation, error: VerifyError) -> Diagnostic:
    """The diagnostic for a VerifyError about `op`."""
    location: Location = error.location if error.location is not None else op.location
    notes = [Diagnostic.note(at, text) for at, text in error.notes]
    if error.prefix:
        return Diagnostic.of_operation(op, error.message, notes, location)
    return Diagnostic(Severity.ERROR, location, error.message, notes, OPERATION_ERROR)


class _Rules:
    """The data of a class that the verifier uses, computed for the first of its operations."""

    __slots__ = (
        "operands", "results", "attributes", "requires", "shaped", "traits", "own", "warns", "isolated", "accepted",
    )  # fmt: skip

    accepted: set[tuple] | None
    """Types of operands and results, and attributes, of operations that passed: as far as the rules go others with the
    same ones pass as well.  None where a rule looks at more of an operation, or an operation may have inner ones."""

    _of_class: dict[type[Operation], _Rules] = {}

    def __init__(self, cls: type[Operation]) -> None:
        # None where a field may take no value or several: these need the spans.
        self.operands = cls.operand_fields if all_required(cls.operand_fields) else None
        self.results = cls.result_fields if all_required(cls.result_fields) else None
        self.attributes = [
            (field.name, field.arity == "one", field.constraint if isinstance(field.constraint, type) else None, field)
            for field in cls.attribute_fields
        ]
        self.requires = any(field.arity == "one" for field in cls.attribute_fields)
        self.shaped = bool(cls.region_fields or cls.successor_fields)
        self.traits = [trait for trait in cls.trait_instances if type(trait).verify is not Trait.verify]
        self.own = cls.verify_op is not Operation.verify_op
        self.warns = cls.warnings is not None
        self.isolated = cls.has_trait(IsolatedFromAbove)
        local = all(trait.verifies_locally for trait in self.traits) and (cls.verifies_locally or not self.own)
        self.accepted = set() if local and not self.shaped and not self.warns else None
        self._of_class[cls] = self


class _Verification:
    """One walk over an operation and everything inside it."""

    __slots__ = ("engine", "dominance", "open", "above", "leaks")

    def __init__(self, engine: DiagnosticEngine) -> None:
        self.engine = engine
        self.dominance = DominanceInfo()
        # The regions around the operation that is looked at, up to the nearest one isolated from above.
        self.open: set[Region] = set()
        # Blocks of the same region that dominate the current block.
        self.above: set[Block] = set()
        # Whether a value defined outside of these was used.
        self.leaks = False

    def tree(self, op: Operation) -> None:
        # Operations inside are checked even if their parent is wrong, but a malformed operation is not checked further,
        # since its own rules may rely on its declared shape.
        cls = type(op)
        rules = _Rules._of_class.get(cls) or _Rules(cls)
        accepted, form = rules.accepted, None
        if accepted is not None and not op._regions and not op._successors:
            # Nearly all operations of a module are like one before.
            form = (*map(_TYPE, op._operands), None, *map(_TYPE, op._results), *op.attributes.items())
            if form in accepted:
                return
        try:
            _verify_structure(op, rules)
            for trait in rules.traits:
                trait.verify(op)
            if rules.own:
                op.verify_op()
            if rules.warns:
                for text in op.warnings():  # type: ignore[misc]
                    self.engine.warning(op.location, text)
        except VerifyError as error:
            # The operations inside are not checked, so a leak is possible.
            self.leaks = True
            self.engine.emit(diagnose(op, error))
            for message in error.also:
                self.engine.op_error(op, message)
            return
        if form is not None and accepted is not None:
            if len(accepted) >= MAX_ACCEPTED:
                accepted.clear()
            accepted.add(form)
        if op._regions:
            self.regions(op, rules.isolated)

    def regions(self, op: Operation, isolated: bool) -> None:
        around, leaked, above = self.open, self.leaks, self.above
        if isolated:
            self.open, self.leaks = set(), False
        for region in op.regions:
            self.open.add(region)
            for block in region.blocks:
                self.above = set()
                # Values defined before the operation in its block, where most operands are from.
                defined: set[Value] = set(block.arguments)
                inner = block.first
                while inner is not None:
                    if not defined.issuperset(inner._operands):
                        self.operands(inner)
                    self.tree(inner)
                    defined.update(inner._results)
                    inner = inner.next
            self.open.discard(region)
        self.above = above
        if isolated:
            if self.leaks:
                _verify_isolation(op, self.engine)
            self.open, self.leaks = around, self.leaks or leaked

    def operands(self, op: Operation) -> None:
        block = op.parent
        for number, value in enumerate(op.operands):
            definition = value.defining_op
            if definition is not None:
                home = definition.parent
                if home is block and definition is not op and definition.is_before_in_block(op):
                    continue
            else:
                home = value.block  # type: ignore[attr-defined]
                if home is block:
                    continue
            if home in self.above:
                continue
            if home is None or home.parent not in self.open:
                self.leaks = True
            if (definition is None or home is not block) and self.dominance.value_dominates(value, op):
                if home.parent is block.parent:
                    self.above.add(home)
                continue
            if definition is not None:
                notes = [Diagnostic.note(definition.location, "operand defined here")]
            else:
                notes = [Diagnostic.note(getattr(value, "location", None), "operand defined as a block argument")]
            self.engine.error(op.location, f"operand #{number} does not dominate this use", notes)


def verify_types(op: Operation) -> None:
    """Check an operation on its own when it is built: the types of operands and results, and the traits about them;
    raise VerifyError."""
    _verify_types("operand", op.operand_fields, op.operand_spans(), op._operands)
    _verify_types("result", op.result_fields, op.result_spans(), op._results)
    for trait in op.trait_instances:
        if isinstance(trait, TypeTrait):
            trait.verify(op)


def _verify_structure(op: Operation, rules: _Rules) -> None:
    operands, results, attributes = op._operands, op._results, op.attributes
    fields = rules.operands
    if fields is not None and len(fields) == len(operands) and OPERAND_SEGMENTS not in attributes:
        for field, value in zip(fields, operands):
            if value.type not in field.fitting:
                _verify_types("operand", op.operand_fields, op.operand_spans(), operands)
    else:
        _verify_types("operand", op.operand_fields, op.operand_spans(), operands)
    fields = rules.results
    if fields is not None and len(fields) == len(results) and RESULT_SEGMENTS not in attributes:
        for field, value in zip(fields, results):
            if value.type not in field.fitting:
                _verify_types("result", op.result_fields, op.result_spans(), results)
    else:
        _verify_types("result", op.result_fields, op.result_spans(), results)
    # An operation without attributes is fine unless it needs one.
    for name, required, attribute_class, field in rules.attributes if attributes or rules.requires else ():
        value = attributes.get(name)
        if value is None:
            if required:
                raise VerifyError(f"requires attribute '{name}'")
        elif not (
            isinstance(value, attribute_class) if attribute_class is not None else satisfies(field.constraint, value)
        ):
            raise VerifyError(f"attribute '{name}' failed to satisfy constraint: {describe(field.constraint)}")
    if rules.shaped or op._regions or op._successors:
        if op.region_fields or op.regions:
            _verify_count(op, "region", op.region_fields, len(op.regions))
        if op.successor_fields or op.successors:
            _verify_count(op, "successor", op.successor_fields, len(op.successors))
        for number, region in enumerate(op.regions):
            _verify_region(op, number, region)
        if op.successors and op.next is not None:
            raise VerifyError("must be the last operation in the parent block")


def _verify_types(
    kind: str, fields: tuple[Field, ...], spans: tuple[tuple[int, int], ...] | None, values: Sequence[Value]
) -> None:
    if spans is None:
        raise VerifyError(_count_message(kind, fields, len(values)))
    for field, (start, end) in zip(fields, spans):
        for number in range(start, end):
            type = values[number].type
            if type not in field.fitting and not field.fits(type):
                raise VerifyError(f"{kind} #{number} must be {_constraint_text(field)}, but got '{type}'")


def _constraint_text(field: Field) -> str:
    return f"variadic of {describe(field.constraint)}" if field.variadic else describe(field.constraint)


def _count_message(kind: str, fields: tuple[Field, ...], count: int) -> str:
    least = sum(field.arity == "one" for field in fields)
    if all(field.arity == "one" for field in fields):
        if count and not fields:
            return f"requires zero {kind}s"
        return f"expected {least} {kind}s, but found {count}" if kind == "operand" else f"expected {least} {kind}s"
    return f"expected {least} or more {kind}s, but found {count}"


def _verify_count(op: Operation, kind: str, fields: tuple[Field, ...], count: int) -> None:
    least = sum(field.arity == "one" for field in fields)
    most = None if any(field.variadic for field in fields) else len(fields)
    if count < least or most is not None and count > most:
        if not fields:
            raise VerifyError(f"requires zero {kind}s" if kind == "region" else f"requires 0 {kind}s but found {count}")
        raise VerifyError(f"expected {least} {kind}s but found {count}")


def _verify_region(op: Operation, number: int, region: Region) -> None:
    for block in region.blocks:
        last = block.last
        if op.has_trait(NoTerminator):
            continue
        if last is None:
            if op.has_trait(SingleBlock):
                continue  # said in the trait's words
            raise VerifyError("empty block: expect at least a terminator", prefix=False)
        if not last.has_trait(Terminator):
            raise VerifyError("block with no terminator, has " + f'"{last.name}"', location=last.location, prefix=False)


def _verify_isolation(op: Operation, engine: DiagnosticEngine) -> None:
    own: set[Block] = set()
    for inner in op.walk():
        for region in inner.regions:
            own.update(region.blocks)
    for inner in op.walk():
        if inner is op:
            continue
        for value in inner.operands:
            definition = value.defining_op
            if (value.owner if definition is None else definition.parent) not in own:
                engine.op_error(
                    inner,
                    "using value defined outside the region",
                    [Diagnostic.note(op.location, "required by region isolation constraints")],
                )
                break
