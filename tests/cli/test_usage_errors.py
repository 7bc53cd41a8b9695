"""Command lines that are refused: unknown options, values and files, each in one message, as JSON too."""

import json

import pytest
from one_kernel import F32, compile

import tileiras
from tileiras.cli.tileiras import main
from tileiras.options import CPU_NAMES, GPU_NAMES


def test_inputs_are_not_overwritten(kernel, tmp_path, capsys):
    assert main([kernel, "--gpu-name=sm_90", "-o", f"./{kernel}"]) == 1
    assert main([kernel, "--gpu-name=sm_90", "-o", "out", "--depfile=./out"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "tileiras: the input and the output are one file: k.mlir",
        "tileiras: --depfile and the output are one file: out",
    ]
    assert (tmp_path / kernel).read_text() == F32 and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["-O9"], 2, "invalid optimization level: 9"),
        (["-O0", "--pass-pipeline=tileir{speed=3}"], 2, "'tileir' has no option 'speed'"),
    ],
)
def test_errors_before_the_compilation_are_structured_too(kernel, capsys, options, code, message):
    assert compile(kernel, "--diagnostics=json", *options) == code
    assert [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()] == [message]


@pytest.mark.parametrize("words", [
    ["--gpu-name=sm_91"], ["--gpu-name", "sm_70"], ["-arch=sm_90a"], ["--gpu-name="], ["--gpu-name"], [],
])  # fmt: skip
def test_gpus_are_listed_where_one_is_unknown_or_missing(kernel, capsys, words):
    for form in ([], ["--diagnostics=json"]):
        assert main([kernel, *form, *words]) in (1, 2)
        lines = capsys.readouterr().err.splitlines()
        notes = [note["message"] for line in lines for note in json.loads(line)["notes"]] if form else lines[1:]
        assert len(notes) == 1 and notes[0].endswith(f"gpu-name takes {', '.join((*GPU_NAMES, *CPU_NAMES))}")
    with pytest.raises(tileiras.CompileError, match="Supported: " + ", ".join((*GPU_NAMES, *CPU_NAMES))):
        tileiras.compile(F32, gpu_name="sm_91")


def test_other_choices_are_listed_too(kernel, capsys):
    assert main([kernel, "--emit=elf", "--pipeline-strategy=fast"]) == 1
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")] == [
        "note: --emit takes bytecode, cuda_tile, tileaa, tileas, llvm, ptx, cubin, sass, obj, so, fatbin",
        "note: --pipeline-strategy takes none, unspecialize, warp-specialize, auto",
    ]


USAGE = {
    "k.mlir --bogus --emit=x": ["Unknown command line argument '--bogus'.  Try: 'tileiras --help'",
                                "for the --emit option: Cannot find option named 'x'!"],
    "k.mlir k.mlir": ["Too many positional arguments specified!"],
    "": ["no input file provided"],
    "k.mlir -o k.mlir": ["the input and the output are one file: k.mlir"],
    "k.mlir --gpu-name=sm_90 -o - --depfile=d": ["--depfile needs an output file"],
    "absent.mlir": ["unable to read input file 'absent.mlir': No such file or directory"],
    "k.mlir --gpu-name=sm_90 --emit=tileaa -o nowhere/o": [
        "unable to open output file 'nowhere/o': No such file or directory"],
    "k.mlir --gpu-name=sm_90 --remarks=all --remark-format=yaml --remarks-output-file=nowhere/r": [
        "Error opening remark output file 'nowhere/r': No such file or directory",
        "failed to enable optimization remarks"],
    "--bogus --version": ["Unknown command line argument '--bogus'.  Try: 'tileiras --help'"],
    "@loop": [None],
}  # fmt: skip


@pytest.mark.parametrize("line", USAGE)
def test_mistakes_on_a_command_line_are_structured_too(kernel, tmp_path, capsys, line):
    """The option takes effect before the mistakes and after them."""
    (tmp_path / "loop").write_text("@loop")
    for words in (["--diagnostics=json", *line.split()], [*line.split(), "--diagnostics", "json"]):
        if line.endswith("--version") and words[-1] == "json":
            continue  # the program stops at --version
        main(words)
        result = [json.loads(text) for text in capsys.readouterr().err.splitlines()]
        assert [one["severity"] for one in result] == ["error"] * len(USAGE[line])
        assert all(expected in (None, one["message"]) for one, expected in zip(result, USAGE[line]))


@pytest.mark.parametrize("words, message", [
    (["a", "b"], "more than one input: 'a' and 'b'"), (["-o"], "-o needs a file name"),
    (["absent"], "cannot open input file 'absent': No such file or directory"),
    (["k.mlir", "-o", "k.mlir"], "the input and the output are one file: k.mlir"),
])  # fmt: skip
def test_those_of_tileiras_opt_as_well(kernel, capsys, words, message):
    from tileiras.cli import tileiras_opt

    assert tileiras_opt.main(["--diagnostics=json", *words]) == 1
    assert json.loads(capsys.readouterr().err) == {"severity": "error", "message": message}


@pytest.mark.parametrize("option, code, message", [
    ("--mlir-print-ir-after=UNKNOWN", 2, "for the --mlir-print-ir-after option: 'UNKNOWN' does not refer"),
    ("--mlir-print-ir-before=cse,nosuch", 2, "for the --mlir-print-ir-before option: 'nosuch' does not refer"),
    ("--pass-pipeline=tileir{=3}", 2, "expected the name of an option of 'tileir' at '=3'"),
    ("--child-timeout=-1", 2, "invalid value for option 'child-timeout': -1; accepted: an integer from 0 on"),
    ("--rrt-size-threshold=-1", 2, "invalid value for option 'rrt-size-threshold': -1"),
    ("--num-warps=-4", 2, "invalid value for option 'num-warps': -4"),
    ("--unspecialized-pipeline-num-stages=-1", 2, "invalid value for option 'unspecialized-pipeline-num-stages': -1"),
    ("--ptxas-options='", 2, "value invalid for option 'ptxas-options': no closing quotation"),
    ("--ptx-version=-8.1", 2, "invalid value for option 'ptx-version': -8.1"),
])  # fmt: skip
def test_values_that_mean_nothing_are_refused(kernel, tmp_path, capsys, option, code, message):
    assert compile(kernel, option) == code
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()
