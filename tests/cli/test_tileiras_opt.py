"""The tileiras-opt program: parts, expected diagnostics, exit codes."""

from __future__ import annotations

import pytest

from tileiras import passes
from tileiras.cli.expected_diagnostics import check_diagnostics
from tileiras.cli.tileiras_opt import main, split_input
from tileiras.diagnostics import CompileError
from tileiras.ir import Pass, parse_attribute, parse_module, parse_type

MODULE = "module {\n}\n"


def run(tmp_path, capsys, text, *arguments):
    path = tmp_path / "in.mlir"
    path.write_text(text)
    code = main([str(path), *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_prints_the_module(tmp_path, capsys):
    assert run(tmp_path, capsys, MODULE) == (0, MODULE, "")


def test_a_broken_text_exits_with_3_and_a_caret(tmp_path, capsys):
    code, out, err = run(tmp_path, capsys, "module {\n  nosuch\n}\n")
    assert (code, out) == (3, "")
    assert err.splitlines()[1:] == ["  nosuch", "  ^"]


@pytest.mark.parametrize("option", ["--no-such-pass", "--pass-pipeline=builtin.module(nosuch)", "--pass-pipeline=cse("])
def test_a_wrong_pass_exits_with_2(tmp_path, capsys, option):
    code, _, err = run(tmp_path, capsys, MODULE, option)
    assert code == 2 and "error" in err


def test_a_missing_input_exits_with_1(capsys):
    assert main(["/nonexistent/in.mlir"]) == 1
    assert "cannot open input file" in capsys.readouterr().err


def test_bytecode_is_read(capsys):
    from pathlib import Path

    example = Path(__file__).parents[2] / "examples" / "bytecode" / "vector_add.tileirbc"
    assert main([str(example), "--verify-roundtrip"]) == 0
    assert "load_view_tko" in capsys.readouterr().out


def test_damaged_bytecode_exits_with_3(tmp_path, capsys):
    path = tmp_path / "in.tileirbc"
    path.write_bytes(b"\x7fTileIR\0\x0d")
    assert main([str(path)]) == 3
    assert "error" in capsys.readouterr().err


def test_input_that_is_no_text_is_diagnosed(tmp_path, capsys):
    path = tmp_path / "in.mlir"
    path.write_bytes(b"\xff\xfe\x00module")
    assert main([str(path)]) == 3
    assert "error" in capsys.readouterr().err


def test_two_inputs_are_refused(capsys):
    assert main(["a", "b"]) == 1


def test_parts_keep_their_line_numbers(tmp_path, capsys):
    text = "module {\n}\n// -----\nmodule {\n  nosuch\n}\n// -----\nmodule @last {\n}\n"
    code, out, err = run(tmp_path, capsys, text, "--split-input-file")
    assert code == 3
    assert ":5:3: error" in err
    assert "module @last" in out and out.count("module") == 2
    assert [part.count("\n") for part in split_input(text)] == [2, 6, 9]


def test_output_goes_to_a_file(tmp_path, capsys):
    target = tmp_path / "out.mlir"
    code, out, _ = run(tmp_path, capsys, MODULE, "-o", str(target))
    assert (code, out) == (0, "") and target.read_text() == MODULE


@pytest.mark.parametrize(
    ("comment", "failures"),
    [
        ("nosuch // expected-error {{custom op 'nosuch' is unknown}}", 0),
        ("// expected-error @below {{custom op}}\nnosuch", 0),
        ("// expected-error @+1 {{custom op}}\nnosuch", 0),
        ("nosuch\n// expected-error @above {{custom op}}", 0),
        ("nosuch\n\n// expected-error @-2 {{custom op}}", 0),
        ("// expected-error-re @below {{custom op '{{[a-z]+}}' is}}\nnosuch", 0),
        ("nosuch", 1),
        ("nosuch // expected-error {{something else}}", 2),
        ("nosuch // expected-warning {{custom op}}", 2),
        ("// expected-error @+2 {{custom op}}\nnosuch\n", 2),
        ("// expected-error @below {{custom op}}\n// expected-error @below {{custom op}}\nnosuch", 1),
        ("// expected-error {{never}}", 1),
    ],
)
@pytest.mark.in_process
def test_expected_diagnostics(comment, failures):
    try:
        parse_module(comment, "t.mlir")
        diagnostics = []
    except CompileError as error:
        diagnostics = error.diagnostics
    assert len(check_diagnostics(comment, "t.mlir", diagnostics)) == failures


def test_round_trip_is_checked(tmp_path, capsys):
    assert run(tmp_path, capsys, MODULE, "--verify-roundtrip")[0] == 0


def test_locations_without_aliases_stand_where_they_are_used(tmp_path, capsys):
    text = MODULE.rstrip() + ' loc(callsite("a":1:2 at "b":3:4))\n'
    code, out, _ = run(tmp_path, capsys, text, "--mlir-print-debuginfo", "--mlir-print-local-scope")
    assert code == 0 and 'loc(callsite("a":1:2 at "b":3:4))' in out and "#loc" not in out
    aliased = run(tmp_path, capsys, text, "--mlir-print-debuginfo")[1]
    assert "#loc" in aliased and run(tmp_path, capsys, out, "--mlir-print-debuginfo")[1] == aliased


def test_a_pass_over_builtin_modules_finds_one(tmp_path, capsys):
    text = "cuda_tile.module @m {\n  entry @k() {}\n}\n"
    code, out, err = run(tmp_path, capsys, text, "--convert-cudatile-to-tileaa=compute-capability=sm_90")
    assert (code, err) == (0, "")
    assert "nv_tileaa.func @k" in out and "cuda_tile" not in out


def test_passes_and_their_timing(tmp_path, capsys):
    code, _, err = run(tmp_path, capsys, MODULE, "--cse", "--mlir-timing", "--mlir-print-ir-after-all")
    assert code == 0
    assert "// *** IR Dump After cse ***" in err and "%)  cse" in err


@pytest.mark.parametrize("form", [(), ("--mlir-print-op-generic",)])
def test_invalid_modules_print_in_the_generic_form(tmp_path, capsys, form):
    sizes = '<{memory_ordering_semantics = 0 : i32, operandSegmentSizes = array<i32: 1, 3, 0>}>'
    view = "!cuda_tile.partition_view<tile=(4), tensor_view<8xf32, strides=[1]>>"
    text = (
        '"cuda_tile.module"() <{sym_name = "m"}> ({\n'
        f'  %w, %i = "cuda_tile.x"() : () -> ({view}, !cuda_tile.tile<i32>)\n'
        f'  %t, %k = "cuda_tile.load_view_tko"(%w, %i) {sizes} : ({view}, !cuda_tile.tile<i32>)'
        " -> (!cuda_tile.tile<4xf32>, !cuda_tile.token)\n}) : () -> ()\n"
    )
    code, out, err = run(tmp_path, capsys, text, "--no-verify", "--allow-unregistered-dialect", *form)
    assert (code, err) == (0, "")
    assert '"cuda_tile.load_view_tko"(%0#0, %0#1) <{' in out and "array<i32: 1, 3, 0>" in out


@pytest.mark.parametrize(
    "option, code, message",
    [
        ("--convert-tileaa-to-tileas=compute-capability=sm_42", 5, "invalid or missing --compute-capability option"),
        ("--nvvm-ir-verifier=compute-capability=", 5, "invalid or missing --compute-capability option"),
        ("--tileas-assign-num-warps=num-warps=four", 2, "'four' value invalid for option 'num-warps'"),
        ("--canonicalize=unique-constants=3", 2, "expected true or false"),
        ("--convert-tileaa-to-tileas=compute-capability", 2, "expected text"),
    ],
)
def test_values_of_pass_options_are_checked(tmp_path, capsys, option, code, message):
    result, _, err = run(tmp_path, capsys, "module {\n}\n", option)
    assert result == code and message in err and "Traceback" not in err


class Break(Pass):
    """Leaves a tensor whose shape differs from that of its operands."""

    name = "break"

    def run(self, op, context):
        for inner in op.walk():
            if inner.name == "cuda_tile.addi":
                inner.results[0].type = parse_type("!cuda_tile.tile<8xi32>")


@pytest.mark.in_process
def test_passes_are_verified_between_unless_not_asked_for(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(passes, "lookup_pass", lambda name: Break)
    text = "cuda_tile.module @m {\n  entry @k(%a: tile<i32>) {\n    %0 = addi %a, %a : tile<i32>\n    return\n  }\n}\n"
    code, _, err = run(tmp_path, capsys, text, "--break", "--mlir-print-ir-after-all")
    assert code == 5 and "error: between-pass verifier rejected IR after 'break'" in err
    assert err.index("IR Dump After break") < err.index("between-pass"), "what is rejected can be read"
    code, _, err = run(tmp_path, capsys, text, "--break", "--verify-each=false")
    assert (code, err) == (0, "")


@pytest.mark.in_process
def test_the_command_verifies_between_passes_when_asked(tmp_path, capsys, monkeypatch):
    from tileiras.cli import tileiras
    from tileiras.passes.cse import CommonSubexpressionElimination

    source = tmp_path / "k.mlir"
    source.write_text(
        "cuda_tile.module @m {\n  entry @k(%a: tile<i32>, %p: tile<ptr<i32>>) {\n    %0 = addi %a, %a : tile<i32>\n"
        "    %t = store_ptr_tko weak %p, %0 : tile<ptr<i32>>, tile<i32> -> token\n    return\n  }\n}\n"
    )

    def forget(self, op, context):
        for inner in op.walk():
            if inner.name == "nv_tileaa.store":
                inner.attributes["mem_scope"] = parse_attribute("#nv_tileaa.mem_scope<gpu>")

    monkeypatch.setattr(CommonSubexpressionElimination, "run", forget)
    arguments = [str(source), "--gpu-name=sm_90", "--emit=ptx", "-o", str(tmp_path / "k.ptx"), "--verify-each"]
    assert tileiras.main(arguments) == 5
    err = capsys.readouterr().err
    assert "k.mlir:4:10: error: 'nv_tileaa.store' op mem_scope not supported when mem_semantic is weak" in err
    assert "error: between-pass verifier rejected IR after 'cse'" in err


@pytest.mark.in_process
def test_a_mistake_of_a_pass_is_an_error_that_names_it(tmp_path, capsys, monkeypatch):
    from tileiras.passes.dce import DeadCodeElimination

    def stumble(self, op, context):
        raise KeyError("x")

    monkeypatch.setattr(DeadCodeElimination, "run", stumble)
    code, out, err = run(tmp_path, capsys, MODULE, "--dce")
    assert (code, out) == (5, "")
    assert err == "error: internal error in pass 'dce': KeyError: 'x' (set TILEIRAS_TRACEBACK=1 to see where)\n"
    monkeypatch.setenv("TILEIRAS_TRACEBACK", "1")
    with pytest.raises(KeyError):
        run(tmp_path, capsys, MODULE, "--dce")
