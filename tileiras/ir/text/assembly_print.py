"""Printing by assembly format: the elements of a format compiled to steps over a printer.

Spaces follow MLIR's rules, decided when the format is compiled: one before every element, except around punctuation
that binds tightly and where the format requires it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..attributes import DenseArrayAttr, EnumAttr, StringAttr, SymbolRefAttr, UnitAttr
from ..fields import Field
from ..operation import OPERAND_SEGMENTS, RESULT_SEGMENTS, Operation
from ..traits import SingleBlockImplicitTerminator
from ..types import Type
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
    typed_attribute,
    variables_of,
)

if TYPE_CHECKING:
    from .assembly_format import Element
    from .printer import Printer

Step = Callable[[Any, Any], None]


def format_printer(cls: type[Operation], name: str) -> Step:
    """Print (operation, printer) under the name `name`."""
    printers = cls.__dict__.get("_format_printers")
    if printers is None:
        printers = {}
        cls._format_printers = printers  # type: ignore[attr-defined]
    result = printers.get(name)
    if result is None:
        result = printers[name] = _Compiler(cls).compile(name)
    return result


class _Compiler:
    """Steps for the elements, with the state that MLIR's spacing rules need."""

    def __init__(self, cls: type[Operation]) -> None:
        self.cls = cls
        self.format = compile_format(cls)
        self.space = True
        self.after_punctuation = False

    def compile(self, name: str) -> Step:
        pieces: list[Any] = [name]
        self.elements(self.format.elements, pieces)
        return _sequence(_merge(pieces))

    def elements(self, elements: tuple, pieces: list, elided: Variable | None = None) -> None:
        for element in elements:
            if element is not elided:
                self.element(element, pieces)

    def element(self, element: Element, pieces: list) -> None:
        if isinstance(element, Literal):
            self.literal(element.text, pieces)
        elif isinstance(element, Whitespace):
            if element.text == "\n":
                pieces.append(lambda op, printer: printer.newline())
            elif element.text:
                pieces.append(element.text)
            self.space = False
            self.after_punctuation = not element.text
        elif isinstance(element, Optional):
            self.optional(element, pieces)
        elif isinstance(element, Oilist):
            for keyword, *rest in element.clauses:
                self.clause(keyword, tuple(rest), pieces)
        elif isinstance(element, AttrDict):
            pieces.append(self.attr_dict(element))
            self.after_punctuation = False
        else:
            if self.space or not self.after_punctuation:
                pieces.append(" ")
            self.after_punctuation = False
            self.space = True
            pieces.append(self.value(element))

    def literal(self, text: str, pieces: list) -> None:
        if self.space and self.space_before(text):
            pieces.append(" ")
        pieces.append(text)
        self.space = len(text) != 1 or text not in "<({["
        self.after_punctuation = text[0] != "_" and not text[0].isalpha()

    def space_before(self, text: str) -> bool:
        if len(text) != 1 and text != "->":
            return True
        if self.after_punctuation:
            return text[0] not in ">)}],"
        return text[0] not in "<>(){}[],"

    def optional(self, element: Optional, pieces: list) -> None:
        present = _presence(self.cls, element.anchor)
        anchor = element.anchor
        unit = isinstance(anchor, Variable) and attribute_class(anchor.field) is UnitAttr and len(element.then) > 1
        then: list = []
        self.elements(element.then, then, anchor if unit else None)
        print_then = _sequence(_merge(then))
        if not element.otherwise:
            pieces.append(lambda op, printer: print_then(op, printer) if present(op) else None)
            return
        otherwise: list = []
        self.elements(element.otherwise, otherwise)
        print_else = _sequence(_merge(otherwise))
        if element.inverted:
            print_then, print_else = print_else, print_then
        pieces.append(lambda op, printer: (print_then if present(op) else print_else)(op, printer))

    def clause(self, keyword: Literal, rest: tuple, pieces: list) -> None:
        checks = [_presence(self.cls, v) for v in variables_of(rest) if not v.of_type]
        inner: list = []
        self.literal(keyword.text, inner)
        unit = len(rest) == 1 and isinstance(rest[0], Variable) and attribute_class(rest[0].field) is UnitAttr
        if not unit:
            self.elements(rest, inner)
        run = _sequence(_merge(inner))
        pieces.append(lambda op, printer: run(op, printer) if any(check(op) for check in checks) else None)

    # ---- values ------------------------------------------------------------------------------------------------------

    def attr_dict(self, element: AttrDict) -> Step:
        mentioned = self.format.attributes | {OPERAND_SEGMENTS, RESULT_SEGMENTS}
        defaults = {f.name: f.default for f in self.cls.attribute_fields if f.default is not None}

        def attr_dict(op: Operation, printer: Printer) -> None:
            attributes = op.attributes
            if attributes:
                dictionary = {
                    name: value
                    for name, value in attributes.items()
                    if name not in mentioned and defaults.get(name) is not value
                }
                if dictionary:
                    printer.print_optional_attr_dict(dictionary, keyword=element.keyword)

        return attr_dict

    def value(self, element: Element) -> Step:
        if isinstance(element, Variable):
            return self.variable(element)
        if isinstance(element, TypeDirective):
            return _print_types(_types_of(self.cls, element.variable), element.dialect is not None)
        if isinstance(element, Group):
            return _group(element)
        if isinstance(element, FunctionalType):
            inputs, results = _types_of(self.cls, element.inputs), _types_of(self.cls, element.results)

            def functional(op: Operation, printer: Printer) -> None:
                printer.write("(")
                printer.print_types(_as_list(inputs(op)))
                printer.write(f") -> {printer.results_text(_as_list(results(op)))}")

            return functional
        if isinstance(element, Custom):
            return self.custom(element)
        raise FormatError(f"assembly format of '{self.cls.name}': cannot print {element!r}")

    def custom(self, element: Custom) -> Step:
        name = f"print_{element.name}"
        if not hasattr(self.cls, name):
            raise FormatError(f"'{self.cls.name}' has no method {name} for its assembly format")
        getters = [_types_of(self.cls, a) if a.of_type else _getter(a.field) for a in element.arguments]
        hook = getattr(self.cls, name)
        if len(getters) == 1:
            (getter,) = getters
            return lambda op, printer: hook(op, printer, getter(op))
        return lambda op, printer: hook(op, printer, *[get(op) for get in getters])

    def variable(self, element: Variable) -> Step:
        field = element.field
        if field.kind == "operand":
            return _print_operand(self.cls, field)
        if field.kind == "attribute":
            return attribute_printer(field, element.qualified)
        get = _getter(field)
        if field.kind == "region":
            implicit = self.cls.has_trait(SingleBlockImplicitTerminator)
            return _print_regions(get, implicit)

        def successors(op: Operation, printer: Printer) -> None:
            for number, block in enumerate(_as_list(get(op))):
                if number:
                    printer.write(", ")
                printer.print_successor(block)

        return successors


