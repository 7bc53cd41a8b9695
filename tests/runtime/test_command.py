"""`tileiras-run --backend cuda` against the stand-in for the driver."""

from pathlib import Path

from tileiras.cli.process import KERNEL_FAILED
from tileiras.cli.tileiras_run import main

SAXPY = str(Path(__file__).parents[2] / "examples" / "saxpy.mlir")
ARGUMENTS = ["--backend", "cuda", "--grid", "3", "f32[3000]=ones", "f32[3000]=ones", "f32=2", "i32=3000"]


def test_compiles_for_the_device_at_hand_and_launches(stand_in, capsys):
    assert main([SAXPY, *ARGUMENTS, "--print", "0"]) == 0
    assert "load ptx" in stand_in.log and any(line.startswith("launch grid 3 1 1 block") for line in stand_in.log)
    # The stand-in adds one to the lowest byte of 1.0f.
    assert "1.0000001" in capsys.readouterr().out


def test_failures_while_the_kernel_runs_have_their_own_status(stand_in, capsys):
    stand_in.reset(fail="cuStreamSynchronize", code=209)
    assert main([SAXPY, *ARGUMENTS]) == KERNEL_FAILED
    assert capsys.readouterr().err.startswith("error: cuStreamSynchronize: CUDA_ERROR_NO_BINARY_FOR_GPU (209): ")


def test_wrong_arguments_are_usage_errors(stand_in, capsys):
    assert main([SAXPY, *ARGUMENTS[:-1]]) == 1
    assert "kernel 'saxpy' takes 4 arguments, got 3" in capsys.readouterr().err
