"""The printer: MLIR text, custom or generic form.

Text is collected in a list of pieces.  Operation classes with an `assembly_format` are printed by the steps compiled
from it, classes with `print_custom` by that hook, all others in the generic form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from . import lexer
from .asm_names import AliasNames, ValueNames
from .attributes import (
    ArrayAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    DictAttr,
    EnumAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)
from .blocks import Block, Region
from .float_format import encode_float, format_float
from .location import CallSiteLoc, FileLineColLoc, FusedLoc, Location, NameLoc, OpaqueLoc, SourceLoc, UnknownLoc
from .operation import OPERAND_SEGMENTS, RESULT_SEGMENTS, Operation
from .traits import IsolatedFromAbove
from .types import (
    DYNAMIC,
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    NoneType,
    TensorType,
    Type,
    VectorType,
    f64,
    i1,
    i32,
    i64,
)
from .values import Value

if TYPE_CHECKING:
    from .attributes import Attribute
    from .values import BlockArgument

OpPrinter = Callable[[Any, "Printer"], None]


class Printer:
    """Writes one operation with everything in it, or single attributes and types.

    `generic` prints every operation in the generic form, `locations` adds `loc(...)`.
    """

    def __init__(self, *, generic: bool = False, locations: bool = False, aliases: bool = True) -> None:
        self.generic = generic
        self.locations = locations
        self._use_aliases = aliases
        self.out: list[str] = []
        self.write = self.out.append
        self.default_dialect = ""
        self.names: dict[Value, str] = {}
        self._blocks: dict[Block, str] = {}
        self._groups: dict[Operation, list[int]] = {}
        self._aliases: AliasNames | None = None
        self._alias_names: dict[Any, str] = {}
        self._indent = ""
        self._types: dict[Any, str] = {}
        self._elided_types: dict[Any, str] = {}
        self._printers: dict[str, dict[type, OpPrinter]] = {}

    # ---- for hooks ---------------------------------------------------------------------------------------------------

    def newline(self) -> None:
        self.write("\n" + self._indent)

    def operand_text(self, value: Value) -> str:
        return self.names.get(value) or "<<UNKNOWN SSA VALUE>>"

    def print_operand(self, value: Value) -> None:
        self.write(self.operand_text(value))

    def print_operands(self, values: Iterable[Value]) -> None:
        self.write(", ".join([self.operand_text(value) for value in values]))

    def print_type(self, type: Type) -> None:
        self.write(self._types.get(type) or self.type_text(type))

    def print_types(self, types: Iterable[Any]) -> None:
        self.write(", ".join([self.type_text(type) for type in types]))

    def print_dialect_type(self, type: Type) -> None:
        """A type without the `!dialect.` in front."""
        self.write(self.elided_type_text(type))

    def print_attribute(self, attribute: Attribute, elide_type: bool = False) -> None:
        """An attribute; with `elide_type` numbers come without their type."""
        self.write(self.attribute_text(attribute, "must" if elide_type else "never"))

    def print_keyword_or_string(self, word: str) -> None:
        self.write(word if lexer.IS_BARE_ID(word) else lexer.quote(word))

    def print_symbol_name(self, name: str) -> None:
        self.write(symbol_text(name))

    def print_successor(self, block: Block) -> None:
        self.write(self._blocks.get(block) or "INVALIDBLOCK")

    def print_optional_attr_dict(
        self, attributes: dict[str, Any], elided: Sequence[str] = (), keyword: bool = False
    ) -> None:
        """` {...}` unless nothing is left; `keyword` puts `attributes` in front.

        Segment sizes are left out: they follow from the operands that are written.
        """
        elided = (*elided, OPERAND_SEGMENTS, RESULT_SEGMENTS)
        shown = [(name, value) for name, value in sorted(attributes.items()) if name not in elided]
        if shown:
            self.write((" attributes " if keyword else " ") + self._dictionary_text(shown))

    def print_argument(self, argument: BlockArgument, dialect: bool = False) -> None:
        """`%name: type[ loc(...)]`; with `dialect` the type's prefix is left out."""
        text = self.elided_type_text(argument.type) if dialect else self.type_text(argument.type)
        self.write(f"{self.operand_text(argument)}: {text}")
        if self.locations:
            self._print_trailing_location(argument.location)

    def print_region(
        self, region: Region, *, entry_arguments: bool = True, terminators: bool = True, empty_block: bool = False
    ) -> None:
        """`{ ... }`.

        `entry_arguments` False leaves out the label of the entry block, `terminators` False the last operation of
        every block, `empty_block` True labels an entry block that is empty.
        """
        self.write("{\n")
        dialect = self.default_dialect
        parent = region.parent
        self.default_dialect = parent.default_dialect if parent is not None else ""
        for number, block in enumerate(region.blocks):
            labelled = number > 0 or entry_arguments and block.arguments or empty_block and block.first is None
            self._print_block(block, bool(labelled), terminators)
        self.default_dialect = dialect
        self.write(self._indent + "}")

    def capture(self, action: Callable[[], None]) -> str:
        """What `action` writes."""
        out, write = self.out, self.write
        self.out = []
        self.write = self.out.append
        action()
        text = "".join(self.out)
        self.out, self.write = out, write
        return text

    # ---- operations --------------------------------------------------------------------------------------------------

    def print_top_level(self, root: Operation) -> str:
        # Values have the names that they have in the text of the whole function.
        scope = root
        while not scope.has_trait(IsolatedFromAbove) and scope.parent_op is not None:
            scope = scope.parent_op
        names = ValueNames(scope, suggest=not self.generic)
        self.names, self._blocks, self._groups = names.values, names.blocks, names.groups
        aliases = self._aliases = self._find_aliases(root)
        self._alias_names = aliases.names
        self._print_alias_definitions(aliases.before)
        self._print_operation(root)
        self.write("\n")
        self._print_alias_definitions(aliases.after)
        return "".join(self.out)

    def _find_aliases(self, root: Operation) -> AliasNames:
        """The aliases that the text will use."""
        found = AliasNames()
        if not self._use_aliases:
            return found
        if not self.locations:
            found.visit_operations(root)
            if found.is_empty:
                return found
        # What is used, and where first, only printing tells: a hook may leave out a location or print an attribute
        # in a form of its own.  So everything is printed once to a list that is thrown away.
        rehearsal = _AliasCollector(self)
        rehearsal.default_dialect = self.default_dialect
        rehearsal._print_operation(root)
        rehearsal._found.assign()
        return rehearsal._found

    def _print_alias_definitions(self, items: list) -> None:
        for item in items:
            text = self._location_text(item) if _is_plain_location(item) else self._spell(item, "never")
            self.write(f"{self._alias_names[item]} = {text}\n")

    def _print_block(self, block: Block, labelled: bool, terminators: bool) -> None:
        if labelled:
            self._print_label(block)
        outer = self._indent
        self._indent = indent = outer + "  "
        op = block.first
        last = None if terminators else block.last
        write, print_operation = self.write, self._print_operation
        while op is not None:
            if op is not last:
                write(indent)
                print_operation(op)
                write("\n")
            op = op.next
        self._indent = outer

    def _print_label(self, block: Block) -> None:
        write = self.write
        write(self._indent)
        self.print_successor(block)
        if block.arguments:
            write("(")
            for number, argument in enumerate(block.arguments):
                if number:
                    write(", ")
                self.print_argument(argument)
            write(")")
        write(":")
        region = block.parent
        predecessors = block.predecessors if region is not None else []
        if len(predecessors) == 1:
            write(f"  // pred: {self._blocks[predecessors[0]]}")
        elif predecessors:
            write(f"  // {len(predecessors)} preds: {', '.join(self._blocks[p] for p in predecessors)}")
        elif region is not None and block is not region.entry:
            write("  // no predecessors")
        write("\n")

    def _print_operation(self, op: Operation) -> None:
        results = op._results
        if results:
            if len(results) == 1:
                self.write(self.names[results[0]] + " = ")
            else:
                self._print_results(op)
        cls = op.__class__
        printers = self._printers.get(self.default_dialect)
        if printers is None:
            printers = self._printers[self.default_dialect] = {}
        print_op = printers.get(cls)
        if print_op is None:
            print_op = printers[cls] = self._op_printer(cls)
        print_op(op, self)
        if self.locations:
            self._print_trailing_location(op.location)

    def _print_results(self, op: Operation) -> None:
        results = op._results
        starts = self._groups.get(op, [0])
        parts = []
        for start, end in zip(starts, [*starts[1:], len(results)]):
            name = self.names[results[start]].partition("#")[0]
            parts.append(name if end == start + 1 else f"{name}:{end - start}")
        self.write(", ".join(parts) + " = ")

    def _op_printer(self, cls: type[Operation]) -> OpPrinter:
        """How operations of a class are printed under the current default dialect."""
        if self.generic:
            return print_generic
        name = cls.name
        prefix = self.default_dialect or "builtin"
        if name.startswith(prefix + ".") and name.count(".") == 1:
            name = name[len(prefix) + 1 :]
        custom = getattr(cls, "print_custom", None)
        if custom is not None:

            def print_by_hook(op: Operation, printer: Printer) -> None:
                printer.write(name)
                custom(op, printer)

            return print_by_hook
        if cls.assembly_format is not None:
            from .assembly_print import format_printer

            return format_printer(cls, name)
        return print_generic

    # ---- types -------------------------------------------------------------------------------------------------------

    def type_text(self, type: Type) -> str:
        found = self._types.get(type)
        if found is None:
            found = self._types[type] = self._alias_names.get(type) or self._spell_type(type)
        return found

    def elided_type_text(self, type: Type) -> str:
        found = self._elided_types.get(type)
        if found is None:
            text = self.type_text(type)
            prefix = f"!{type.dialect}."
            found = self._elided_types[type] = text[len(prefix) :] if text.startswith(prefix) else text
        return found

    def _spell_type(self, type: Type) -> str:
        if isinstance(type, (IntegerType, FloatType, IndexType)):
            return str(type)
        if isinstance(type, NoneType):
            return "none"
        if isinstance(type, FunctionType):
            return f"({', '.join(map(self.type_text, type.inputs))}) -> {self.results_text(type.results)}"
        if isinstance(type, (VectorType, TensorType)):
            shape = dimensions_text(type.shape)
            encoding = getattr(type, "encoding", None)
            tail = f", {self.attribute_text(encoding)}" if encoding is not None else ""
            word = "vector" if isinstance(type, VectorType) else "tensor"
            return f"{word}<{shape}{self.type_text(type.element_type)}{tail}>"
        return f"!{type.name}{self.parameters_text(type)}"

    def results_text(self, types: Sequence[Any]) -> str:
        """Result types behind an arrow: parentheses unless there is exactly one that is no function type."""
        if len(types) == 1 and not isinstance(types[0], FunctionType):
            return self.type_text(types[0])
        return f"({', '.join(map(self.type_text, types))})"

    # ---- attributes --------------------------------------------------------------------------------------------------

    def parameters_text(self, item: Location | Attribute) -> str:
        """What stands behind the mnemonic of a dialect attribute or type."""
        if item.print_parameters is not None:
            return self.capture(lambda: item.print_parameters(self))
        if isinstance(item, EnumAttr):
            return f"<{item.value}>"
        if not item.parameters:
            return ""
        return f"<{', '.join(map(self._parameter_text, item.values))}>"

    def _parameter_text(self, value: object) -> str:
        if value is None:
            return "?"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        if isinstance(value, str):
            return lexer.quote(value)
        if isinstance(value, tuple):
            return f"[{', '.join(map(self._parameter_text, value))}]"
        return self.attribute_text(value)

    def attribute_text(self, attribute: Attribute, elision: str = "never") -> str:
        """An attribute, type or location; `elision` says whether numbers lose their type: "never", "may" (i64 and
        f64 only), "must"."""
        alias = self._alias_names.get(attribute) if self._alias_names else None
        return alias if alias is not None else self._spell(attribute, elision)

    def _spell(self, attribute: Location | Attribute, elision: str) -> str:
        if isinstance(attribute, Type):
            return self._spell_type(attribute)
        spell = _SPELLINGS.get(attribute.__class__)
        if spell is not None:
            return spell(self, attribute, elision)
        if _is_plain_location(attribute):
            return self._location_text(attribute)
        if isinstance(attribute, EnumAttr) and attribute.as_integer:
            return f"{attribute.number} : i32"
        return f"#{attribute.name}{self.parameters_text(attribute)}"

    def _unit_text(self, attribute: UnitAttr, elision: str) -> str:
        return "unit"

    def _string_text(self, attribute: StringAttr, elision: str) -> str:
        return lexer.quote(attribute.value)

    def _integer_text(self, attribute: IntegerAttr, elision: str) -> str:
        type = attribute.type
        if type is i1:
            return "true" if attribute.value else "false"
        if elision == "must" or elision == "may" and type is i64:
            return str(attribute.value)
        return f"{attribute.value} : {self.type_text(type)}"

    def _float_text(self, attribute: FloatAttr, elision: str) -> str:
        text = format_float(attribute.bits, attribute.type)
        if elision == "must" or elision == "may" and attribute.type is f64 and not text.startswith("0x"):
            return text
        return f"{text} : {self.type_text(attribute.type)}"

    def _array_text(self, attribute: ArrayAttr, elision: str) -> str:
        return f"[{', '.join([self.attribute_text(x, 'may') for x in attribute.elements])}]"

    def _dict_text(self, attribute: DictAttr, elision: str) -> str:
        return self._dictionary_text(attribute.items)

    def _dictionary_text(self, items: Iterable[tuple[str, Any]]) -> str:
        parts = []
        for name, value in items:
            key = name if lexer.IS_BARE_ID(name) else lexer.quote(name)
            parts.append(key if isinstance(value, UnitAttr) else f"{key} = {self.attribute_text(value)}")
        return "{" + ", ".join(parts) + "}"

    def _symbol_reference_text(self, attribute: SymbolRefAttr, elision: str) -> str:
        return "::".join([symbol_text(name) for name in (attribute.root, *attribute.nested)])

    def array_elements_text(self, attribute: DenseArrayAttr) -> str:
        type = attribute.element_type
        if isinstance(type, FloatType):
            return ", ".join([format_float(encode_float(x, type), type) for x in attribute.elements])
        if type is i1:
            return ", ".join(["true" if x else "false" for x in attribute.elements])
        return ", ".join(map(str, attribute.elements))

    def _dense_array_text(self, attribute: DenseArrayAttr, elision: str) -> str:
        if not attribute.elements:
            return f"array<{self.type_text(attribute.element_type)}>"
        return f"array<{self.type_text(attribute.element_type)}: {self.array_elements_text(attribute)}>"

    def _dense_text(self, attribute: DenseElementsAttr, elision: str) -> str:
        from .dense_format import dense_text

        return f"dense<{dense_text(attribute)}> : {self.type_text(attribute.type)}"

    # ---- locations ---------------------------------------------------------------------------------------------------

    def print_location(self, location: Location) -> None:
        """A location in attribute position: its alias, or `loc(...)`."""
        self.write(self.location_text(location))

    def location_text(self, location: Location) -> str:
        location = self._canonical(location)
        return self._alias_names.get(location) or (
            self._location_text(location) if _is_plain_location(location) else self._spell(location, "never")
        )

    def _print_trailing_location(self, location: Location) -> None:
        location = self._canonical(location)
        self.write(f" loc({self._alias_names.get(location) or self._bare_location_text(location)})")

    def _canonical(self, location: Location) -> Location:
        if self._aliases is not None:
            return self._aliases.canonical(location)
        while isinstance(location, OpaqueLoc):
            location = location.fallback
        return location.file_line_col() if isinstance(location, SourceLoc) else location

    def _location_text(self, location: Location) -> str:
        return f"loc({self._bare_location_text(location)})"

    def _inner_location_text(self, location: Location) -> str:
        location = self._canonical(location)
        return self._alias_names.get(location) or self._bare_location_text(location)

    def _bare_location_text(self, location: Location) -> str:
        """What stands inside `loc(...)`."""
        location = self._canonical(location)
        if isinstance(location, UnknownLoc):
            return "unknown"
        if isinstance(location, FileLineColLoc):
            text = f"{lexer.quote(location.filename)}:{location.line}:{location.column}"
            if not location.end_line:
                return text
            if location.end_line == location.line:
                return f"{text} to :{location.end_column}" if location.end_column != location.column else text
            return f"{text} to {location.end_line}:{location.end_column}"
        if isinstance(location, NameLoc):
            child = location.child
            if isinstance(child, UnknownLoc):
                return lexer.quote(location.name)
            return f"{lexer.quote(location.name)}({self._inner_location_text(child)})"
        if isinstance(location, CallSiteLoc):
            callee, caller = map(self._inner_location_text, (location.callee, location.caller))
            return f"callsite({callee} at {caller})"
        if isinstance(location, FusedLoc):
            inner = ", ".join(map(self._inner_location_text, location.locations))
            metadata = location.metadata
            return f"fused{f'<{self.attribute_text(metadata)}>' if metadata is not None else ''}[{inner}]"
        if _is_dialect_location(location):
            return f"#{location.name}{self.parameters_text(location)}"  # type: ignore[attr-defined]
        # A position that has no textual form (an offset in a bytecode file) keeps its description as a name.
        return lexer.quote(str(location))


