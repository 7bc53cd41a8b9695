"""Arrays behind addresses in memory: generated launches have them, and compare them."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest

import tileiras
from tileiras.check import launches
from tileiras.check.coverage import Coverage
from tileiras.check.facts import Facts, facts
from tileiras.check.fitting import Fitted, fit
from tileiras.check.judging import Image, hold, interpreted
from tileiras.ir import Operation
from tileiras.stages.units import entries_of

GROUPED = "examples/kernels/matmul_grouped.py"


@functools.cache
def grouped() -> tuple[Operation, Operation, Facts, list[Fitted]]:
    module = tileiras.parse(GROUPED)
    (entry,) = entries_of(module)
    described = facts(entry)
    plans = [plan for number, plan in enumerate(launches.plans(described)) if number in (0, 2, 5)]
    return module, entry, described, [fit(entry, module, described, plan) for plan in plans]


def test_columns_of_a_table_are_sizes_strides_and_an_address():
    _, _, described, _ = grouped()
    assert [len(table.columns) for table in described.tables] == [5, 5, 5]
    columns = [described.parameters[position] for position in described.tables[0].columns.values()]
    assert [each.kind for each in columns[:4]] == ["address", "size", "size", "stride"]
    assert columns[2].divisor == 8 and columns[2].tile == 32 and columns[2].counts_trips
    assert len(described.arguments) == 6


def test_rows_of_a_table_have_sizes_of_their_own_and_go_together():
    _, _, described, fitted = grouped()
    names = [list(table.columns.values()) for table in described.tables]
    rows = {len(launch.behind) // 3 for launch in fitted}
    assert len(rows) > 1, "several numbers of products"
    shapes = set()
    for launch in fitted:
        for numbers in launch.plan.rows:
            a, b, c = ([numbers[position] for position in table[1:3]] for table in names)
            assert a[0] == c[0] and a[1] == b[0] and b[1] == c[1]
            shapes.add((*a, b[1]))
    assert len(shapes) > 4 and any(m % 32 for m, _, _ in shapes)


def test_arrays_behind_a_table_are_restored_before_each_run():
    *_, described, fitted = grouped()
    launch = fitted[0]
    before = [each.contents.copy() for each in launch.behind]
    launch.behind[-1].array[:] = 7
    launch.copies()
    assert all(np.array_equal(each.array, old) for each, old in zip(launch.behind, before))
    assert len(list(launch.elements(described))) == 3 + len(launch.behind)


@pytest.mark.parametrize(("old", "new"), [("", ""), ("16, %r", "8, %r")])
def test_code_is_compared_behind_a_table(old, new):
    module, _, described, fitted = grouped()
    artifact = tileiras.compile(GROUPED, gpu_name="sm_80")
    ptx = "\n".join(
        line.replace(old, new) if "cp.async" in line and old else line for line in artifact.text.splitlines()
    )
    image = Image(ptx, "matmul_grouped", json.loads(artifact.kernels[0].artifacts[".json"]))
    again = functools.partial(interpreted, module, image.entry, fitted[0], Coverage(entries_of(module)[0]), {})
    judged = hold(described, image, fitted[0], 0, [None], again(), again)
    assert judged.status == ("right" if old == new else "wrong")
