"""The half of the parser that knows no operations: tokens, types, attributes, aliases and locations."""

from __future__ import annotations

import re
from typing import Any, Callable, NoReturn

from tileiras.diagnostics import Diagnostic, Severity

from . import lexer, registry
from .attributes import (
    ArrayAttr,
    Attribute,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    VerifyError,
    element_size,
)
from .float_format import bit_width, parse_decimal
from .location import (
    UNKNOWN_LOC,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    Location,
    NameLoc,
    SourceLoc,
    SourceText,
)
from .types import (
    DYNAMIC,
    FLOAT_SEMANTICS,
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    NoneType,
    ShapedType,
    TensorType,
    Type,
    VectorType,
    f64,
    i1,
    i64,
    index,
    none,
)

MAX_NESTING = 60
"""Types, attributes and regions nest at most this deep: every consumer of the IR may then recurse over them."""

_ALIAS_DEFINITION = re.compile(rf"^[ \t]*([#!]{lexer.BARE_ID})\s*=", re.MULTILINE)
_INTEGER_TYPE = re.compile(r"i([1-9]\d*)\Z")
_FILE_LOC = re.compile(rf'loc\("([^"\\\n]*)":(\d+):(\d+)\){lexer.TRIVIA}')
_ALIAS_LOC = re.compile(rf"loc\((#[\w$]+)\){lexer.TRIVIA}")
_POSITION_END = re.compile(rf"to{lexer.TRIVIA}(?:(\d+){lexer.TRIVIA})?:{lexer.TRIVIA}(\d+){lexer.TRIVIA}")
MAX_INTEGER_WIDTH = (1 << 24) - 1


class ParseError(Exception):
    """Text that is not what the grammar allows at `location`; `notes` are (location, message) pairs."""

    def __init__(self, location: Location, message: str, notes: tuple = (), others: tuple = ()) -> None:
        super().__init__(message)
        self.location = location
        self.message = message
        self.notes = notes
        self.others = others

    def diagnostics(self) -> list[Diagnostic]:
        own = Diagnostic(
            Severity.ERROR, self.location, self.message, [Diagnostic.note(at, text) for at, text in self.notes]
        )
        return [own, *(d for other in self.others for d in other.diagnostics())]


