"""MLIR's declarative assembly formats: one string describes how an operation is read and printed.

The subset, with MLIR's meaning and spelling:

    `literal`  `` (no space)  ` ` (a space)  `\\n`
    $operand $attribute $region $successor       type($x)  qualified(...)  ref($x)
    operands  results  regions  successors       type(operands)  type(results)  functional-type(a, b)
    attr-dict  attr-dict-with-keyword  prop-dict
    ( ... $anchor^ ... )?      ( ... )? `:` ( ... )      oilist( `kw` ... | `kw` ... )
    custom<Name>($a, type($b), ...)

`custom<Name>` calls methods of the operation class: `parse_Name(cls, parser, *referenced)` (a classmethod) returns one
value per argument that is not a `ref` (a tuple for several; alone for one), and `print_Name(self, printer, *values)`
prints them.  Values are an attribute or None; an UnresolvedOperand, or a list of them where the field is variadic; a
type, or a list of types; a Region or a list of them; a Block.  When printing, operands are values.  Names given to
`register_type_directive` need no methods: they read and print types whose dialect prefix may be left out.

How an attribute variable is written follows from its constraint: a unit attribute is its keyword, a StringAttr called
`sym_name` an `@name`, an enum its bare keyword (`<keyword>` with `angled = True` on its class), an IntegerAttr or
FloatAttr of a known type (a `TypedAttribute` constraint) a number without type, a DenseArrayAttr `[1, 2]`, another
dialect attribute its parameters (the text after `#dialect.mnemonic`).

`compile_format` turns the string into steps once per class, on first use; parser and printer run the steps.
"""

from __future__ import annotations

import re
from typing import Any

from tileiras.support.named_tuple import NamedTuple

from ..attributes import UnitAttr
from ..fields import Field
from ..operation import Operation
from ..registry import TYPE_DIRECTIVES, register_type_directive

__all__ = ["Format", "compile_format", "register_type_directive"]


class FormatError(ValueError):
    """A format string that does not describe its operation: a mistake in a dialect, not in a user's program."""


# ---- elements --------------------------------------------------------------------------------------------------------


class Literal(NamedTuple):
    text: str


class Whitespace(NamedTuple):
    text: str


class Variable(NamedTuple):
    """`$name`; with `of_type` the type of an operand or result."""

    field: Field
    position: int
    of_type: bool = False
    qualified: bool = False
    reference: bool = False


class Group(NamedTuple):
    """`operands`, `results`, `regions` or `successors`: all fields of a kind; with `of_type` their types."""

    kind: str
    of_type: bool = False


class FunctionalType(NamedTuple):
    inputs: Any
    results: Any


class AttrDict(NamedTuple):
    keyword: bool
    properties: bool = False


class Custom(NamedTuple):
    name: str
    arguments: tuple


class TypeDirective(NamedTuple):
    """The type of one operand or result, its dialect prefix left out when `dialect` is given."""

    variable: Any
    dialect: str | None


class Optional(NamedTuple):
    then: tuple
    otherwise: tuple
    anchor: Any
    inverted: bool


class Oilist(NamedTuple):
    clauses: tuple


Element = (
    Literal | Whitespace | Variable | Group | FunctionalType | AttrDict | Custom | TypeDirective | Optional | Oilist
)
"""The elements of a declarative format."""

_TOKEN = re.compile(
    r"\s*(?:`(?P<literal>[^`]*)`|\$(?P<variable>\w+)|(?P<word>[A-Za-z_][\w-]*)|(?P<punctuation>[()<>,?:|^!]))"
)
_KINDS = {"operands": "operand", "results": "result", "regions": "region", "successors": "successor"}