class _AliasCollector(Printer):
    """Prints in order to learn which attributes, types and locations are printed."""

    def __init__(self, of: Printer) -> None:
        super().__init__(generic=of.generic, locations=of.locations)
        self.names, self._blocks, self._groups = of.names, of._blocks, of._groups
        self._found = AliasNames()
        self._aliases = self._found

    def _print_operation(self, op: Operation) -> None:
        if self.locations:
            self._found.visit(self._canonical(op.location), True)
        super()._print_operation(op)

    def type_text(self, type: Type) -> str:
        self._found.visit(type, False)
        return super().type_text(type)

    def attribute_text(self, attribute: Attribute, elision: str = "never") -> str:
        self._found.visit(attribute, isinstance(attribute, Location))
        return super().attribute_text(attribute, elision)

    def _print_trailing_location(self, location: Location) -> None:
        self._found.visit(self._canonical(location), True)


_SPELLINGS: dict[type, Callable[[Printer, Any, str], str]] = {
    UnitAttr: Printer._unit_text,
    StringAttr: Printer._string_text,
    IntegerAttr: Printer._integer_text,
    FloatAttr: Printer._float_text,
    ArrayAttr: Printer._array_text,
    DictAttr: Printer._dict_text,
    SymbolRefAttr: Printer._symbol_reference_text,
    DenseArrayAttr: Printer._dense_array_text,
    DenseElementsAttr: Printer._dense_text,
}


