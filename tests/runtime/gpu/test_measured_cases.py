"""The kernels that are measured are launched with the parameters of their entries."""

import math
import os

import pytest
from measured_cases import MEASURED, Measured

import tileiras
from tileiras.ir import Operation
from tileiras.stages.units import entries_of

SIZES = {"i8": 1, "u8": 1, "f8E4M3FN": 1, "f16": 2, "bf16": 2, "f32": 4, "i32": 4, "f64": 8}


def entry_of(row: Measured, folder) -> Operation:
    path = folder / f"kernel{os.path.splitext(row.source)[1]}"
    path.write_text(row.text())
    data = tileiras.compile(path, gpu_name="sm_120", emit="bytecode").data
    (entry,) = entries_of(tileiras.parse(data))
    return entry


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row.entry)
def test_a_measured_kernel_gets_an_argument_for_each_parameter(row, tmp_path):
    entry = entry_of(row, tmp_path)
    types = [str(argument.type) for argument in entry.regions[0].block.arguments]
    result = row.case()["arguments"]
    assert len(result) == len(types), types
    pointees = iter(row.arrays)
    for argument, type in zip(result, types):
        if "buffer" in argument:
            element = next(pointees)[0].partition("<")[0].replace("u8", "i8")
            assert f"ptr<{element}>" in type
        else:
            size = next(bytes for name, bytes in SIZES.items() if f"<{name}>" in type)
            assert len(bytes.fromhex(argument["value"])) == size
    assert all(extent > 0 for extent in row.grid)
    shape = row.arrays[0][1]
    if len(shape) == 2 and row.grid == shape[:1] and not any(op.name == "cuda_tile.for" for op in entry.walk()):
        # A block has a row in one tile: elements behind the tile would not be processed.
        loads = [op for op in entry.walk() if op.name == "cuda_tile.load_view_tko"]
        assert max(math.prod(op.results[0].type.shape) for op in loads) >= shape[1]


def test_every_kernel_is_measured_once_at_a_size():
    names = [(row.entry, row.arrays) for row in MEASURED]
    assert len(set(names)) == len(names) and len({row.entry for row in MEASURED}) > 30
