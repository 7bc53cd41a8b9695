"""Runs of format elements as one regular expression.

A run holds only elements whose text is regular: literals, operands, whole types, enum keywords, and optional groups of
these.  One match then reads them all.  Where the expression does not match, or meets a type text that has not been read
before, the elements are read one by one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ..attributes import EnumAttr, UnitAttr
from ..fields import Field
from ..types import Type
from . import lexer
from .assembly_format import (
    AttrDict,
    Literal,
    Optional,
    TypeDirective,
    Variable,
    Whitespace,
    attribute_class,
    elided_unit,
)

if TYPE_CHECKING:
    from .assembly_format import Element
    from .assembly_parse import OperationState, Step
    from .parser import Parser


def is_regular(element: Element) -> bool:
    if isinstance(element, (Literal, Whitespace)):
        return True
    if isinstance(element, AttrDict):
        return not element.properties
    if isinstance(element, Variable):
        field = element.field
        if field.kind == "operand":
            return field.arity != "variadic"
        if field.kind != "attribute" or element.qualified:
            return False
        kind = attribute_class(field)
        return kind is not None and issubclass(kind, EnumAttr) and kind.parse_parameters is None
    if isinstance(element, TypeDirective):
        return isinstance(element.variable, Variable) and element.variable.field.arity != "variadic"
    if isinstance(element, Optional):
        return (
            not element.otherwise
            and not element.inverted
            and isinstance(element.then[0], Literal)
            and all(is_regular(e) or e is elided_unit(element) for e in element.then)
        )
    return False


class _Fusion:
    """The expression of a run, and the meaning of each of its groups."""

    def __init__(self) -> None:
        self.pattern = ""
        self.operands: list[tuple[int, int]] = []
        self.types: list[tuple[int, str, bool, int]] = []
        self.units: list[tuple[int, str]] = []
        self.enums: list[tuple[int, str, Any, Any]] = []
        self.group = 0

    def capture(self, pattern: str) -> int:
        self.group += 1
        self.pattern += f"({pattern})\\s*"
        return self.group

    def add(self, element: Element) -> None:
        if isinstance(element, Literal):
            word = element.text[-1].isalnum() or element.text[-1] == "_"
            self.pattern += re.escape(element.text) + (r"(?![\w$.])" if word else "") + r"\s*"
        elif isinstance(element, AttrDict):
            # With the space before it: that of the element before can be given back.
            self.pattern += f"(?!{lexer.TRIVIA}" + (r"attributes\b)" if element.keyword else r"\{)")
        elif isinstance(element, Variable):
            if element.field.kind == "operand":
                optional = "" if element.field.arity == "one" else "?"
                self.group += 1
                self.pattern += f"({lexer.VALUE_USE}){optional}\\s*"
                self.operands.append((self.group, element.position))
            else:
                self.add_enum(element.field)
        elif isinstance(element, TypeDirective):
            field = element.variable.field
            group = self.capture(lexer.WHOLE_TYPE)
            self.types.append((group, element.dialect or "", field.kind == "operand", element.variable.position))
        elif isinstance(element, Optional):
            self.add_optional(element)

    def add_enum(self, field: Field) -> None:
        kind = attribute_class(field)
        cases = "|".join(sorted(map(re.escape, kind.cases), key=len, reverse=True))  # type: ignore[union-attr]
        if kind.angled:  # type: ignore[union-attr]
            self.group += 1
            group = self.group
            self.pattern += rf"<\s*({cases})\s*>\s*"
        else:
            group = self.capture(rf"(?:{cases})(?![\w$.])")
        self.enums.append((group, field.name, kind, field.default))

    def add_optional(self, element: Optional) -> None:
        unit = elided_unit(element)
        self.pattern += "(?:"
        for inner in element.then:
            if inner is unit:
                # An empty group that takes part exactly when the optional group does.
                self.group += 1
                self.pattern += "()"
                self.units.append((self.group, unit.field.name))
            else:
                self.add(inner)
        # Possessive: a matched group is not given back to let the following elements match.
        self.pattern += ")?+"


def fused_step(run: tuple, slow: list[Step]) -> Step:
    fusion = _Fusion()
    for element in run:
        fusion.add(element)
    match = re.compile(fusion.pattern + lexer.TRIVIA, re.ASCII).match
    operands, types, units, enums = (tuple(x) for x in (fusion.operands, fusion.types, fusion.units, fusion.enums))
    no_types: dict[str, Type] = {}

    def one_by_one(parser: "Parser", state: OperationState) -> None:
        for step in slow:
            step(parser, state)

    def fused(parser: "Parser", state: OperationState) -> None:
        result = match(parser.text, parser.pos)
        if result is None:
            return one_by_one(parser, state)
        by_text = parser._types_by_text
        for group, dialect, of_operand, at in types:
            text = result[group]
            if text is not None:
                type = by_text.get(dialect, no_types).get(text)
                if type is None:
                    return one_by_one(parser, state)
                (state.operand_types if of_operand else state.result_types)[at] = type
        for group, at in operands:
            state.operands[at] = result[group]
        if units:
            for group, name in units:
                if result[group] is not None:
                    state.attributes[name] = UnitAttr()
        if enums:
            for group, name, kind, default in enums:
                text = result[group]
                if text is not None:
                    value = kind(text)
                    if value is not default:
                        state.attributes[name] = value
        parser.pos = result.end()

    return fused