def _is_plain_location(item: Location | Attribute) -> bool:
    """Whether a location is written `loc(...)`, also where an attribute stands."""
    return isinstance(item, Location) and not _is_dialect_location(item)


def _is_dialect_location(location: Location) -> bool:
    """Locations that dialects declare have a name and parameters, as attributes do."""
    return isinstance(location, Location) and getattr(location, "print_parameters", None) is not None


def symbol_text(name: str) -> str:
    return f"@{name}" if lexer.IS_SUFFIX_ID(name) else "@" + lexer.quote(name)


def dimensions_text(shape: Iterable[int]) -> str:
    """`4x?x`, with the trailing `x`."""
    return "".join(["?x" if size == DYNAMIC else f"{size}x" for size in shape])


def print_generic(op: Operation, printer: Printer) -> None:
    """`"name"(operands)[successors] <{properties}> (regions) {attributes} : (types) -> types`."""
    write = printer.write
    write(f"{lexer.quote(op.name)}(")
    printer.print_operands(op._operands)
    write(")")
    if op._successors:
        write("[")
        for number, block in enumerate(op._successors):
            write(", " if number else "")
            printer.print_successor(block)
        write("]")
    declared = {field.name for field in op.attribute_fields} | {OPERAND_SEGMENTS, RESULT_SEGMENTS}
    attributes = dict(op.attributes)
    for field in op.attribute_fields:
        if field.default is not None and field.name not in attributes:
            attributes[field.name] = field.default_of(op)
    properties = sorted((name, value) for name, value in attributes.items() if name in declared)
    if properties:
        write(f" <{printer._dictionary_text(properties)}>")
    if op._regions:
        write(" (")
        for number, region in enumerate(op._regions):
            write(", " if number else "")
            printer.print_region(region, empty_block=True)
        write(")")
    printer.print_optional_attr_dict({n: v for n, v in attributes.items() if n not in declared})
    inputs = ", ".join([printer.type_text(value.type) for value in op._operands])
    write(f" : ({inputs}) -> {printer.results_text([value.type for value in op._results])}")


