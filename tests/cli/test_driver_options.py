"""Our own options of the command: what it prints, keeps and hands on."""

import json
import os
import re
import subprocess
from pathlib import Path

import both_ways
import pytest
from invocations import KERNEL

import tileiras
from tileiras.cli.tileiras import main
from tileiras.options import GPU_NAMES

F32 = KERNEL.replace("TYPE", "f32")


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.mlir").write_text(F32)
    return "k.mlir"


def compile(kernel: str, *options: str, emit: str = "ptx") -> int:
    return main([kernel, "--gpu-name=sm_90", f"--emit={emit}", "-o", "out", *options])


def test_a_link_is_written_through(kernel, tmp_path):
    (tmp_path / "out").symlink_to("target")
    assert compile(kernel) == 0
    assert (tmp_path / "out").is_symlink() and b".visible .entry k" in (tmp_path / "target").read_bytes()


def test_standard_output_is_no_file_to_replace(kernel, tmp_path):
    with open(tmp_path / "shown", "wb") as file:
        run = [*both_ways.command("tileiras"), kernel, "--gpu-name=sm_90", "--emit=ptx"]
        path = os.path.dirname(os.path.dirname(tileiras.__file__))
        subprocess.run([*run, "-o", "/dev/stdout"], stdout=file, check=True, env={**os.environ, "PYTHONPATH": path})
    assert os.path.islink("/dev/stdout") and b".visible .entry k" in (tmp_path / "shown").read_bytes()


def test_lines_are_asked_for_in_either_spelling(kernel, tmp_path):
    made = set()
    for option in ("--lineinfo", "--line-info", "-line-info=true"):
        assert compile(kernel, option) == 0
        made.add((tmp_path / "out").read_bytes())
    (text,) = made
    assert b"\t.loc\t" in text
    assert compile(kernel, "--line-info=false") == 0 and b".loc" not in (tmp_path / "out").read_bytes()


def test_libdevice_can_be_left_to_blobs(kernel, tmp_path, capsys):
    text = F32.replace("%t2 =", "%w = sin %v : tile<16xf32>\n    %t2 =").replace("%a, %v", "%a, %w")
    (tmp_path / kernel).write_text(text)
    assert compile(kernel) == 0
    made = (tmp_path / "out").read_bytes()
    assert compile(kernel, "--libdevice=explicit") == 5
    assert "error: Unresolved extern function '__nv_sinf'" in capsys.readouterr().err
    from tileiras.codegen import libdevice

    assert compile(kernel, "--libdevice=explicit", f"--blob-linked-lib={libdevice.find().path}") == 0
    assert (tmp_path / "out").read_bytes() == made


def dumps(text: str) -> list[str]:
    return [line.split()[-2] for line in text.splitlines() if line.startswith("// *** IR Dump After")]


PASSES = [
    "convert-cudatile-to-tileaa", "canonicalize", "cse", "tileas-plan-cta", "tileas-legalize-scaled-dot",
    "tileas-assign-num-warps", "tileas-slice-dots", "tileas-slicing", "convert-tileaa-to-tileas",
    "tileas-assign-dot-layouts", "tileas-assign-load-store-layouts", "tileas-remove-layout-conversions", "cse", "dce",
    "tileas-reuse-loads", "tileas-lower-occupancy", "tileas-sink-loads", "tileas-lower-occupancy",
    "tileas-mark-short-loops", "tileas-smem-operands", "tileas-generate-schedule", "tileas-unspecialized-pipeline",
    "tileas-smem-operands", "tileas-spill-loop-carried", "tileas-smem-operands", "cse", "tileas-roll-mma-dot",
    "tileas-legalize-fma-dot", "lower-tma-load-store-to-async", "tileas-attach-tma-desc-args",
    "tileas-materialize-convert-layout", "tileas-optimize-alloc-tensor", "tileas-rematerialize",
    "tileas-insert-barriers", "tileas-assign-launch-bounds", "tileir-verify-ops-analysis", "convert-tileas-to-llvm",
]  # fmt: skip


