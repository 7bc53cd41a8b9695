"""Operations inside a function: one decoder for all of them, driven by their declarations.

An operation is its opcode, its result types, a bit field that announces optional parts, attributes, operands and
regions, each in the order of declaration.  Parts newer than the file's version are absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileiras.ir import (
    AttrSizedOperandSegments,
    Block,
    DenseArrayAttr,
    Field,
    Location,
    Operation,
    Region,
    Terminator,
    UnitAttr,
    Value,
    i32,
)
from tileiras.ir.operation import OPERAND_SEGMENTS

from .attributes import Reader, Tables, is_flag, reader_of
from .encoding import Cursor
from .versions import PREVIEW_OPCODES, SUPPORTED, Version

if TYPE_CHECKING:
    from .debug_info import BytecodeOffsets, LocationSequence

MAX_REGION_NESTING = 100
"""Regions inside regions; deeper ones are refused before they exhaust the reader's stack."""

ONE, OPTIONAL, VARIADIC = range(3)
_ARITY = {"one": ONE, "optional": OPTIONAL, "variadic": VARIADIC}


class OperationPlan:
    """The encoding of one operation class in one version of the format."""

    __slots__ = ("op_class", "name", "counted_results", "results", "added_results", "flag_count", "early_flags",
                 "attributes", "segments", "operand_count", "operands", "regions", "terminator")  # fmt: skip

    def __init__(self, op_class: type[Operation], version: Version) -> None:
        self.op_class = op_class
        self.name = op_class.name.partition(".")[2]
        own = since(op_class, None)
        variadic = any(f.variadic for f in (*op_class.operand_fields, *op_class.result_fields))
        self.counted_results = variadic
        variadic_results = any(f.variadic for f in op_class.result_fields)
        present = [f for f in op_class.result_fields if since(f, own) <= version]
        # None: as many as the file says.
        self.results = None if variadic_results else len(present)
        # Results of a newer version exist in the IR but have no number in the file.
        self.added_results = [f.constraint() for f in op_class.result_fields if since(f, own) > version]
        self.segments = op_class.has_trait(AttrSizedOperandSegments)
        bits, early, first = _flag_bits(op_class, own, version, self.segments)
        self.flag_count = len(bits) if first is not None and version >= first else 0
        self.early_flags = early
        self.attributes: list[tuple[str, Reader | None, int | None, Any]] = []
        for field in op_class.attribute_fields:
            if since(field, own) > version:
                continue
            reader = None if is_flag(field.constraint) else reader_of(field.constraint)
            bit = 1 << bits[field.name] if field.name in bits else None
            self.attributes.append((field.name, reader, bit, field.default))
        self.operands: list[tuple[str, int, int]] = []
        for field in op_class.operand_fields:
            bit = 1 << bits[field.name] if field.name in bits else 0
            self.operands.append((field.name, _ARITY[field.arity], bit))
        fixed = all(arity == ONE for _, arity, _ in self.operands)
        self.operand_count = len(self.operands) if fixed and not self.segments else None
        self.regions = len(op_class.region_fields)
        self.terminator = op_class.has_trait(Terminator)


def since(definition: Field | type[Operation], default: Version | None) -> Version:
    if definition.since is None:
        return default if default is not None else SUPPORTED[0]
    return Version.parse(definition.since)


def _flag_bits(
    op_class: type[Operation], own: Version, version: Version, segments: bool
) -> tuple[dict[str, int], dict[str, Version], Version | None]:
    """The bit of each optional attribute and operand, the names not yet in `version`, and since when there are flags.

    Bits are given out by version, in a version first to attributes.  The field itself is written from the version of
    its first bit on, and always when the operation came with one.
    """
    optional = [f for f in op_class.attribute_fields if f.optional and f.default is None or is_flag(f.constraint)]
    if segments:
        optional += [f for f in op_class.operand_fields if f.optional]
    ordered = sorted(optional, key=lambda field: since(field, own))
    bits = {field.name: number for number, field in enumerate(ordered)}
    early = {field.name: since(field, own) for field in ordered if since(field, own) > version}
    return bits, early, max(since(ordered[0], own), own) if ordered else None


class OperationTable:
    """Plans by opcode for one version, made when an opcode is first met."""

    __slots__ = ("version", "previews", "classes", "newest", "plans")

    _tables: dict[tuple[Version, bool], "OperationTable"] = {}

    def __init__(self, version: Version, previews: bool) -> None:
        self.version = version
        self.previews = previews
        self.classes = self._all_classes()
        self.newest = max(code for code, op_class in self.classes.items() if since(op_class, None) <= version)
        self.plans: dict[int, OperationPlan] = {}

    @classmethod
    def of(cls, version: Version, previews: bool) -> "OperationTable":
        result = cls._tables.get((version, previews))
        if result is None:
            result = cls._tables[version, previews] = cls(version, previews)
        return result

    @staticmethod
    def _all_classes() -> dict[int, type[Operation]]:
        from tileiras.ir.registry import OPERATIONS, load_dialect

        load_dialect("cuda_tile")
        return {op_class.opcode: op_class for op_class in OPERATIONS.values() if op_class.opcode is not None}

    def plan(self, opcode: int, cursor: Cursor, start: int) -> OperationPlan:
        op_class = self.classes.get(opcode)
        if opcode > self.newest or op_class is not None and since(op_class, None) > self.version:
            cursor.fail(f"unsupported opcode {opcode} for bytecode version {self.version}", start)
        if opcode >= PREVIEW_OPCODES and not self.previews:
            cursor.fail(
                f"malformed bytecode: encountered public-preview opcode {opcode} but the header does not advertise "
                "preview content",
                start,
            )
        if op_class is None:
            cursor.fail(f"unknown or unimplemented opcode: {opcode}", start)
        operation_plan = self.plans[opcode] = OperationPlan(op_class, self.version)
        return operation_plan