# ---- entry points ----------------------------------------------------------------------------------------------------


def print_op(
    op: Operation, *, generic: bool = False, locations: bool = False, default_dialect: str = "", aliases: bool = True
) -> str:
    """The text of an operation and all inside it, with a newline at the end.

    `locations` adds `loc(...)` to operations and block arguments, through aliases defined behind the text.
    Without `aliases` everything is spelled out where it stands, so that a single line says all.
    `default_dialect` is the dialect whose prefix `op` itself goes without, as if it stood in a module of that dialect.
    """
    printer = Printer(generic=generic, locations=locations, aliases=aliases)
    printer.default_dialect = default_dialect
    try:
        return printer.print_top_level(op)
    except (AttributeError, KeyError, ValueError, TypeError, IndexError):
        # An operation that lacks what its class declares has no custom form, and must be readable all the same.
        if generic or _is_valid(op):
            raise
        return Printer(generic=True, locations=locations, aliases=aliases).print_top_level(op)


def _is_valid(op: Operation) -> bool:
    from tileiras.diagnostics import DiagnosticEngine

    from .verifier import verify

    engine = DiagnosticEngine()
    verify(op, engine)
    return not engine.has_errors


def attribute_text(attribute: Attribute) -> str:
    """The text of one attribute, type or location."""
    printer = Printer()
    if isinstance(attribute, Type):
        return printer.type_text(attribute)
    return printer.attribute_text(attribute)


__all__ = ["Printer", "attribute_text", "dimensions_text", "i32", "print_generic", "print_op", "symbol_text"]
