"""The cost of an estimate in two checkouts."""

import re
from pathlib import Path

from bench import estimator
from tests.machine_code import needs_tools

ROOT = Path(__file__).resolve().parents[2]


@needs_tools
def test_two_checkouts_are_compared(capsys):
    arguments = ["--only", "saxpy", "--gpus", "A100", "--repeat", "1", "--against", str(ROOT)]
    assert estimator.main(arguments) == 0
    *_, row = capsys.readouterr().out.splitlines()
    name, gpu, *figures = re.split(r" *\| *", row.strip("| "))
    assert (name, gpu) == ("saxpy 16777216", "A100")
    first, later, other_first, other_later, *ratios = map(float, figures)
    # The store has the outputs of ptxas and nvdisasm from the second estimate on.
    assert later < first and other_later < other_first
    assert len(ratios) == 2


def test_rows_are_selected_by_parts_of_names():
    names = [
        (estimator.name_of(estimator.MEASURED[index]), gpu) for index, gpu in estimator.selected("A100,H200", "i8")
    ]
    assert names == [("matmul_i8 8192x8192", gpu) for gpu in ("A100", "H200")]
