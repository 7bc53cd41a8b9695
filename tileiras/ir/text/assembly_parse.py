"""Reading by assembly format: the elements of a format compiled to steps over a parser.

Runs of elements whose text is regular (literals, operands, whole types, enum keywords, optional groups of these) become
one regular expression; when it does not match, the same elements are read one by one, which also finds the error to
report.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..attributes import Attribute, DenseArrayAttr, EnumAttr, IntegerAttr, StringAttr, SymbolRefAttr, UnitAttr
from ..fields import Field
from ..operation import Operation
from ..types import Type, i1, i32
from . import lexer
from .assembly_finish import finisher
from .assembly_format import (
    AttrDict,
    Custom,
    FormatError,
    FunctionalType,
    Group,
    Literal,
    Oilist,
    Optional,
    TypeDirective,
    Variable,
    Whitespace,
    attribute_class,
    compile_format,
    elided_unit,
    typed_attribute,
)
from .assembly_fusion import fused_step, is_regular

if TYPE_CHECKING:
    from .assembly_format import Element
    from .parser import Parser


class OperationState:
    """The parts of one operation that have been read, by field position."""

    __slots__ = ("offset", "operands", "operand_types", "result_types", "attributes", "regions", "successors",
                 "all_operands", "all_operand_types", "all_result_types")  # fmt: skip

    def __init__(self, offset: int, operands: int, results: int) -> None:
        self.offset = offset
        self.operands: list[Any] = [None] * operands
        self.operand_types: list[Any] = [None] * operands
        self.result_types: list[Any] = [None] * results
        self.attributes: dict[str, Attribute] = {}
        self.regions: list[Any] = []
        self.successors: list[Any] = []
        self.all_operands: list | None = None
        self.all_operand_types: list | None = None
        self.all_result_types: list | None = None


Step = Callable[["Parser", OperationState], None]


def format_reader(cls: type[Operation]) -> Callable[["Parser", int], Operation]:
    """The reader of the class's custom form: (parser after the name, offset of the name) -> operation."""
    result = cls.__dict__.get("_format_reader")
    if result is None:
        result = _build_reader(cls)
        cls._format_reader = staticmethod(result)  # type: ignore[attr-defined]
    return result


def _build_reader(cls: type[Operation]) -> Callable[["Parser", int], Operation]:
    steps = _compile(cls, compile_format(cls).elements)
    finish = finisher(cls)
    operands, results = len(cls.operand_fields), len(cls.result_fields)
    only = steps[0] if len(steps) == 1 else None

    def read(parser: "Parser", offset: int) -> Operation:
        state = OperationState(offset, operands, results)
        outer = parser._frame
        parser._frame = (cls, offset, True)
        if only is not None:
            only(parser, state)
        else:
            for step in steps:
                step(parser, state)
        op = finish(parser, state)
        parser._frame = outer
        return op

    return read


# ---- single elements -------------------------------------------------------------------------------------------------


def _compile(cls: type[Operation], elements: tuple) -> list[Step]:
    steps: list[Step] = []
    run: list = []
    for element in (*elements, None):
        if element is not None and is_regular(element):
            run.append(element)
            continue
        slow = [step for e in run for step in [_step(cls, e)] if step is not None]
        steps += [fused_step(tuple(run), slow)] if len(slow) > 1 else slow
        run = []
        if element is not None:
            step = _step(cls, element)
            if step is not None:
                steps.append(step)
    return steps


def _step(cls: type[Operation], element: Element) -> Step | None:
    if isinstance(element, Whitespace):
        return None
    if isinstance(element, Literal):
        return _literal(element.text)
    if isinstance(element, Variable):
        return _variable(cls, element)
    if isinstance(element, TypeDirective):
        return _types(element)
    if isinstance(element, Group):
        return _group(element)
    if isinstance(element, AttrDict):
        return _attr_dict(element)
    if isinstance(element, Optional):
        return _optional(cls, element)
    if isinstance(element, Oilist):
        return _oilist(cls, element)
    if isinstance(element, Custom):
        return _custom(cls, element)
    if isinstance(element, FunctionalType):
        return _functional_type(element)
    raise FormatError(f"assembly format of '{cls.name}': cannot read {element!r}")


