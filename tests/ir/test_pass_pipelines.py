"""Textual pipelines: the operations that their passes run on, and the diagnostics of wrong pipelines."""

from typing import ClassVar

import pytest

from tileiras.cli.tileiras_opt import main
from tileiras.diagnostics import CompileError
from tileiras.ir import parse_module, print_op
from tileiras.ir.pass_manager import Pass, PassContext, PassManager, parse_pipeline
from tileiras.passes import lookup_pass

NESTED = """\
module {
  gpu.module @outer {
    llvm.func @a() {
      llvm.return
    }
  }
  llvm.func @b() {
    llvm.return
  }
  builtin.module {
    gpu.module @inner {
      llvm.func @c() {
        llvm.return
      }
    }
  }
}
"""

TILE = "cuda_tile.module @m {\n  entry @k() {\n    return\n  }\n}\n"


class Note(Pass):
    """Records the operations it runs on, by symbol, or by name without a symbol."""

    name = "note"
    seen: ClassVar[list[str]] = []

    def run(self, op, context):
        symbol = op.attributes.get("sym_name")
        Note.seen.append(symbol.value if symbol is not None else op.name)


class OfFunctions(Note):
    name = "of-functions"
    anchor = "llvm.func"


def lookup(name: str) -> type[Pass]:
    return {"note": Note, "of-functions": OfFunctions}.get(name) or lookup_pass(name)


def runs_on(pipeline: str, text: str = NESTED) -> list[str]:
    Note.seen.clear()
    PassManager(parse_pipeline(pipeline, lookup)).run(parse_module(text, "k.mlir"), PassContext())
    return list(Note.seen)


@pytest.mark.parametrize("pipeline, expected", [
    ("note", ["builtin.module"]),
    ("builtin.module(note)", ["builtin.module"]),
    ("builtin.module(gpu.module(note))", ["outer"]),
    ("gpu.module(note)", ["outer"]),
    ("builtin.module(llvm.func(note))", ["b"]),
    ("builtin.module(gpu.module(llvm.func(note)))", ["a"]),
    ("builtin.module(gpu.module(note,llvm.func(note)),llvm.func(note),note)", ["outer", "a", "b", "builtin.module"]),
    ("builtin.module(builtin.module(gpu.module(note,llvm.func(of-functions))))", ["inner", "c"]),
    ("builtin.module(cuda_tile.module(note))", []),
    ("of-functions", ["a", "b", "c"]),
    ("builtin.module()", []),
    (" builtin.module ( gpu.module( note ) , note )\n", ["outer", "builtin.module"]),
])  # fmt: skip
def test_passes_run_on_direct_children_of_the_anchor(pipeline, expected):
    assert runs_on(pipeline) == expected


@pytest.mark.parametrize("pipeline, expected", [
    ("builtin.module(cuda_tile.module(note))", ["m"]), ("cuda_tile.module(note)", ["m"]),
    ("builtin.module(cuda_tile.module(cuda_tile.entry(note)))", ["k"]), ("builtin.module(note)", ["m"]),
    ("builtin.module(gpu.module(note))", []), ("cuda_tile.module(cuda_tile.entry(note),note)", ["k", "m"]),
])  # fmt: skip
def test_the_module_around_a_source_may_be_left_out_of_it(pipeline, expected):
    assert runs_on(pipeline, TILE) == expected


def test_a_pipeline_of_another_operation_is_refused():
    with pytest.raises(CompileError, match="can't run 'gpu.module' pass manager on 'cuda_tile.module' op") as error:
        runs_on("gpu.module(note)", TILE)
    assert error.value.code == 2


DUPLICATES = """\
module {
  gpu.module @inside {
    llvm.func @a(%n: i32) -> i32 {
      %0 = llvm.add %n, %n : i32
      %1 = llvm.add %n, %n : i32
      %2 = llvm.mul %0, %1 : i32
      llvm.return %2 : i32
    }
  }
  llvm.func @outside(%n: i32) -> i32 {
    %0 = llvm.add %n, %n : i32
    %1 = llvm.add %n, %n : i32
    %2 = llvm.mul %0, %1 : i32
    llvm.return %2 : i32
  }
}
"""


