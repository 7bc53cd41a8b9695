"""From a `cuda_tile.module` to the bytes of a file.

The order of sections and tables is that of the front ends, so that a module read from one is written to the same bytes
wherever the format leaves no choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity
from tileiras.ir import (
    UNKNOWN_LOC,
    ArrayAttr,
    Attribute,
    Block,
    CallSiteLoc,
    DictAttr,
    FusedLoc,
    Location,
    NameLoc,
    OpaqueLoc,
    Operation,
    OpResult,
    Value,
    VerifyError,
    lookup_attribute,
)
from tileiras.ir.verifier import diagnose

from .debug_info import CALL_SITE, COMPILE_UNIT, FILE, LEXICAL_BLOCK, LOC, SUBPROGRAM
from .operations import ONE, OPTIONAL, OperationPlan, since
from .output import Buffer, Numbering
from .reader import GLOBAL_FLAGS_SINCE, HAS_HINTS, KERNEL
from .sections import CONSTANT, DEBUG, END, FUNCTION, GLOBAL, PRODUCER, STRING, TYPE
from .versions import (
    CURRENT,
    ENTRY_ATTRIBUTES,
    MAGIC,
    OLDEST,
    PREVIEW_FLAG,
    PREVIEW_OPCODES,
    TEST_FUNCTION,
    Version,
    supported,
)
from .write_attributes import OutputTables, write_tagged, writer_of

if TYPE_CHECKING:
    from tileiras.dialects import cuda_tile
    from tileiras.dialects.cuda_tile.testing import TestFuncOp

PRODUCER_SINCE = Version(13, 3)


def write_module(module: Operation, version: Version = CURRENT, *, strict_locations: bool = False) -> bytes:
    """The bytecode of a verified `cuda_tile.module`.

    The format stores locations with a scope, and call sites of such.  Names and fusions are reduced to the location
    that they wrap, or with `strict_locations` are errors, as they are for the reference's translation tool.  Raises
    CompileError (code 3), located at a construct that the version lacks; ValueError for a version that is not written.
    """
    if version not in supported():
        raise ValueError(f"unsupported version requested {version}, must be in range [{OLDEST}, {CURRENT}]")
    return _ModuleWriter(module, version, writable_location if strict_locations else reduced_location).run()


class DebugNumbering:
    """Debug-info entries numbered from 1 in order of first use, referenced entries first.  0 is unknown."""

    __slots__ = ("tables", "entries", "per_function", "keep", "_known")

    def __init__(self, tables: OutputTables, keep: Callable[[Location], Location]) -> None:
        self.tables = tables
        self.keep = keep
        """Reduces a location to one that the format can store."""
        self.entries = Numbering(first=1)
        self.per_function: list[list[int]] = []
        self._known: dict[Any, int] = {}

    def of(self, entry: Location | Attribute) -> int:
        """The number of an attribute, or of a location reduced to one that the format can store."""
        if isinstance(entry, Location):
            entry = self.keep(entry)
            if entry is UNKNOWN_LOC:
                return 0
        result = self._known.get(entry)
        if result is None:
            result = self._known[entry] = self.entries[bytes(self._encode(entry))]
        return result

    def _encode(self, entry: Location | Attribute) -> Buffer:
        out = Buffer()
        string = self.tables.strings.of
        if isinstance(entry, CallSiteLoc):
            parts = [CALL_SITE, self.of(entry.callee), self.of(entry.caller)]
        elif isinstance(entry, Location):
            at = entry.source  # type: ignore[attr-defined]
            parts = [LOC, self.of(entry.scope), string(at.filename), at.line, at.column]  # type: ignore[attr-defined]
        elif entry.name == "cuda_tile.di_file":
            parts = [FILE, *map(string, entry.values)]
        elif entry.name == "cuda_tile.di_compile_unit":
            parts = [COMPILE_UNIT, self.of(entry.file)]
        elif entry.name == "cuda_tile.di_subprogram":
            file, line, name, linkage_name, unit, scope_line = entry.values
            parts = [SUBPROGRAM, self.of(file), line, string(name), string(linkage_name), self.of(unit), scope_line]
            if self.tables.version >= ENTRY_ATTRIBUTES:
                parts.append(0)  # flags: none is defined
        else:
            scope, file, line, column = entry.values
            parts = [LEXICAL_BLOCK, self.of(scope), self.of(file), line, column]
        for part in parts:
            out.varint(part)
        return out

    def section(self) -> Buffer:
        out = Buffer()
        out.varint(len(self.per_function))
        out.align(4)
        start = 0
        for indices in self.per_function:
            out.extend(start.to_bytes(4, "little"))
            start += len(indices)
        out.varint(start)
        out.align(8)
        for indices in self.per_function:
            for index in indices:
                out.extend(index.to_bytes(8, "little"))
        # The table's own offsets are aligned from the start of the section.  Readers refuse an empty table: an entry of
        # no kind is written instead.
        runs = self.entries.runs or [b"\x00"]
        out.varint(len(runs))
        out.align(4)
        start = 0
        for run in runs:
            out.extend(start.to_bytes(4, "little"))
            start += len(run)
        for run in runs:
            out.extend(run)
        return out


def reduced_location(location: Location) -> Location:
    """The part of a location that the format can store; unknown for one without a scope."""
    from tileiras.dialects.cuda_tile.debug_info import supported_location

    return supported_location(location) or UNKNOWN_LOC


def writable_location(location: Location) -> Location:
    """The part of a location that the format can store: one with a scope, or a call site of such; a file position has
    no scope.

    Raises VerifyError for locations that the format has no form for.
    """
    from tileiras.dialects.cuda_tile import DILoc

    if isinstance(location, DILoc):
        return location
    if isinstance(location, OpaqueLoc):
        return writable_location(location.fallback)
    if isinstance(location, CallSiteLoc):
        parts = writable_location(location.callee), writable_location(location.caller)
        return UNKNOWN_LOC if UNKNOWN_LOC in parts else CallSiteLoc(*parts)
    if isinstance(location, (NameLoc, FusedLoc)):
        kind = type(location).__name__
        raise VerifyError(f"unsupported location, got {kind}, expected DILocAttr or CallSiteLoc", prefix=False)
    return UNKNOWN_LOC


class _ModuleWriter:
    __slots__ = ("module", "version", "tables", "debug", "plans", "values")

    def __init__(self, module: Operation, version: Version, keep: Callable[[Location], Location]) -> None:
        self.module = module
        self.version = version
        self.tables = OutputTables(version)
        self.debug = DebugNumbering(self.tables, keep)
        self.plans: dict[type[Operation], _WritePlan] = {}
        self.values: dict[Value, int] = {}

    def run(self) -> bytes:
        entries: list[Operation] = []
        globals_: list[Operation] = []
        kinds = {"cuda_tile.entry": entries, TEST_FUNCTION: entries, "cuda_tile.global": globals_}
        for op in self.module.regions[0].block.operations:
            kind = kinds.get(op.name)
            if kind is None:
                self._refuse(op, "only function and global ops are allowed in the body")
            kind.append(op)
        for op in self.module.walk():
            if op.dialect != self.module.dialect:
                self._refuse(op, f"only ops from the '{self.module.dialect}' dialect are allowed")
        functions = Buffer()
        functions.varint(len(entries))
        for entry in entries:
            self._entry(entry, functions)
        global_section = self._globals(globals_)
        producer = self.module.attributes.get("producer")
        out = Buffer(MAGIC)
        previews = any((op.opcode or 0) >= PREVIEW_OPCODES for op in self.module.walk())
        out += bytes((self.version.major, self.version.minor, PREVIEW_FLAG if previews else 0, 0))
        out.section(FUNCTION, functions, 8)
        if globals_:
            out.section(GLOBAL, global_section)
        constants = Buffer()
        constants.table(self.tables.constants.runs, 8)
        out.section(CONSTANT, constants, 8)
        if self.debug.per_function:
            out.section(DEBUG, self.debug.section(), 8)
        types = Buffer()
        types.table(self.tables.types.runs, 4)
        out.section(TYPE, types, 4)
        if producer is not None and self.version >= PRODUCER_SINCE:
            number = Buffer()
            number.varint(self.tables.strings.of(producer.value))  # type: ignore[attr-defined]
            out.section(PRODUCER, number)
        strings = Buffer()
        strings.table(self.tables.strings.runs, 4)
        out.section(STRING, strings, 4)
        out.append(END)
        return bytes(out)

    def _refuse(self, op: Operation, message: str) -> NoReturn:
        remark = Diagnostic(Severity.REMARK, op.location, f"invalid op: {op.name}")
        error = Diagnostic.of_operation(self.module, message)
        raise CompileError([remark, error], ExitCode.INVALID_INPUT)

    # ---- functions and globals ---------------------------------------------------------------------------------------

    def _entry(self, entry: cuda_tile.EntryOp | TestFuncOp, out: Buffer) -> None:
        self.tables.types.location = entry.location
        for op in entry.walk():
            try:
                self.debug.keep(op.location)
            except VerifyError as error:
                raise CompileError([diagnose(op, error)], ExitCode.INVALID_INPUT) from None
        location = self.debug.of(entry.location)
        hints = entry.attributes.get("optimization_hints")
        arguments = entry.attributes.get("arg_attrs")
        attributed = self.version >= ENTRY_ATTRIBUTES
        out.varint(self.tables.strings.of(entry.attributes["sym_name"].value))
        out.varint(self.tables.types.of(entry.attributes["function_type"]))
        kernel = KERNEL if entry.name == "cuda_tile.entry" else 0
        if attributed and kernel and hints is None:
            hints = lookup_attribute("cuda_tile.optimization_hints")(DictAttr({}))  # type: ignore[misc]
        out.append(kernel | (HAS_HINTS if hints is not None and not attributed else 0))
        has_debug = location != 0 or any(
            self.debug.keep(op.location) is not UNKNOWN_LOC for op in entry.walk()
        )
        if has_debug:
            self.debug.per_function.append([location])
        out.varint(len(self.debug.per_function) if has_debug else 0)
        entries = [hints] if hints is not None else []
        if attributed:
            entries.append(arguments if arguments is not None else ArrayAttr([]))
        elif arguments is not None and any(each.items for each in arguments.elements):
            text = f"attribute 'arg_attrs' requires bytecode version {ENTRY_ATTRIBUTES}+, but targeting {self.version}"
            raise CompileError.at(entry.location, text, ExitCode.INVALID_INPUT)
        for attribute in entries:
            try:
                write_tagged(self.tables, out, attribute, entry.location)
            except VerifyError as error:
                raise CompileError([diagnose(entry, error)], ExitCode.INVALID_INPUT) from None
        body = Buffer()
        block = entry.regions[0].block
        self.values = {argument: number for number, argument in enumerate(block.arguments)}
        for op in block.operations:
            self._operation(op, body, has_debug)
        out.varint(len(body))
        out.extend(body)

    def _globals(self, globals_: list[Operation]) -> Buffer:
        out = Buffer()
        out.varint(len(globals_))
        extended = self.version >= GLOBAL_FLAGS_SINCE
        for op in globals_:
            attributes = op.attributes
            name = attributes["sym_name"].value  # type: ignore[attr-defined]
            visibility = attributes.get("symbol_visibility")
            constant = "constant" in attributes
            private = visibility is not None and visibility.value != "public"  # type: ignore[attr-defined]
            if not extended and (private or constant):
                message = (
                    f"global `{name}` uses non-public symbol visibility, which cannot be encoded in bytecode version "
                    f"{self.version} (requires bytecode 13.3+)"
                    if private
                    else f"constant global `{name}` cannot be encoded in bytecode version {self.version} "
                    "(the `constant` attribute requires bytecode 13.3+)"
                )
                raise CompileError.at(op.location, message, ExitCode.INVALID_INPUT)
            value = attributes["value"]
            out.varint(self.tables.strings.of(name))
            self.tables.types.location = op.location
            out.varint(self.tables.types.of(value.type))  # type: ignore[attr-defined]
            out.varint(self.tables.constant(value))  # type: ignore[arg-type]
            alignment = attributes.get("alignment")
            out.varint(alignment.unsigned if alignment is not None else 0)  # type: ignore[attr-defined]
            if extended:
                out.varint(visibility.number if visibility is not None else 0)  # type: ignore[attr-defined]
                out.varint(constant)
        return out

    # ---- operations --------------------------------------------------------------------------------------------------

    def _operation(self, op: Operation, out: Buffer, has_debug: bool) -> None:
        plan = self.plans.get(type(op))
        if plan is None:
            plan = self.plans[type(op)] = self._plan(op)
        if has_debug:
            self.debug.per_function[-1].append(self.debug.of(op.location))
        tables = self.tables
        tables.types.location = op.location
        try:
            results = plan.check(op, self.version)
            out.varint(plan.opcode)
            if plan.base.counted_results:
                out.varint(len(results))
            for result in results:
                out.varint(tables.types.of(result.type))
            if plan.base.flag_count:
                out.varint(plan.flags(op))
            for name, write, default in plan.attributes:
                value = op.attributes.get(name, default)
                if callable(value):
                    value = value(op)
                if value is not None and write is not None:
                    write(tables, out, value, op.location)
        except VerifyError as error:
            raise CompileError([diagnose(op, error)], ExitCode.INVALID_INPUT) from None
        self._operands(op, plan.base, out)
        if op.regions or plan.base.regions:
            out.varint(len(op.regions))
            for region in op.regions:
                out.varint(len(region.blocks))
                for block in region.blocks:
                    self._block(block, out, has_debug)
        values = self.values
        for result in results:
            values[result] = len(values)

    def _operands(self, op: Operation, plan: OperationPlan, out: Buffer) -> None:
        values = self.values
        if plan.segments:
            spans = op.operand_spans()
            assert spans is not None
            for (_, arity, _), (start, end) in zip(plan.operands, spans):
                if arity not in (ONE, OPTIONAL):
                    out.varint(end - start)
                for value in op.operands[start:end]:
                    out.varint(values[value])
            return
        if plan.operand_count is None:
            out.varint(len(op.operands))
        for value in op.operands:
            out.varint(values[value])

    def _block(self, block: Block, out: Buffer, has_debug: bool) -> None:
        values = self.values
        outside = len(values)
        out.varint(len(block.arguments))
        for argument in block.arguments:
            out.varint(self.tables.types.of(argument.type))
            values[argument] = len(values)
        operations = list(block.operations)
        out.varint(len(operations))
        for op in operations:
            self._operation(op, out, has_debug)
        # Numbers inside a block are free again after it.
        while len(values) > outside:
            values.popitem()

    def _plan(self, op: Operation) -> "_WritePlan":
        cls = type(op)
        if cls.opcode is None:
            raise CompileError.at(op.location, "operation not supported in bytecode", ExitCode.INVALID_INPUT)
        if since(cls, None) > self.version:
            raise CompileError.at(
                op.location,
                f"operation '{op.name}' is not available in bytecode version {self.version}",
                ExitCode.INVALID_INPUT,
            )
        return _WritePlan(cls, self.version)


class _WritePlan:
    """The reader's plan of an operation class, and the writers of its attributes."""

    __slots__ = ("base", "opcode", "attributes", "bits", "newer", "newer_results")

    def __init__(self, cls: type[Operation], version: Version) -> None:
        self.base = base = OperationPlan(cls, version)
        self.opcode = cls.opcode
        own = since(cls, None)
        fields = {field.name: field for field in cls.fields}
        self.attributes = [
            (name, None if reader is None else writer_of(fields[name].constraint), default)
            for name, reader, _, default in base.attributes
        ]
        self.bits = [(name, bit) for name, _, bit, _ in base.attributes if bit]
        self.bits += [(name, bit) for name, _, bit in base.operands if bit]
        self.newer = [f for f in (*cls.attribute_fields, *cls.operand_fields) if since(f, own) > version]
        self.newer_results = len(base.added_results)

    def flags(self, op: Operation) -> int:
        flags = 0
        for name, bit in self.bits:
            if getattr(op, name) is not None:
                flags |= bit
        return flags

    def check(self, op: Operation, version: Version) -> tuple[OpResult, ...]:
        """The results that the version has; raises VerifyError for fields that it lacks."""
        for field in self.newer:
            value = getattr(op, field.name)
            if value is None or value is field.default_of(op):
                continue
            subject = f"optional {field.kind} '{field.name}' is provided but requires bytecode version"
            if field.kind == "attribute" and field.default is not None:
                raise VerifyError(
                    f"attribute '{field.name}' requires bytecode version {field.since}+, but targeting {version}",
                    prefix=False,
                )
            raise VerifyError(f"{subject} {field.since}, targeting {version}", prefix=False)
        results = op.results
        if not self.newer_results:
            return results
        entry = len(results) - self.newer_results
        for result in results[entry:]:
            if result.has_uses:
                field = op.result_fields[result.index]
                raise VerifyError(
                    f"result '{field.name}' requires bytecode version {field.since} but is being used and targeting"
                    f" {version}",
                    prefix=False,
                )
        return results[:entry]
