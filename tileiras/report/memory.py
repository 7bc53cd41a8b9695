"""A kernel's use of an SM's memories: shared and tensor memory over the program, registers along its code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tileiras.dialects import nv_tileas as tileas
from tileiras.dialects.nv_tileas.names import TENSOR_RESERVE
from tileiras.ir import IntegerAttr, Operation
from tileiras.report.layouts import Names
from tileiras.report.machine import MachineText
from tileiras.report.model import Area, Columns, Memory
from tileiras.resources.arena import shared_bytes
from tileiras.targets.sm import TARGETS


def memory(
    module: Operation,
    lines: Sequence[int],
    names: Names,
    places: Mapping[int, tuple[int, ...]],
    gpu: str,
    resources: Mapping[str, Any] | None,
    machine: MachineText | None,
) -> Memory:
    """`lines`: line of each operation of `module` in its text; `places`: line -> its places in the source;
    `resources`: the entry's row of NAME.resources.json."""
    areas = _areas(module, lines, names, places)
    total = max((area.offset + area.bytes for area in areas), default=0)
    if resources is not None and resources.get("shared") is not None:
        total = max(total, resources["shared"])
    target = TARGETS.get(gpu)
    registers = machine.registers if machine is not None else ()
    allocated = machine.code.registers if machine is not None else (resources or {}).get("registers") or 0
    return Memory(areas, total, target.shared_per_cta if target is not None else 0, registers, allocated,
                  *_tensor(module, lines, names, places))  # fmt: skip


def _areas(
    module: Operation, lines: Sequence[int], names: Names, places: Mapping[int, tuple[int, ...]]
) -> tuple[Area, ...]:
    operations = list(module.walk())
    line_of = dict(zip(operations, lines))
    last = max(lines, default=0)
    areas: list[Area] = []
    for op in operations:
        line = line_of[op]
        where = places.get(line, ())
        if isinstance(op, tileas.AllocTensorOp) and isinstance(op.offset, IntegerAttr):
            type = op.result.type
            ring = type.stages > 1
            label = f"{type.stages} stages of {names.typed(type.tile)}" if ring else names.typed(type.tile)
            size = shared_bytes(op)
            areas.append(Area("ring" if ring else "buffer", label, op.offset.value, size, line, _end(op, line_of, last),
                              where))  # fmt: skip
        elif isinstance(op, tileas.CreatePipelineOp) and isinstance(op.attributes.get("offset"), IntegerAttr):
            offset = op.attributes["offset"].value
            areas.append(Area("mbarriers", "mbarriers of a pipe", offset, op.mbarrier_bytes, line, last, where))
        elif op.name == TENSOR_RESERVE and isinstance(op.attributes.get("offset"), IntegerAttr):
            label = "mbarriers and the address of tensor memory"
            areas.append(Area("mbarriers", label, op.attributes["offset"].value, op.bytes, line, last, where))
        for area in tileas.scratch_areas(op):
            label = op.name.removeprefix("nv_tileas.") + (f" in {area.rounds} rounds" if area.rounds > 1 else "")
            end = _region_end(op, line_of, line)
            areas.append(Area("scratch", label, area.offset, area.bytes, line, end, where))
    return tuple(sorted(areas, key=lambda area: (area.first, area.offset)))


def _tensor(
    module: Operation, lines: Sequence[int], names: Names, places: Mapping[int, tuple[int, ...]]
) -> tuple[tuple[Columns, ...], int]:
    """The tiles in tensor memory, and the columns that a CTA allocates."""
    line_of = dict(zip(module.walk(), lines))
    last = max(lines, default=0)
    result: list[Columns] = []
    allocated = 0
    for op, line in line_of.items():
        if op.name == TENSOR_RESERVE and isinstance(op.attributes.get("columns"), IntegerAttr):
            allocated = max(allocated, op.attributes["columns"].value)
        elif isinstance(op, tileas.TensorAllocOp) and isinstance(op.column, IntegerAttr):
            ends = [line_of[user] for user in op.result.users if isinstance(user, tileas.TensorDeallocOp)]
            type = op.result.type
            result.append(Columns(names.typed(type.tile), op.column.value, type.columns, line, max(ends, default=last),
                                 places.get(line, ())))  # fmt: skip
    return tuple(sorted(result, key=lambda each: (each.first, each.column))), allocated


def _end(op: tileas.AllocTensorOp, line_of: Mapping[Operation, int], last: int) -> int:
    """The last line of a buffer's live range."""
    ends = [line_of[user] for user in op.result.users if isinstance(user, tileas.DeallocTensorOp)]
    return max(ends, default=last)


def _region_end(op: Operation, line_of: Mapping[Operation, int], line: int) -> int:
    """The last line of an operation, its regions included."""
    return max((line_of.get(inner, line) for inner in op.walk()), default=line)
