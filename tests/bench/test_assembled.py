"""Problems reported in the code of kernels by plan, and the rows that have them."""

from pathlib import Path

import pytest

import tileiras
from bench.assembled import BASE, REFERENCE, Kept, Row, faults, rows
from bench.kernels import Kernel
from bench.plans import PLANS
from tests.kernels.dots import Matmul
from tests.machine_code import needs_tools

ROW = Row("f", "k", "sm_90", "auto", registers=90, chosen=1, executed=4)
OTHERS = {BASE: ROW._replace(plan=BASE), REFERENCE: ROW._replace(plan=REFERENCE, chosen=0, executed=0)}


def found(row: Row, **others: Row) -> list[str]:
    return [what for faulty, what in faults([*(OTHERS | others).values(), row]) if faulty is row]


def test_equal_local_memory_is_no_finding():
    spilling = {name: row._replace(local=8) for name, row in OTHERS.items()}
    assert found(ROW._replace(local=8), **spilling) == []


WRONG = {
    "a message": (ROW._replace(messages="ptxas info : (C7511) Potential Performance Loss"), ["C7511"]),
    "local memory": (
        ROW._replace(local=8), ["8 bytes of local memory, plain 0", "8 bytes of local memory, reference 0"]
    ),
    "no products": (ROW._replace(executed=0), ["1 products of which the machine code has none"]),
    "a shortage": (
        ROW._replace(left=("dots.few-warps instruction=wgmma least=4 warps=2",)),
        ["a product left to warps: dots.few-warps instruction=wgmma least=4 warps=2"],
    ),
    "a refusal": (ROW._replace(refusal="error: no"), ["error: no"]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_stated(name):
    row, result = WRONG[name]
    assert found(row) == result


@pytest.mark.parametrize("reason", [
    "dots.types instruction=wgmma a=f64 b=f64 c=f64", "dots.shallow instruction=wgmma k=8 least=16",
])
def test_types_and_sizes_are_no_shortage(reason):
    assert found(ROW._replace(left=(reason,))) == []


def test_a_target_with_mma_of_warps_lacks_nothing():
    rows = {name: row._replace(target="sm_120", left=("",)) for name, row in OTHERS.items()}
    assert found(ROW._replace(target="sm_120", chosen=0, executed=0, left=("",)), **rows) == []


def test_inputs_that_all_refuse_are_no_fault():
    refused = [row._replace(refusal="error: no") for row in (ROW, *OTHERS.values())]
    assert list(faults(refused)) == []


def test_rows_are_kept(tmp_path):
    path = str(tmp_path / "rows")
    Kept(path).put([row := ROW._replace(left=("a reason",))])
    assert Kept(path).get(("f", "sm_90", "auto")) == [row]
    assert Kept(path).get(("f", "sm_100", "auto")) is None


@needs_tools
@pytest.mark.parametrize(("gpu", "warps", "chosen"), [("sm_90", 4, 1), ("sm_100", 4, 1), ("sm_90", 2, 0)])
def test_rows_of_a_product(gpu, warps, chosen, tmp_path):
    path = tmp_path / "product.tileirbc"
    Path(path).write_bytes(tileiras.compile(Matmul((64, 64, 64), steps=4).text(), gpu_name=gpu, emit="bytecode").data)
    (row,) = rows(Kernel(path.name, str(path), 0), gpu, "auto", PLANS["auto"] | {"num_warps": warps})
    assert (row.entry, row.chosen, row.executed > 0) == ("k", chosen, chosen > 0)
    assert row.registers > 16 and row.local == 0 and not row.messages and not row.refusal
    assert bool(row.short) == (warps < 4)
