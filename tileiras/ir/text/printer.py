"""The printer: MLIR text, custom or generic form.

Text is collected in a list of pieces.  Operation classes with an `assembly_format` are printed by the steps compiled
from it, classes with `print_custom` by that hook, all others in the generic form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..blocks import Block, Region
from ..location import Location
from ..operation import OPERAND_SEGMENTS, RESULT_SEGMENTS, Operation
from ..traits import IsolatedFromAbove
from ..types import Type
from ..values import Value
from . import lexer
from .asm_names import AliasNames, ValueNames
from .attribute_printer import AttributePrinter, is_plain_location

if TYPE_CHECKING:
    from ..attributes import Attribute
    from ..values import BlockArgument

OpPrinter = Callable[[Any, "Printer"], None]


class Printer(AttributePrinter):
    """Writes one operation with everything in it, or single attributes and types.

    `generic` prints every operation in the generic form, `locations` adds `loc(...)`.
    """

    def __init__(self, *, generic: bool = False, locations: bool = False, aliases: bool = True) -> None:
        super().__init__()
        self.generic = generic
        self.locations = locations
        self._use_aliases = aliases
        self.default_dialect = ""
        self.names: dict[Value, str] = {}
        self._blocks: dict[Block, str] = {}
        self._groups: dict[Operation, list[int]] = {}
        self._indent = ""
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

    def print_successor(self, block: Block) -> None:
        self.write(self._blocks.get(block) or "INVALIDBLOCK")

    def print_optional_attr_dict(
        self, attributes: dict[str, Any], elided: Sequence[str] = (), keyword: bool = False
    ) -> None:
        """` {...}` unless nothing is left; `keyword` puts `attributes` in front.

        Segment sizes are left out: they follow from the operands that are written.
        """
        elided = (*elided, OPERAND_SEGMENTS, RESULT_SEGMENTS)
        entries = [(name, value) for name, value in sorted(attributes.items()) if name not in elided]
        if entries:
            self.write((" attributes " if keyword else " ") + self._dictionary_text(entries))

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

    # ---- operations --------------------------------------------------------------------------------------------------

    def print_top_level(self, root: Operation, body: bool = False) -> str:
        """The root, or with `body` the operations of its block without it."""
        # Values have the names that they have in the text of the whole function.
        scope = root
        while not scope.has_trait(IsolatedFromAbove) and scope.parent_op is not None:
            scope = scope.parent_op
        names = ValueNames(scope, suggest=not self.generic)
        self.names, self._blocks, self._groups = names.values, names.blocks, names.groups
        operations = list(root.regions[0].block.operations) if body else [root]
        aliases = self._aliases = self._find_aliases(operations)
        self._alias_names = aliases.names
        self._print_alias_definitions(aliases.before)
        for op in operations:
            self._print_operation(op)
            self.write("\n")
        self._print_alias_definitions(aliases.after)
        return "".join(self.out)

    def _find_aliases(self, roots: Sequence[Operation]) -> AliasNames:
        """The aliases that the text will use."""
        alias_names = AliasNames()
        if not self._use_aliases:
            return alias_names
        if not self.locations:
            for root in roots:
                alias_names.visit_operations(root)
            if alias_names.is_empty:
                return alias_names
        # The used items, and the place of their first use, are known only after printing: a hook may omit a location or
        # print an attribute in a form of its own.  So all text is printed once to a list that is discarded.
        rehearsal = _AliasCollector(self)
        rehearsal.default_dialect = self.default_dialect
        for root in roots:
            rehearsal._print_operation(root)
        rehearsal._found.assign()
        return rehearsal._found

    def _print_alias_definitions(self, items: list) -> None:
        for item in items:
            text = self._location_text(item) if is_plain_location(item) else self._spell(item, "never")
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
    fields = {field.name for field in op.attribute_fields} | {OPERAND_SEGMENTS, RESULT_SEGMENTS}
    attributes = dict(op.attributes)
    for field in op.attribute_fields:
        if field.default is not None and field.name not in attributes:
            attributes[field.name] = field.default_of(op)
    properties = sorted((name, value) for name, value in attributes.items() if name in fields)
    if properties:
        write(f" <{printer._dictionary_text(properties)}>")
    if op._regions:
        write(" (")
        for number, region in enumerate(op._regions):
            write(", " if number else "")
            printer.print_region(region, empty_block=True)
        write(")")
    printer.print_optional_attr_dict({n: v for n, v in attributes.items() if n not in fields})
    inputs = ", ".join([printer.type_text(value.type) for value in op._operands])
    write(f" : ({inputs}) -> {printer.results_text([value.type for value in op._results])}")


# ---- entry points ----------------------------------------------------------------------------------------------------


def print_op(
    op: Operation, *, generic: bool = False, locations: bool = False, default_dialect: str = "", aliases: bool = True
) -> str:
    """The text of an operation and all inside it, with a newline at the end.

    `locations` adds `loc(...)` to operations and block arguments, through aliases defined after the text.
    Without `aliases` everything is spelled out where it stands, so that a single line says all.
    `default_dialect` is the dialect whose prefix `op` itself goes without, as if it stood in a module of that dialect.
    """
    printer = Printer(generic=generic, locations=locations, aliases=aliases)
    printer.default_dialect = default_dialect
    try:
        return printer.print_top_level(op)
    except (AttributeError, KeyError, ValueError, TypeError, IndexError):
        # An operation that lacks declared parts has no custom form, and must be printable nevertheless.
        if generic or _is_valid(op):
            raise
        return Printer(generic=True, locations=locations, aliases=aliases).print_top_level(op)


def print_body(module: Operation, *, locations: bool = False) -> str:
    """The operations of a verified module without its own line and braces, in the module's dialect."""
    printer = Printer(locations=locations)
    printer.default_dialect = module.default_dialect
    return printer.print_top_level(module, body=True)


def _is_valid(op: Operation) -> bool:
    from tileiras.diagnostics import DiagnosticEngine

    from ..verifier import verify

    engine = DiagnosticEngine()
    verify(op, engine)
    return not engine.has_errors


def attribute_text(attribute: Attribute) -> str:
    """The text of one attribute, type or location."""
    printer = Printer()
    if isinstance(attribute, Type):
        return printer.type_text(attribute)
    return printer.attribute_text(attribute)
