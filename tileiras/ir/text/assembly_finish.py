"""Builds an operation from the parts that a format has read: operand resolution, inferred types, segment sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..attributes import DenseArrayAttr
from ..blocks import Region
from ..fields import Field, only_type
from ..location import SourceLoc
from ..operation import OPERAND_SEGMENTS, RESULT_SEGMENTS, Operation
from ..traits import (
    AllTypesMatch,
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    SameOperandsAndResultType,
    SameTypeOperands,
)
from ..types import Type, i32
from .assembly_format import Custom, FunctionalType, Oilist, Optional, TypeDirective, Variable, compile_format

if TYPE_CHECKING:
    from ..values import Value
    from .assembly_parse import OperationState
    from .operand_parser import UnresolvedOperand
    from .parser import Parser


def _matching(cls: type[Operation], name: str, of_result: bool) -> list[str]:
    """Fields whose type is that of field `name`."""
    result: list[str] = []
    for trait in cls.trait_instances:
        if isinstance(trait, AllTypesMatch) and name in trait.fields:
            result += [other for other in trait.fields if other != name]
        elif isinstance(trait, SameOperandsAndResultType):
            result += [f.name for f in (*cls.operand_fields, *cls.result_fields) if f.name != name]
        elif isinstance(trait, SameTypeOperands) and not of_result:
            result += [f.name for f in cls.operand_fields if f.name != name]
    return result


def _source_of_type(cls: type[Operation], field: Field, spelled: set[tuple[str, int]]) -> tuple[str, Any]:
    """("operand" | "result", position), ("type", type) or ("", None): where a field's type comes from."""
    of_kind = cls.operand_fields if field.kind == "operand" else cls.result_fields
    if (field.kind, of_kind.index(field)) in spelled:
        return field.kind, of_kind.index(field)
    only = only_type(field.constraint)
    if only is not None:
        return "type", only
    for name in _matching(cls, field.name, field.kind == "result"):
        for kind, fields in (("operand", cls.operand_fields), ("result", cls.result_fields)):
            for position, other in enumerate(fields):
                if other.name == name and (kind, position) in spelled:
                    return kind, position
    return "", None


def _spelled_types(elements: tuple) -> set[tuple[str, int]]:
    spelled_types: set[tuple[str, int]] = set()
    for element in elements:
        if isinstance(element, TypeDirective) and isinstance(element.variable, Variable):
            spelled_types.add((element.variable.field.kind, element.variable.position))
        elif isinstance(element, Custom):
            spelled_types |= {(a.field.kind, a.position) for a in element.arguments if a.of_type and not a.reference}
        elif isinstance(element, FunctionalType):
            spelled_types |= {
                (t.field.kind, t.position) for t in (element.inputs, element.results) if isinstance(t, Variable)
            }
        elif isinstance(element, Optional):
            spelled_types |= _spelled_types(element.then) | _spelled_types(element.otherwise)
        elif isinstance(element, Oilist):
            for clause in element.clauses:
                spelled_types |= _spelled_types(clause)
    return spelled_types


OperandPlan = tuple[int, str, str, Any]
"""Position, arity, and where the type comes from (`_source_of_type`)."""


def finisher(cls: type[Operation]) -> Callable[["Parser", OperationState], Operation]:
    """Resolve operands, infer types and make the operation."""
    spelled = _spelled_types(compile_format(cls).elements)
    plans = [(at, f.arity, *_source_of_type(cls, f, spelled)) for at, f in enumerate(cls.operand_fields)]
    if any(arity != "one" for _, arity, _, _ in plans):
        operands = _operands_in_segments(plans, cls.has_trait(AttrSizedOperandSegments))
    else:
        operands = _single_operands(plans)
    result_types = _result_types(cls, spelled)
    regions_needed = sum(f.arity == "one" for f in cls.region_fields)
    create = cls.create

    def finish(parser: "Parser", state: OperationState) -> Operation:
        if state.all_operands is not None:
            values = parser.resolve_operands(state.all_operands, state.all_operand_types, state.offset)
        else:
            values = operands(parser, state)
        types = state.all_result_types
        if types is None:
            types = result_types(state, values)
        regions = state.regions
        location = SourceLoc(parser.source, state.offset)
        while len(regions) < regions_needed:
            regions.append(Region())  # one that the text leaves out is empty
        return create(values, types, state.attributes, regions, state.successors, location)

    return finish


def _single_operands(plans: Sequence[OperandPlan]) -> Callable[["Parser", OperationState], list[Value]]:
    """Resolve the operands of an operation whose fields all hold one."""

    def resolve(parser: "Parser", state: OperationState) -> list[Value]:
        values_by_name = parser._values
        operand_types, result_types, uses = state.operand_types, state.result_types, state.operands
        values = []
        for at, _, kind, source in plans:
            type = (
                result_types[source] if kind == "result" else operand_types[source] if kind == "operand" else source
            )
            use = uses[at]
            value = values_by_name.get(use) if use.__class__ is str else None
            if value is None or value.type is not type:
                value = _value_of(parser, state, use, type)
            values.append(value)
        return values

    return resolve


