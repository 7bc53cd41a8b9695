"""Reading, printing and converting keep their speed, measured against a loop of plain Python in the same run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from bench import ir_core  # noqa: E402
from bench.calibration import best, python_loop  # noqa: E402

# Operations per run of the loop that bench.calibration defines; it takes about 30 ms where the targets of bench.ir_core
# (30,000, 60,000 and 30,000 operations per second) were set.
LOOP_SECONDS = 0.030


@pytest.fixture(scope="module")
def rates() -> dict[str, float]:
    loop = best(python_loop, 7)
    result = ir_core.rates()
    # A machine that is slower, or busy, is slower at the loop as well.
    scale = max(loop, best(python_loop, 7)) / LOOP_SECONDS
    return {name: rate * max(scale, 1.0) for name, rate in result.items()}


@pytest.mark.parametrize("work", ir_core.TARGETS)
def test_rate(rates, work):
    assert rates[work] >= ir_core.TARGETS[work]


def test_a_large_text_is_read_and_verified_soon():
    loop = best(python_loop, 7)
    count, seconds = ir_core.read_seconds()
    assert count > 10_000
    assert seconds / max(loop / LOOP_SECONDS, best(python_loop, 7) / LOOP_SECONDS, 1.0) < ir_core.READ_SECONDS


def test_the_core_loads_only_required_modules():
    heavy = "'argparse', 'json', 'subprocess', 'pathlib', 'numpy', 'llvmlite', 'dataclasses', 'tileiras.ir.text.parser'"
    # An editable installation loads modules of its own at start-up.
    program = (
        "import sys; before = set(sys.modules); import tileiras.ir, tileiras.dialects.cuda_tile; "
        f"print([m for m in ({heavy}) if m in sys.modules and m not in before])"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
