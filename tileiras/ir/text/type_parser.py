"""The part of the parser that knows types, the parameters of dialect types and attributes, and aliases."""

from __future__ import annotations

import re
from typing import Any, Callable, Mapping

from .. import registry
from ..attributes import EnumAttr, VerifyError
from ..location import SourceText
from ..types import (
    FLOAT_SEMANTICS,
    FloatType,
    FunctionType,
    IntegerType,
    NoneType,
    ShapedType,
    TensorType,
    Type,
    VectorType,
    index,
    none,
)
from . import lexer
from .location_parser import LocationParser

_ALIAS_DEFINITION = re.compile(rf"^[ \t]*([#!]{lexer.BARE_ID})\s*=", re.MULTILINE | re.ASCII)
_INTEGER_TYPE = re.compile(r"i([1-9]\d*)\Z", re.ASCII)
MAX_INTEGER_WIDTH = (1 << 24) - 1


class TypeParser(LocationParser):
    """Reads types from a text, and the text after the mnemonic of a type or attribute.

    `default_dialect` is the dialect whose prefix may be left out at this point ("" for none).
    """

    def __init__(self, source: SourceText) -> None:
        super().__init__(source)
        self.default_dialect = ""
        self._types_by_text: dict[str, dict[str, Type]] = {}
        # Aliases are read when they are first used, wherever they are defined; this finds their definitions.
        self._alias_starts: dict[str, int] = {}
        self._alias_ends: dict[str, int] = {}
        self._aliases_open: list[str] = []
        for match in _ALIAS_DEFINITION.finditer(self.text):
            self._alias_starts.setdefault(match[1], match.start(1))

    # ---- types -------------------------------------------------------------------------------------------------------

    def parse_type(self) -> Type:
        result = self.parse_optional_type()
        if result is None:
            self.expected("non-function type" if self.text[self.pos] != "(" else "type")
        return result

    def parse_optional_type(self) -> Type | None:
        """A type spelled in full; None when the next token starts none."""
        return self._cached_type("", self._parse_type_text)

    def parse_dialect_type(self, dialect: str) -> Type:
        """A type whose `!dialect.` prefix may be left out; dialect names win over builtin ones."""
        result = self.parse_optional_dialect_type(dialect)
        if result is None:
            self.expected("valid keyword", in_hook=True)
        return result

    def parse_optional_dialect_type(self, dialect: str) -> Type | None:
        return self._cached_type(dialect, lambda: self._parse_elided_type(dialect))

    def _cached_type(self, dialect: str, parse: Callable[[], Type | None]) -> Type | None:
        cache = self._types_by_text.setdefault(dialect, {})
        match = lexer.TYPE.match(self.text, self.pos)
        if match is None:
            return parse()
        entry = cache.get(match[1])
        if entry is not None:
            self.pos = match.end()
            return entry
        parsed = parse()
        if parsed is not None and self.pos == match.end():
            cache[match[1]] = parsed
        return parsed

    def _parse_elided_type(self, dialect: str) -> Type | None:
        match = lexer.KEYWORD.match(self.text, self.pos)
        if match is not None and "." not in match[1]:
            cls = registry.lookup_type(f"{dialect}.{match[1]}")
            if cls is not None:
                start = self.pos
                self.pos = match.end()
                return self._parse_parameters(cls, start)
        start = self.pos
        type_text = self._parse_type_text()
        if type_text is None and match is not None:
            self.error(start, f"unknown type: {match[1]}")
        return type_text

    def _parse_type_text(self) -> Type | None:
        text, start = self.text, self.pos
        first = text[start]
        if first == "(":
            return self._parse_function_type()
        if first == "!":
            return self._parse_bang_type()
        match = lexer.KEYWORD.match(text, start)
        if match is None:
            return None
        word = match[1]
        integer = _INTEGER_TYPE.match(word)
        if integer is not None:
            if self._integer(integer[1], start) > MAX_INTEGER_WIDTH:
                self.fail(start, f"integer bitwidth is limited to {MAX_INTEGER_WIDTH} bits")
            self.pos = match.end()
            return IntegerType(int(integer[1]))
        if word in FLOAT_SEMANTICS:
            self.pos = match.end()
            return FloatType(word)
        if word == "index":
            self.pos = match.end()
            return index
        if word == "none":
            self.pos = match.end()
            return none
        if word in ("vector", "tensor"):
            self.pos = match.end()
            return self._parse_shaped(word)
        return None

    def _parse_function_type(self) -> FunctionType:
        inputs = self.parse_type_list_parens()
        self.parse_punctuation("->")
        return FunctionType(inputs, self.parse_function_results())

    def parse_type_list_parens(self) -> list[Type]:
        self._enter()
        result = self.parse_comma_separated(self.parse_type, "(", ")")
        self._depth -= 1
        return result

    def parse_function_results(self) -> list[Type]:
        """One type, or several (or none) in parentheses."""
        return self.parse_type_list_parens() if self.text[self.pos] == "(" else [self.parse_type()]

    def _parse_shaped(self, word: str) -> Type:
        start = self.pos
        self._enter()
        self.parse_punctuation("<")
        shape = self.parse_dimension_list(dynamic=word == "tensor")
        element = self.parse_type()
        encoding = None
        if word == "tensor" and self.parse_optional_punctuation(","):
            encoding = self.parse_attribute()
        self.parse_punctuation(">")
        self._depth -= 1
        if isinstance(element, (ShapedType, FunctionType, NoneType)):
            self.fail(start, f"invalid {word} element type: {element}")
        if word == "vector":
            if any(size == 0 for size in shape):
                self.fail(start, "vector types must have positive constant sizes")
            return VectorType(shape, element)
        try:
            return TensorType(shape, element, encoding)
        except VerifyError as error:
            self.fail(start, error.message)

    def _parse_bang_type(self) -> Type:
        start = self.pos
        match = lexer.BANG.match(self.text, start)
        if match is None:
            self.fail(start, "invalid type identifier")
        name = match[1][1:]
        if "." not in name:
            if self.text[match.end(1)] == "<":  # !dialect<mnemonic ...>
                self.pos = match.end()
                self.parse_punctuation("<")
                cls_name = f"{name}.{self.parse_any_keyword()}"
                result = self._parse_parameters(self._dialect_class(registry.lookup_type, cls_name, start), start)
                self.parse_punctuation(">")
                return result
            self.pos = match.end()
            result = self._resolve_alias("!" + name, start)
            if result is None:
                self.fail(start, f"undefined symbol alias id '{name}'")
            return result
        self.pos = match.end()
        return self._parse_parameters(self._dialect_class(registry.lookup_type, name, start, "type"), start)

    def _dialect_class(self, lookup: Callable, name: str, start: int, kind: str = "type") -> Any:
        cls = lookup(name)
        if cls is None:
            dialect, _, mnemonic = name.partition(".")
            if registry.load_dialect(dialect):
                self.fail(start, f"unknown {kind} `{mnemonic}` in dialect `{dialect}`")
            self.fail(
                start,
                f"{'!' if kind == 'type' else '#'}{name} is an unregistered {kind}: dialect '{dialect}' is not known",
            )
        return cls

    # ---- parameters of dialect types and attributes ------------------------------------------------------------------

    def parse_parameters(self, cls: Any) -> Any:
        """The text after the mnemonic of an attribute or type of class `cls`."""
        return self._parse_parameters(cls, self.pos)

    def _parse_parameters(self, cls: Any, start: int) -> Any:
        self._enter()
        try:
            if cls.parse_parameters is not None:
                parameters = cls.parse_parameters(self)
            elif issubclass(cls, EnumAttr):
                parameters = self._parse_enum(cls)
            elif not cls.parameters:
                parameters = cls()
            else:
                parameters = cls(*self.parse_comma_separated(self._parse_parameter, "<", ">"))
        except VerifyError as error:
            self.fail(start, error.message)
        except TypeError as error:  # a wrong number of parameters; the class names the expected ones
            self.fail(start, str(error))
        self._depth -= 1
        return parameters

    def _parse_parameter(self) -> Any:
        """A parameter by its own syntax: integer, string, list, `?` for an absent one, or an attribute."""
        value: Any = self.parse_optional_integer()
        if value is None:
            value = self.parse_optional_string()
        if value is not None:
            return value
        if self.parse_optional_punctuation("?"):
            return None
        if self.text[self.pos] == "[":
            return tuple(self.parse_comma_separated(self._parse_parameter, "[", "]"))
        if self.parse_optional_keyword("true"):
            return True
        if self.parse_optional_keyword("false"):
            return False
        return self.parse_attribute()

    def parse_struct(
        self, name: str, fields: Mapping[str, Callable[[], Any]], open: str = "<", close: str = ">"
    ) -> dict[str, Any]:
        """`<key = value, ...>`: the values by key, each read by the function that `fields` has for it.

        Keys that are not in `fields` and keys that come twice are errors about `name`.
        """
        result: dict[str, Any] = {}

        def item() -> None:
            start = self.pos
            key = self.parse_any_keyword()
            if key not in fields:
                self.fail(start, f"{name} has no parameter '{key}'")
            if key in result:
                self.fail(start, f"{name} has parameter '{key}' twice")
            self.parse_punctuation("=")
            result[key] = fields[key]()

        if open:
            self.parse_comma_separated(item, open, close)
        else:  # after other parameters
            while self.parse_optional_punctuation(","):
                item()
        return result

    def _parse_enum(self, cls: type[EnumAttr]) -> EnumAttr:
        self.parse_punctuation("<")
        enum_keyword = self.parse_enum_keyword(cls)
        self.parse_punctuation(">")
        return enum_keyword

    def parse_optional_enum_keyword(self, cls: type[EnumAttr]) -> Any:
        """A case of `cls` by its keyword; None, without reading, if the next token is no case."""
        match = lexer.KEYWORD_OR_STRING.match(self.text, self.pos)
        if match is None or match[1].strip('"') not in cls.cases:
            return None
        self.pos = match.end()
        return cls(match[1].strip('"'))

    def parse_enum_keyword(self, cls: type[EnumAttr], attribute: str = "") -> Any:
        """A case of `cls` by its keyword; `attribute` is the name of the operation's attribute, for the diagnostic."""
        enum_keyword = self.parse_optional_enum_keyword(cls)
        if enum_keyword is None:
            cases = ", ".join(cls.cases)
            if attribute:
                self.expected(
                    f"string or keyword containing one of the following enum values for attribute '{attribute}' "
                    f"[{cases}]"
                )
            self.fail(self.pos, f"expected {cls.name} to be one of: {cases}")
        return enum_keyword

    # ---- aliases -----------------------------------------------------------------------------------------------------

    def _resolve_alias(self, name: str, use: int) -> Any:
        """The value of an alias; its definition may come later in the text."""
        alias = self._aliases.get(name)
        if alias is not None:
            return alias
        start = self._alias_starts.get(name)
        if start is None:
            return None
        if name in self._aliases_open:
            self.fail(use, f"alias '{name}' refers to itself")
        self._aliases_open.append(name)
        saved, saved_depth = self.pos, self._depth
        self._enter()
        self.pos = start
        self._advance(len(name))
        self.parse_punctuation("=")
        alias = self.parse_type() if name[0] == "!" else self.parse_attribute()
        self._aliases[name] = alias
        self._alias_ends[name] = self.pos
        self.pos, self._depth = saved, saved_depth
        self._aliases_open.pop()
        return alias

    def parse_alias_definition(self) -> None:
        """`#name = attribute` or `!name = type` at the top level."""
        start = self.pos
        match = (lexer.HASH if self.text[start] == "#" else lexer.BANG).match(self.text, start)
        kind = "attribute" if self.text[start] == "#" else "type"
        if match is None:
            self.fail(start, f"expected {kind} alias name")
        name = match[1]
        if "." in name:
            self.fail(start, f"{kind} names with a '.' are reserved for dialect-defined names")
        if self._alias_starts.get(name, start) != start:
            self.fail(start, f"redefinition of {kind} alias id '{name[1:]}'")
        self._alias_starts[name] = start
        if name not in self._alias_ends:
            self._resolve_alias(name, start)
        self.pos = self._alias_ends[name]
