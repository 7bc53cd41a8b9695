"""`tileiras-sweep --backend cuda` against the stand-in for the driver, whose launches add one to the first element."""

import json
import shutil
from pathlib import Path

import pytest

from tileiras.cli import tileiras_sweep
from tileiras.runtime import driver as driver_module

ADD_ONE = """cuda_tile.module @m {
  entry @add_one(%p: tile<ptr<i32>>) {
    %one = constant <i32: 1> : tile<i32>
    %value, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    %sum = addi %value, %one : tile<i32>
    %t2 = store_ptr_tko weak %p, %sum : tile<ptr<i32>>, tile<i32> -> token
  }
}
"""
SAXPY = Path(__file__).parents[2] / "examples" / "saxpy.mlir"


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "k.mlir").write_text(ADD_ONE)
    shutil.copy(SAXPY, tmp_path / "saxpy.mlir")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sweep(*words):
    return tileiras_sweep.main([*words, "--backend", "cuda", "--num-warps", "4,8", "--json", "s.json"])


def test_candidates_are_measured_on_the_gpu(project, stand_in, capsys):
    assert sweep("k.mlir", "i32[4]=zeros", "--write") == 0
    data = json.loads((project / "s.json").read_text())
    assert (data["backend"], data["gpu"], data["target"]) == ("cuda", "Stand-in 0", "sm_89")
    assert [row["microseconds"] for row in data["candidates"]] == [250.0, 250.0]
    assert "250 us" in capsys.readouterr().out
    # Of each candidate one launch for its results, one that warms up, and nine between two events.
    assert len([line for line in stand_in.log if line.startswith("launch")]) == 2 * 11
    assert stand_in.log.count("event") == 2 * 18
    assert json.loads((project / "k.tune.json").read_text())["found"]["sm_89"]["backend"] == "cuda"


def test_wrong_results_of_the_gpu_are_left_out(project, stand_in, capsys):
    words = ["f32[4096]=arange", "f32[4096]=ones", "f32=2", "i32=4096", "--grid", "4"]
    assert sweep("saxpy.mlir", *words) == 5
    assert "num_warps=8: its results differ from the interpreter's" in capsys.readouterr().err
    assert "event" not in stand_in.log


def test_a_candidate_is_skipped_with_the_drivers_message(project, stand_in, capsys):
    stand_in.reset("cuLaunchKernelEx", 1)
    assert sweep("k.mlir", "i32[4]=zeros") == 5
    assert "num_warps=4: cuLaunchKernelEx: CUDA_ERROR_OTHER" in capsys.readouterr().err


def test_without_a_driver_it_is_one_error(project, monkeypatch, capsys):
    monkeypatch.setattr(driver_module, "LIBRARIES", ("libno_such_driver.so",))
    monkeypatch.setattr(driver_module, "_loaded", None)
    assert sweep("k.mlir", "i32[4]=zeros") == 2
    err = capsys.readouterr().err
    assert err.startswith("error: no CUDA driver here") and err.count("\n") == 1
    assert "--backend estimate" in err and not (project / "s.json").exists()


def test_a_gpu_is_not_named_for_it(project, stand_in, capsys):
    assert sweep("k.mlir", "i32[4]=zeros", "--gpu", "H200") == 1
    assert "--backend cuda uses this machine's" in capsys.readouterr().err