class _FormatReader:
    def __init__(self, cls: type[Operation]) -> None:
        self.cls = cls
        self.text = (cls.assembly_format or "").rstrip()
        self.at = 0
        self.anchor: Any = None
        self.fields = {field.name: field for field in cls.fields}

    def fail(self, message: str) -> FormatError:
        return FormatError(f"assembly format of '{self.cls.name}': {message} at {self.text[self.at :][:30]!r}")

    def peek(self) -> str | None:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            if self.at < len(self.text):
                raise self.fail("unexpected character")
            return None
        return match["punctuation"] or match["word"] or match[0].strip()

    def take(self, spelling: str | None = None) -> re.Match[str]:
        match = _TOKEN.match(self.text, self.at)
        if match is None or spelling is not None and (match["punctuation"] or match["word"]) != spelling:
            raise self.fail(f"expected {spelling or 'an element'}")
        self.at = match.end()
        return match

    def elements(self, *ends: str) -> tuple:
        result: list = []
        while True:
            following = self.peek()
            if following is None or following in ends:
                return tuple(result)
            result.append(self.element())
            if self.peek() == "^":
                self.take()
                self.anchor = result[-1]

    def element(self) -> Any:
        if self.peek() == "(":
            return self.optional_group()
        match = self.take()
        if match["literal"] is not None:
            text = match["literal"]
            return Whitespace(text.replace("\\n", "\n")) if not text.strip() or text == "\\n" else Literal(text)
        if match["variable"] is not None:
            return self.variable(match["variable"])
        return self.directive(match["word"] or match[0].strip())

    def variable(self, name: str, **flags: bool) -> Variable:
        field = self.fields.get(name)
        if field is None:
            raise self.fail(f"no field '{name}'")
        of_kind = getattr(self.cls, f"{field.kind}_fields")
        return Variable(field, of_kind.index(field), **flags)

    def directive(self, word: str) -> Any:
        if word in _KINDS:
            return Group(_KINDS[word])
        if word in ("attr-dict", "attr-dict-with-keyword", "prop-dict"):
            return AttrDict(word.endswith("keyword"), word == "prop-dict")
        if word == "oilist":
            self.take("(")
            clauses = [self.elements("|", ")")]
            while self.peek() == "|":
                self.take()
                clauses.append(self.elements("|", ")"))
            self.take(")")
            return Oilist(tuple(clauses))
        if word == "custom":
            self.take("<")
            name = self.take()["word"]
            self.take(">")
            arguments = self.arguments()
            dialect = TYPE_DIRECTIVES.get(name)
            if dialect is not None:
                (argument,) = arguments
                return TypeDirective(argument, dialect)
            return Custom(name, arguments)
        if word == "type":
            (argument,) = self.arguments()
            return TypeDirective(argument._replace(of_type=True), None)
        if word == "qualified":
            (argument,) = self.arguments()
            return argument if isinstance(argument, TypeDirective) else argument._replace(qualified=True)
        if word == "ref":
            (argument,) = self.arguments()
            return argument._replace(reference=True)
        if word == "functional-type":
            inputs, results = self.arguments()
            return FunctionalType(inputs, results)
        raise self.fail(f"unknown directive '{word}'")

    def arguments(self) -> tuple:
        self.take("(")
        result = []
        while self.peek() != ")":
            element = self.element()
            # Inside a directive `type($x)` is the variable in its role as a type.
            result.append(element.variable if isinstance(element, TypeDirective) else element)
            if self.peek() == ",":
                self.take()
        self.take(")")
        return tuple(result)

    def optional_group(self) -> Optional:
        outer, self.anchor = self.anchor, None
        self.take("(")
        then = self.elements(")")
        self.take(")")
        otherwise: tuple = ()
        inverted = False
        anchor = self.anchor
        if self.peek() == ":":
            self.take()
            self.take("(")
            self.anchor = None
            otherwise = self.elements(")")
            self.take(")")
            if anchor is None and self.anchor is not None:
                anchor, inverted = self.anchor, True
        self.take("?")
        if anchor is None:
            raise self.fail("an optional group needs an anchor")
        self.anchor = outer
        return Optional(then, otherwise, anchor, inverted)


def read_format(cls: type[Operation]) -> tuple:
    """The elements of the class's `assembly_format`."""
    reader = _FormatReader(cls)
    elements = reader.elements()
    if reader.peek() is not None:
        raise reader.fail("unexpected token")
    return elements


def variables_of(elements: tuple) -> list[Variable]:
    """All variables of some elements, also those inside groups and directives."""
    variables: list[Variable] = []
    for element in elements:
        if isinstance(element, Variable):
            variables.append(element)
        elif isinstance(element, TypeDirective):
            variables += variables_of((element.variable,))
        elif isinstance(element, Custom):
            variables += variables_of(element.arguments)
        elif isinstance(element, FunctionalType):
            variables += variables_of((element.inputs, element.results))
        elif isinstance(element, Optional):
            variables += variables_of(element.then) + variables_of(element.otherwise)
        elif isinstance(element, Oilist):
            for clause in element.clauses:
                variables += variables_of(clause)
    return variables


def typed_attribute(field: Field) -> Any:
    """The type that an attribute field's number has by its declaration, None if the text has to give it."""
    return getattr(field.constraint, "value_type", None)


def attribute_class(field: Field) -> type | None:
    """The attribute class that a field's constraint names, None when it allows several."""
    constraint = field.constraint
    if isinstance(constraint, type):
        return constraint
    return getattr(constraint, "attribute_class", None)


def elided_unit(element: Optional) -> Any:
    """The anchor of a group when it is a unit attribute, which the group's literal stands for."""
    anchor = element.anchor
    if isinstance(anchor, Variable) and attribute_class(anchor.field) is UnitAttr and len(element.then) > 1:
        return anchor
    return None


class Format(NamedTuple):
    """A compiled format string; `parse` and `print` are built by parse_steps and print_steps."""

    elements: tuple
    attributes: frozenset[str]
    """Attributes that the format writes outside of its attribute dictionary."""


def compile_format(cls: type[Operation]) -> Format:
    """The format of a class, read once."""
    result = cls.__dict__.get("_format")
    if result is None:
        elements = read_format(cls)
        mentioned = frozenset(v.field.name for v in variables_of(elements) if v.field.kind == "attribute")
        result = Format(elements, mentioned)
        cls._format = result  # type: ignore[attr-defined]
    return result
