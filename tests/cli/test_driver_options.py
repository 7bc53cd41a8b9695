"""Our own options of the command: output, files that are kept, values that are handed on."""

import json
import os
import re
import subprocess
from pathlib import Path

import both_ways
import pytest
from invocations import KERNEL
from one_kernel import F32, compile

import tileiras
from tileiras.cli.tileiras import main


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
    result = set()
    for option in ("--lineinfo", "--line-info", "-line-info=true"):
        assert compile(kernel, option) == 0
        result.add((tmp_path / "out").read_bytes())
    (text,) = result
    assert b"\t.loc\t" in text
    assert compile(kernel, "--line-info=false") == 0 and b".loc" not in (tmp_path / "out").read_bytes()


def test_libdevice_can_be_left_to_blobs(kernel, tmp_path, capsys):
    text = F32.replace("%t2 =", "%w = sin %v : tile<16xf32>\n    %t2 =").replace("%a, %v", "%a, %w")
    (tmp_path / kernel).write_text(text)
    assert compile(kernel) == 0
    data = (tmp_path / "out").read_bytes()
    assert compile(kernel, "--libdevice=explicit") == 5
    assert "error: Unresolved extern function '__nv_sinf'" in capsys.readouterr().err
    from tileiras.codegen import libdevice

    assert compile(kernel, "--libdevice=explicit", f"--blob-linked-lib={libdevice.find().path}") == 0
    assert (tmp_path / "out").read_bytes() == data


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

def differing(errors: str) -> list[str]:
    """The options whose defaults differ, by the remark that lists them."""
    (line,) = [line for line in errors.splitlines() if line.endswith(" [options.defaults-differ]")]
    return re.findall(r"[(,] ?([a-z-]+) = ", line)


def test_instrumentation_does_not_change_the_code(kernel, tmp_path, capsys):
    """The documented default of `pipeline-strategy` would turn the pipelining of loads off."""
    assert compile(str(MATMUL)) == 0
    plain = (tmp_path / "out").read_bytes()
    assert b"cp.async" in plain and capsys.readouterr().err == ""
    assert compile(str(MATMUL), "--pass-pipeline=tileir{schedule-trace-file=trace.json}") == 0
    assert capsys.readouterr().err == "", "remarks are printed on request"
    watched = "--pass-pipeline=tileir{schedule-trace-file=trace.json}"
    assert compile(str(MATMUL), watched, "--remarks=kernel") == 0
    assert (tmp_path / "out").read_bytes() == plain and (tmp_path / "trace.json").exists()
    assert differing(capsys.readouterr().err) == [
        "num-warps", "num-ctas", "pipeline-strategy", "unspecialized-pipeline-num-stages"
    ]  # fmt: skip


def test_requested_changes_are_no_difference(kernel, tmp_path, capsys):
    text = "tileir{num-warps=4 num-ctas=1 pipeline-strategy=none}"
    pipeline = (f"--pass-pipeline={text}", "--unspecialized-pipeline-num-stages=4")
    assert compile(str(MATMUL), *pipeline) == 0
    assert b"cp.async" not in (tmp_path / "out").read_bytes() and capsys.readouterr().err == ""
    words = ("--pipeline-strategy=none", "--num-warps=4", "--remarks=kernel")
    assert compile(str(MATMUL), "--pass-pipeline=tileir", *words) == 0
    assert differing(capsys.readouterr().err) == ["num-ctas", "unspecialized-pipeline-num-stages"]


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
    result = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(d["severity"], d["message"]) for d in result] == [
        ("error", "Incompatibility with architecture 'sm_80': unsupported type 'f8E4M3FN'"),
        ("error", "failed to compile Tile IR program"),
    ]
    assert (result[0]["file"], result[0]["line"]) == ("k.mlir", 4)


def test_remarks_are_printed_when_asked_for(kernel, capsys):
    assert compile(kernel, "--num-ctas=2") == 0
    assert capsys.readouterr().err == ""
    assert compile(kernel, "--num-ctas=2", "--remarks=kernel") == 0
    category = capsys.readouterr().err.split("in function: k:")[1].split("category: Kernel")[1]
    (result,) = (each for each in category.split("\n\n") if "= code: slices.shared-by-ctas ctas=2 shape=" in each)
    assert '--> "k.mlir":8:11' in result


@pytest.mark.parametrize("word, codes", [
    ("slices.shared-by-ctas", {"slices.shared-by-ctas"}), ("slices.*", {"slices.shared-by-ctas"}),
    ("kernel.warps-by-tiles", {"kernel.launch"}), ("agents.few-bytes", set()),
])  # fmt: skip
def test_remarks_of_a_code_or_a_subject_are_printed(kernel, capsys, word, codes):
    """A code names the choice or one of its reasons."""
    assert compile(kernel, "--num-ctas=2", f"--remarks={word}") == 0
    assert set(re.findall(r"= code: (\S+?)[; ]", capsys.readouterr().err.replace("\n", " \n"))) == codes
    assert compile(kernel, "--num-ctas=2", f"--remarks-missed={word}") == 0
    assert capsys.readouterr().err == ""


