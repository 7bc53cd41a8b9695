"""The package for machines with a GPU: recorded, packed, and run against the stand-in for the driver."""

import json
import math
import os
import re
import struct
import subprocess
import sys
import zipfile

import comparison
import emulated
import estimated
import front_end_cases
import measured
import numpy as np
import package
import pytest
from measured_cases import MEASURED, Measured

from bench import real_sizes
from tileiras.codegen import toolkit

# The stand-in's launch adds one to the first byte of the first argument: as `bump` does and `scale` does not.
TESTS = '''
import numpy as np
import tileiras
from tileiras.sim import emulate

KERNEL = """cuda_tile.module @m {
  entry @NAME(%p: tile<ptr<TYPE>>, %x: tile<TYPE>) {
    %v, %t = load_ptr_tko weak %p : tile<ptr<TYPE>> -> tile<TYPE>, token
    %w = OP : tile<TYPE>
    %s = store_ptr_tko weak %p, %w token = %t : tile<ptr<TYPE>>, tile<TYPE> -> token
    return
  }
}
"""


def run(name, op, type, array, value):
    text = KERNEL.replace("NAME", name).replace("OP", op).replace("TYPE", type)
    artifact = tileiras.compile(text, gpu_name="sm_80")
    # The emulator takes either.
    described = artifact.kernels[0].metadata
    metadata = described if name == "talk" else {"kernels": [described]}
    emulate(artifact.text, name, 1, [array, value], metadata=metadata)


def test_bump():
    run("bump", "addi %v, %x", "i8", np.array([41, 7], np.int8), 1)
    run("bump", "addi %v, %x", "i8", np.array([41, 7], np.int8), 1)


def test_talk():
    run("talk", "addi %v, %x", "i8", np.array([41], np.int8), 1)


def test_crash():
    run("crash", "addi %v, %x", "i8", np.array([41], np.int8), 1)


def test_scale():
    run("scale", "mulf %v, %x", "f32", np.array([3], np.float32), np.float32(2.0))


def test_divide():
    run("divide", "divi %v, %x signed", "i8", np.array([[3, 41, 0]], np.int8)[0, 1:], 0)
'''


TARGETS = ["sm_75", "sm_89"]
# Of the stand-in, whose launches are over before they have begun.
ROWS = [
    Measured("vector_add.py", "vector_add", '(vector_add, *["f32[?]"] * 3, 1024)', (1,), (("f32", (1000,)),) * 3),
    MEASURED[3]._replace(arrays=(("f16", (8, 8)),) * 2 + (("f32", (8, 8)),), product=(8, 8, 8), grid=(1, 1)),
]


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
    # Stands for another compiler: its last argument is where the cubin goes.
    compiler = path.with_name("compiler")
    compiler.write_text('#!/bin/sh\nfor last; do :; done\nprintf cubin > "$last"\n')
    compiler.chmod(0o755)
    assert package.pack(str(records), str(path), TARGETS, ROWS, str(compiler)) == 5
    return path


def run(archive, *arguments, environment=None):
    """As on another machine: none of our packages, nothing installed."""
    command = [sys.executable, "-I", "-S", str(archive), *arguments]
    how = {"cwd": archive.parent, "env": {**os.environ, **(environment or {})}, "timeout": 120}
    return subprocess.run(command, capture_output=True, text=True, check=False, **how)


def test_each_kernel_is_compared_and_a_crash_costs_one(archive, stand_in_library):
    done = run(archive, "--driver", stand_in_library, "--only", "test_")
    assert done.returncode == 1, done.stderr
    assert "5 kernels on Stand-in 0, sm_89, driver of CUDA 13.0" in done.stdout
    # The output of a kernel is not parsed as an outcome.
    assert "3 passed, 2 failed, 0 skipped" in done.stdout and "what a kernel prints" not in done.stdout
    assert re.search(r"FAILED .*test_scale scale: buffer 0 \(f32\), element 0: got 3.0\d+, expected 6.0", done.stdout)
    assert re.search(r"FAILED .*test_crash crash: the process ended with -6", done.stdout)