def test_the_module_is_printed_after_every_pass(kernel, capsys):
    assert compile(kernel, "--mlir-print-ir-after-all") == 0
    printed = capsys.readouterr().err
    assert [name for name in dumps(printed) if name in PASSES] == PASSES
    assert "nv_tileaa.func @k" in printed and "llvm.func @k" in printed


def test_passes_of_debug_information_are_seen(kernel, capsys):
    assert compile(kernel, "--mlir-print-ir-after-all", "--lineinfo") == 0
    found = dumps(capsys.readouterr().err)
    assert found[:3] == ["synthesize-debug-info-scopes", "convert-cudatile-to-tileaa", "tileir-insert-debug-scope"]
    assert compile(kernel, "--mlir-timing", "-g", "-O0", "--sanitize=memcheck") == 0
    names = [line.split()[-1] for line in capsys.readouterr().err.splitlines()]
    passes = ["synthesize-debug-info-scopes", "instrument-memcheck", "convert-cudatile-to-tileaa"]
    assert [name for name in names if name in passes] == passes
    assert "debuginfo-describe-parameters" in names and "convert-debuginfo-to-llvm" in names


def test_only_changes_are_printed(kernel, capsys):
    assert compile(kernel, "--mlir-print-ir-after-change") == 0
    found = dumps(capsys.readouterr().err)
    assert found[0] == PASSES[0] and "dce" not in found


def test_the_module_is_printed_after_the_pass_named(kernel, capsys):
    assert compile(kernel, "--mlir-print-ir-after=dce,convert-tileaa-to-tileas") == 0
    assert dumps(capsys.readouterr().err) == ["convert-tileaa-to-tileas", "dce"]


@pytest.mark.in_process
def test_what_a_failed_pass_leaves_is_printed(kernel, capsys, monkeypatch):
    from tileiras.diagnostics import CompileError
    from tileiras.passes.dce import DeadCodeElimination

    def fail(self, op, context):
        raise CompileError.at(op.location, "no more")

    monkeypatch.setattr(DeadCodeElimination, "run", fail)
    assert compile(kernel, "--mlir-print-ir-after-failure", "--mlir-print-stacktrace-on-diagnostic") == 5
    printed = capsys.readouterr().err
    assert "IR Dump After dce Failed" in printed and '"nv_tileaa.func"' in printed
    assert "error: no more" in printed and "note: diagnostic emitted with trace:" in printed
    assert printed.endswith("error: failed to compile Tile IR program\n")


def test_times_have_passes_and_tools(kernel, capsys):
    assert compile(kernel, "--mlir-timing") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("   ---Wall Time---")
    names = [line.split(")", 1)[1].strip() for line in lines[1:]]
    assert names[0].startswith("read: ") and names[-2].startswith("ptx: ") and names[-1] == "Total"
    assert [name for name in names if name in PASSES] == PASSES


def test_what_stages_make_is_kept_beside_the_output(kernel, tmp_path):
    (tmp_path / "made").mkdir()
    assert main([kernel, "--gpu-name=sm_90", "--emit=ptx", "--save-temps", "-o", "made/out.ptx"]) == 0
    assert sorted(os.listdir("made")) == [
        "k.cuda_tile.mlir", "k.json", "k.ll", "k.llvm.mlir", "k.ptx", "k.tileaa.mlir", "k.tileas.mlir", "out.ptx",
    ]  # fmt: skip
    assert (tmp_path / "made" / "k.ptx").read_bytes() == (tmp_path / "made" / "out.ptx").read_bytes()


def test_the_ptx_that_ptxas_refuses_is_kept(ptxas, kernel, capsys):
    assert compile(kernel, "--save-temps", "--ptxas-options=--no-such-option", emit="cubin") == 5
    assert "no-such-option" in capsys.readouterr().err
    assert os.path.exists("k.ptx") and not os.path.exists("out")


