"""The function that users call."""

import numpy as np
import pytest
from micro_kernels import fma_chain

import tileiras.sim
from tests.machine_code import needs_tools
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.sim import ArgumentMismatch

OUT = np.zeros(1 << 12, np.float32)


@needs_tools
def test_it_is_called_by_the_name_of_its_package():
    result = tileiras.sim.estimate(fma_chain(16, 20), "k", 1, [OUT], gpu="H200")
    assert result.entry == "k" and result.gpu == "H200" and result.microseconds > 0
    from tileiras.sim.estimate import estimate

    assert estimate(fma_chain(16, 20), "k", (1, 1), [OUT], "h200").cycles == result.cycles


@needs_tools
def test_its_text_names_bound_and_stalls():
    text = str(tileiras.sim.estimate(fma_chain(16, 60), "k", 1, [OUT]))
    assert text.startswith("k on H200: ") and "bound by latency" in text and "fixed latency" in text
    assert "iterations" in text


def test_an_unknown_gpu_is_refused():
    with pytest.raises(CompileError, match="unknown GPU 'H900': known are .*H200") as error:
        tileiras.sim.estimate(fma_chain(4, 4), "k", 1, [OUT], gpu="H900")
    assert error.value.code == ExitCode.CONFIGURATION


@needs_tools
@pytest.mark.parametrize("grid, args", [(0, [OUT]), (1, []), ((1, 2, 3, 4), [OUT])])
def test_oversized_launches_are_refused_as_in_the_emulator(grid, args):
    with pytest.raises(ArgumentMismatch):
        tileiras.sim.estimate(fma_chain(4, 4), "k", grid, args)
