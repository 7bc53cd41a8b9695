"""The kernels that are measured are launched with what their entries take."""

import os

import pytest
from measured_cases import MEASURED, Measured

import tileiras
from tileiras.units import entries_of

SIZES = {"i8": 1, "u8": 1, "f8E4M3FN": 1, "f16": 2, "bf16": 2, "f32": 4, "i32": 4, "f64": 8}


def entry_arguments(row: Measured, folder) -> list[str]:
    """The types of the entry's parameters."""
    path = folder / f"kernel{os.path.splitext(row.source)[1]}"
    path.write_text(row.text())
    data = tileiras.compile(path, gpu_name="sm_120", emit="bytecode").data
    (entry,) = entries_of(tileiras.parse(data))
    return [str(argument.type) for argument in entry.regions[0].block.arguments]


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row.entry)
def test_a_measured_kernel_gets_an_argument_for_each_parameter(row, tmp_path):
    types = entry_arguments(row, tmp_path)
    given = row.case()["arguments"]
    assert len(given) == len(types), types
    pointees = iter(row.arrays)
    for argument, type in zip(given, types):
        if "buffer" in argument:
            element = next(pointees)[0].partition("<")[0].replace("u8", "i8")
            assert f"ptr<{element}>" in type
        else:
            size = next(bytes for name, bytes in SIZES.items() if f"<{name}>" in type)
            assert len(bytes.fromhex(argument["value"])) == size
    assert all(extent > 0 for extent in row.grid)


def test_every_kernel_is_measured_once_at_a_size():
    names = [(row.entry, row.arrays) for row in MEASURED]
    assert len(set(names)) == len(names) and len({row.entry for row in MEASURED}) > 30
