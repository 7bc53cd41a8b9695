"""Dense products beside libraries: their kernels, their names, and the rows of the table."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench import libraries, products  # noqa: E402
from bench.products import Row, Tile  # noqa: E402
from bench.ranking import Taken  # noqa: E402

CUBE = (8192, 8192, 8192)


@pytest.mark.parametrize(("gpu", "kind", "operands"), [("H200", "i8", 3), ("B200", "nvf4", 5)])
def test_a_launch_has_the_arrays_of_its_type(gpu, kind, operands):
    job = products.job(Row(gpu, kind, (512, 256, 512)), Tile((256, 128, 256), 2))
    assert job.grid == (2, 2, 1) and job.parameters[-1] == 2 and job.flops == 2 * 512 * 256 * 512
    assert sum(hasattr(each, "shape") for each in job.parameters) == operands


def test_libraries_have_the_names_of_rows():
    known = {each.tasks for each in libraries.LIBRARIES if each.tasks.startswith("product ")}
    kinds = {*products.KINDS, "*f16"}
    assert known and all(name.split()[1] in kinds and name.count("x") >= 2 for name in known)
    assert libraries.divisor(Row("H200", "bf16", CUBE).name, "H200", 2.0 * 8192**3).library == "cuBLAS on H100"


@pytest.mark.parametrize(("microseconds", "short"), [(1500.0, False), (1700.0, True)])
def test_a_row_is_short_beyond_the_error_of_the_clock(microseconds, short):
    taken = Taken(microseconds, "power", units={"tensor": 0.9})
    line, result = products.line(Row("H200", "f16", CUBE), Tile((128, 256, 64), 2), taken)
    assert result == short and "128x256x64, 2 CTAs" in line and line.count("|") == 10


def test_every_target_has_tiles():
    assert all(products.tiles(Row(gpu, kind, CUBE)) for gpu in ("A100", "H200", "B200") for kind in products.KINDS)