def test_undefined_elements_are_not_compared(archive, stand_in_library):
    """A division by zero, whose element has the value of the stand-in, not of the emulator."""
    assert run(archive, "--driver", stand_in_library, "--only", "divide").returncode == 0
    with zipfile.ZipFile(archive) as opened:
        cases = {each["entry"]: each for each in json.loads(opened.read("cases.json"))}
        case = cases["divide"]
        assert cases["scale"]["arguments"] == [{"buffer": 0, "offset": 0}, {"value": "00000040"}]
        assert opened.read("data/" + case["buffers"][0]["undefined"]) == b"\0\xff\0"
    assert comparison.merged(b"\1\2\3", b"\7\7\7", b"\0\xff\0") == b"\1\7\3"


def test_an_archive_is_judged_in_the_emulator(archive):
    opened = emulated.Package(str(archive))
    cases = [case for case in opened.cases if "work" not in case]
    assert [emulated.run(opened, case, 89)[0] for case in cases] == [0.0] * len(cases)
    scale = next(case for case in cases if case["entry"] == "scale")
    scale["arguments"][1]["value"] = "00004040"
    assert emulated.run(opened, scale, 89) == (math.inf, "buffer 0 (f32), element 0: got 9.0, expected 6.0")


def test_some_kernels(archive, stand_in_library):
    done = run(archive, "--driver", stand_in_library, "--only", "bump")
    assert done.returncode == 0 and "1 passed, 0 failed, 0 skipped" in done.stdout
    assert "test_bump bump" in run(archive, "--list").stdout


def test_figures_and_a_wrong_product(archive, stand_in_library):
    done = run(archive, "--driver", stand_in_library, "--only", "measured/")
    assert re.search(r"vector_add +250.0 us +0.0 GB/s +1.00 times the reference's 250.0 us\n", done.stdout)
    assert re.search(r"matmul_f16 .* TFLOP/s +the reference: cuLibraryGetKernel: CUDA_ERROR_OTHER", done.stdout)
    assert re.search(r"FAILED measured/kernels/matmul.py matmul_f16: element \(\d, \d\) is .*, expected ", done.stdout)
    assert "1 passed, 1 failed, 0 skipped" in done.stdout and done.returncode == 1