def _literal(text: str) -> Step:
    if text[0].isalpha() or text[0] == "_":
        return lambda parser, state: parser.parse_keyword(text)
    return lambda parser, state: parser.parse_punctuation(text)


def _variable(cls: type[Operation], element: Variable) -> Step:
    field, at = element.field, element.position
    if field.kind == "operand":
        if field.variadic:

            def operand_list(parser: "Parser", state: OperationState) -> None:
                state.operands[at] = parser.parse_operand_list()

            return operand_list
        if field.optional:

            def optional_operand(parser: "Parser", state: OperationState) -> None:
                state.operands[at] = parser.parse_optional_operand()

            return optional_operand

        def operand(parser: "Parser", state: OperationState) -> None:
            state.operands[at] = parser.parse_operand()

        return operand
    if field.kind == "attribute":
        return _attribute(field, element.qualified)
    if field.kind == "region":
        return _region(cls, field)
    if field.kind == "successor":
        if field.variadic:

            def successors(parser: "Parser", state: OperationState) -> None:
                if parser.text[parser.pos] == "^":
                    state.successors += parser.parse_comma_separated(parser.parse_successor)

            return successors
        return lambda parser, state: state.successors.append(parser.parse_successor())
    raise FormatError(f"assembly format of '{cls.name}': a result stands for nothing here")


def _region(cls: type[Operation], field: Field) -> Step:
    def one(parser: "Parser", state: OperationState) -> None:
        region = parser.parse_region()
        parser.ensure_terminator(region, cls, parser.location)
        state.regions.append(region)

    def several(parser: "Parser", state: OperationState) -> None:
        while parser.text[parser.pos] == "{":
            one(parser, state)
            if not parser.parse_optional_punctuation(","):
                break

    return several if field.variadic else one


def attribute_reader(field: Field, qualified: bool = False) -> Callable[["Parser"], Any]:
    """How the value of an attribute field is written where the format names it."""
    kind = attribute_class(field)
    if qualified or kind is None:
        return lambda parser: parser.parse_attribute(typed_attribute(field))
    if issubclass(kind, EnumAttr) and kind.parse_parameters is None:
        if kind.angled:
            return lambda parser: parser.parse_parameters(kind)
        return lambda parser: parser.parse_enum_keyword(kind, field.name)
    if kind is StringAttr:
        if field.name == "sym_name":
            return lambda parser: StringAttr(parser.parse_symbol_name())
        return _string
    if kind is SymbolRefAttr:
        return lambda parser: parser.parse_symbol_reference()
    if kind is DenseArrayAttr:
        element = typed_attribute(field) or i32
        return lambda parser: parser.parse_dense_array_elements(element)
    if kind is UnitAttr:
        return _unit_keyword
    if issubclass(kind, Type):
        return lambda parser: parser.parse_type()
    if kind.name.startswith("builtin.") or not kind.name:
        return lambda parser: parser.parse_attribute(typed_attribute(field))
    return lambda parser: parser.parse_attribute() if parser.text[parser.pos] == "#" else parser.parse_parameters(kind)


def _string(parser: "Parser") -> StringAttr:
    value = parser.parse_optional_string()
    if value is None:
        parser.expected("attribute value")
    return StringAttr(value)


def _unit_keyword(parser: "Parser") -> UnitAttr:
    parser.parse_keyword("unit")
    return UnitAttr()


def _attribute(field: Field, qualified: bool) -> Step:
    reader = attribute_reader(field, qualified)
    name, default = field.name, field.default

    def attribute(parser: "Parser", state: OperationState) -> None:
        value = reader(parser)
        if value is not default:
            state.attributes[name] = value

    return attribute


def _type_reader(dialect: str | None) -> Callable[["Parser"], Type]:
    if dialect is None:
        return lambda parser: parser.parse_type()
    return lambda parser: parser.parse_dialect_type(dialect)


def _types(element: TypeDirective) -> Step:
    reader = _type_reader(element.dialect)
    variable = element.variable
    if isinstance(variable, Group):
        slot = "all_operand_types" if variable.kind == "operand" else "all_result_types"
        return lambda parser, state: setattr(state, slot, parser.parse_comma_separated(lambda: reader(parser)))
    field, at = variable.field, variable.position
    of_operand = field.kind == "operand"

    def types(parser: "Parser", state: OperationState) -> None:
        if not field.variadic:
            result: Any = reader(parser)
        elif _starts_type(parser):
            result = parser.parse_comma_separated(lambda: reader(parser))
        else:
            result = []
        (state.operand_types if of_operand else state.result_types)[at] = result

    return types


