"""The shapes that rules have in common, so that a 1:1 rule is one line of a table.

A rule is a pattern of `tileiras.ir.conversion`; tables map an operation's mnemonic to its rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tileiras.dialects import arith
from tileiras.ir import IntegerAttr, Operation, Type, UnitAttr, Value, element_type_of

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.ir import ConversionRewriter

Rule = Callable[[Any, tuple, Any], Any]
Table = dict[str, Rule]


def same(target: type[Operation]) -> Rule:
    """The target takes the operands in order and its result type follows from them."""

    def rule(op: cuda_tile.TileOp, args: tuple, rewriter: ConversionRewriter) -> Any:
        return rewriter.insert(target(*args))

    return rule


def cast(target: type[Operation]) -> Rule:
    """The target takes the operand and the converted result type."""

    def rule(op: cuda_tile.TileOp, args: tuple, rewriter: ConversionRewriter) -> Any:
        return rewriter.insert(target(args[0], result=rewriter.convert_type(op.results[0].type)))

    return rule


def by(attribute: str, choices: Mapping[str, type[Operation]], *, is_cast: bool = False) -> Rule:
    """The target depends on the word that an enum attribute holds."""
    rules = {word: cast(target) if is_cast else same(target) for word, target in choices.items()}

    def rule(op: cuda_tile.TileOp, args: tuple, rewriter: ConversionRewriter) -> Any:
        return rules[getattr(op, attribute).value](op, args, rewriter)

    return rule


def by_signedness(signed: type[Operation], unsigned: type[Operation], *, is_cast: bool = False) -> Rule:
    return by("signedness", {"signed": signed, "unsigned": unsigned}, is_cast=is_cast)


def flag(op: Operation, name: str) -> UnitAttr | None:
    """The unit attribute `name` when the operation has it."""
    return UnitAttr() if op.attributes.get(name) is not None else None


def integer(rewriter: ConversionRewriter, value: int, type: Type) -> Any:
    """A constant of an integer type or of a tensor of them."""
    constant = arith.ConstantOp.splat(IntegerAttr(value, element_type_of(type)), type)
    return rewriter.insert(constant).results[0]


def converted(rewriter: ConversionRewriter, old: Value | Sequence[Value] | None) -> Any:
    """The converted value of an optional operand, or of each value of a variadic one."""
    if old is None:
        return None
    if isinstance(old, tuple):
        return [rewriter.value(value) for value in old]
    return rewriter.value(old)
