"""The parser of operations, blocks and regions; see `operand_parser` and `attribute_parser` for their parts.

Operation classes with an `assembly_format` are read by the steps compiled from it, classes with `parse_custom` by that
hook, and everything may be written in the generic form.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Sequence

from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity

from .. import registry
from ..attributes import EnumAttr, IntegerAttr, VerifyError
from ..blocks import Block, Region
from ..fields import variadic_operand, variadic_region, variadic_result, variadic_successor
from ..location import Location, SourceLoc, SourceText
from ..operation import Operation
from ..traits import IsolatedFromAbove, SingleBlock, SingleBlockImplicitTerminator, Terminator
from . import lexer
from .operand_parser import Argument, OperandParser
from .token_reader import ParseError

TOP_LEVEL_DIALECTS = ("builtin", "cuda_tile")
"""Dialects whose operations may be written without prefix outside of any operation."""


class UnregisteredOp(Operation):
    """An operation that no dialect declares; every name gets a class of its own, outside the registry."""

    __slots__ = ()

    any_operands = variadic_operand()
    any_results = variadic_result()
    any_regions = variadic_region()
    any_successors = variadic_successor()


_unregistered: dict[str, type[UnregisteredOp]] = {}


def unregistered_class(name: str) -> type[UnregisteredOp]:
    result = _unregistered.get(name)
    if result is None:
        result = type("UnregisteredOp", (UnregisteredOp,), {"__slots__": ()})
        result.name = name
        _unregistered[name] = result
    return result


class Parser(OperandParser):
    """Parses one text.  Hooks of operation classes are given the parser and use its public methods."""

    def __init__(self, source: SourceText, *, allow_unregistered: bool = False) -> None:
        super().__init__(source)
        self.allow_unregistered = allow_unregistered
        self._blocks: dict[str, tuple[Block, int | None]] = {}
        self._block_uses: dict[str, int] = {}
        self._readers: dict[str, dict[str, Callable[["Parser", int], Operation]]] = {}

    # ---- for hooks ---------------------------------------------------------------------------------------------------

    def parse_optional_successor(self) -> Block | None:
        match = lexer.BLOCK_NAME.match(self.text, self.pos)
        if match is None:
            return None
        name, start = match[1], self.pos
        self.pos = match.end()
        entry = self._blocks.get(name)
        if entry is not None:
            return entry[0]
        block = Block()
        self._blocks[name] = (block, None)
        self._block_uses[name] = start
        return block

    def parse_successor(self) -> Block:
        successor = self.parse_optional_successor()
        if successor is None:
            self.expected("block name")
        return successor

    def ensure_terminator(self, region: Region, cls: type[Operation], location: Location) -> None:
        """Add the parts that the class's traits make optional in text: the block of a single-block region, its
        terminator."""
        if not region.blocks and cls.has_trait(SingleBlock):
            region.append(Block())
        implicit = cls.get_trait(SingleBlockImplicitTerminator)
        if implicit is None or implicit.terminator is None:
            return
        for block in region.blocks:
            self.terminate_block(block, implicit.terminator, location)

    def terminate_block(self, block: Block, terminator: str, location: Location) -> None:
        """Append an operand-less `terminator` unless the block ends with a terminator."""
        if block.last is None or not block.last.has_trait(Terminator):
            cls = registry.lookup_operation(terminator)
            assert cls is not None, terminator
            block.append(cls.create(location=location))

    # ---- operations --------------------------------------------------------------------------------------------------

    def parse_operation(self) -> Operation:
        text, start = self.text, self.pos
        match = lexer.OPERATION.match(text, start)
        names, name = match.groups()  # type: ignore[union-attr]  # the expression matches the empty string
        self.pos = match.end()  # type: ignore[union-attr]
        if name is not None:
            offset = match.start(2)  # type: ignore[union-attr]
            readers = self._readers.get(self.default_dialect)
            reader = readers.get(name) if readers is not None else None
            if reader is None:
                reader = self._find_reader(name, offset)
            op = reader(self, offset)
            if text[self.pos] == "l":
                location = self.parse_optional_location()
                if location is not None:
                    op.location = location
        elif text[self.pos] == '"':
            op = self._parse_generic_operation()
        elif names is None and (use := lexer.VALUE.match(text, start)) is not None:
            self.pos = use.end()
            self.expected("'='")
        else:
            self.expected("operation name in quotes" if names is None else "valid SSA identifier")
        if names is not None:
            self._define_results(names, start, op)
        return op

    def _find_reader(self, name: str, offset: int) -> Callable[["Parser", int], Operation]:
        """How operations written as `name` under the current default dialect are read."""
        cls = self._find_class(name, offset)
        reader = _reader(cls)
        self._readers.setdefault(self.default_dialect, {})[name] = reader
        return reader

    def _find_class(self, name: str, offset: int) -> type[Operation]:
        if "." in name:
            candidates = [name]
        elif self.default_dialect:
            candidates = [f"{self.default_dialect}.{name}", f"builtin.{name}"]
        else:
            candidates = [f"{dialect}.{name}" for dialect in TOP_LEVEL_DIALECTS]
        for candidate in candidates:
            cls = registry.lookup_operation(candidate)
            if cls is not None:
                return cls
        second_try = f" (tried '{candidates[0]}' as well)" if candidates[0] != name else ""
        near = registry.similar_operation(candidates[0])
        hint = f"; did you mean '{near if name == candidates[0] else near.partition('.')[2]}'?" if near else ""
        self.fail(offset, f"custom op '{name}' is unknown{second_try}{hint}")

    def _generic_class(self, name: str, offset: int) -> type[Operation]:
        cls = registry.lookup_operation(name)
        if cls is not None:
            return cls
        dialect = name.partition(".")[0]
        if self.allow_unregistered:
            return unregistered_class(name)
        if "." in name and registry.load_dialect(dialect):
            self.fail(
                offset,
                f"unregistered operation '{name}' found in dialect ('{dialect}') that does not allow unknown "
                "operations",
            )
        self.fail(
            offset,
            "operation being parsed with an unregistered dialect. If this is intended, please use "
            "-allow-unregistered-dialect with the MLIR tool used",
        )

    def _parse_generic_operation(self) -> Operation:
        offset = self.pos
        name = self.parse_string()
        if not name:
            self.fail(offset, "empty operation name is invalid")
        cls = self._generic_class(name, offset)
        outer = self._frame
        self._frame = (cls, offset, False)
        operands = self.parse_operand_list("(", ")")
        successors: list[Block] = []
        if self.text[self.pos] == "[":
            successors = self.parse_comma_separated(self.parse_successor, "[", "]")
        attributes: dict[str, Any] = {}
        if self.text.startswith("<{", self.pos):
            self._advance(1)
            attributes = self.parse_attribute_dictionary()
            self.parse_punctuation(">")
        regions: list[Region] = []
        if self.text.startswith("(", self.pos):
            regions = self.parse_comma_separated(self.parse_region, "(", ")")
        at = self.pos
        for key, value in self.parse_optional_attr_dict().items():
            if key in attributes:
                self.fail(at, f"found duplicate '{key}' in properties and attributes")
            attributes[key] = value
        self.parse_punctuation(":")
        types_at = self.pos
        input_types = self.parse_type_list_parens()
        self.parse_punctuation("->")
        result_types = self.parse_function_results()
        if len(input_types) != len(operands):
            plural = "s" if len(operands) != 1 else ""
            self.fail(types_at, f"expected {len(operands)} operand type{plural} but had {len(input_types)}")
        values = [self.resolve_name(text, at, type) for (text, at), type in zip(operands, input_types)]
        self._frame = outer
        self._keyword_attributes(cls, attributes, offset)
        op = cls.create(values, result_types, attributes, regions, successors, SourceLoc(self.source, offset))
        location = self.parse_optional_location()
        if location is not None:
            op.location = location
        return op

    def _keyword_attributes(self, cls: type[Operation], attributes: dict[str, Any], offset: int) -> None:
        """Enums that MLIR keeps as plain integers are integers in the generic form."""
        for field in cls.attribute_fields:
            value = attributes.get(field.name)
            constraint = field.constraint
            if isinstance(value, IntegerAttr) and isinstance(constraint, type) and issubclass(constraint, EnumAttr):
                case = constraint.from_number(value.value)
                if case is None:
                    self.fail(offset, f"attribute '{field.name}' has no case {value.value}")
                attributes[field.name] = case

    # ---- regions and blocks ------------------------------------------------------------------------------------------

    def parse_region(self, arguments: Sequence[Argument] = ()) -> Region:
        """`{ ... }`; `arguments` are those of the entry block, whose label is then left out."""
        if self.text[self.pos] != "{":
            self.expected("'{' to begin a region")
        self._enter()
        self._advance(1)
        cls = self._frame[0]
        dialect, values, blocks, uses = self.default_dialect, self._values, self._blocks, self._block_uses
        isolated = cls.has_trait(IsolatedFromAbove)
        forward = self._forward
        if isolated:
            self._values, self._forward = {}, {}
        else:
            self._values = dict(values)
        self._blocks, self._block_uses = {}, {}
        self.default_dialect = cls.default_dialect
        region = Region()
        if arguments or self.text[self.pos] not in "^}":
            entry = Block()
            self._add_arguments(entry, arguments)
            region.append(entry)
            self._parse_block_body(entry)
        while self.text[self.pos] == "^":
            self._parse_labelled_block(region)
        if self.text[self.pos] != "}":
            self.expected("'}' to end a region")
        self._advance(1)
        for name, at in self._block_uses.items():
            if self._blocks[name][1] is None:
                self.fail(at, f"reference to an undefined block '{name}'")
        self._blocks, self._block_uses = blocks, uses
        self.default_dialect = dialect
        if isolated:
            self._report_undefined()
            self._forward = forward
            self._values = values
        else:
            # Uses that are still open wait for a definition further out.
            for name, (placeholder, _) in self._forward.items():
                values.setdefault(name, placeholder)
            self._values = values
        self._depth -= 1
        return region

    def _add_arguments(self, block: Block, arguments: Iterable[Argument]) -> None:
        for argument in arguments:
            location = argument.location or SourceLoc(self.source, argument.offset)
            self.define(argument.name, block.add_argument(argument.type, location), argument.offset)

    def _parse_labelled_block(self, region: Region) -> None:
        start = self.pos
        match = lexer.BLOCK_NAME.match(self.text, start)
        if match is None:
            self.fail(start, "invalid block name")
        name = match[1]
        self.pos = match.end()
        entry = self._blocks.get(name)
        if entry is not None and entry[1] is not None:
            self.fail(
                start,
                f"redefinition of block '{name}'",
                ((self.location_at(entry[1]), "previously defined here"),),
            )
        block = entry[0] if entry is not None else Block()
        self._blocks[name] = (block, start)
        if self.text[self.pos] == "(":
            self._add_arguments(block, self.parse_comma_separated(self.parse_argument, "(", ")"))
        self.parse_punctuation(":")
        region.append(block)
        self._parse_block_body(block)

    def parse_assembly_format(self, cls: type[Operation]) -> Any:
        """The operation being read, by its class's declared format: for a `parse_custom` that looks at it again."""
        from .assembly_parse import format_reader

        return format_reader(cls)(self, self._frame[1])

    def _parse_block_body(self, block: Block) -> None:
        text, parse, append = self.text, self.parse_operation, block.append
        while text[self.pos] not in "}^\0":
            append(parse())

    # ---- top level ---------------------------------------------------------------------------------------------------

    def parse_top_level(self) -> list[Operation]:
        """All operations and aliases of the text."""
        operations = []
        while not self.at_end():
            first = self.text[self.pos]
            if first in "#!":
                self.parse_alias_definition()
            elif self.text.startswith("{-#", self.pos):
                self.fail(self.pos, "file metadata dictionaries are not supported")
            else:
                operations.append(self.parse_operation())
        self._report_undefined()
        if self._reported:
            raise self._reported[0]
        # A definition inside of a region does not reach operands of the operations around it that are not made yet,
        # nor later uses out there; the verifier has to see the values that these name.
        for placeholder, value in self._met:
            placeholder.replace_all_uses_with(value)
        return operations