def _operands_in_segments(
    plans: Sequence[OperandPlan], writes_sizes: bool
) -> Callable[["Parser", OperationState], list[Value]]:
    """Resolve operands with optional or variadic fields; `writes_sizes`: the operation has an attribute with the
    number of operands of each field."""

    def resolve(parser: "Parser", state: OperationState) -> list[Value]:
        values: list[Value] = []
        sizes: list[int] = []
        for plan in plans:
            result = (_variadic if plan[1] == "variadic" else _optional)(parser, state, plan)
            values += result
            sizes.append(len(result))
        if writes_sizes:
            state.attributes[OPERAND_SEGMENTS] = DenseArrayAttr(i32, sizes)
        return values

    return resolve


def _variadic(parser: "Parser", state: OperationState, plan: OperandPlan) -> list[Value]:
    at, _, kind, source = plan
    uses = state.operands[at] or []
    type = _type_from(state, kind, source)
    if isinstance(type, list):
        if len(type) != len(uses):
            parser.error(state.offset, _mismatch(len(uses), len(type)))
        return [_value_of(parser, state, use, own) for use, own in zip(uses, type)]
    if type is None and kind == "operand" and uses:
        parser.error(state.offset, _mismatch(len(uses), 0))
    return [_value_of(parser, state, use, type) for use in uses]


def _optional(parser: "Parser", state: OperationState, plan: OperandPlan) -> list[Value]:
    """At most one operand: of an optional field, or of a required field of an operation with optional ones."""
    at, arity, kind, source = plan
    use = state.operands[at]
    type = _type_from(state, kind, source)
    is_spelled = kind == "operand" and source == at
    if use is None:
        if type is not None and is_spelled:
            parser.error(state.offset, _mismatch(0, 1))
        return []
    if type is None and is_spelled and arity == "optional":
        parser.error(state.offset, _mismatch(1, 0))
    if isinstance(type, list):
        type = type[0] if type else None
    return [_value_of(parser, state, use, type)]


def _result_types(
    cls: type[Operation], spelled: set[tuple[str, int]]
) -> Callable[[OperationState, list[Value]], list[Type]]:
    """The types of an operation's results where its format does not give all of them together."""
    plans = [(f.arity, *_source_of_type(cls, f, spelled)) for f in cls.result_fields]
    spelled_results = [at for at, plan in enumerate(plans) if plan == ("one", "result", at)]
    writes_sizes = cls.has_trait(AttrSizedResultSegments)

    def inferred(state: OperationState, values: list[Value]) -> list[Type]:
        types = list(cls.infer_result_types(values, state.attributes))
        for position in spelled_results:
            # A type given in the text is kept even if it is wrong: the verifier has the diagnostic for that.
            types[position] = state.result_types[position]
        return types

    def all_types(state: OperationState, values: list[Value]) -> list[Type]:
        types: list[Type] = []
        for arity, kind, source in plans:
            type = _type_from(state, kind, source)
            if arity == "variadic" or isinstance(type, list):
                types += type or []
            elif type is not None:
                types.append(type)
        if writes_sizes:
            sizes = [len(t) if isinstance(t, list) else int(t is not None) for t in state.result_types]
            state.attributes[RESULT_SEGMENTS] = DenseArrayAttr(i32, sizes)
        return types

    return inferred if any(kind == "" for _, kind, _ in plans) else all_types


def _type_from(state: OperationState, kind: str, source: Any) -> Any:
    """The type (or types, of a variadic field) at the source that `_source_of_type` found."""
    if kind == "operand":
        return state.operand_types[source]
    if kind == "result":
        return state.result_types[source]
    return source


def _value_of(parser: "Parser", state: OperationState, use: UnresolvedOperand | str, type: Type | None) -> Value:
    if use.__class__ is str:
        value = parser._values.get(use)
        if value is not None and value.type is type:
            return value
        return parser.resolve_name(use, _offset_of_use(parser, use, state.offset), type)
    return parser.resolve_name(use[0], use[1], type)


def _offset_of_use(parser: "Parser", name: str, start: int) -> int:
    """Where an operand stands that a fused expression has read: the name's first use after the operation's name."""
    match = re.compile(re.escape(name) + r"(?![\w$.\-#])").search(parser.text, start)
    return match.start() if match is not None else start


def _mismatch(operands: int, types: int) -> str:
    return f"number of operands and types do not match: got {operands} operands and {types} types"