class AttributeParser:
    """Reads attributes, types and locations from a text, starting at `offset`.

    `default_dialect` is the dialect whose prefix may be left out at this point ("" for none).
    """

    def __init__(self, source: SourceText) -> None:
        self.source = source
        # The sentinel ends every scan, so that reading the next character needs no bounds check.
        self.text = source.text + "\0"
        self.default_dialect = ""
        self._depth = 0
        self._aliases: dict[str, Any] = {}
        self._alias_ends: dict[str, int] = {}
        self._alias_starts: dict[str, int] = {}
        self._aliases_open: list[str] = []
        for match in _ALIAS_DEFINITION.finditer(self.text):
            self._alias_starts.setdefault(match[1], match.start(1))
        self._types_by_text: dict[str, dict[str, Type]] = {}
        self._locations_by_text: dict[str, Location] = {}
        self.pos = lexer.SKIP.match(self.text, 0).end()  # type: ignore[union-attr]

    # ---- errors ------------------------------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """Offset of the next token, to give to `error` later."""
        return self.pos

    def location_at(self, offset: int) -> SourceLoc:
        return SourceLoc(self.source, offset)

    def error(self, offset: int, message: str, notes: tuple = ()) -> NoReturn:
        raise ParseError(SourceLoc(self.source, min(offset, len(self.source.text))), message, notes)

    def expected(self, what: str) -> NoReturn:
        """Reports that the next token is not `what`.

        At the start of a line the error stands behind the previous token, where the missing one belongs.
        """
        at = self.pos
        gap = self.text[:at].rstrip()
        if "\n" in self.text[len(gap) : at] or at >= len(self.source.text):
            at = self._end_of_previous_token(at)
        self.error(at, f"expected {what}")

    def _end_of_previous_token(self, at: int) -> int:
        """Skips white space and comments backwards."""
        while True:
            at = len(self.text[:at].rstrip().rstrip("\0").rstrip())
            line_start = self.text.rfind("\n", 0, at) + 1
            comment = self.text.find("//", line_start, at)
            if comment < 0 or self.text.count('"', line_start, comment) % 2:
                return at
            at = comment
            if not self.text[:at].strip():
                return 0

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self.error(self.pos, f"nesting is deeper than {MAX_NESTING} levels")

    # ---- tokens ------------------------------------------------------------------------------------------------------

    def _advance(self, count: int) -> None:
        self.pos = lexer.SKIP.match(self.text, self.pos + count).end()  # type: ignore[union-attr]

    def at_end(self) -> bool:
        return self.pos >= len(self.source.text)

    def peek(self, literal: str) -> bool:
        """Whether the next characters are `literal` (for words: the whole next word)."""
        if not self.text.startswith(literal, self.pos):
            return False
        if literal[-1].isalnum() or literal[-1] == "_":
            follow = self.text[self.pos + len(literal)]
            return not (follow.isalnum() or follow in "_$.")
        return literal != "-" or self.text[self.pos + 1] != ">"

    def parse_optional_punctuation(self, literal: str) -> bool:
        if not self.text.startswith(literal, self.pos):
            return False
        if literal in "-:" and self.text.startswith("->" if literal == "-" else "::", self.pos):
            return False
        self._advance(len(literal))
        return True

    def parse_punctuation(self, literal: str) -> None:
        if not self.parse_optional_punctuation(literal):
            self.expected(f"'{literal}'")

    def parse_optional_keyword(self, word: str) -> bool:
        if not self.text.startswith(word, self.pos):
            return False
        follow = self.text[self.pos + len(word)]
        if follow.isalnum() or follow in "_$.":
            return False
        self._advance(len(word))
        return True

    def parse_keyword(self, word: str) -> None:
        if not self.parse_optional_keyword(word):
            self.expected(f"'{word}'")

    def parse_optional_any_keyword(self) -> str | None:
        match = lexer.KEYWORD.match(self.text, self.pos)
        if match is None:
            return None
        self.pos = match.end()
        return match[1]

    def parse_any_keyword(self) -> str:
        word = self.parse_optional_any_keyword()
        if word is None:
            self.expected("valid keyword")
        return word

    def parse_keyword_or_string(self) -> str:
        word = self.parse_optional_any_keyword()
        if word is None:
            word = self.parse_optional_string()
        if word is None:
            self.expected("valid keyword or string")
        return word

    def parse_optional_string(self) -> str | None:
        match = lexer.STRING_LITERAL.match(self.text, self.pos)
        if match is None:
            if self.text[self.pos] == '"':
                self.error(self.pos, "expected '\"' in string literal")
            return None
        start = self.pos
        self.pos = match.end()
        try:
            return lexer.unquote(match[1])
        except lexer.BadEscape as bad:
            self.error(start + bad.offset, str(bad))

    def parse_string(self) -> str:
        value = self.parse_optional_string()
        if value is None:
            self.expected("string")
        return value

    def parse_optional_integer(self) -> int | None:
        match = lexer.INTEGER.match(self.text, self.pos)
        if match is None:
            return None
        self.pos = match.end()
        return int(match[1], 0) if "x" in match[1] else int(match[1])

    def parse_integer(self) -> int:
        value = self.parse_optional_integer()
        if value is None:
            self.expected("integer value")
        return value

    def parse_float_literal(self, type: Any = f64) -> int:
        """Bits in `type` of a decimal or hexadecimal literal."""
        match = lexer.NUMBER.match(self.text, self.pos)
        if match is None:
            self.expected("floating point literal")
        start, literal = self.pos, match[1]
        self.pos = match.end()
        return self._float_bits(literal, type, start)

    def _float_bits(self, literal: str, type: Any, start: int) -> int:
        digits = literal.lstrip("+-")
        if not digits.startswith("0x"):
            return parse_decimal(literal, type)
        if literal[0] == "-":
            self.error(start, "hexadecimal float literal should not have a leading minus")
        bits = int(digits, 16)
        if bits >> bit_width(type):
            self.error(start, "hexadecimal float constant out of range for type")
        return bits

    def parse_symbol_name(self) -> str:
        match = lexer.SYMBOL.match(self.text, self.pos)
        if match is None:
            self.expected("valid '@'-identifier for attribute 'sym_name'")
        self.pos = match.end()
        name = match[1][1:]
        return lexer.unquote(name) if name[0] == '"' else name

    def parse_comma_separated(self, item: Callable[[], Any], open: str = "", close: str = "") -> list:
        """Items between `open` and `close`; without them at least one item."""
        items: list = []
        if open:
            self.parse_punctuation(open)
            if self.parse_optional_punctuation(close):
                return items
        items.append(item())
        while self.parse_optional_punctuation(","):
            items.append(item())
        if close and not self.parse_optional_punctuation(close):
            self.expected(f"',' or '{close}'" if open else f"'{close}'")
        return items

    def parse_dimension_list(self, dynamic: bool = True) -> tuple[int, ...]:
        """`4x?x` to (4, DYNAMIC); stops in front of the element type."""
        shape = []
        while True:
            match = lexer.DIMENSION.match(self.text, self.pos)
            if match is None:
                self.pos = lexer.SKIP.match(self.text, self.pos).end()  # type: ignore[union-attr]
                return tuple(shape)
            size = match[1]
            if size is None:
                self.error(self.pos, "unranked types are not supported")
            if size == "?":
                if not dynamic:
                    self.error(self.pos, "expected static shape")
                shape.append(DYNAMIC)
            else:
                if int(size) >= 1 << 63:
                    self.error(self.pos, "invalid dimension")
                shape.append(int(size))
            self.pos = match.end()

    # ---- types -------------------------------------------------------------------------------------------------------

    def parse_type(self) -> Type:
        found = self.parse_optional_type()
        if found is None:
            self.expected("non-function type" if self.text[self.pos] != "(" else "type")
        return found

    def parse_optional_type(self) -> Type | None:
        """A type spelled in full; None when the next token starts none."""
        return self._cached_type("", self._parse_type_text)

    def parse_dialect_type(self, dialect: str) -> Type:
        """A type whose `!dialect.` prefix may be left out; dialect names win over builtin ones."""
        found = self.parse_optional_dialect_type(dialect)
        if found is None:
            self.expected("type")
        return found

    def parse_optional_dialect_type(self, dialect: str) -> Type | None:
        return self._cached_type(dialect, lambda: self._parse_elided_type(dialect))

    def _cached_type(self, dialect: str, read: Callable[[], Type | None]) -> Type | None:
        cache = self._types_by_text.setdefault(dialect, {})
        match = lexer.TYPE.match(self.text, self.pos)
        if match is None:
            return read()
        found = cache.get(match[1])
        if found is not None:
            self.pos = match.end()
            return found
        parsed = read()
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
        found = self._parse_type_text()
        if found is None and match is not None:
            self.error(start, f"unknown type: {match[1]}")
        return found

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
            if int(integer[1]) > MAX_INTEGER_WIDTH:
                self.error(start, f"integer bitwidth is limited to {MAX_INTEGER_WIDTH} bits")
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
        found = self.parse_comma_separated(self.parse_type, "(", ")")
        self._depth -= 1
        return found

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
            self.error(start, f"invalid {word} element type: {element}")
        if word == "vector":
            if any(size == 0 for size in shape):
                self.error(start, "vector types must have positive constant sizes")
            return VectorType(shape, element)
        return TensorType(shape, element, encoding)

    def _parse_bang_type(self) -> Type:
        start = self.pos
        match = lexer.BANG.match(self.text, start)
        if match is None:
            self.error(start, "invalid type identifier")
        name = match[1][1:]
        if "." not in name:
            if self.text[match.end(1)] == "<":  # !dialect<mnemonic ...>
                self.pos = match.end()
                self.parse_punctuation("<")
                cls_name = f"{name}.{self.parse_any_keyword()}"
                found = self._parse_parameters(self._dialect_class(registry.lookup_type, cls_name, start), start)
                self.parse_punctuation(">")
                return found
            self.pos = match.end()
            found = self._resolve_alias("!" + name, start)
            if found is None:
                self.error(start, f"undefined symbol alias id '{name}'")
            return found
        self.pos = match.end()
        return self._parse_parameters(self._dialect_class(registry.lookup_type, name, start, "type"), start)

    def _dialect_class(self, lookup: Callable, name: str, start: int, kind: str = "type") -> Any:
        cls = lookup(name)
        if cls is None:
            dialect, _, mnemonic = name.partition(".")
            if registry.load_dialect(dialect):
                self.error(start, f"unknown {kind} `{mnemonic}` in dialect `{dialect}`")
            self.error(
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
                found = cls.parse_parameters(self)
            elif issubclass(cls, EnumAttr):
                found = self._parse_enum(cls)
            elif not cls.parameters:
                found = cls()
            else:
                found = cls(*self.parse_comma_separated(self._parse_parameter, "<", ">"))
        except VerifyError as error:
            self.error(start, error.message)
        except TypeError as error:  # a wrong number of parameters; the class names what it takes
            self.error(start, str(error))
        self._depth -= 1
        return found

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

    def _parse_enum(self, cls: type[EnumAttr]) -> EnumAttr:
        self.parse_punctuation("<")
        found = self.parse_enum_keyword(cls)
        self.parse_punctuation(">")
        return found

    def parse_optional_enum_keyword(self, cls: type[EnumAttr]) -> Any:
        """A case of `cls` by its keyword, None (and nothing read) when the next token is none of them."""
        match = lexer.KEYWORD_OR_STRING.match(self.text, self.pos)
        if match is None or match[1].strip('"') not in cls.cases:
            return None
        self.pos = match.end()
        return cls(match[1].strip('"'))

    def parse_enum_keyword(self, cls: type[EnumAttr]) -> Any:
        found = self.parse_optional_enum_keyword(cls)
        if found is None:
            self.error(self.pos, f"expected {cls.name} to be one of: {', '.join(cls.cases)}")
        return found

    # ---- attributes --------------------------------------------------------------------------------------------------

    def parse_attribute(self, type: Any = None) -> Any:
        """An attribute, or a type or location in its place; with `type`, a number has it and no `: type` follows."""
        found = self.parse_optional_attribute(type)
        if found is None:
            self.expected("attribute value")
        return found

    def parse_optional_attribute(self, type: Any = None) -> Any:
        text, start = self.text, self.pos
        first = text[start]
        if first == "#":
            return self._parse_hash_attribute()
        if first == '"':
            value = self.parse_string()
            if type is None and self.parse_optional_punctuation(":"):
                self.parse_type()  # typed strings do not occur in our dialects: the type says nothing more
            return StringAttr(value)
        if first == "@":
            return self.parse_symbol_reference()
        if first == "[":
            self._enter()
            found = ArrayAttr(self.parse_comma_separated(self.parse_attribute, "[", "]"))
            self._depth -= 1
            return found
        if first == "{":
            return DictAttr(self.parse_attribute_dictionary())
        if first.isdigit() or first == "-" and text[start + 1] != ">":
            return self._parse_number(type)
        match = lexer.KEYWORD.match(text, start)
        if match is not None:
            read = self._KEYWORD_ATTRIBUTES.get(match[1])
            if read is not None and (match[1] not in ("dense", "array", "loc") or text[match.end()] in "<("):
                if match[1] != "loc":
                    self.pos = match.end()
                return read(self)
        return self.parse_optional_type()

    def _parse_true(self) -> IntegerAttr:
        return IntegerAttr(1, i1)

    def _parse_false(self) -> IntegerAttr:
        return IntegerAttr(0, i1)

    def _parse_unit(self) -> UnitAttr:
        return UnitAttr()

    def parse_symbol_reference(self) -> SymbolRefAttr:
        match = lexer.SYMBOL.match(self.text, self.pos)
        if match is None:
            self.expected("symbol reference")
        names = [self.parse_symbol_name()]
        while self.text.startswith("::@", self.pos):
            self._advance(2)
            names.append(self.parse_symbol_name())
        return SymbolRefAttr(names[0], names[1:])

    def _parse_hash_attribute(self) -> Any:
        start = self.pos
        match = lexer.HASH.match(self.text, start)
        if match is None:
            self.error(start, "invalid attribute name")
        name = match[1][1:]
        self.pos = match.end()
        if "." in name:
            return self._parse_parameters(
                self._dialect_class(registry.lookup_attribute, name, start, "attribute"), start
            )
        if self.text[match.end(1)] == "<":  # #dialect<mnemonic ...>
            self.parse_punctuation("<")
            inner = f"{name}.{self.parse_any_keyword()}"
            cls = self._dialect_class(registry.lookup_attribute, inner, start, "attribute")
            found = self._parse_parameters(cls, start)
            self.parse_punctuation(">")
            return found
        found = self._resolve_alias("#" + name, start)
        if found is None:
            self.error(start, f"undefined symbol alias id '{name}'")
        return found

    def _parse_number(self, type: Any) -> Any:
        start = self.pos
        match = lexer.NUMBER.match(self.text, start)
        if match is None:
            self.expected("attribute value")
        literal = match[1]
        self.pos = match.end()
        if type is None:
            if self.parse_optional_punctuation(":"):
                type = self.parse_type()
            else:
                type = f64 if "." in literal else i64
        if isinstance(type, FloatType):
            if "." not in literal and "x" not in literal:
                self.error(
                    start,
                    "unexpected decimal integer literal for a floating point value",
                    ((self.location_at(start), "add a trailing dot to make the literal a float"),),
                )
            return FloatAttr(self._float_bits(literal, type, start), type)
        if not isinstance(type, (IntegerType, IndexType)):
            self.error(start, "integer literal not valid for specified type")
        if "." in literal:
            self.error(start, "floating point value not valid for specified type")
        return IntegerAttr(self._integer_in_range(literal, type, start), type)

    def _integer_in_range(self, literal: str, type: Any, start: int) -> int:
        value = int(literal, 0) if "x" in literal else int(literal)
        width = type.width
        if not -(1 << (width - 1)) <= value < 1 << width:
            self.error(start, "integer constant out of range for attribute")
        return value

    def parse_attribute_dictionary(self) -> dict[str, Any]:
        """`{name = value, flag}`."""
        self._enter()
        found: dict[str, Any] = {}

        def entry() -> None:
            start = self.pos
            match = lexer.KEYWORD_OR_STRING.match(self.text, start)
            if match is None:
                self.expected("attribute name")
            self.pos = match.end()
            key = lexer.unquote(match[1]) if match[1][0] == '"' else match[1]
            if not key:
                self.error(start, "expected valid attribute name")
            if key in found:
                self.error(start, f"duplicate key '{key}' in dictionary attribute")
            found[key] = self.parse_attribute() if self.parse_optional_punctuation("=") else UnitAttr()

        self.parse_comma_separated(entry, "{", "}")
        self._depth -= 1
        return found

    def parse_optional_attr_dict(self) -> dict[str, Any]:
        return self.parse_attribute_dictionary() if self.text[self.pos] == "{" else {}

    def _parse_dense_array(self) -> DenseArrayAttr:
        self.parse_punctuation("<")
        type = self.parse_type()
        if not isinstance(type, (IntegerType, FloatType)) or type.width not in (1, 8, 16, 32, 64):
            self.error(self.pos, "expected integer or float type of at least one byte")
        values: list = []
        if self.parse_optional_punctuation(":"):
            values = self.parse_comma_separated(lambda: self._parse_array_element(type))
        self.parse_punctuation(">")
        return DenseArrayAttr(type, values)

    def _parse_array_element(self, type: Any) -> int | float:
        if isinstance(type, FloatType):
            return FloatAttr(self.parse_float_literal(type), type).value
        if type is i1 and self.parse_optional_keyword("true"):
            return 1
        if type is i1 and self.parse_optional_keyword("false"):
            return 0
        start = self.pos
        match = lexer.INTEGER.match(self.text, start)
        if match is None:
            self.expected("integer value")
        self.pos = match.end()
        return IntegerAttr(self._integer_in_range(match[1], type, start), type).value

    def parse_dense_array_elements(self, type: Any) -> DenseArrayAttr:
        """`[1, 2, 3]` as an array attribute of element type `type`."""
        return DenseArrayAttr(type, self.parse_comma_separated(lambda: self._parse_array_element(type), "[", "]"))

    def _parse_dense(self) -> DenseElementsAttr:
        from .dense_format import parse_dense_literal

        start = self.pos
        self.parse_punctuation("<")
        literal = parse_dense_literal(self, empty_allowed=True)
        self.parse_punctuation(">")
        self.parse_punctuation(":")
        type = self.parse_type()
        if not isinstance(type, ShapedType):
            self.error(start, "elements literal must be a shaped type")
        return literal.build(self, type, type.element_type)

    # ---- aliases -----------------------------------------------------------------------------------------------------

    def _resolve_alias(self, name: str, use: int) -> Any:
        """What an alias stands for; its definition may come later in the text."""
        found = self._aliases.get(name)
        if found is not None:
            return found
        start = self._alias_starts.get(name)
        if start is None:
            return None
        if name in self._aliases_open:
            self.error(use, f"alias '{name}' refers to itself")
        self._aliases_open.append(name)
        saved, saved_depth = self.pos, self._depth
        self._enter()
        self.pos = start
        self._advance(len(name))
        self.parse_punctuation("=")
        found = self.parse_type() if name[0] == "!" else self.parse_attribute()
        self._aliases[name] = found
        self._alias_ends[name] = self.pos
        self.pos, self._depth = saved, saved_depth
        self._aliases_open.pop()
        return found

    def parse_alias_definition(self) -> None:
        """`#name = attribute` or `!name = type` at the top level."""
        start = self.pos
        match = (lexer.HASH if self.text[start] == "#" else lexer.BANG).match(self.text, start)
        kind = "attribute" if self.text[start] == "#" else "type"
        if match is None:
            self.error(start, f"expected {kind} alias name")
        name = match[1]
        if "." in name:
            self.error(start, f"{kind} names with a '.' are reserved for dialect-defined names")
        if self._alias_starts.get(name, start) != start:
            self.error(start, f"redefinition of {kind} alias id '{name[1:]}'")
        self._alias_starts[name] = start
        if name not in self._alias_ends:
            self._resolve_alias(name, start)
        self.pos = self._alias_ends[name]

    # ---- locations ---------------------------------------------------------------------------------------------------

    def parse_optional_location(self) -> Location | None:
        """`loc(...)`, None when the next token is something else."""
        if not self.text.startswith("loc", self.pos):
            return None
        match = _FILE_LOC.match(self.text, self.pos)
        if match is not None:
            self.pos = match.end()
            key = match[0]
            found = self._locations_by_text.get(key)
            if found is None:
                found = self._locations_by_text[key] = FileLineColLoc(match[1], int(match[2]), int(match[3]))
            return found
        match = _ALIAS_LOC.match(self.text, self.pos)
        if match is not None and match[1] in self._aliases:
            found = self._aliases[match[1]]
            if isinstance(found, Location):
                self.pos = match.end()
                return found
        if not self.parse_optional_keyword("loc"):
            return None
        self.parse_punctuation("(")
        found = self.parse_location_instance()
        self.parse_punctuation(")")
        return found

    def parse_location(self) -> Location:
        """A location in attribute position: `loc(...)`, an alias or a dialect's location attribute."""
        found = self.parse_optional_location()
        return found if found is not None else self.parse_location_instance()

    def parse_location_instance(self) -> Location:
        """What stands inside `loc(...)`."""
        self._enter()
        found = self._parse_location_instance()
        self._depth -= 1
        return found

    def _parse_location_instance(self) -> Location:
        start = self.pos
        first = self.text[start]
        if first == "#":
            found = self._parse_hash_attribute()
            if not isinstance(found, Location):
                self.error(start, f"expected location, but found '{found}'")
            return found
        if first == '"':
            return self._parse_file_or_name_location()
        if self.parse_optional_keyword("unknown"):
            return UNKNOWN_LOC
        if self.parse_optional_keyword("callsite"):
            self.parse_punctuation("(")
            callee = self.parse_location_instance()
            self.parse_keyword("at")
            caller = self.parse_location_instance()
            self.parse_punctuation(")")
            return CallSiteLoc(callee, caller)
        if self.parse_optional_keyword("fused"):
            metadata = None
            if self.parse_optional_punctuation("<"):
                metadata = self.parse_attribute()
                self.parse_punctuation(">")
            return FusedLoc(self.parse_comma_separated(self.parse_location_instance, "[", "]"), metadata)
        nested = self.parse_optional_location()
        if nested is None:
            self.expected("location instance")
        return nested

    def _parse_file_or_name_location(self) -> Location:
        name = self.parse_string()
        if self.parse_optional_punctuation(":"):
            line = self._parse_position("line number in FileLineColLoc")
            if not self.parse_optional_punctuation(":"):
                return FileLineColLoc(name, line, 0)
            column = self._parse_position("column number in FileLineColLoc")
            end = _POSITION_END.match(self.text, self.pos)
            if end is None:
                return FileLineColLoc(name, line, column)
            self.pos = end.end()
            return FileLineColLoc(name, line, column, int(end[1]) if end[1] else line, int(end[2]))
        if self.parse_optional_punctuation("("):
            child = self.parse_location_instance()
            self.parse_punctuation(")")
            return NameLoc(name, child)
        return NameLoc(name)

    def _parse_position(self, what: str) -> int:
        match = lexer.INTEGER.match(self.text, self.pos)
        if match is None or match[1][0] == "-":
            self.expected(f"integer {what}")
        self.pos = match.end()
        return int(match[1], 0)

    _KEYWORD_ATTRIBUTES: dict[str, Callable[["AttributeParser"], Any]] = {
        "true": _parse_true,
        "false": _parse_false,
        "unit": _parse_unit,
        "dense": _parse_dense,
        "array": _parse_dense_array,
        "loc": parse_optional_location,
    }


__all__ = ["AttributeParser", "Attribute", "ParseError", "MAX_NESTING", "element_size"]