@pytest.mark.parametrize("pipeline", ["tileir{num-warps=8}", "builtin.module(tileir{num-warps=8})"])
def test_the_documented_pipeline_sets_options(kernel, tmp_path, pipeline):
    assert compile(kernel, f"--pass-pipeline={pipeline}", emit="tileas") == 0
    assert "numWarps = 8" in (tmp_path / "out").read_text()


def test_the_command_line_overrides_the_braces(kernel, tmp_path):
    braces = "--pass-pipeline=tileir{num-warps=8 compute-capability=sm_80 opt-level=1}"
    assert compile(kernel, braces, "--num-warps=2") == 0
    text = (tmp_path / "out").read_text()
    assert ".target sm_90" in text and ".reqntid 64" in text
    assert main([kernel, braces, "--emit=ptx", "-o", "out"]) == 0
    text = (tmp_path / "out").read_text()
    assert ".target sm_80" in text and ".reqntid 256" in text


MATMUL = Path(__file__).parents[2] / "examples" / "matmul_f32.mlir"

DIFFERENCES = (
    "remark: the command's defaults differ from those documented for 'tileir': num-warps is chosen, not 4; num-ctas is "
    "chosen, not 1; pipeline-strategy is auto, not none; unspecialized-pipeline-num-stages is chosen, not 4\n"
)


def test_watching_the_documented_pipeline_does_not_change_the_code(kernel, tmp_path, capsys):
    """The documented default of `pipeline-strategy` would turn the pipelining of loads off."""
    assert compile(str(MATMUL)) == 0
    plain = (tmp_path / "out").read_bytes()
    assert b"cp.async" in plain and capsys.readouterr().err == ""
    assert compile(str(MATMUL), "--pass-pipeline=tileir{schedule-trace-file=trace.json}") == 0
    assert (tmp_path / "out").read_bytes() == plain and (tmp_path / "trace.json").exists()
    assert capsys.readouterr().err == DIFFERENCES


def test_what_was_asked_for_is_no_difference(kernel, tmp_path, capsys):
    asked = "tileir{num-warps=4 num-ctas=1 pipeline-strategy=none}"
    pipeline = (f"--pass-pipeline={asked}", "--unspecialized-pipeline-num-stages=4")
    assert compile(str(MATMUL), *pipeline) == 0
    assert b"cp.async" not in (tmp_path / "out").read_bytes() and capsys.readouterr().err == ""
    assert compile(str(MATMUL), "--pass-pipeline=tileir", "--pipeline-strategy=none", "--num-warps=4") == 0
    assert capsys.readouterr().err == (
        "remark: the command's defaults differ from those documented for 'tileir': num-ctas is chosen, not 1; "
        "unspecialized-pipeline-num-stages is chosen, not 4\n"
    )


@pytest.mark.parametrize("pipeline, message", [
    ("canonicalize", "expected 'tileir{key=value ...}', got 'canonicalize'"),
    ("tileir{num-warp=8}", "'tileir' has no option 'num-warp' (did you mean 'num-warps'?)"),
    ("tileir{num-warps=many}", "'many' value invalid for option 'num-warps' of 'tileir'; accepted: an integer"),
])  # fmt: skip
def test_other_pipelines_are_refused(kernel, capsys, pipeline, message):
    assert compile(kernel, f"--pass-pipeline={pipeline}") == 2
    assert capsys.readouterr().err == f"error: {message}\n"


def test_the_default_capability_of_the_pipeline_is_no_choice(kernel, capsys):
    assert main([kernel, "--pass-pipeline=tileir{num-warps=8}"]) == 2
    assert "GPU architecture sm_0 is not supported" in capsys.readouterr().err


def test_messages_are_objects_with_json(kernel, capsys):
    with open(kernel, "w") as file:
        file.write(KERNEL.replace("TYPE", "f8E4M3FN"))
    assert main([kernel, "--gpu-name=sm_80", "--diagnostics=json"]) == 5
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(d["severity"], d["message"]) for d in said] == [
        ("error", "Incompatibility with architecture 'sm_80': unsupported type 'f8E4M3FN'"),
        ("error", "failed to compile Tile IR program"),
    ]
    assert (said[0]["file"], said[0]["line"]) == ("k.mlir", 4)