def _merge(pieces: list) -> list:
    """Neighbouring literal text joined."""
    merged: list = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        elif piece != "":
            merged.append(piece)
    return merged


def _sequence(pieces: list) -> Step:
    """One step of several; text and single values are written without a call of their own where that is possible."""
    steps = []
    for piece in pieces:
        if isinstance(piece, str):
            steps.append((piece, None))
        elif steps and steps[-1][1] is None:
            steps[-1] = (steps[-1][0], piece)
        else:
            steps.append(("", piece))
    pairs = tuple(steps)

    def run(op: Operation, printer: Printer) -> None:
        write = printer.write
        for text, step in pairs:
            if text:
                write(text)
            if step is not None:
                step(op, printer)

    return run


def _as_list(value: object) -> list:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _getter(field: Field) -> Callable[[Any], Any]:
    accessor = field.accessor
    return lambda op: getattr(op, accessor)


def _fixed_position(cls: type[Operation], field: Field) -> int | None:
    """Index of the only value of a field when it is the same in every operation of the class."""
    fields = cls.operand_fields if field.kind == "operand" else cls.result_fields
    position = fields.index(field)
    return position if all(f.arity == "one" for f in fields[: position + 1]) else None


def _print_operand(cls: type[Operation], field: Field) -> Step:
    position = _fixed_position(cls, field)
    if position is not None:

        def fixed(op: Operation, printer: Printer) -> None:
            value = op._operands[position]
            printer.write(printer.names.get(value) or printer.operand_text(value))

        return fixed
    get = _getter(field)
    return lambda op, printer: printer.print_operands(_as_list(get(op)))