def test_a_real_pass_leaves_other_operations_alone(tmp_path, capsys):
    source = tmp_path / "k.mlir"
    source.write_text(DUPLICATES)
    whole = print_op(parse_module(DUPLICATES, "k.mlir"))
    assert whole.count("llvm.add") == 4
    for pipeline, inside, outside in (
        ("builtin.module(gpu.module(cse))", 1, 2), ("gpu.module(cse)", 1, 2), ("builtin.module(llvm.func(cse))", 2, 1),
        ("builtin.module(gpu.module(llvm.func(cse)))", 1, 2), ("builtin.module(cse)", 1, 1), ("cse", 1, 1),
    ):  # fmt: skip
        assert main([str(source), f"--pass-pipeline={pipeline}"]) == 0
        first, _, second = capsys.readouterr().out.partition("@outside")
        assert (first.count("llvm.add"), second.count("llvm.add")) == (inside, outside), pipeline


@pytest.mark.parametrize("pipeline, column, message", [
    ("builtin.module(nosuch)", 16, "'nosuch' does not refer to a registered pass"),
    ("cse,nosuch", 5, "'nosuch' does not refer to a registered pass"),
    ("cuda_tile.module(builtin.module(cse))", 18, "'builtin.module' cannot stand in 'cuda_tile.module'"),
    ("gpu.module(gpu.module(cse))", 12, "'gpu.module' cannot stand in 'gpu.module'"),
    ("builtin.module(llvm.func(gpu.module(cse)))", 26, "'gpu.module' cannot stand in 'llvm.func'"),
    ("builtin.module(cuda_tile.entry(cuda_tile.entry(cse)))", 32, "'cuda_tile.entry' cannot stand in"),
    ("builtin.module(scf.for(cse))", 16, "nested pipeline anchor must be IsolatedFromAbove"),
    ("builtin.module(no.op(cse))", 16, "unknown pipeline anchor 'no.op'"),
    ("cuda_tile.module(cse,convert-tileaa-to-tileas)", 22,
     "pass 'convert-tileaa-to-tileas' anchored on 'builtin.module' added to pipeline anchored on 'cuda_tile.module'"),
    ("builtin.module(synthesize-debug-info-scopes)", 16,
     "pass 'synthesize-debug-info-scopes' anchored on 'cuda_tile.module' added to pipeline anchored on"),
    ("cuda_tile.module(tileir{opt-level=1})", 18,
     "pipeline 'tileir' anchored on 'builtin.module' added to pipeline anchored on 'cuda_tile.module'"),
    ("builtin.module{deep=1}(cse)", 1, "the operation 'builtin.module' has no options"),
    ("builtin.module(cse", 15, "expected ')' after the passes of 'builtin.module'"),
    ("cse)", 4, "expected end of pipeline, got ')'"),
    ("cse,,dce", 5, "expected a pass name at ',dce'"),
    ("cse,", 5, "expected a pass name at ''"),
    ("", 1, "expected a pass name at ''"),
    ("loop-split{split-threshold=2", 11, "expected '}' after the options"),
    ("loop-split{=3}", 12, "expected the name of an option at '=3'"),
    ("loop-split{split-threshold=many}", 12, "'many' value invalid for option 'split-threshold'"),
    ("loop-split{split-threshold=-1}", 12, "'-1' value invalid for option 'split-threshold' of pass 'loop-split'"),
    ("convert-target-to-nvvm{opt-level=4}", 24, "'4' value invalid for option 'opt-level' of pass 'convert-target-to"),
    ("loop-split{split-threshold=1 speed=2}", 30, "pass 'loop-split' has no option 'speed'"),
    ("tileas-ping-pong{strategy={loads=agent}", 17, "expected '}' after the options"),
    ("tileas-ping-pong{strategy={loads=agent variant=soft}}", 40, "'variant=soft' value invalid for option 'strategy'"),
    ("tileas-ping-pong{strategy={ stages=9 }}", 29, "of pass 'tileas-ping-pong'; expected stages=1 to 8"),
    ("tileas-ping-pong{strategy={stages=two}}", 28, "expected stages=1 to 8"),
    ("tileas-ping-pong{strategy={placements=-1}}", 28, "expected placements=0 to"),
    ("tileas-ping-pong{strategy={agents}}", 28, "expected a field of loads, variant, overlap, stages, placements"),
    ("tileas-ping-pong{strategy}", 18, "expected a field of loads, variant, overlap, stages, placements"),
    ("builtin.module(tileir{=3})", 16, "expected the name of an option of 'tileir' at '=3'"),
    ("builtin.module(tileir{num-warps=-4})", 16, "invalid value for option 'num-warps': -4"),
    ("builtin.module(tileir{rrt-size-threshold=-1})", 16, "'-1' value invalid for option 'rrt-size-threshold'"),
])  # fmt: skip
def test_mistakes_have_their_place_in_the_text(tmp_path, capsys, pipeline, column, message):
    source = tmp_path / "k.mlir"
    source.write_text(TILE)
    assert main([str(source), f"--pass-pipeline={pipeline}"]) == 2
    first, *excerpt = capsys.readouterr().err.splitlines()
    assert first.startswith(f"<pass-pipeline>:1:{column}: error: ") and message in first
    assert excerpt == ([pipeline, " " * (column - 1) + "^"] if pipeline else [])