class FunctionReader:
    """Reads the operations of one function body."""

    __slots__ = ("tables", "table", "cursor", "values", "locations", "depth")

    def __init__(self, tables: Tables, cursor: Cursor, locations: BytecodeOffsets | LocationSequence) -> None:
        self.tables = tables
        self.table = OperationTable.of(tables.version, tables.previews)
        self.cursor = cursor
        self.values: list[Value] = []
        self.locations = locations
        self.depth = 0

    def read_body(self, block: Block) -> None:
        """Fill the entry block; the body ends where its bytes end."""
        self.values.extend(block.arguments)
        size = len(self.cursor.data)
        while self.cursor.pos < size:
            block.append(self.read_operation())

    def read_operation(self) -> Operation:
        cursor = self.cursor
        start = cursor.pos
        varint = cursor.varint
        tables = self.tables
        opcode = varint("operation opcode")
        plan = self.table.plans.get(opcode) or self.table.plan(opcode, cursor, start)
        location = self.locations.next(cursor, start)

        # Result types.
        count = plan.results
        if plan.counted_results:
            type_count = cursor.count(f"result types for {plan.name}")
            if count is None:
                count = type_count
            elif type_count != count:
                message = f"expected {count} compatible results but got {type_count}"
                cursor.fail(f"result count mismatch for {plan.name}: {message}", start)
        read_type = tables.types.read
        types = [read_type(cursor, "result type") for _ in range(count)]

        flags = 0
        if plan.flag_count:
            flags = varint("flags field")
            if flags:
                self._check_flags(plan, flags, start)

        attributes: dict[str, Any] = {}
        for name, reader, bit, default in plan.attributes:
            if bit is not None and not flags & bit:
                continue
            if reader is None:
                attributes[name] = UnitAttr()
                continue
            value = reader(tables, cursor, name, types)
            if value is not default:
                attributes[name] = value

        # Operands.
        values = self.values
        value_count = len(values)
        operands = []
        append = operands.append
        if plan.segments:
            sizes = []
            for name, arity, bit in plan.operands:
                if arity == ONE:
                    size = 1
                elif arity == OPTIONAL:
                    size = 1 if flags & bit else 0
                else:
                    size = cursor.count(f"operands of variadic segment '{name}' of op '{plan.name}'")
                sizes.append(size)
                for _ in range(size):
                    index = varint("operand index")
                    if index >= value_count:
                        self._bad_operand(index, name)
                    append(values[index])
            attributes[OPERAND_SEGMENTS] = DenseArrayAttr(i32, sizes)
        else:
            size = plan.operand_count
            if size is None:
                size = cursor.count("operands")
            for _ in range(size):
                index = varint("operand index")
                if index >= value_count:
                    self._bad_operand(index, plan.name)
                append(values[index])

        regions = [self._read_region(location) for _ in range(self._region_count(plan))] if plan.regions else ()
        op = plan.op_class.create(operands, (*types, *plan.added_results), attributes, regions, (), location)
        results = op._results
        if plan.added_results:
            results = results[: len(types)]
        values.extend(results)
        return op

    def _check_flags(self, plan: OperationPlan, flags: int, start: int) -> None:
        if flags >> plan.flag_count:
            self.cursor.fail(f"unknown flags {flags:#x} for {plan.name}", start)
        if plan.early_flags:
            bits = {name: bit for name, _, bit, _ in plan.attributes} | {name: bit for name, _, bit in plan.operands}
            for name, since in plan.early_flags.items():
                if flags & (bits.get(name) or 0):
                    self.cursor.fail(
                        f"malformed bytecode: flag set for operand '{name}' which requires {since} but reading"
                        f" {self.tables.version} bytecode",
                        start,
                    )

    def _bad_operand(self, index: int, where: str) -> None:
        size = len(self.values)
        self.cursor.fail(f"operand index {index} out of bounds (size={size}) for {where}")

    # ---- regions -----------------------------------------------------------------------------------------------------

    def _region_count(self, plan: OperationPlan) -> int:
        start = self.cursor.pos
        number = self.cursor.varint("number of regions to parse.")
        if number != plan.regions:
            self.cursor.fail(f"{plan.op_class.name} op expected {plan.regions} regions, got {number}", start)
        return number

    def _read_region(self, location: Location) -> Region:
        cursor = self.cursor
        if self.depth == MAX_REGION_NESTING:
            cursor.fail(f"regions are nested more than {MAX_REGION_NESTING} deep")
        self.depth += 1
        region = Region([self._read_block(location) for _ in range(cursor.count("blocks", 2))])
        self.depth -= 1
        return region

    def _read_block(self, location: Location) -> Block:
        cursor = self.cursor
        values = self.values
        outside = len(values)
        number = cursor.count("block arguments")
        types = [self.tables.types.read(cursor, "block argument type") for _ in range(number)]
        block = Block(types, [location] * number)
        values.extend(block.arguments)
        for _ in range(cursor.count("operations")):
            block.append(self.read_operation())
        last = block.last
        if last is None:
            cursor.fail("invalid block structure: block is expected to have a terminator operation, but it is empty")
        if not last.has_trait(Terminator):
            cursor.fail(
                "invalid block structure: block is expected to have a terminator operation, but the last operation"
                f" '{last.name}' is not a terminator."
            )
        del values[outside:]
        return block
