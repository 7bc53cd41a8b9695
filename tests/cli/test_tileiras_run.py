"""The argument language and the exit codes of tileiras-run."""

import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tileiras
from tileiras.cli.tileiras_run import UsageError, main, parse_argument, parse_grid
from tileiras.targets.cpu import TARGETS, host

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
        ("f32[-4]=zeros", r"size -4 is negative in 'f32\[-4\]'"),
        ("f32[4:-4]=zeros", "size -4 is negative"),
        ("f32[-2:-1]=zeros", "size -2 is negative"),
        ("f32[99999999999999]=zeros", "not enough memory"),
        ("f32[99999999999999,99999999999999]=zeros", "not enough memory"),
        ("f32=x", "takes numbers"),
        ("i8=300", "300 does not fit i8"),
        ("i8=-129", "-129 does not fit i8"),
        ("i1=7", "7 does not fit i1"),
        ("i32=99999999999", "99999999999 does not fit i32"),
        ("i64=18446744073709551616", "does not fit i64"),
        ("i32=1.5", "i32 takes integers, got 1.5"),
        ("i32=nan", "i32 takes integers, got nan"),
        ("i8[4]=full(300)", "300 does not fit i8"),
        ("i32[4]=full(1e400)", "i32 takes integers, got inf"),
        ("i32[4]=full(0.5)", "i32 takes integers, got 0.5"),
        ("i8[300]=arange", "299 does not fit i8"),
        ("i8[4]=arange(-126,-1)", "-129 does not fit i8"),
        ("i32[4]=arange(0,0.5)", "i32 takes integers, got 0.5"),
        ("i8[400]=integers(1,0,1000)", "does not fit i8"),
        ("i32[4]=integers(1,5,2)", "LOW is less than HIGH"),
        ("i32[4]=integers(1,0,99999999999999999999)", "does not fit i64"),
        ("i32[4]=integers(-1,0,4)", "a seed is an integer that is not negative, got -1"),
        ("f32[4]=random(-1)", "a seed is an integer that is not negative, got -1"),
        ("f32[4]=normal(0.5)", "a seed is an integer that is not negative, got 0.5"),
        ("f32[4]=zeros(", r"missing '\)'"),
        ("@absent.npy", "cannot read 'absent.npy': No such file or directory$"),
        (f"@{__file__}", "it is no array of numbers"),
        ("@/dev/null", "it is no array of numbers"),
        ("&-1", "names no earlier argument"),
    ],
)
def test_mistakes_are_named(text, message):
    with pytest.raises(UsageError, match=message):
        parse_argument(text, [])


def test_numbers_fit_in_either_sign():
    assert parse_argument("i8=255", []).parameters == [255]
    assert only_array("i8[2]=full(0xff)").tolist() == [-1, -1]
    assert only_array("i64[1]=full(-9223372036854775808)").tolist() == [-(2**63)]
    assert only_array("i1[2]=ones").tolist() == [True, True]
    assert only_array("f16[2]=full(-inf)").tolist() == [-np.inf, -np.inf]
    (nan,) = parse_argument("f32=nan", []).parameters
    assert nan.dtype == np.float32 and np.isnan(nan)


def test_a_pointer_stays_in_its_array():
    first = parse_argument("f32[8]=arange", [])
    assert parse_argument("&0+7", [first]).array.tolist() == [7]
    for text, message in (("&0+8", "behind the 8 elements of argument 0"), ("&0+-1", "names no earlier argument")):
        with pytest.raises(UsageError, match=message):
            parse_argument(text, [first])


TWO = """\
cuda_tile.module @m {
  entry @first(%p: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>, %q: tile<ptr<f32>>) {
    %a = assume div_by<16>, %p : tile<ptr<f32>>
    %b = assume div_by<8>, %s : tile<i32>
    %c = assume div_by<16>, %q : tile<ptr<f32>>
    %v, %t = load_ptr_tko weak %q : tile<ptr<f32>> -> tile<f32>, token
    %u = store_ptr_tko weak %p, %v : tile<ptr<f32>>, tile<f32> -> token
    return
  }
  entry @second(%n: tile<i32>) {
    return
  }
}
"""


@pytest.fixture
def two(tmp_path):
    path = tmp_path / "two.mlir"
    path.write_text(TWO)
    return str(path)


@pytest.mark.parametrize("backend", ["interpret", "emulate"])
def test_an_entry_that_is_not_named_is_asked_for(two, tmp_path, capsys, backend):
    assert main([two, "--backend", backend, "i32=1"]) == 1
    assert capsys.readouterr().err == "tileiras-run: error: --entry must be one of first, second\n"
    if backend == "emulate":
        ptx = tmp_path / "two.ptx"
        ptx.write_text(tileiras.compile(two, gpu_name="sm_80").text)
        assert main([str(ptx), "--backend", backend, "i32=1"]) == 1
        assert "--entry must be one of first, second" in capsys.readouterr().err
        ptx.write_bytes(b"\xff\xfe")
        assert main([str(ptx), "--backend", backend, "i32=1"]) == 3
        ptx.unlink()
        assert main([str(ptx), "--backend", backend, "i32=1"]) == 1
        assert f"unable to read input file '{ptx}': No such file" in capsys.readouterr().err


