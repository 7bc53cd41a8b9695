"""The part of the parser that knows values: operands, arguments, and the names that the text uses for them.

Values are entered under their name; a name used before its definition gets a placeholder, which the definition
replaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, NoReturn, Sequence

from tileiras.support.named_tuple import NamedTuple

from ..location import Location, SourceLoc, SourceText
from ..operation import Operation
from ..values import Value
from . import lexer
from .attribute_parser import AttributeParser
from .token_reader import ParseError

if TYPE_CHECKING:
    from ..types import Type


class UnresolvedOperand(NamedTuple):
    """The use of a value whose type is not known yet: `%name` or `%name#1`."""

    name: str
    offset: int


class Argument:
    """A block argument that a hook has read; a hook may set `type` when the text gives it later.

    `location` is None where the text gives none.
    """

    __slots__ = ("name", "offset", "type", "location", "attributes")

    def __init__(
        self,
        name: str,
        offset: int,
        type: Type | None,
        location: Location | None = None,
        attributes: dict | None = None,
    ) -> None:
        self.name = name
        self.offset = offset
        self.type = type
        self.location = location
        self.attributes = attributes or {}


class OperandParser(AttributeParser):
    """Reads uses of values and enters definitions; both may come first."""

    def __init__(self, source: SourceText) -> None:
        super().__init__(source)
        self._values: dict[str, Value] = {}
        # Where a name was defined, for the note of a redefinition.
        self._defined_at: dict[str, int] = {}
        # Names used before their definition -> (placeholder, offset of the first use).
        self._forward: dict[str, tuple[Value, int]] = {}
        # Placeholders whose definition was met, and the definition.
        self._met: list[tuple[Value, Value]] = []
        # The operation being read, the offset of its name, whether it is written in its custom form.
        self._frame: tuple[type[Operation], int, bool] = (Operation, 0, False)
        self._reported: list[ParseError] = []

    # ---- for hooks ---------------------------------------------------------------------------------------------------

    @property
    def location(self) -> SourceLoc:
        """Location of the operation that is being read: that of its name."""
        return SourceLoc(self.source, self._frame[1])

    def error(self, offset: int, message: str, notes: tuple = ()) -> NoReturn:
        cls, _, custom = self._frame
        self.fail(offset, f"custom op '{cls.name}' {message}" if custom else message, notes)

    def report(self, offset: int, message: str) -> None:
        """As `error`, for a mistake that is followed by another one about the same text."""
        try:
            self.error(offset, message)
        except ParseError as error:
            self._reported.append(error)

    def explain(self, parse: Callable[[], Any], message: str) -> Any:
        """Call `parse`; if that fails, its error is followed by one that names the construct being read."""
        try:
            return parse()
        except ParseError as error:
            self._reported.append(error)
            self.error(self.pos, message)

    def parse_optional_operand(self) -> UnresolvedOperand | None:
        match = lexer.VALUE.match(self.text, self.pos)
        if match is None:
            return None
        start = self.pos
        self.pos = match.end()
        return UnresolvedOperand(match[1], start)

    def parse_operand(self) -> UnresolvedOperand:
        optional_operand = self.parse_optional_operand()
        if optional_operand is None:
            self.expected("SSA operand")
        return optional_operand

    def parse_operand_list(self, open: str = "", close: str = "") -> list[UnresolvedOperand]:
        """Operands separated by commas, possibly none."""
        if open:
            return self.parse_comma_separated(self.parse_operand, open, close)
        if self.text[self.pos] != "%":
            return []
        return self.parse_comma_separated(self.parse_operand)

    def resolve_operand(self, operand: UnresolvedOperand, type: Type) -> Value:
        """The value used; reports a type other than the value's."""
        return self.resolve_name(operand[0], operand[1], type)

    def resolve_operands(
        self,
        operands: Sequence[UnresolvedOperand],
        types: Type | Sequence[Type],
        offset: int | None = None,
    ) -> list[Value]:
        """As resolve_operand, for several operands with a type each, or all of one type."""
        if not isinstance(types, (list, tuple)):
            return [self.resolve_name(name, at, types) for name, at in operands]
        if len(types) != len(operands):
            self.error(
                self._frame[1] if offset is None else offset,
                f"number of operands and types do not match: got {len(operands)} operands and {len(types)} types",
            )
        return [self.resolve_name(name, at, type) for (name, at), type in zip(operands, types)]

    def parse_argument(self, with_type: bool = True, dialect: str | None = None) -> Argument:
        """`%name[: type {attributes} loc(...)]`; `dialect` is one whose type prefix may be left out."""
        start = self.pos
        match = lexer.VALUE.match(self.text, start)
        if match is None:
            self.expected("SSA operand")
        if "#" in match[1]:
            self.fail(start, "result number not allowed in argument list")
        self.pos = match.end()
        if not with_type:
            return Argument(match[1], start, None)
        self.parse_punctuation(":")
        type = self.parse_type() if dialect is None else self.parse_dialect_type(dialect)
        attributes = self.parse_optional_attr_dict()
        return Argument(match[1], start, type, self.parse_optional_location(), attributes)

    # ---- values ------------------------------------------------------------------------------------------------------

    def resolve_name(self, name: str, offset: int, type: Type | None) -> Value:
        value = self._values.get(name)
        if value is None:
            return self._undefined(name, offset, type)
        if value.type is not type and type is not None:
            self._type_mismatch(name, offset, type, value)
        return value

    def _type_mismatch(self, name: str, offset: int, type: Type, value: Value) -> None:
        definition = self._defined_at.get(name)
        if definition is None and name in self._forward:
            definition = self._forward[name][1]
        self.fail(
            offset,
            f"use of value '{name}' expects different type than prior uses: '{type}' vs '{value.type}'",
            ((self.location_at(definition), "prior use here"),) if definition is not None else (),
        )

    def _undefined(self, name: str, offset: int, type: Type) -> Value:
        """A use before the definition, or of a result by number."""
        base, _, number = name.partition("#")
        if number and base in self._values and base not in self._forward:
            if number == "0":
                return self.resolve_name(base, offset, type)
            self.fail(offset, "reference to invalid result number")
        if type is None:
            self.fail(offset, "use of undeclared SSA value name")
        placeholder = Value(type)
        self._forward[name] = (placeholder, offset)
        self._values[name] = placeholder
        return placeholder

    def define(self, name: str, value: Value, offset: int) -> None:
        """Enter a value under its name (with `%`), replacing a placeholder."""
        if name in self._values:
            forward = self._forward.pop(name, None)
            if forward is None:
                definition = self._defined_at.get(name)
                self.fail(
                    offset,
                    f"redefinition of SSA value '{name}'",
                    ((self.location_at(definition), "previously defined here"),) if definition is not None else (),
                )
            placeholder, use = forward
            if placeholder.type is not value.type:
                self.fail(
                    offset,
                    f"definition of SSA value '{name}' has type '{value.type}'",
                    ((self.location_at(use), f"previously used here with type '{placeholder.type}'"),),
                )
            placeholder.replace_all_uses_with(value)
            self._met.append((placeholder, value))
        self._values[name] = value
        self._defined_at[name] = offset

    def _define_results(self, names: str, start: int, op: Operation) -> None:
        """Bind `%a, %b:2` to the results in order."""
        results = op._results
        if "," not in names and ":" not in names and len(results) == 1:
            if names in self._values:
                self.define(names, results[0], start)
            else:
                self._values[names] = results[0]
                self._defined_at[names] = start
            return
        groups = []
        for match in lexer.RESULT.finditer(names):
            count = self._integer(match[2], start + match.start(2)) if match[2] is not None else 1
            if count == 0:
                self.fail(start + match.start(2), "expected named operation to have at least 1 result")
            groups.append((match[1], count, start + match.start()))
        total = sum(count for _, count, _ in groups)
        if total != len(results):
            if not results:
                self.fail(start, "cannot name an operation with no results")
            self.fail(start, f"operation defines {len(results)} results but was provided {total} to bind")
        position = 0
        for name, count, offset in groups:
            self.define(name, results[position], offset)
            if count > 1 or self._forward:
                for number in range(count):
                    self._define_numbered(name, number, results[position + number], offset)
            position += count

    def _define_numbered(self, base: str, number: int, value: Value, offset: int) -> None:
        name = f"{base}#{number}"
        if name in self._forward:
            self.define(name, value, offset)
        else:
            self._values[name] = value

    def _report_undefined(self) -> None:
        """Report every name of the finished scope that was used and never defined."""
        if not self._forward:
            return
        uses = sorted(offset for _, offset in self._forward.values())
        self._reported += [ParseError(self.location_at(at), "use of undeclared SSA value name") for at in uses]
        self._forward.clear()