def _types_of(cls: type[Operation], element: Group | Variable) -> Callable[[Any], Any]:
    """The type, or tuple of types, of an operand, a result or all of them."""
    if isinstance(element, Group):
        if element.kind == "operand":
            return lambda op: tuple([value.type for value in op._operands])
        return lambda op: tuple([value.type for value in op._results])
    field = element.field
    position = _fixed_position(cls, field)
    if position is not None:
        if field.kind == "operand":
            return lambda op: op._operands[position].type
        return lambda op: op._results[position].type
    get = _getter(field)

    def types(op: Operation) -> Any:
        value = get(op)
        if value is None:
            return None
        return tuple([item.type for item in value]) if isinstance(value, (tuple, list)) else value.type

    return types


def _print_types(get: Callable[[Any], Any], elided: bool) -> Step:
    def types(op: Operation, printer: Printer) -> None:
        type = get(op)
        if type.__class__ is tuple:
            text = printer.elided_type_text if elided else printer.type_text
            printer.write(", ".join([text(item) for item in type]))
        elif type is not None:
            texts = printer._elided_types if elided else printer._types
            result = texts.get(type)
            if result is None:
                result = printer.elided_type_text(type) if elided else printer.type_text(type)
            printer.write(result)

    return types


def _group(element: Group) -> Step:
    if element.kind == "operand":
        return lambda op, printer: printer.print_operands(op._operands)
    if element.kind == "region":
        return _print_regions(lambda op: op._regions, False)

    def successors(op: Operation, printer: Printer) -> None:
        for number, block in enumerate(op._successors):
            if number:
                printer.write(", ")
            printer.print_successor(block)

    return successors


def _print_regions(get: Callable[[Any], Any], implicit: bool) -> Step:
    def regions(op: Operation, printer: Printer) -> None:
        for number, region in enumerate(_as_list(get(op))):
            if number:
                printer.write(", ")
            last = region.blocks[0].last if implicit and region.blocks else None
            with_terminator = last is None or bool(last.attributes or last._operands or last._results)
            printer.print_region(region, terminators=with_terminator)

    return regions


def attribute_printer(field: Field, qualified: bool = False) -> Step:
    """How the value of an attribute field is printed where the format names it."""
    name, default = field.name, field.default
    kind = attribute_class(field)
    typed = typed_attribute(field) is not None

    def whole(op: Operation, printer: Printer) -> None:
        printer.print_attribute(op.attributes.get(name, default), typed)

    if qualified or kind is None:
        return whole
    if kind is StringAttr and name == "sym_name":
        return lambda op, printer: printer.print_symbol_name(op.attributes[name].value)
    if kind is DenseArrayAttr:
        return lambda op, printer: printer.write(
            f"[{printer.array_elements_text(op.attributes.get(name, default))}]"
        )
    if issubclass(kind, Type) or kind in (StringAttr, SymbolRefAttr, UnitAttr):
        return whole
    if issubclass(kind, EnumAttr) and kind.print_parameters is None and not kind.angled:
        return lambda op, printer: printer.write(op.attributes.get(name, default).value)
    if not kind.name.startswith("builtin."):
        return lambda op, printer: printer.write(printer.parameters_text(op.attributes.get(name, default)))
    return whole


def _presence(cls: type[Operation], anchor: Custom | TypeDirective | Variable) -> Callable[[Any], bool]:
    """Whether the group anchored here is printed."""
    if isinstance(anchor, (TypeDirective, Custom)):
        arguments = (anchor.variable,) if isinstance(anchor, TypeDirective) else anchor.arguments
        checks = [_presence(cls, argument) for argument in arguments]
        return lambda op: any(check(op) for check in checks)
    if isinstance(anchor, Group):
        slot = {"operand": "_operands", "result": "_results", "region": "_regions", "successor": "_successors"}
        attribute = slot[anchor.kind]
        return lambda op: bool(getattr(op, attribute))
    field = anchor.field
    name, default = field.name, field.default
    if field.kind == "attribute":
        return lambda op: op.attributes.get(name, default) is not default
    get = _getter(field)
    if field.kind == "region":
        return lambda op: any(region.blocks for region in _as_list(get(op)))
    return lambda op: bool(_as_list(get(op)))