def test_a_code_that_no_table_has_is_refused(kernel, capsys):
    for word in ("slices.shared", "slice.*"):
        assert compile(kernel, f"--remarks={word}") == 1
        assert f"Cannot find option named '{word}'!" in capsys.readouterr().err


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
    first, release, versions, *tools, build = capsys.readouterr().out.splitlines()
    assert release == "Command line of Cuda compilation tools, release 13.5, V13.5.37"
    assert first == f"tileiras {tileiras.__version__}" and versions == "Tile IR bytecode 13.1 to 13.5"
    assert [line.split()[0] for line in tools] == ["ptxas", "libdevice", "nvdisasm"]
    assert re.fullmatch("Build [0-9a-f]{16}", build)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == build


def test_a_refused_bytecode_operation_is_named_without_a_line(tmp_path, capsys):
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

    result = [Diagnostic(Severity.ERROR, FileLineColLoc(name, 3, 5), "no") for name in ("absent.py", "absent.mlir")]
    assert render_for_bytecode(result).splitlines() == [
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
def test_excerpts_of_a_text_show_the_relevant_part(kernel, capsys, text, said):
    with open(kernel, "w") as file:
        file.write(text)
    assert compile(kernel) == 3
    assert capsys.readouterr().err.splitlines() == said


def test_hidden_options_are_shown_to_those_who_ask(capsys):
    def names(word):
        assert main([word]) == 0
        rows = re.findall(r"^  (-.*?)(?: +- |$)", capsys.readouterr().out, re.MULTILINE)
        return {spelling for row in rows for spelling in re.findall(r"-[\w-]+", row)}

    shown, everything = names("--help"), names("--help-hidden")
    assert {"--gpu-name", "--apply-controls"} <= shown == names("--help-list")
    assert everything - shown >= {"--print-options", "--help-hidden", "-w"} and everything == names("-help-list-hidden")
    assert shown < everything


@pytest.mark.parametrize("change, message", [
    (lambda text: b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n"), ""),
    (lambda text: b"// caf\xe9\n" + text, "k.mlir:1:7: error: text is read as UTF-8, which has no byte 0xe9 here"),
    (lambda text: text.decode().encode("utf-16"), "k.mlir:1:1: error: text is read as UTF-8, not as UTF-16"),
])  # fmt: skip
def test_text_is_utf_8(kernel, tmp_path, capsys, change, message):
    (tmp_path / kernel).write_bytes(change(F32.encode()))
    assert compile(kernel) == (3 if message else 0)
    assert capsys.readouterr().err.partition("\n")[0] == message


PYTHON = """\
import cuda.tile as ct

@ct.kernel(num_ctas=ct.ByTarget(sm_80=2, default=1))
def k(a, N: ct.Constant[int]):
    ct.store(a, index=(0,), tile=ct.full((N,), 1, dtype=a.dtype))

TILEIRAS_EXPORT = {"k": (k, "f32[?]", 64)}
"""


@pytest.mark.parametrize("emit, then", [("tileas", "ptx"), ("llvm", "ptx"), ("ptx", "cubin"), ("bytecode", "ptx")])
def test_hints_are_checked_of_cuda_tile_alone(kernel, capsys, emit, then):
    """Artifacts of later stages compile as without the options for hints, even if the file of remarks is unwritable."""
    suffix = {"tileas": ".tileas.mlir", "llvm": ".ll", "ptx": ".ptx", "bytecode": ".tileirbc"}[emit]
    assert main([kernel, "--gpu-name=sm_90", f"--emit={emit}", "-o", f"k{suffix}"]) == 0
    words = [f"k{suffix}", "--gpu-name=sm_90", f"--emit={then}", "-o", "out"]
    assert main(words) == 0
    assert main([*words, "--Wunsupported-hints", "--Werr-hints"]) == 0
    assert capsys.readouterr().err == ""
    assert main([*words, "--remarks=all", "--remark-format=yaml", "--remarks-output-file=no/r"]) == 3
    assert "remark output file" in capsys.readouterr().err


def test_hints_on_exports_of_a_python_file_are_checked(tmp_path, monkeypatch, capsys):
    pytest.importorskip("cuda.tile")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.py").write_text(PYTHON)
    words = ["k.py", "--gpu-name=sm_90", "--emit=ptx", "-o", "out"]
    assert main(words) == 0
    assert main([*words, "--Wunsupported-hints"]) == 0
    assert "num_cta" in capsys.readouterr().err
    assert main([*words, "--Wunsupported-hints", "--Werr-hints"]) == 3
    (tmp_path / "k.py").write_text(PYTHON.replace("(num_ctas=ct.ByTarget(sm_80=2, default=1))", ""))
    assert main([*words, "--Wunsupported-hints", "--Werr-hints"]) == 0


def test_sarif_has_errors_warnings_and_remarks_at_their_lines(kernel, tmp_path):
    assert compile(kernel, "--sarif=log.sarif", "--remarks=all") == 0
    (run,) = json.loads((tmp_path / "log.sarif").read_text())["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert run["results"] and all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    assert {result["level"] for result in run["results"]} == {"note"}
    (tmp_path / "k.mlir").write_text("cuda_tile.module @m {\n  frobnicate @k() {\n")
    assert compile(kernel, "--sarif=log.sarif") == 3
    (run,) = json.loads((tmp_path / "log.sarif").read_text())["runs"]
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (result["ruleId"], result["level"]) == ("error", "error") and "'frobnicate'" in result["message"]["text"]
    assert place["region"] == {"startLine": 2, "startColumn": 3} and place["artifactLocation"]["uri"].endswith("k.mlir")


def test_sarif_is_no_other_file(kernel, capsys):
    assert compile(kernel, "--sarif=k.mlir") == 1
    assert "k.mlir" in capsys.readouterr().err