def _reader(cls: type[Operation]) -> Callable[[Parser, int], Operation]:
    """How the custom form of a class is read."""
    custom = getattr(cls, "parse_custom", None)
    if custom is not None:

        def read(parser: Parser, offset: int) -> Operation:
            outer = parser._frame
            parser._frame = (cls, offset, True)
            op = custom(parser)
            parser._frame = outer
            return op

        return read
    if cls.assembly_format is not None:
        from .assembly_parse import format_reader

        return format_reader(cls)

    def refuse(parser: Parser, offset: int) -> Operation:
        parser.error(offset, f"op '{cls.name}' has no custom assembly form")

    return refuse


# ---- entry points ----------------------------------------------------------------------------------------------------


def parse_operations(text: str, filename: str = "-", *, allow_unregistered: bool = False) -> list[Operation]:
    """The top-level operations of a text.  Raises CompileError (code 3) with located diagnostics."""
    parser = Parser(SourceText(filename, text), allow_unregistered=allow_unregistered)
    return _guard(parser, parser.parse_top_level)


def parse_module(text: str, filename: str = "-", *, allow_unregistered: bool = False) -> Any:
    """The module of a text: its only top-level operation when that is a module, else one made around all of them.

    Bare `entry` and `global` operations, as a disassembler prints them, get a `cuda_tile.module`; anything else a
    `builtin.module`.  Raises CompileError (code 3) with located diagnostics.
    """
    operations = parse_operations(text, filename, allow_unregistered=allow_unregistered)
    if len(operations) == 1 and operations[0].name.endswith(".module"):
        return operations[0]
    location: Location = operations[0].location if operations else SourceLoc(SourceText(filename, text), 0)
    block = Block()
    for op in operations:
        block.append(op)
    tile = bool(operations) and all(op.dialect == "cuda_tile" and not op.name.endswith(".module") for op in operations)
    if tile:
        from ..attributes import StringAttr

        cls = registry.lookup_operation("cuda_tile.module")
        return cls.create((), (), {"sym_name": StringAttr("kernels")}, [Region([block])], (), location)  # type: ignore
    cls = registry.lookup_operation("builtin.module")
    return cls.create((), (), {}, [Region([block])], (), location)  # type: ignore[union-attr]


