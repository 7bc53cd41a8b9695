"""`rrt-size-threshold` is compared with the size of the reservation table of each loop that the heavy variant places.
"""

import re
from pathlib import Path

import pytest

import tileiras

KERNELS = Path(__file__).resolve().parents[2] / "examples" / "kernels"


def compiled(threshold: int) -> tuple[str, list[str], int]:
    """The decisions, the codes of the remarks, and the size of the table, 0 where no remark states it."""
    pytest.importorskip("cuda.tile")
    result = tileiras.compile(
        KERNELS / "attention.py", entry="attention", gpu_name="sm_90", emit="tileas", emit_remarks=True,
        pipeline_strategy="warp-specialize", rrt_size_threshold=threshold,
    )  # fmt: skip
    text = " ".join(diagnostic.message for diagnostic in result.diagnostics)
    size = re.search(r"reservation table has (\d+) entries", text)
    return result.text, re.findall(r"[a-z]+\.[a-z-]+(?= |;|\])", text), int(size[1]) if size else 0


def test_a_table_of_just_the_threshold_is_placed():
    light, _, _ = compiled(0)
    small, codes, size = compiled(1)
    assert small == light and size > 1
    assert "loops.table-too-large" in codes and "agents.heavy-as-light" in codes
    below, _, _ = compiled(size - 1)
    exact, exact_codes, none = compiled(size)
    assert below == light != exact and none == 0 and "loops.table-too-large" not in exact_codes
    assert exact == compiled(4096)[0]
