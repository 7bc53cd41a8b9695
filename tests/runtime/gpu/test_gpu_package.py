"""The package for machines with a GPU: recorded, packed, and run against the stand-in for the driver."""

import re
import subprocess
import sys

import package
import pytest

# The stand-in's launch adds one to the first byte of the first argument: what `bump` does, and `scale` does not.
TESTS = '''
import numpy as np
import tileiras
from tileiras.sim import emulate

KERNEL = """cuda_tile.module @m {
  entry @NAME(%p: tile<ptr<TYPE>>, %x: tile<TYPE>) {
    %v, %t = load_ptr_tko weak %p : tile<ptr<TYPE>> -> tile<TYPE>, token
    %w = OP %v, %x : tile<TYPE>
    %s = store_ptr_tko weak %p, %w token = %t : tile<ptr<TYPE>>, tile<TYPE> -> token
    return
  }
}
"""


def run(name, op, type, array, value):
    text = KERNEL.replace("NAME", name).replace("OP", op).replace("TYPE", type)
    artifact = tileiras.compile(text, gpu_name="sm_80")
    emulate(artifact.text, name, 1, [array, value], metadata={"kernels": [artifact.kernels[0].metadata]})


def test_bump():
    run("bump", "addi", "i8", np.array([41, 7], np.int8), 1)
    run("bump", "addi", "i8", np.array([41, 7], np.int8), 1)


def test_crash():
    run("crash", "addi", "i8", np.array([41], np.int8), 1)


def test_scale():
    run("scale", "mulf", "f32", np.array([3], np.float32), 2.0)
'''


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    test = folder.parent / "test_kernels.py"
    test.write_text(TESTS)
    package.record([str(test)], str(folder), 1)
    return folder


@pytest.fixture(scope="module")
def archive(records, tmp_path_factory):
    path = tmp_path_factory.mktemp("gputest") / "gputest.zip"
    assert package.pack(str(records), str(path), ["sm_75", "sm_80"]) == 3
    return path


def run(archive, *arguments):
    """As on another machine: none of our packages, nothing installed."""
    command = [sys.executable, "-I", "-S", str(archive), *arguments]
    return subprocess.run(command, cwd=archive.parent, capture_output=True, text=True, check=False, timeout=120)


def test_each_kernel_is_compared_and_a_crash_costs_one(archive, stand_in_library):
    done = run(archive, "--driver", stand_in_library)
    assert done.returncode == 1, done.stderr
    assert "3 kernels on Stand-in 0, sm_89" in done.stdout
    assert "1 passed, 2 failed, 0 skipped" in done.stdout
    assert re.search(r"FAILED .*test_scale: buffer 0 \(f32\), element 0: got 0100\w+, expected 0000c040", done.stdout)
    assert re.search(r"FAILED .*test_crash: the process ended with -6", done.stdout)


def test_some_kernels(archive, stand_in_library):
    done = run(archive, "--driver", stand_in_library, "--only", "bump")
    assert done.returncode == 0 and "1 passed, 0 failed, 0 skipped" in done.stdout
    assert "test_bump" in run(archive, "--list").stdout


def test_no_gpu_is_skipped(archive):
    done = run(archive, "--driver", "libcuda_that_is_not_there.so")
    assert done.returncode == 0
    assert done.stdout.startswith("skipped, no GPU: no CUDA driver here (libcuda_that_is_not_there.so cannot be loaded")


def test_packages_of_one_recording_are_equal(records, archive, tmp_path):
    package.pack(str(records), str(tmp_path / "again.zip"), ["sm_75", "sm_80"])
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()