def _group(element: Group) -> Step:
    def operands(parser: "Parser", state: OperationState) -> None:
        state.all_operands = parser.parse_operand_list()

    def regions(parser: "Parser", state: OperationState) -> None:
        if parser.text[parser.pos] == "{":
            state.regions += parser.parse_comma_separated(parser.parse_region)

    def successors(parser: "Parser", state: OperationState) -> None:
        if parser.text[parser.pos] == "^":
            state.successors += parser.parse_comma_separated(parser.parse_successor)

    return {"operand": operands, "region": regions, "successor": successors}[element.kind]


def _functional_type(element: FunctionalType) -> Step:
    def store(state: OperationState, target: Group | Variable, types: list) -> None:
        if isinstance(target, Group):
            setattr(state, "all_operand_types" if target.kind == "operand" else "all_result_types", types)
            return
        slots = state.operand_types if target.field.kind == "operand" else state.result_types
        slots[target.position] = types if target.field.variadic else (types[0] if types else None)

    def functional(parser: "Parser", state: OperationState) -> None:
        store(state, element.inputs, parser.parse_type_list_parens())
        parser.parse_punctuation("->")
        store(state, element.results, parser.parse_function_results())

    return functional


def _attr_dict(element: AttrDict) -> Step:
    def attr_dict(parser: "Parser", state: OperationState) -> None:
        if element.properties:
            if not parser.text.startswith("<{", parser.pos):
                return
            parser.parse_punctuation("<")
        elif element.keyword:
            if not parser.parse_optional_keyword("attributes"):
                return
            if parser.text[parser.pos] != "{":
                parser.expected("'{' in attribute dictionary")
        elif parser.text[parser.pos] != "{":
            return
        start = parser.pos
        for name, value in parser.parse_attribute_dictionary().items():
            if name in state.attributes:
                parser.error(start, f"attribute '{name}' occurs more than once in the attribute list")
            state.attributes[name] = value
        if element.properties:
            parser.parse_punctuation(">")

    return attr_dict


def _custom(cls: type[Operation], element: Custom) -> Step:
    hook = getattr(cls, f"parse_{element.name}", None)
    if hook is None:
        raise FormatError(f"'{cls.name}' has no method parse_{element.name} for its assembly format")
    references = tuple(a for a in element.arguments if a.reference)
    outputs = tuple(a for a in element.arguments if not a.reference)

    def custom(parser: "Parser", state: OperationState) -> None:
        values = hook(parser, *[_read_reference(state, a) for a in references])
        if len(outputs) == 1:
            values = (values,)
        for argument, value in zip(outputs, values or (None,) * len(outputs), strict=True):
            _store(state, argument, value)

    return custom


def _store(state: OperationState, argument: Variable, value: object) -> None:
    field, at = argument.field, argument.position
    if argument.of_type:
        (state.operand_types if field.kind == "operand" else state.result_types)[at] = value
    elif field.kind == "operand":
        state.operands[at] = value
    elif field.kind == "attribute":
        if value is not None and value is not field.default:
            state.attributes[field.name] = value
    elif value is not None:
        target = state.regions if field.kind == "region" else state.successors
        if isinstance(value, (list, tuple)):
            target += value
        else:
            target.append(value)


def _read_reference(state: OperationState, argument: Variable) -> Any:
    field, at = argument.field, argument.position
    if argument.of_type:
        return (state.operand_types if field.kind == "operand" else state.result_types)[at]
    return state.operands[at] if field.kind == "operand" else state.attributes.get(field.name, field.default)


# ---- groups ----------------------------------------------------------------------------------------------------------