def test_remarks_are_printed_when_asked_for(kernel, capsys):
    assert compile(kernel, "--num-ctas=2") == 0
    assert capsys.readouterr().err == ""
    assert compile(kernel, "--num-ctas=2", "--remarks=kernel") == 0
    category = capsys.readouterr().err.split("in function: k:")[1].split("category: Kernel")[1]
    assert 'remark[analysis]: the cluster\'s 2 CTAs share the 16 tile\n      --> "k.mlir":8:11' in category


def test_remarks_of_a_category_and_kind_are_printed(kernel, capsys):
    assert compile(kernel, "--remarks-passed=memory", "--remark-format=command-line") == 0
    printed = capsys.readouterr().err
    assert printed.startswith("in function: k:\n\n  category: Memory\n    remark[passed]: Load instruction selected\n")
    assert "remark[missed]" not in printed and "category: Kernel" not in printed


def test_remarks_are_written_as_yaml(kernel, capsys):
    assert compile(kernel, "--remarks=all", "--remark-format=yaml", "--remarks-output-file=r.yaml") == 0
    assert capsys.readouterr().err == ""
    with open("r.yaml") as file:
        assert "--- !Passed\nPass:            Memory\nName:            RemarkMemoryLoad" in file.read()


def test_the_store_of_one_run_can_be_named(kernel, monkeypatch):
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", "off")
    assert compile(kernel, "--cache=store") == 0
    assert os.path.isdir("store")


def test_the_version_names_the_build(capsys):
    assert main(["--version"]) == 0
    first, versions, build = capsys.readouterr().out.splitlines()
    assert first == f"tileiras {tileiras.__version__}" and versions == "Tile IR bytecode 13.1 to 13.5"
    assert re.fullmatch("Build [0-9a-f]{16}", build)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.splitlines()[2] == build


# What each option that watches puts on standard error: the start of its lines.
WATCHING = {
    "--mlir-print-ir-before=cse": "// *** IR Dump Before cse ***",
    "--mlir-print-ir-after-change": "// *** IR Dump After convert-tileas-to-llvm ***",
    "--mlir-timing": "   ---Wall Time---",
    "--diagnostics=json": None,
    "--remarks=all": '{"severity": "remark"',
    "--verify-each": None,
    "--save-temps": None,
    "--mlir-print-ir-after-failure": None,
    "--mlir-pass-pipeline-crash-reproducer=reproducer.mlir": None,
}


def test_what_watches_a_compilation_does_so_together_and_changes_nothing(kernel, capsys, tmp_path):
    assert compile(kernel) == 0
    alone, said = (tmp_path / "out").read_bytes(), capsys.readouterr().err
    assert said == ""
    assert compile(kernel, *WATCHING) == 0
    assert (tmp_path / "out").read_bytes() == alone
    lines = capsys.readouterr().err.splitlines()
    for option, start in WATCHING.items():
        assert start is None or any(line.startswith(start) for line in lines), option
    remarks = [json.loads(line) for line in lines if line.startswith('{"severity"')]
    assert {remark["category"] for remark in remarks} == {"memory", "kernel"}
    assert all(remark["file"] == "k.mlir" and remark["line"] for remark in remarks)
    assert "dce" not in dumps("\n".join(lines)), "which changes nothing here"
    assert os.path.exists("k.tileas.mlir") and not os.path.exists("reproducer.mlir")


