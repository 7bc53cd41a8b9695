"""Reference results of sweeps: those of large launches, computed on the processor, are the interpreter's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tileiras.report import tuning
from tileiras.targets.cpu import host

pytestmark = pytest.mark.skipif(host() is None, reason="no target for this processor")

EXAMPLES = Path(__file__).parents[2] / "examples"


def saxpy():
    x, y = np.arange(1 << 18, dtype=np.float32), np.ones(1 << 18, np.float32)
    return "saxpy", ((1 << 18) // 1024, [x, y, 2.0, x.size - 3])


def transpose():
    source = np.random.default_rng(7).standard_normal((512, 512)).astype(np.float32)
    return "transpose", ((16, 16), [source, np.zeros((512, 512), np.float32), 512, 512])


@pytest.mark.parametrize("launch", [saxpy, transpose], ids=lambda launch: launch.__name__)
def test_large_launches_have_the_interpreters_results(launch, monkeypatch):
    entry, (grid, args) = launch()
    source = (EXAMPLES / f"{launch.__name__}.mlir").read_bytes()
    interpreted = tuning._interpreted(source, entry, (grid, args))
    assert any((array != before).any() for array, before in zip(interpreted, args))
    monkeypatch.delattr(tuning, "_interpreted")
    for result, right in zip(tuning._reference(source, entry, (grid, args)), interpreted):
        np.testing.assert_array_equal(result, right)
