"""The verifier: structure, then declared types, then traits, then the operation's own rules, then dominance.

The first rule that fails is reported per operation; its message carries MLIR's prefix ("'dialect.op' op ...") and the
operation's location.
"""

from __future__ import annotations

from tileiras.diagnostics import Diagnostic, DiagnosticEngine, ExitCode, Severity

from .attributes import VerifyError
from .core import Block, BlockArgument, Operation, Region
from .dominance import DominanceInfo
from .fields import Field, describe, satisfies
from .location import Location
from .traits import IsolatedFromAbove, NoTerminator, SingleBlock, Terminator


def verify(op: Operation, engine: DiagnosticEngine | None = None, code: int = ExitCode.INVALID_INPUT) -> None:
    """Checks `op` and everything inside it.

    Raises CompileError with `code` and every diagnostic found; with an engine, emits there and does not raise.
    """
    own = DiagnosticEngine() if engine is None else engine
    _verify_tree(op, own, DominanceInfo())
    if engine is None:
        own.raise_if_errors(code)


def diagnose(op: Operation, error: VerifyError) -> Diagnostic:
    """The diagnostic that a VerifyError about `op` stands for."""
    message = f"'{op.name}' op {error.message}" if error.prefix else error.message
    location: Location = error.location if error.location is not None else op.location
    notes = [Diagnostic.note(at, text) for at, text in error.notes]
    return Diagnostic(Severity.ERROR, location, message, notes)


def _verify_tree(op: Operation, engine: DiagnosticEngine, dominance: DominanceInfo) -> None:
    # Operations inside are checked even when their parent is wrong, but an operation that is itself malformed is not
    # asked for more, since its own rules may rely on its declared shape.
    try:
        _verify_structure(op)
        for trait in op.trait_instances:
            trait.verify(op)
        op.verify_op()
        if op.warnings is not None:
            for text in op.warnings():
                engine.warning(op.location, text)
    except VerifyError as error:
        engine.emit(diagnose(op, error))
        for message in error.also:
            engine.error(op.location, f"'{op.name}' op {message}")
        return
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                _verify_operands(inner, engine, dominance)
                _verify_tree(inner, engine, dominance)
    if op.has_trait(IsolatedFromAbove):
        _verify_isolation(op, engine)


def _verify_structure(op: Operation) -> None:
    spans = op.operand_spans()
    operands, results = op.operands, op.results
    if spans is None:
        raise VerifyError(_count_message("operand", op.operand_fields, len(operands)))
    for field, (start, end) in zip(op.operand_fields, spans):
        for number in range(start, end):
            type = operands[number].type
            if not field.fits(type):
                raise VerifyError(f"operand #{number} must be {_wanted(field)}, but got '{type}'")
    spans = op.result_spans()
    if spans is None:
        raise VerifyError(_count_message("result", op.result_fields, len(results)))
    for field, (start, end) in zip(op.result_fields, spans):
        for number in range(start, end):
            type = results[number].type
            if not field.fits(type):
                raise VerifyError(f"result #{number} must be {_wanted(field)}, but got '{type}'")
    for field in op.attribute_fields:
        value = op.attributes.get(field.name)
        if value is None:
            if field.arity == "one":
                raise VerifyError(f"requires attribute '{field.name}'")
        elif not satisfies(field.constraint, value):
            raise VerifyError(f"attribute '{field.name}' failed to satisfy constraint: {describe(field.constraint)}")
    if op.region_fields or op.regions:
        _verify_count(op, "region", op.region_fields, len(op.regions))
    if op.successor_fields or op.successors:
        _verify_count(op, "successor", op.successor_fields, len(op.successors))
    for number, region in enumerate(op.regions):
        _verify_region(op, number, region)
    if op.successors and op.next is not None:
        raise VerifyError("must be the last operation in the parent block")


def _wanted(field: Field) -> str:
    return f"variadic of {describe(field.constraint)}" if field.variadic else describe(field.constraint)


def _count_message(kind: str, fields: tuple[Field, ...], found: int) -> str:
    least = sum(field.arity == "one" for field in fields)
    if all(field.arity == "one" for field in fields):
        if found and not fields:
            return f"requires zero {kind}s"
        return f"expected {least} {kind}s, but found {found}" if kind == "operand" else f"expected {least} {kind}s"
    return f"expected {least} or more {kind}s, but found {found}"


def _verify_count(op: Operation, kind: str, fields: tuple[Field, ...], found: int) -> None:
    least = sum(field.arity == "one" for field in fields)
    most = None if any(field.variadic for field in fields) else len(fields)
    if found < least or most is not None and found > most:
        if not fields:
            raise VerifyError(f"requires zero {kind}s" if kind == "region" else f"requires 0 {kind}s but found {found}")
        raise VerifyError(f"expected {least} {kind}s but found {found}")


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


def _verify_operands(op: Operation, engine: DiagnosticEngine, dominance: DominanceInfo) -> None:
    block = op.parent
    for number, value in enumerate(op.operands):
        # The common case is a definition earlier in the same block.
        definition = value.defining_op
        if definition is not None and definition.parent is block and definition is not op:
            if definition.is_before_in_block(op):
                continue
        elif isinstance(value, BlockArgument) and value.block is block:
            continue
        elif dominance.value_dominates(value, op):
            continue
        if definition is not None:
            notes = [Diagnostic.note(definition.location, "operand defined here")]
        else:
            notes = [Diagnostic.note(getattr(value, "location", None), "operand defined as a block argument")]
        engine.error(op.location, f"operand #{number} does not dominate this use", notes)


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
                engine.error(
                    inner.location,
                    f"'{inner.name}' op using value defined outside the region",
                    [Diagnostic.note(op.location, "required by region isolation constraints")],
                )
                break