@pytest.mark.in_process
def test_what_watches_a_compilation_that_fails_says_where_and_what_was_left(kernel, capsys, monkeypatch):
    """A pass that leaves something invalid: its snapshot, the verifier's words, the reproducer, and the times."""
    from tileiras.passes.dce import DeadCodeElimination

    def leave_half_an_operation(self, op, context):
        store = next(inner for inner in op.walk() if inner.name == "nv_tileas.store")
        store.operands = store.operands[1:]

    monkeypatch.setattr(DeadCodeElimination, "run", leave_half_an_operation)
    assert compile(kernel, *WATCHING) == 5
    lines = capsys.readouterr().err.splitlines()
    places = {
        what: next(number for number, line in enumerate(lines) if what in line)
        for what in ("IR Dump After dce ***", "IR Dump After dce Failed", "between-pass verifier", "Wall Time")
    }
    assert places["IR Dump After dce ***"] < places["IR Dump After dce Failed"] < places["between-pass verifier"]
    errors = [json.loads(line) for line in lines if line.startswith('{"severity": "error"')]
    assert [error["message"] for error in errors][1:] == [
        "between-pass verifier rejected IR after 'dce'", "failed to compile Tile IR program",
    ]  # fmt: skip
    assert errors[0]["line"] and "'nv_tileas.store' op" in errors[0]["message"]
    assert errors[1]["notes"][-1]["message"] == "reproducer generated at `reproducer.mlir`"
    with open("reproducer.mlir") as file:
        assert file.readline().startswith("// tileiras-opt reproducer.mlir --pass-pipeline='builtin.module(dce)'")


def test_a_refused_operation_of_bytecode_is_named_when_nothing_says_its_line(tmp_path, capsys):
    from tileiras.bytecode import Version, write_module
    from tileiras.ir import UnknownLoc, parse_module

    module = parse_module(F32.replace("f32", "f8E4M3FN"), "k.mlir")
    for op in module.walk():
        op.location = UnknownLoc()
    (tmp_path / "k.tileirbc").write_bytes(write_module(module, Version.parse("13.1")))
    arguments = [str(tmp_path / "k.tileirbc"), "--gpu-name=sm_80", "-o", str(tmp_path / "out")]
    assert main(arguments) == 5
    first, place, *_, last = capsys.readouterr().err.splitlines()
    assert first == "error: Incompatibility with architecture 'sm_80': unsupported type 'f8E4M3FN'"
    assert re.fullmatch(r"note: in .*k\.tileirbc: offset \d+ in function section, 'cuda_tile\.\w+' of '@k'", place)
    assert last == "error: failed to compile Tile IR program"


@pytest.mark.in_process
def test_columns_of_python_are_those_of_the_bytecode():
    from tileiras.cli.messages import render_for_bytecode
    from tileiras.diagnostics import Diagnostic, Severity
    from tileiras.ir import FileLineColLoc

    told = [Diagnostic(Severity.ERROR, FileLineColLoc(name, 3, 5), "no") for name in ("absent.py", "absent.mlir")]
    assert render_for_bytecode(told).splitlines() == [
        'loc("absent.py":3:4): error: no', 'loc("absent.mlir":3:5): error: no',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ["k.mlir:1:1: error: expected one cuda_tile.module, found none"]),
        ("cuda_tile.module @m {\n  entri @k() {\n", [
            "k.mlir:2:3: error: custom op 'entri' is unknown (tried 'cuda_tile.entri' as well); did you mean 'entry'?",
            "  entri @k() {", "  ^",
        ]),
        ("cuda_tile.module @m {\n  frobnicate @k() {\n", [
            "k.mlir:2:3: error: custom op 'frobnicate' is unknown (tried 'cuda_tile.frobnicate' as well)",
            "  frobnicate @k() {", "  ^",
        ]),
    ],
)  # fmt: skip
def test_what_is_shown_of_a_text_is_what_helps(kernel, capsys, text, said):
    with open(kernel, "w") as file:
        file.write(text)
    assert compile(kernel) == 3
    assert capsys.readouterr().err.splitlines() == said


def test_hidden_options_are_shown_to_those_who_ask(capsys):
    def names(word):
        assert main([word]) == 0
        rows = re.findall(r"^  (-.*?) +- ", capsys.readouterr().out, re.MULTILINE)
        return {spelling for row in rows for spelling in re.findall(r"-[\w-]+", row)}

    shown, everything = names("--help"), names("--help-hidden")
    assert {"--gpu-name", "--apply-controls"} <= shown == names("--help-list")
    assert everything - shown >= {"--print-options", "--help-hidden", "-w"} and everything == names("-help-list-hidden")
    assert shown < everything