def test_places_are_those_of_several_lines(tmp_path, capsys):
    with pytest.raises(CompileError) as error:
        parse_pipeline("builtin.module(\n  cse,\n  nosuch)", lookup)
    assert error.value.render().splitlines()[-2:] == ["  nosuch)", "  ^"]
    assert error.value.diagnostics[0].position[:3] == ("<pass-pipeline>", 3, 3)


@pytest.mark.parametrize("pipeline", [
    "builtin.module(cuda_tile.module(note))", "gpu.module(llvm.func(of-functions))",
    "builtin.module(builtin.module(note))",
])  # fmt: skip
def test_the_pipeline_of_a_pass_runs_it_where_it_ran(pipeline):
    (item,) = parse_pipeline(pipeline, lookup)
    assert item.pipeline() == pipeline
    for name, alone in (("note", "builtin.module(note)"), ("of-functions", "builtin.module(llvm.func(of-functions))")):
        assert parse_pipeline(name, lookup)[0].pipeline() == alone
        parse_pipeline(alone, lookup)


@pytest.mark.parametrize("option, code, message", [
    ("--mlir-print-ir-after=UNKNOWN", 2, "for the --mlir-print-ir-after option: 'UNKNOWN' does not refer"),
    ("--mlir-print-ir-before=cse,nosuch", 2, "for the --mlir-print-ir-before option: 'nosuch' does not refer"),
    ("--mlir-print-ir-after=", 1, "--mlir-print-ir-after"),
    ("--tileir==3", 2, "expected the name of an option of 'tileir' at '=3'"),
    ("--verify-each=maybe", 1, "'maybe' is invalid value for boolean argument --verify-each"),
    ("--diagnostics=xml", 1, "--diagnostics takes text or json, got 'xml'"),
    ("--mlir-pass-pipeline-crash-reproducer", 1, "--mlir-pass-pipeline-crash-reproducer requires a value"),
])  # fmt: skip
def test_options_of_the_command_are_checked(tmp_path, capsys, option, code, message):
    source = tmp_path / "k.mlir"
    source.write_text("no module: whoever read it would say so, with another code")
    assert main([str(source), option]) == code
    assert message in capsys.readouterr().err
