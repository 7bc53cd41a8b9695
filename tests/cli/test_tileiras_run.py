"""The argument language and the exit codes of tileiras-run."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tileiras
from tileiras.cli.tileiras_run import UsageError, main, parse_argument, parse_grid

SAXPY = str(Path(__file__).resolve().parents[2] / "examples" / "saxpy.mlir")


def only_array(text):
    return parse_argument(text, []).array


@pytest.mark.parametrize(
    ("text", "dtype", "values"),
    [
        ("f32[2,2]=zeros", np.float32, [[0, 0], [0, 0]]),
        ("i8[3]=full(7)", np.int8, [7, 7, 7]),
        ("f64[4]=arange(1,0.5)", np.float64, [1, 1.5, 2, 2.5]),
        ("bf16[2]=ones", ml_dtypes.bfloat16, [1, 1]),
        ("i32[2,2:3]=arange", np.int32, [[0, 1], [3, 4]]),
    ],
)
def test_array_contents(text, dtype, values):
    array = only_array(text)
    assert array.dtype == dtype
    assert array.astype(np.float64).tolist() == values


def test_random_arrays_depend_on_the_seed_alone():
    assert (only_array("f32[9]=random(3)") == only_array("f32[9]=random(3)")).all()
    assert (only_array("f32[9]=normal(3)") != only_array("f32[9]=normal(4)")).any()
    drawn = only_array("i64[50]=integers(1,-3,4)")
    assert drawn.min() >= -3 and drawn.max() < 4


def test_scalars_keep_their_type():
    assert parse_argument("i32=-5", []).parameters == [-5]
    (half,) = parse_argument("f16=0.1", []).parameters
    assert half.dtype == np.float16


def test_cutile_array_gives_pointer_sizes_and_strides():
    array, *rest = parse_argument("array:f32[4,6:8]=zeros", []).parameters
    assert array.shape == (4, 6) and rest == [4, 6, 8, 1]


def test_same_pointer_again():
    first = parse_argument("f32[8]=arange", [])
    again = parse_argument("&0+3", [first])
    assert np.shares_memory(again.array, first.array) and again.array[0] == 3
    with pytest.raises(UsageError, match="names no earlier argument"):
        parse_argument("&1", [first])


def test_file_is_read_and_reinterpreted(tmp_path):
    path = tmp_path / "bits.npy"
    np.save(path, np.array([0x3F80], np.uint16))
    assert only_array(f"@{path}").dtype == np.uint16
    assert float(only_array(f"bf16@{path}")[0]) == 1
    with pytest.raises(UsageError, match="has not the size of f32"):
        parse_argument(f"f32@{path}", [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "is not an argument"),
        ("q8=1", "unknown element type 'q8'"),
        ("f32[4=zeros", "missing ']'"),
        ("f32[4]=fibonacci", "unknown contents 'fibonacci'"),
        ("f32[8:4]=zeros", "size 8 exceeds 4"),
        ("f32=x", "takes numbers"),
    ],
)
def test_mistakes_are_named(text, message):
    with pytest.raises(UsageError, match=message):
        parse_argument(text, [])


def test_grid():
    assert parse_grid("2,3") == (2, 3)
    with pytest.raises(UsageError):
        parse_grid("0")


def test_run_prints_and_saves(tmp_path, capsys):
    path = tmp_path / "y.npy"
    arguments = ["f32[5]=arange", "f32[5]=ones", "f32=2", "i32=4"]
    assert main([SAXPY, "--entry", "saxpy", "--print", "1", "--save", f"1={path}", *arguments]) == 0
    assert capsys.readouterr().out == "argument 1: [1., 3., 5., 7., 1.]\n"
    assert np.load(path).tolist() == [1, 3, 5, 7, 1]


def test_failing_kernel_is_located_and_has_its_own_status(capsys):
    assert main([SAXPY, "f32[5]=arange", "f32[5]=ones", "f32=2", "i32=6"]) == 6
    error = capsys.readouterr().err
    assert "saxpy.mlir:" in error and "past the end of argument 0" in error


def test_compiled_kernel_runs_in_the_emulator(tmp_path, capsys):
    arguments = ["--backend", "emulate", "--print", "1", "f32[5]=arange", "f32[5]=ones", "f32=2", "i32=4"]
    assert main([SAXPY, *arguments]) == 0
    assert capsys.readouterr().out == "argument 1: [1., 3., 5., 7., 1.]\n"
    ptx = tmp_path / "saxpy.ptx"
    ptx.write_text(tileiras.compile(SAXPY, gpu_name="sm_80").text)
    assert main([str(ptx), *arguments]) == 0
    assert capsys.readouterr().out == "argument 1: [1., 3., 5., 7., 1.]\n"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--backend", "gpu"], 1, "invalid choice: 'gpu'"),
        (["--print", "3", "f32=1"], 1, "argument 3 is not an array"),
        (["--entry", "nothing", "f32=1"], 6, "no entry 'nothing'; the module has saxpy"),
        (["f32=1"], 6, "the entry has 4 parameters, got 1"),
        (["--backend", "emulate", "f64[1]=ones", "f32[1]=ones", "f32=1", "i32=1"], 6, "the parameter points to f32"),
    ],
)
def test_command_line_mistakes(capsys, arguments, status, message):
    assert main([SAXPY, *arguments]) == status
    assert message in capsys.readouterr().err


def test_broken_source_is_located(tmp_path, capsys):
    path = tmp_path / "broken.mlir"
    path.write_text("cuda_tile.module @m {\n  entry @k() {\n    %a = addf %b, %b : tile<f32>\n  }\n}\n")
    assert main([str(path)]) == 3
    assert "broken.mlir:3:" in capsys.readouterr().err


def test_no_driver_is_said_clearly(capsys):
    from ctypes.util import find_library

    if find_library("cuda"):
        pytest.skip("this machine has a CUDA driver")
    assert main([SAXPY, "--backend", "cuda", "f32[1]=ones", "f32[1]=ones", "f32=1", "i32=1"]) == 2
    assert "no CUDA driver here" in capsys.readouterr().err


@pytest.mark.parametrize("backend", ["interpret", "emulate"])
def test_what_the_kernel_prints_is_shown(tmp_path, capsys, backend):
    source = tmp_path / "print.mlir"
    source.write_text(
        '''cuda_tile.module @m {
  entry @k(%n: tile<i32>) {
    %t = print_tko "n=%d\\n", %n : tile<i32> -> token
    return
  }
}
'''
    )
    assert main([str(source), "--entry", "k", "--grid", "2", "--backend", backend, "i32=7"]) == 0
    assert capsys.readouterr().out == "n=7\nn=7\n"


def test_undefined_results_are_told(tmp_path, capsys):
    kernel = tmp_path / "quotient.mlir"
    kernel.write_text("""cuda_tile.module @m { entry @k(%r: tile<ptr<i32>>, %n: tile<i32>) {
      %one = constant <i32: 1> : tile<i32>
      %y = divi %one, %n signed : tile<i32>
      %s = store_ptr_tko weak %r, %y : tile<ptr<i32>>, tile<i32> -> token
      return
    } }""")
    for divisor, text in ((1, ""), (0, "warning: 1 of 2 elements of argument 0 are undefined by the specification\n")):
        assert main([str(kernel), "--entry", "k", "--grid", "1", "i32[2]=zeros", f"i32={divisor}"]) == 0
        assert capsys.readouterr().err == text


OUT_OF_BOUNDS = """\
cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>) {
    %far = constant <i32: 4000> : tile<i32>
    %q = offset %p, %far : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %v, %t = load_ptr_tko weak %q : tile<ptr<i32>> -> tile<i32>, token
    %u = store_ptr_tko weak %p, %v : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
"""


@pytest.mark.parametrize("backend", ["interpret", "emulate"])
def test_a_failing_access_is_shown_in_the_source(backend, tmp_path, capsys):
    path = tmp_path / "k.mlir"
    path.write_text(OUT_OF_BOUNDS)
    assert main([str(path), "--backend", backend, "i32[4]=zeros"]) == 6
    errors = capsys.readouterr().err
    assert f"{path}:5:14: error: " in errors and "is in no allocation" in errors
    assert "\n    %v, %t = load_ptr_tko weak %q" in errors
    if backend == "emulate":
        assert "note: at: ld.global.b32" in errors and "note: in thread (0, 0, 0) of block (0, 0, 0)" in errors
