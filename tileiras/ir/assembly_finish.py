"""From what a format has read to an operation: operand resolution, inferred types, segment sizes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Callable

from .assembly_format import Custom, FunctionalType, Oilist, Optional, TypeDirective, Variable, compile_format
from .attributes import DenseArrayAttr
from .blocks import Region
from .fields import Field
from .location import SourceLoc
from .operation import OPERAND_SEGMENTS, RESULT_SEGMENTS, Operation
from .traits import (
    AllTypesMatch,
    AttrSizedOperandSegments,
    AttrSizedResultSegments,
    SameOperandsAndResultType,
    SameTypeOperands,
)
from .types import Type, i32

if TYPE_CHECKING:
    from .assembly_parse import OperationState
    from .parser import Parser


def _matching(cls: type[Operation], name: str, of_result: bool) -> list[str]:
    """Fields whose type is that of field `name`."""
    found: list[str] = []
    for trait in cls.trait_instances:
        if isinstance(trait, AllTypesMatch) and name in trait.fields:
            found += [other for other in trait.fields if other != name]
        elif isinstance(trait, SameOperandsAndResultType):
            found += [f.name for f in (*cls.operand_fields, *cls.result_fields) if f.name != name]
        elif isinstance(trait, SameTypeOperands) and not of_result:
            found += [f.name for f in cls.operand_fields if f.name != name]
    return found


def _source_of_type(cls: type[Operation], field: Field, spelled: set[tuple[str, int]]) -> tuple[str, Any]:
    """("operand" | "result", position), ("type", type) or ("", None): where a field's type comes from."""
    of_kind = cls.operand_fields if field.kind == "operand" else cls.result_fields
    if (field.kind, of_kind.index(field)) in spelled:
        return field.kind, of_kind.index(field)
    constraint = field.constraint
    if isinstance(constraint, Type):
        return "type", constraint
    if isinstance(constraint, type) and issubclass(constraint, Type) and constraint.name and not constraint.parameters:
        return "type", constraint()
    only = getattr(constraint, "only_type", None)
    if only is not None:
        return "type", only
    for name in _matching(cls, field.name, field.kind == "result"):
        for kind, fields in (("operand", cls.operand_fields), ("result", cls.result_fields)):
            for position, other in enumerate(fields):
                if other.name == name and (kind, position) in spelled:
                    return kind, position
    return "", None


def _spelled_types(elements: tuple) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for element in elements:
        if isinstance(element, TypeDirective) and isinstance(element.variable, Variable):
            found.add((element.variable.field.kind, element.variable.position))
        elif isinstance(element, Custom):
            found |= {(a.field.kind, a.position) for a in element.arguments if a.of_type and not a.reference}
        elif isinstance(element, FunctionalType):
            found |= {(t.field.kind, t.position) for t in (element.inputs, element.results) if isinstance(t, Variable)}
        elif isinstance(element, Optional):
            found |= _spelled_types(element.then) | _spelled_types(element.otherwise)
        elif isinstance(element, Oilist):
            for clause in element.clauses:
                found |= _spelled_types(clause)
    return found