def _starts(cls: type[Operation], element: Literal | Variable) -> Callable[["Parser"], bool] | None:
    """Whether the next token starts `element`; None if that is known only after parsing it."""
    if isinstance(element, Literal):
        return lambda parser: parser.peek(element.text)
    if isinstance(element, Variable):
        field = element.field
        starts = {"operand": "%", "region": "{", "successor": "^"}.get(field.kind)
        if starts is None:
            kind = attribute_class(field)
            if kind is not None and issubclass(kind, EnumAttr):
                if kind.angled:
                    return lambda parser: parser.text[parser.pos] == "<"

                def enum_case(parser: "Parser") -> bool:
                    match = lexer.KEYWORD.match(parser.text, parser.pos)
                    return match is not None and match[1] in kind.cases

                return enum_case
            starts = {StringAttr: '"', SymbolRefAttr: "@", DenseArrayAttr: "["}.get(kind)  # type: ignore[arg-type]
            if kind is StringAttr and field.name == "sym_name":
                starts = "@"
            if kind is IntegerAttr:
                return lambda parser: lexer.INTEGER.match(parser.text, parser.pos) is not None or (
                    typed_attribute(field) is i1 and (parser.peek("true") or parser.peek("false"))
                )
            if starts is None:
                return None
        return lambda parser: parser.text[parser.pos] == starts
    if isinstance(element, (TypeDirective, Group)):
        kind = element.kind if isinstance(element, Group) else ""
        prefix = {"operand": "%", "region": "{", "successor": "^"}.get(kind)
        if prefix is not None:
            return lambda parser: parser.text[parser.pos] == prefix
        return _starts_type
    return None


def _starts_type(parser: "Parser") -> bool:
    return parser.text[parser.pos] == "(" or lexer.TYPE.match(parser.text, parser.pos) is not None


def _optional(cls: type[Operation], element: Optional) -> Step:
    then = [e for e in element.then if not isinstance(e, Whitespace)]
    first = then[0]
    starts = _starts(cls, first)
    elided = elided_unit(element)
    otherwise = [step for e in element.otherwise for step in [_step(cls, e)] if step is not None]
    steps = [step for e in then if e is not elided for step in [_step(cls, e)] if step is not None]
    unit = elided.field.name if elided is not None and not element.inverted else None
    if starts is None:
        probe = _probe(cls, first)
        steps = steps[1:]

        def probing(parser: "Parser", state: OperationState) -> None:
            for step in steps if probe(parser, state) else otherwise:
                step(parser, state)

        return probing

    def optional(parser: "Parser", state: OperationState) -> None:
        if not starts(parser):
            for step in otherwise:
                step(parser, state)
            return
        if unit is not None:
            state.attributes[unit] = UnitAttr()
        for step in steps:
            step(parser, state)

    return optional


def _probe(cls: type[Operation], element: Element) -> Callable[["Parser", OperationState], bool]:
    """Read `element` if it is there; say whether it was."""
    if isinstance(element, Custom):
        step = _custom(cls, element)

        def custom(parser: "Parser", state: OperationState) -> bool:
            before = parser.pos
            step(parser, state)
            return parser.pos != before

        return custom
    if isinstance(element, Variable) and element.field.kind == "attribute":
        name = element.field.name

        def attribute(parser: "Parser", state: OperationState) -> bool:
            value = parser.parse_optional_attribute(typed_attribute(element.field))
            if value is None:
                return False
            state.attributes[name] = value
            return True

        return attribute
    raise FormatError(f"assembly format of '{cls.name}': an optional group cannot start with {element!r}")


def _oilist(cls: type[Operation], element: Oilist) -> Step:
    clauses = []
    for keyword, *rest in element.clauses:
        unit = rest[0] if len(rest) == 1 and isinstance(rest[0], Variable) else None
        if unit is not None and attribute_class(unit.field) is UnitAttr:
            clauses.append((keyword.text, unit.field.name, []))
        else:
            clauses.append((keyword.text, None, [s for e in rest for s in [_step(cls, e)] if s is not None]))

    def oilist(parser: "Parser", state: OperationState) -> None:
        seen = set()
        again = True
        while again:
            again = False
            for text, unit, steps in clauses:
                start = parser.pos
                if parser.parse_optional_keyword(text):
                    if text in seen:
                        parser.error(
                            start, f"`{text}` clause can appear at most once in the expansion of the oilist directive"
                        )
                    seen.add(text)
                    if unit is not None:
                        state.attributes[unit] = UnitAttr()
                    for step in steps:
                        step(parser, state)
                    again = True

    return oilist