def parse_type(text: str) -> Any:
    """One type, alone in its text."""
    parser = Parser(SourceText("<type>", text))
    return _guard(parser, lambda: _whole(parser, parser.parse_type))


def parse_attribute(text: str) -> Any:
    """One attribute, alone in its text."""
    parser = Parser(SourceText("<attribute>", text))
    return _guard(parser, lambda: _whole(parser, parser.parse_attribute))


def _whole(parser: Parser, parse: Callable[[], Any]) -> Any:
    whole = parse()
    if not parser.at_end():
        parser.error(parser.pos, "found trailing characters")
    return whole


def _guard(parser: Parser, parse: Callable[[], Any]) -> Any:
    try:
        return parse()
    except ParseError as error:
        errors = [*parser._reported, *(() if error in parser._reported else (error,))]
        raise CompileError([e.diagnostic() for e in errors], ExitCode.INVALID_INPUT) from None
    except VerifyError as error:
        # An attribute or type made by a hook that does not say where: the operation's name is the nearest place.
        raise CompileError(
            [Diagnostic(Severity.ERROR, error.location or parser.location_at(parser.pos), error.message)],
            ExitCode.INVALID_INPUT,
        ) from None
    except RecursionError:
        # The nesting limit bounds our own recursion; a caller that is itself deep in the stack may still run out.
        raise CompileError(
            [Diagnostic(Severity.ERROR, parser.location_at(parser.pos), "text is nested too deeply")],
            ExitCode.INVALID_INPUT,
        ) from None