def finisher(cls: type[Operation]) -> Callable[["Parser", OperationState], Operation]:
    """Resolves operands, infers types and makes the operation."""
    spelled = _spelled_types(compile_format(cls).elements)
    plans = [(at, f.arity, *_source_of_type(cls, f, spelled)) for at, f in enumerate(cls.operand_fields)]
    result_plans = [(f.arity, *_source_of_type(cls, f, spelled)) for f in cls.result_fields]
    infer = any(kind == "" for _, kind, _ in result_plans)
    spelled_results = [at for at, plan in enumerate(result_plans) if plan == ("one", "result", at)]
    flexible = any(f.arity != "one" for f in cls.operand_fields)
    operand_segments = cls.has_trait(AttrSizedOperandSegments)
    result_segments = cls.has_trait(AttrSizedResultSegments)
    regions_needed = sum(f.arity == "one" for f in cls.region_fields)
    create = cls.create

    def type_from(state: OperationState, kind: str, source: Any) -> Any:
        if kind == "operand":
            return state.operand_types[source]
        if kind == "result":
            return state.result_types[source]
        return source

    def value_of(parser: "Parser", state: OperationState, use: Any, type: Any) -> Any:
        if use.__class__ is str:
            value = parser._values.get(use)
            if value is not None and value.type is type:
                return value
            return parser.resolve_name(use, _offset_of_use(parser, use, state.offset), type)
        return parser.resolve_name(use[0], use[1], type)

    def operands_of(parser: "Parser", state: OperationState) -> tuple[list, list[int]]:
        values: list = []
        sizes: list[int] = []
        for at, arity, kind, source in plans:
            use = state.operands[at]
            type = type_from(state, kind, source)
            if arity == "variadic":
                uses = use or []
                if isinstance(type, list):
                    if len(type) != len(uses):
                        parser.error(state.offset, _mismatch(len(uses), len(type)))
                    values += [value_of(parser, state, u, t) for u, t in zip(uses, type)]
                else:
                    if type is None and kind == "operand" and uses:
                        parser.error(state.offset, _mismatch(len(uses), 0))
                    values += [value_of(parser, state, u, type) for u in uses]
                sizes.append(len(uses))
            elif use is None:
                if type is not None and kind == "operand" and source == at:
                    parser.error(state.offset, _mismatch(0, 1))
                sizes.append(0)
            else:
                if type is None and kind == "operand" and source == at and arity == "optional":
                    parser.error(state.offset, _mismatch(1, 0))
                if isinstance(type, list):
                    type = type[0] if type else None
                values.append(value_of(parser, state, use, type))
                sizes.append(1)
        return values, sizes

    def finish(parser: "Parser", state: OperationState) -> Operation:
        attributes = state.attributes
        if state.all_operands is not None:
            types = state.all_operand_types
            values = parser.resolve_operands(state.all_operands, types, state.offset)
        elif flexible:
            values, sizes = operands_of(parser, state)
            if operand_segments:
                attributes[OPERAND_SEGMENTS] = DenseArrayAttr(i32, sizes)
        else:
            known = parser._values
            operand_types, result_types, uses = state.operand_types, state.result_types, state.operands
            values = []
            for at, _, kind, source in plans:
                type = (
                    result_types[source]
                    if kind == "result"
                    else operand_types[source]
                    if kind == "operand"
                    else source
                )
                use = uses[at]
                value = known.get(use) if use.__class__ is str else None
                if value is None or value.type is not type:
                    value = value_of(parser, state, use, type)
                values.append(value)
        if state.all_result_types is not None:
            types = state.all_result_types
        elif infer:
            types = list(cls.infer_result_types(values, attributes))
            for position in spelled_results:
                # What the text says is kept, also where it is wrong: the verifier has the words for that.
                types[position] = state.result_types[position]
        else:
            types = []
            for arity, kind, source in result_plans:
                type = type_from(state, kind, source)
                if arity == "variadic" or isinstance(type, list):
                    types += type or []
                elif type is not None:
                    types.append(type)
            if result_segments:
                sizes = [len(t) if isinstance(t, list) else int(t is not None) for t in state.result_types]
                attributes[RESULT_SEGMENTS] = DenseArrayAttr(i32, sizes)
        regions = state.regions
        location = SourceLoc(parser.source, state.offset)
        while len(regions) < regions_needed:
            regions.append(Region())  # one that the text leaves out is empty
        return create(values, types, attributes, regions, state.successors, location)

    return finish


def _offset_of_use(parser: "Parser", name: str, start: int) -> int:
    """Where an operand stands that a fused expression has read: the name's first use behind the operation's name."""
    found = re.compile(re.escape(name) + r"(?![\w$.\-#])").search(parser.text, start)
    return found.start() if found is not None else start


def _mismatch(operands: int, types: int) -> str:
    return f"number of operands and types do not match: got {operands} operands and {types} types"
