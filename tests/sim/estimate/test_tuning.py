"""Choosing options by the clock."""

from types import SimpleNamespace

import numpy as np
import pytest

import tileiras
from tests.kernels.dots import Matmul
from tests.machine_code import needs_tools
from tileiras.diagnostics import CompileError, ExitCode
from tileiras.report import tuning

pytestmark = needs_tools

SAXPY = "examples/saxpy.mlir"
X = np.arange(4096, dtype=np.float32)
ARGS = [X, np.ones(4096, np.float32), 2.0, 4096]


def test_it_gives_the_candidate_of_least_time():
    sweep = tileiras.tune(SAXPY, 4, ARGS, [{"num_warps": 1}, {"num_warps": 4}, {"num_warps": 8}], "A100")
    times = [each.microseconds for each in sweep.candidates]
    assert times == sorted(times) and sweep.options == sweep.candidates[0].options
    assert sweep.estimate.microseconds == times[0] and sweep.estimate.gpu == "A100"
    assert sweep.options in sweep.ties
    # Ordinary options compile to the code that was estimated.
    again = tileiras.compile(SAXPY, gpu_name="sm_80", **sweep.options)
    assert tileiras.sim.estimate(again, "saxpy", 4, ARGS, "A100").microseconds == times[0]
    assert (ARGS[1] == 1).all() and (X == np.arange(4096)).all()


def test_pairs_of_ctas_with_maps_of_the_host_are_candidates():
    """How many CTAs a tile block has is the launcher's to know: it is chosen here, above the compiler."""
    kernel = Matmul((256, 64, 64), steps=4).kernel()
    args = [*kernel.inputs, *(each.copy() for each in kernel.outputs)]
    sweep = tileiras.tune(kernel.text, 1, args, [{"num_ctas": 1}, {"num_ctas": 2}], "B200", tensor_maps="host")
    assert [each.options for each in sweep.candidates] == [{"num_ctas": 2}, {"num_ctas": 1}]
    assert not any(each.why for each in sweep.candidates)


def test_equal_candidates_stay_in_the_order_given():
    sweep = tileiras.tune(SAXPY, 4, ARGS, [{"num_warps": 4, "opt_level": 3}, {"num_warps": 4}], "A100")
    assert sweep.options == {"num_warps": 4, "opt_level": 3}


def test_candidates_with_errors_are_skipped_with_the_reason():
    sweep = tileiras.tune(SAXPY, 4, ARGS, [{"num_warps": 3}, {"num_warps": 4}], "A100")
    assert sweep.options == {"num_warps": 4}
    (left_out,) = [each for each in sweep.candidates if each.estimate is None]
    assert left_out.options == {"num_warps": 3} and "num-warps" in left_out.why


def test_wrong_results_are_left_out(monkeypatch):
    """A candidate whose code stores something else, as a compiler with a mistake would make it."""
    from tileiras.build import library

    honest = library.compile

    def mistaken(source, **options):
        result = honest(source, **options)
        if options.get("num_warps") != 8:
            return result
        (kernel,) = result.kernels
        text = kernel.artifacts[".ptx"].decode()
        assert "fma.rn.f32" in text
        artifacts = {**kernel.artifacts, ".ptx": text.replace("fma.rn.f32", "fma.rn.sat.f32").encode()}
        other = SimpleNamespace(name=kernel.name, artifacts=artifacts, metadata=kernel.metadata)
        return SimpleNamespace(kernels=(other,), suffix=".ptx", data=artifacts[".ptx"])

    monkeypatch.setattr(library, "compile", mistaken)
    sweep = tileiras.tune(SAXPY, 4, ARGS, [{"num_warps": 8}, {"num_warps": 4}], "A100")
    assert sweep.options == {"num_warps": 4}
    assert "differ from the interpreter's" in sweep.candidates[1].why
    with pytest.raises(CompileError, match="no candidate for 'saxpy' on A100 is left") as error:
        tileiras.tune(SAXPY, 4, ARGS, [{"num_warps": 8}], "A100")
    assert "num_warps=8: its results differ" in error.value.diagnostics[0].notes[0].message


def test_results_are_compared_on_a_smaller_launch(monkeypatch):
    small = [np.ones(1024, np.float32), np.ones(1024, np.float32), 2.0, 1024]
    seen = []
    real = tuning._difference
    monkeypatch.setattr(tuning, "_difference", lambda image, launch, expected: seen.append(launch) or
                        real(image, launch, expected))  # fmt: skip
    sweep = tileiras.tune(SAXPY, 4, ARGS, [{}], "A100", check=(1, small))
    assert seen == [(1, small)] and sweep.estimate.occupancy.active_sms == 4


def test_nothing_to_choose_from_and_gpus_that_are_not_known():
    with pytest.raises(ValueError, match="no candidates"):
        tileiras.tune(SAXPY, 4, ARGS, [], "A100")
    with pytest.raises(CompileError, match="unknown GPU") as error:
        tileiras.tune(SAXPY, 4, ARGS, [{}], "A101")
    assert error.value.code == ExitCode.CONFIGURATION
