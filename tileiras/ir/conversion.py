"""Dialect conversion: one pass over the IR, replacing operations and the types of values together.

A lowering is a table from operation class to function:

    def lower_addf(op, args, rewriter):
        return rewriter.insert(arith.AddFOp(args[0], args[1]))

`args` are the operands as already converted.  The function returns the replacement of the results: an operation, a
value, a sequence of values, or None if there are no results.  Since definitions come before uses, one walk in dominance
order suffices; region bodies are converted on request of their operation's pattern (`rewriter.convert_region`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tileiras.diagnostics import CompileError, DiagnosticEngine, ExitCode

from .attributes import VerifyError
from .blocks import Block, Region
from .dominance import reverse_postorder
from .location import UnknownLoc
from .operation import Operation
from .values import Value
from .verifier import diagnose

if TYPE_CHECKING:
    from .types import Type

OperationT = TypeVar("OperationT", bound=Operation)
Pattern = Callable[[Any, tuple, "ConversionRewriter"], Any]


class TypeConverter:
    """Maps types to converted types: a function per type class; other types are unchanged."""

    __slots__ = ("_rules", "_cache")

    def __init__(self, rules: Mapping[type, Callable[[Any], Any]]) -> None:
        self._rules = dict(rules)
        self._cache: dict[Any, Any] = {}

    def convert(self, type: Type) -> Any:
        result = self._cache.get(type)
        if result is None:
            rule = self._rules.get(type.__class__)
            result = self._cache[type] = type if rule is None else rule(type)
        return result

    def __call__(self, type: Type) -> Any:
        return self.convert(type)


class ConversionTarget:
    """Which operations may stay: by dialect, unless a pattern exists for the class."""

    __slots__ = ("legal_dialects", "dynamically_legal")

    def __init__(
        self,
        legal_dialects: Iterable[str],
        dynamically_legal: Mapping[type[Operation], Callable[[Operation], bool]] | None = None,
    ) -> None:
        self.legal_dialects = frozenset(legal_dialects)
        self.dynamically_legal = dict(dynamically_legal or {})

    def is_legal(self, op: Operation) -> bool:
        rule = self.dynamically_legal.get(type(op))
        return rule(op) if rule is not None else op.dialect in self.legal_dialects


class ConversionRewriter:
    """The insertion point of patterns, and the mapping from old values to new ones."""

    __slots__ = ("types", "block", "before", "op", "_mapping", "_convert_op", "data")

    def __init__(self, types: TypeConverter, convert_op: Callable[[Operation], None], data: object) -> None:
        self.types = types
        self.block: Block | None = None
        self.before: Operation | None = None
        self.op: Operation | None = None
        self._mapping: dict[Value, Any] = {}
        self._convert_op = convert_op
        self.data = data
        """State shared by the lowering's patterns (target, options, analyses)."""

    def insert(self, op: OperationT) -> OperationT:
        """Insert at the current place; an operation without a location inherits that of the operation being
        converted."""
        if isinstance(op.location, UnknownLoc) and self.op is not None:
            op.location = self.op.location
        assert self.block is not None
        self.block.insert_before(op, self.before)
        return op

    def at_end(self, block: Block) -> "_InsertionGuard":
        """`with rewriter.at_end(block):` inserts there instead."""
        return _InsertionGuard(self, block, None)

    def at(self, block: Block, before: Operation | None) -> "_InsertionGuard":
        return _InsertionGuard(self, block, before)

    def value(self, old: Value) -> Any:
        """The converted value of `old` (itself if unchanged)."""
        return self._mapping.get(old, old)

    def map(self, old: Value, new: object) -> None:
        self._mapping[old] = new

    def convert_type(self, type: Type) -> Any:
        return self.types.convert(type)

    def convert_region(self, region: Region, argument_types: Sequence[Any] | None = None) -> Region:
        """Convert a region's block arguments and operations; return them as a new, detached region.

        The operations still see their old parent while being converted.  `argument_types` are the new types of the
        entry block's arguments (default: the converted ones).
        """
        saved = self.block, self.before, self.op
        for number, block in enumerate(_dominance_order(region)):
            types = argument_types if number == 0 and argument_types is not None else None
            self.convert_block(block, types)
        self.block, self.before, self.op = saved
        return Region().take_blocks(region)

    def convert_block(self, block: Block, argument_types: Sequence[Any] | None = None) -> None:
        for number, argument in enumerate(block.arguments):
            old_type = argument.type
            new_type = self.convert_type(old_type) if argument_types is None else argument_types[number]
            if new_type is not old_type:
                argument.type = new_type
        for op in block.operations:
            self._convert_op(op)


