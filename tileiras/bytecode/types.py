"""The type section: numbered types, read when they are first asked for."""

from __future__ import annotations

from typing import Any, Callable

from tileiras.ir import (
    FunctionType,
    Type,
    VerifyError,
    bf16,
    f4E2M1FN,
    f8E4M3FN,
    f8E5M2,
    f8E8M0FNU,
    f16,
    f32,
    f64,
    fnv8E5M3FNU,
    i1,
    i4,
    i8,
    i16,
    i32,
    i64,
    lookup_attribute,
    lookup_type,
    tf32,
)

from .encoding import Cursor
from .sections import ByteTable
from .versions import OLDEST, UNIFIED_FLAGS, Version

FUNCTION_TAG = 16

# Tag -> (name in messages, first version, type).  The numbers are frozen: BytecodeTypeOpcodes.td of the public dialect.
SIMPLE_TYPES: dict[int, tuple[str, Version, Type]] = {
    0: ("Int1", OLDEST, i1),
    1: ("Int8", OLDEST, i8),
    2: ("Int16", OLDEST, i16),
    3: ("Int32", OLDEST, i32),
    4: ("Int64", OLDEST, i64),
    5: ("Float16", OLDEST, f16),
    6: ("BFloat16", OLDEST, bf16),
    7: ("Float32", OLDEST, f32),
    8: ("TFloat32", OLDEST, tf32),
    9: ("Float64", OLDEST, f64),
    10: ("Float8E4M3FN", OLDEST, f8E4M3FN),
    11: ("Float8E5M2", OLDEST, f8E5M2),
    18: ("Float8E8M0FNU", Version(13, 2), f8E8M0FNU),
    19: ("Float4E2M1FN", Version(13, 3), f4E2M1FN),
    22: ("Int4", Version(13, 3), i4),
    130: ("FloatNV8E5M3FNU", Version(13, 4), fnv8E5M3FNU),
}

# Tag -> (name in messages, first version, registered name, parameters in file order).
# A parameter is (name, kind) or (name, kind, first version); kinds: type, tensor_view, i64s, i32s, uint,
# padding, pointer.
# The last two are enums that may be absent: from 13.3 on a leading bit field marks those that are present, before
# that a byte in front of each.
COMPOSITE_TYPES: dict[int, tuple[str, Version, str, tuple[tuple, ...]]] = {
    12: (
        "PointerType",
        OLDEST,
        "cuda_tile.ptr",
        (("pointee_type", "type"), ("pointer_attribute", "pointer", Version(13, 4))),
    ),
    13: ("TileType", OLDEST, "cuda_tile.tile", (("element_type", "type"), ("shape", "i64s"))),
    14: (
        "TensorViewType",
        OLDEST,
        "cuda_tile.tensor_view",
        (
            ("element_type", "type"),
            ("shape", "i64s"),
            ("strides", "i64s"),
            ("pointer_attribute", "pointer", Version(13, 4)),
        ),
    ),
    15: (
        "PartitionViewType",
        OLDEST,
        "cuda_tile.partition_view",
        (("tile_shape", "i32s"), ("tensor_view", "tensor_view"), ("dim_map", "i32s"), ("padding_value", "padding")),
    ),
    17: ("TokenType", OLDEST, "cuda_tile.token", ()),
    20: (
        "GatherScatterViewType",
        Version(13, 3),
        "cuda_tile.gather_scatter_view",
        (("tile_shape", "i32s"), ("tensor_view", "tensor_view"), ("sparse_dim", "uint"), ("padding_value", "padding")),
    ),
    21: (
        "StridedViewType",
        Version(13, 3),
        "cuda_tile.strided_view",
        (
            ("tile_shape", "i32s"),
            ("traversal_strides", "i32s"),
            ("tensor_view", "tensor_view"),
            ("dim_map", "i32s"),
            ("padding_value", "padding"),
        ),
    ),
}

OPTIONAL_KINDS = {"padding": "cuda_tile.padding_value", "pointer": "cuda_tile.ptr_attr"}
"""Kinds of optional parameters: the enum that each is."""

MAX_NESTING = 32
"""Types inside types; the deepest legal one (a view of a tensor view of a number) has three levels."""