TWO = "cuda_tile.module @m {\n  entry @first() {\n    return\n  }\n  entry @second() {\n    return\n  }\n}\n"


@pytest.mark.parametrize("text, ptx", [(F32, "kept/k.ptx"), (TWO, "kept/two.linked.ptx")])
def test_the_command_to_reproduce_runs_on_what_is_kept(tmp_path, monkeypatch, capsys, text, ptx):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.mlir").write_text(text)
    (tmp_path / "kept").mkdir()
    script = tmp_path / "ptxas"
    body = "test $1 = --version && exit\neval last=\\${$(($# - 2))}\ngrep .version $last\nexit 3\n"
    script.write_text(f"#!/bin/sh\n{body}")
    script.chmod(0o755)
    words = ["two.mlir", "--gpu-name=sm_80", "--ptxas=./ptxas", "--save-temps", "--cache=off", "-o", "kept/out"]
    assert main(words) == 5
    said = capsys.readouterr().err
    (command,) = re.findall(r"^note: reproduce: (ptxas .*)$", said, re.MULTILINE)
    assert f" {ptx} -o kernel.cubin" in command and "ptxas failed with exit status 3\n.version 9.2\n" in said
    done = subprocess.run(f"./{command}", shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, ".version 9.2\n")


@pytest.mark.parametrize("change, message", [
    (lambda text: b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"), ""),
    (lambda text: b"// caf\xe9\n" + text, "k.mlir:1:7: error: text is read as UTF-8, which has no byte 0xe9 here"),
    (lambda text: text.decode().encode("utf-16"), "k.mlir:1:1: error: text is read as UTF-8, not as UTF-16"),
])  # fmt: skip
def test_text_is_utf_8(kernel, tmp_path, capsys, change, message):
    (tmp_path / kernel).write_bytes(change(F32.encode()))
    assert compile(kernel) == (3 if message else 0)
    assert capsys.readouterr().err.partition("\n")[0] == message


def test_nothing_is_written_over_what_is_read(kernel, tmp_path, capsys):
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
def test_what_ends_a_command_before_it_compiles_is_structured_too(kernel, capsys, options, code, message):
    assert compile(kernel, "--diagnostics=json", *options) == code
    assert [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()] == [message]


@pytest.mark.parametrize("words", [
    ["--gpu-name=sm_91"], ["--gpu-name", "sm_70"], ["-arch=sm_90a"], ["--gpu-name="], ["--gpu-name"], [],
])  # fmt: skip
def test_gpus_are_listed_where_one_is_unknown_or_missing(kernel, capsys, words):
    for form in ([], ["--diagnostics=json"]):
        assert main([kernel, *form, *words]) in (1, 2)
        said = capsys.readouterr().err.splitlines()
        notes = [note["message"] for line in said for note in json.loads(line)["notes"]] if form else said[1:]
        assert len(notes) == 1 and notes[0].endswith(f"gpu-name takes {', '.join(GPU_NAMES)}")
    with pytest.raises(tileiras.CompileError, match="Supported: " + ", ".join(GPU_NAMES)):
        tileiras.compile(F32, gpu_name="sm_91")


def test_other_choices_are_listed_too(kernel, capsys):
    assert main([kernel, "--emit=elf", "--pipeline-strategy=fast"]) == 1
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")] == [
        "note: --emit takes bytecode, cuda_tile, tileaa, tileas, llvm, ptx, cubin, sass",
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
    """Wherever the option stands, in front of the mistakes or behind them."""
    (tmp_path / "loop").write_text("@loop")
    for words in (["--diagnostics=json", *line.split()], [*line.split(), "--diagnostics", "json"]):
        if line.endswith("--version") and words[-1] == "json":
            continue  # the program stops at --version
        main(words)
        said = [json.loads(text) for text in capsys.readouterr().err.splitlines()]
        assert [one["severity"] for one in said] == ["error"] * len(USAGE[line])
        assert all(expected in (None, one["message"]) for one, expected in zip(said, USAGE[line]))


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