@pytest.mark.parametrize("backend", ["interpret", "emulate"])
def test_missing_arguments_suggest_arrays_of_cutile_python(two, capsys, backend):
    words = [two, "--backend", backend, "--entry", "first"]
    assert main([*words, "f32[8]=ones", "f32[4]=ones"]) == 1
    error, note = capsys.readouterr().err.splitlines()
    assert error == "tileiras-run: error: the entry has 4 parameters, got 2 arguments"
    assert note.startswith("note: ") and note.endswith("array:f32[64]=zeros") and "such an argument" in note
    assert main([*words, "f32[8]=ones", "i32=3"]) == 1
    assert "prefix each with array:" in capsys.readouterr().err
    assert main([two, "--backend", backend, "--entry", "second", "i32=3", "i32=3"]) == 1
    assert capsys.readouterr().err == "tileiras-run: error: the entry has 1 parameter, got 2 arguments\n"


@pytest.mark.parametrize("assumed, said", [
    ("%q", "it is argument 1"), ("%n", "it is size 0 of argument 0"), ("%s", "it is stride 0 of argument 0"),
    ("%o", "it points into argument 0"), ("%p", ""),
])  # fmt: skip
def test_a_failed_assumption_names_its_argument(tmp_path, capsys, assumed, said):
    """The message has the number of the ARG, not of the parameter."""
    kind = "i32" if assumed in ("%n", "%s") else "ptr<f32>"
    path = tmp_path / "k.mlir"
    path.write_text(f"""cuda_tile.module @m {{
      entry @k(%p: tile<ptr<f32>>, %n: tile<i32>, %s: tile<i32>, %q: tile<ptr<f32>>) {{
        %o = offset %q, %s : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
        %a = assume div_by<16>, {assumed} : tile<{kind}>
        return
      }} }}""")
    assert main([str(path), "array:f32[20]=ones", "&0+1"]) == (6 if said else 0)
    errors = capsys.readouterr().err
    assert ("which does not hold: the value has element" in errors and said in errors) if said else errors == ""


@pytest.mark.parametrize("backend", ["interpret", "emulate"])
def test_messages_count_arguments_as_the_command_line_does(tmp_path, capsys, backend):
    path = tmp_path / "k.mlir"
    path.write_text(OUT_OF_BOUNDS.replace("@k(", "@k(%a: tile<ptr<i32>>, %n: tile<i32>, %s: tile<i32>, ")
                    .replace("4000", "4"))  # fmt: skip
    assert main([str(path), "--backend", backend, "array:i32[4]=zeros", "i32[4]=zeros"]) == 6
    assert "past the end of argument 1 (16 bytes)" in capsys.readouterr().err
    assert main([str(path), "--backend", backend, "array:i32[4]=zeros", "f32[4]=zeros"]) == 1
    assert "argument 1 is an array of float32" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["pipe", "full", "closed"])
def test_output_without_a_reader_is_no_traceback(target):
    words = [sys.executable, "-m", "tileiras.cli.tileiras_run", SAXPY, "--print", "1", "f32[4]=ones", "f32[4]=ones",
             "f32=1", "i32=4"]  # fmt: skip
    path = str(Path(tileiras.__file__).resolve().parents[1])
    how = {"env": {**os.environ, "PYTHONPATH": path}, "stderr": subprocess.PIPE, "text": True, "check": False}
    if target == "pipe":
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(words, stdout=writing, **how)
        os.close(writing)
        assert (done.returncode, done.stderr) == (2, "")
    elif target == "full":
        with open("/dev/full", "wb") as full:
            done = subprocess.run(words, stdout=full, **how)
        assert (done.returncode, done.stderr) == (1, "tileiras-run: error: No space left on device\n")
    else:
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *words], **how)
        assert (done.returncode, done.stderr) == (0, "")


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


@pytest.mark.skipif(host() is None, reason="no target for this machine")
def test_a_kernel_for_the_cpu_runs_in_threads(capsys, monkeypatch):
    arguments = ["--grid", "3", "--print", "1", "f32[3000]=ones", "f32[3000]=ones", "f32=2", "i32=3000"]
    assert main([SAXPY, "--backend", "cpu", "--threads", "2", *arguments]) == 0
    assert "argument 1: [3., 3., 3.," in capsys.readouterr().out
    assert main([SAXPY, "--backend", "cpu", "--threads", "0", *arguments]) == 1
    assert "at least one thread" in capsys.readouterr().err
    assert main([SAXPY, "--threads", "2", *arguments]) == 1
    assert "--threads is for --backend cpu" in capsys.readouterr().err
    monkeypatch.setattr("tileiras.targets.cpu.host", lambda: TARGETS["cpu-x86-64-v3"])
    assert main([SAXPY, "--backend", "cpu", "--gpu-name", "cpu-x86-64-v4", *arguments]) == 2
    assert "this machine lacks instructions of cpu-x86-64-v4" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--backend", "gpu"], 1, "invalid choice: 'gpu'"),
        ([], 1, "the entry has 4 parameters, got 0 arguments"),
        (["--print", "3", "f32=1"], 1, "argument 3 is not an array"),
        (["--entry", "nothing", "f32=1"], 1, "no entry 'nothing'; the module has saxpy"),
        (["f32=1"], 1, "the entry has 4 parameters, got 1"),
        (["--backend", "emulate", "f64[1]=ones", "f32[1]=ones", "f32=1", "i32=1"], 1, "the parameter points to f32"),
        (["f32[1]=ones", "f32[1]=ones", "f32=1", "i64=99999999999"], 1, "argument 3: 99999999999 does not fit i32"),
        (["f32[1]=ones", "f32[1]=ones", "f32=1", "i32=1", "--grid", "99999999"], 1, "a grid has one to three sizes"),
        (["--gpu-name=sm_1", "--backend=emulate", "f32[1]=ones", "f32[1]=ones", "f32=1", "i32=1"], 2, "Supported: sm"),
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
def test_prints_of_the_kernel_are_shown(tmp_path, capsys, backend):
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


def test_undefined_results_are_reported(tmp_path, capsys):
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