class TypeTable:
    """Types by index.  A type that is damaged or newer than the file is refused where it is first used."""

    __slots__ = ("table", "version", "types", "_open", "size")

    def __init__(self, cursor: Cursor | None, version: Version) -> None:
        self.version = version
        self.table = ByteTable(cursor, 4, "types") if cursor is not None else None
        self.size = len(self.table) if self.table is not None else 0
        self.types: list[Any] = [None] * self.size
        self._open: list[int] = []

    def read(self, cursor: Cursor, label: str) -> Any:
        """The type whose index is at `cursor`."""
        start = cursor.pos
        index = cursor.varint(label)
        if index >= self.size:
            cursor.fail(f"failed to get {label}: type index {index} out of bounds (size={self.size})", start)
        return self.types[index] or self._load(index, cursor, start)

    def _load(self, index: int, cursor: Cursor, start: int) -> Any:
        assert self.table is not None
        if index in self._open:
            cursor.fail(f"type {index} contains itself", start)
        if len(self._open) == MAX_NESTING:
            cursor.fail(f"types are nested more than {MAX_NESTING} deep", start)
        self._open.append(index)
        run = self.table.run(index)
        try:
            loaded = self._parse(run)
        except VerifyError as error:
            run.fail(str(error), 0)
        self._open.pop()
        if run.remaining:
            run.fail(f"{run.remaining} bytes are left over after type {index}")
        self.types[index] = loaded
        return loaded

    def _parse(self, run: Cursor) -> Any:
        tag = run.varint("type tag")
        simple = SIMPLE_TYPES.get(tag)
        if simple is not None:
            name, since, type = simple
            self._require(run, name, since)
            return type
        if tag == FUNCTION_TAG:
            inputs = [self.read(run, "parameter type") for _ in range(run.count("parameters"))]
            results = [self.read(run, "result type") for _ in range(run.count("results"))]
            return FunctionType(inputs, results)
        composite = COMPOSITE_TYPES.get(tag)
        if composite is None:
            run.fail(f"unknown type tag: {tag}", 0)
        name, since, registered, parameters = composite
        self._require(run, name, since)
        present = [p for p in parameters if len(p) == 2 or self.version >= p[2]]
        optional = [p for p in present if p[1] in OPTIONAL_KINDS]
        unified = self.version >= UNIFIED_FLAGS
        flags = run.varint("optional parameter flags") if optional and unified else 0
        if flags >> len(optional):
            run.fail(f"unknown optional parameter flags {flags:#x} for type '{name}'", 0)
        values: dict[str, Any] = {}
        for key, kind, *_ in present:
            if kind not in OPTIONAL_KINDS:
                values[key] = _READERS[kind](self, run, key)
                continue
            if unified:
                there = flags & 1
                flags >>= 1
            else:
                there = run.byte(f"presence of {key}")
            values[key] = _read_enum(self, run, OPTIONAL_KINDS[kind], key) if there else None
        type_class = lookup_type(registered)
        assert type_class is not None
        return type_class(**values)

    def _require(self, run: Cursor, name: str, since: Version) -> None:
        if self.version < since:
            run.fail(f"type '{name}' requires bytecode version {since}+, file version is {self.version}", 0)


def _read_enum(table: TypeTable, run: Cursor, enum: str, label: str) -> Any:
    start = run.pos
    number = run.varint(label)
    result = lookup_attribute(enum).from_number(number)  # type: ignore[union-attr]
    if result is None:
        run.fail(f"invalid integer value for enum type: {number}", start)
    since = result.case_since.get(result.value)
    if since is not None and table.version < Version.parse(since):
        run.fail(f"enum value {number} is not available in bytecode version {table.version}", start)
    return result


def _read_uint32(table: TypeTable, run: Cursor, label: str) -> int:
    start = run.pos
    value = run.varint(label)
    if value >> 32:
        run.fail(f"{label} value {value} exceeds uint32_t range", start)
    return value


def _read_tensor_view(table: TypeTable, run: Cursor, label: str) -> Any:
    start = run.pos
    tensor_view = table.read(run, f"{label} type")
    if not isinstance(tensor_view, lookup_type("cuda_tile.tensor_view")):  # type: ignore[arg-type]
        run.fail(f"expected TensorViewType but got {tensor_view}", start)
    return tensor_view


_READERS: dict[str, Callable[[TypeTable, Cursor, str], Any]] = {
    "type": lambda table, run, label: table.read(run, f"{label} type"),
    "tensor_view": _read_tensor_view,
    "i64s": lambda table, run, label: run.integers(8, label),
    "i32s": lambda table, run, label: run.integers(4, label),
    "uint": _read_uint32,
}