class _InsertionGuard:
    __slots__ = ("rewriter", "block", "before", "saved")

    def __init__(self, rewriter: ConversionRewriter, block: Block, before: Operation | None) -> None:
        self.rewriter = rewriter
        self.block = block
        self.before = before

    def __enter__(self) -> ConversionRewriter:
        self.saved = (self.rewriter.block, self.rewriter.before)
        self.rewriter.block, self.rewriter.before = self.block, self.before
        return self.rewriter

    def __exit__(self, *_: object) -> None:
        self.rewriter.block, self.rewriter.before = self.saved


def apply_conversion(
    root: Operation,
    patterns: Mapping[type[Operation], Pattern],
    target: ConversionTarget,
    types: TypeConverter,
    *,
    data: object = None,
    make_data: Callable[[ConversionRewriter], Any] | None = None,
    failure: str,
    engine: DiagnosticEngine | None = None,
) -> None:
    """Convert everything inside `root` (which stays).

    Patterns access `data`, or the result of `make_data` for the rewriter, as `rewriter.data`.
    Raises CompileError (code 5) with a located "failed to legalize operation" and then `failure` if an operation is not
    legal and has no pattern, or with the diagnostic that a pattern reports by raising VerifyError or CompileError.
    """
    emit = engine if engine is not None else DiagnosticEngine()
    get_pattern = patterns.get

    def fail(op: Operation) -> CompileError:
        emit.error(op.location, failure)
        return CompileError(emit.diagnostics, ExitCode.COMPILE_FAILURE)

    def convert_op(op: Operation) -> None:
        pattern = get_pattern(type(op))
        mapping = rewriter._mapping
        if pattern is None:
            if not target.is_legal(op):
                emit.error(op.location, f"failed to legalize operation '{op.name}'")
                raise fail(op)
            if any(value in mapping for value in op.operands):
                replaced = tuple(mapping.get(value, value) for value in op.operands)
                if not all(isinstance(value, Value) for value in replaced):
                    # Placeholders that replace values are for patterns only, and this operation has no pattern.
                    emit.error(op.location, f"failed to legalize operation '{op.name}'")
                    raise fail(op)
                op.operands = replaced
            for region in op.regions:
                for block in _dominance_order(region):
                    rewriter.convert_block(block)
            return
        rewriter.block, rewriter.before, rewriter.op = op.parent, op, op
        get = mapping.get
        args = tuple([get(value, value) for value in op.operands])
        try:
            new = pattern(op, args, rewriter)
        except VerifyError as error:
            emit.emit(diagnose(op, error))
            raise fail(op) from None
        results = op.results
        if results:
            values = new.results if isinstance(new, Operation) else (new,) if isinstance(new, Value) else new
            if values is None or len(values) != len(results):
                raise TypeError(f"the pattern for '{op.name}' does not replace its {len(results)} results")
            for result, value in zip(results, values):
                mapping[result] = value
        erased.append(op)

    erased: list[Operation] = []
    rewriter = ConversionRewriter(types, convert_op, data)
    if make_data is not None:
        rewriter.data = make_data(rewriter)
    for region in root.regions:
        for block in _dominance_order(region):
            rewriter.convert_block(block)
    # Old operations are erased last to first, so that every user is gone before its operands.
    for op in reversed(erased):
        op.drop_all_references()
    for op in reversed(erased):
        op.erase()


def _dominance_order(region: Region) -> list[Block]:
    """Blocks so that definitions come before uses; unreachable blocks last, in textual order."""
    if len(region.blocks) < 2:
        return list(region.blocks)
    order = reverse_postorder(region.blocks[0])
    reached = set(order)
    return order + [block for block in region.blocks if block not in reached]