@pytest.mark.skipif(toolkit.find_program("nvdisasm") is None, reason="no nvdisasm")
def test_measurements_are_beside_their_estimates(archive, stand_in_library, tmp_path, capsys):
    results, data = tmp_path / "results.json", tmp_path / "rows.json"
    assert estimated.main([str(archive), str(results)]) == 0
    assert "nothing was measured" in capsys.readouterr().out
    run(archive, "--driver", stand_in_library, "--only", "measured/", "--results", str(results))
    assert estimated.main([str(archive), str(results)]) == 0
    assert "no estimates for Stand-in 0: known are T4, " in capsys.readouterr().out
    results.write_text(results.read_text().replace("Stand-in 0", "NVIDIA L4"))
    assert estimated.main([str(archive), str(results), "--json", str(data)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("L4:\n") and re.search(r"\| vector_add \| ours \| 250\.0 \| \d+\.\d \| -\d+% \|", text)
    # The stand-in of the other compiler writes no cubin.
    assert "| vector_add | reference | 250.0 | - | - | " in text and "error of 2 estimates: mean " in text
    rows = json.loads(data.read_text())["rows"]
    assert [row["compiler"] for row in rows] == ["ours", "reference", "ours"]
    assert all(row["estimated"] > 0 for row in rows if row["compiler"] == "ours")


OWN = """
import cuda.tile as ct

@ct.kernel
def own(x, places, y, factor: float, TILE: ct.Constant[int]):
    at = ct.load(places, (ct.bid(0),), (1,)).item()
    ct.store(y, (at,), ct.load(x, (at,), (TILE,)) * factor)
"""


@pytest.fixture(scope="module")
def front_end_archive(tmp_path_factory):
    """One launch for two targets, of a kernel in cuTile Python."""
    pytest.importorskip("cuda.tile")
    folder = tmp_path_factory.mktemp("front_end")
    (folder / "own_kernels.py").write_text(OWN)
    sys.path.insert(0, str(folder))
    places = np.array([1, 0], np.int32)
    values = [real_sizes.filled((256,), "f32"), places, real_sizes.zeros((256,), "f32"), 2.0, real_sizes.Constant(128)]
    launch = real_sizes.Launch("own kernel 256", "own_kernels", "own", {}, (2,), values)
    wanted = [front_end_cases.Wanted("own", target, lambda: launch) for target in ("sm_89", "sm_90")]
    path = folder / "gputest.zip"
    (folder / "records").mkdir()
    package.pack(str(folder / "records"), str(path), ["sm_89", "sm_90"], (), launches=wanted)
    return path


def test_kernels_of_benchmarks_are_measured_on_their_own_target(front_end_archive, stand_in_library):
    done = run(front_end_archive, "--driver", stand_in_library)
    assert done.returncode == 0, done.stderr
    assert re.search(r"benchmark +250.0 us +0.0 GB/s", done.stdout) and "1 passed, 0 failed, 1 skipped" in done.stdout
    with zipfile.ZipFile(front_end_archive) as opened:
        for case in json.loads(opened.read("cases.json")):
            x, places, y = case["buffers"]
            assert opened.read("data/" + places["contents"]) == b"\1\0\0\0\0\0\0\0" and "contents" not in x
            assert y == {"element": "f32", "count": 256} and case["work"]["bytes"] == 2 * 1024 + 8
            (image,) = case["images"].values()
            assert len(case["arguments"]) == len(image["kernel"]["parameters"])


@pytest.mark.skipif(toolkit.find_program("nvdisasm") is None, reason="no nvdisasm")
def test_they_are_estimated_with_the_contents_of_arrays(front_end_archive, stand_in_library, tmp_path, capsys):
    results = tmp_path / "results.json"
    run(front_end_archive, "--driver", stand_in_library, "--results", str(results))
    results.write_text(results.read_text().replace("Stand-in 0", "NVIDIA L4"))
    assert estimated.main([str(front_end_archive), str(results)]) == 0
    assert re.search(r"\| own kernel 256 \| ours \| 250\.0 \| \d+\.\d \| -\d+% \|", capsys.readouterr().out)


def test_outcomes_are_run_again_when_asked(archive, stand_in_library, tmp_path):
    results = tmp_path / "results.json"
    command = (archive, "--driver", stand_in_library, "--only", "bump", "--results", str(results))
    assert run(*command).returncode == 0
    results.write_text(results.read_text().replace('"passed"', '"skipped"'))
    assert "1 skipped" in run(*command).stdout and "1 passed" in run(*command, "--again").stdout


def test_outcomes_are_kept_and_not_run_again(archive, stand_in_library, tmp_path):
    """As when time is up after some kernels, and the last line is cut off: these are gone through in the next run."""
    results = tmp_path / "results.json"
    command = (archive, "--driver", stand_in_library, "--only", "test_", "--results", str(results))
    done = run(*command, "--seconds", "0")
    assert done.returncode == 4 and "5 not run" in done.stdout
    assert run(*command).returncode == 1
    lines = results.read_text().splitlines(keepends=True)
    assert len(lines) == 6 and [json.loads(line)["status"] for line in lines[1:]].count("failed") == 2
    result = [json.loads(line) for line in lines[:3]]
    result[1]["status"] = "skipped"
    results.write_text("".join(json.dumps(line) + "\n" for line in result) + lines[3][:20])
    assert "1 skipped" in run(*command).stdout
    # Outcomes of another device, or of PTX instead of cubins, are not of this run.
    assert "3 passed, 2 failed, 0 skipped" in run(*command, "--ptx").stdout


def test_ptx_is_run_where_the_driver_refuses_a_cubin(archive, stand_in_library):
    if package.toolkit.find_program("ptxas") is None:
        pytest.skip("no ptxas")
    done = run(archive, "--driver", stand_in_library, "--only", "bump", environment={"STAND_IN_REFUSES": "cubin"})
    assert "1 passed" in done.stdout
    assert "1 cubins were refused and their PTX was run: cuModuleLoadDataEx: CUDA_ERROR_NO_BINARY" in done.stdout


def test_no_gpu_is_skipped(archive):
    done = run(archive, "--driver", "libcuda_that_is_not_there.so")
    assert done.returncode == 0
    assert done.stdout.startswith("skipped, no GPU: no CUDA driver here (libcuda_that_is_not_there.so cannot be loaded")


def test_packages_of_one_recording_are_equal(records, archive, tmp_path):
    package.pack(str(records), str(tmp_path / "again.zip"), TARGETS, ROWS, str(archive.with_name("compiler")))
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()


F32 = struct.pack("<4f", 100.0, 1.0, -0.001, math.nan)
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
F8_MMA = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"


@pytest.mark.parametrize(
    "ptx, device, element, got, want, agrees",
    [
        ("add.rn.f32", 90, "f32", (100.0, 1.0, -0.001, -math.nan), None, True),
        ("add.rn.f32", 90, "f32", (100.0, 1.0000001, -0.001, math.nan), None, False),
        ("ex2.approx.f32", 90, "f32", (100.0, 1.000003, -0.001, math.nan), None, True),
        ("ex2.approx.f32", 90, "f32", (100.0, 1.00001, -0.001, math.nan), None, False),
        ("tanh.approx.f32", 90, "f32", (100.05, 1.0, -0.001, math.nan), None, True),
        (MMA, 90, "f32", (100.0, 1.001, -0.002, math.nan), None, True),
        (MMA, 90, "f32", (100.0, 1.003, -0.001, math.nan), None, False),
        (F8_MMA, 90, "f32", (100.0, 1.1, -0.001, math.nan), None, False),
        (F8_MMA, 89, "f32", (100.0, 1.1, -0.001, math.nan), None, True),
        ("red.global.add.f32", 90, "f32", (100.0, 1.0001, -0.001, math.nan), None, True),
        ("ex2.approx.f32", 90, "f32", (100.0, 1.0, -0.001, math.inf), None, False),
        ("ex2.approx.f32", 90, "i32", b"\1\0\0\0", b"\2\0\0\0", False),
        ("ex2.approx.f32", 90, "f8E4M3FN", b"\x80\x31", b"\x01\x30", True),
        ("ex2.approx.f32", 90, "f8E4M3FN", b"\x32", b"\x30", False),
        ("add.rn.f32", 90, "f8E4M3FN", b"\x31", b"\x30", False),
    ],
)
def test_permitted_differences_of_a_device(ptx, device, element, got, want, agrees):
    result = got if isinstance(got, bytes) else struct.pack("<4f", *got)
    apart, place = comparison.distance(result, want or F32, element, comparison.tolerance(ptx, device))
    assert (apart <= 1) is agrees and (agrees or "expected" in place)


@pytest.mark.parametrize("element, code, value", [
    ("f8E4M3FN", 0x7E, 448.0), ("f8E4M3FN", 0x81, -(2.0**-9)), ("f8E4M3FN", 0x38, 1.0), ("f8E5M2", 0x7B, 57344.0),
    ("bf16", 0x3F80, 1.0), ("i8", 0xFF, -1),
])  # fmt: skip
def test_numbers_of_patterns(element, code, value):
    assert measured.decode(code.to_bytes(measured.size_of(element), "little"), element) == value
    data, size = measured.pattern(element, 1), measured.size_of(element)
    numbers = [measured.decode(data[i : i + size], element) for i in range(0, len(data), size)]
    limit = 8 if element == "i8" else 1
    assert len(numbers) == measured.PERIOD and limit / 2 < max(map(abs, numbers)) <= limit
