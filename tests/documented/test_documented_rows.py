"""Every row of the documentation that did not hold: a check by its command, a test that has it, or a line of
`docs/documented.md` with the reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import tileiras
from tileiras import passes
from tileiras.cli import tileiras_opt
from tileiras.cli.tileiras import main
from tileiras.diagnostics import CompileError
from tileiras.dialects import cuda_tile
from tileiras.driver.tileir_pipeline import OPTIONS, TileIRPipelineOptions, build
from tileiras.ir import VerifyError
from tileiras.options import OPTIONS as COMPILER

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "documented.md").read_text(encoding="utf-8")
SAXPY = ROOT / "examples" / "saxpy.mlir"
PRODUCT = ROOT / "examples" / "bytecode" / "matmul_f16.tileirbc"

IDS = {
    *(f"003-{n}" for n in range(1, 21)), *(f"004-{n}" for n in range(1, 14)), *(f"002-{n}" for n in range(1, 9)),
    *(f"000-{n}" for n in range(1, 9)), *(f"001-{n}" for n in range(1, 6)), "cli-1",
}  # fmt: skip

LISTED = set(re.findall(r"\b(?:00\d-\d+)\b", "".join(line for line in PAGE.splitlines() if line.startswith("| 00"))))

IN_OTHER_TESTS = {
    "002-1": "codegen/test_peepholes.py::test_rows_are_cached_with_the_machine",
    "001-1": "mlir/test_python_surface.py::test_the_documented_calls_synthesize_scopes",
    "001-5": "bytecode/test_written_locations.py::test_a_location_is_reduced_to_the_format",
    "002-4": "codegen/test_blobs.py::test_the_attribute_becomes_metadata",
    "003-1": "driver/test_levels.py::test_each_level_changes_the_schedule_of_a_product",
    "003-3": "driver/test_levels.py::test_the_printed_pipeline_is_that_of_the_level",
    "003-7": "driver/test_tileir_pipeline.py::test_every_entry_of_a_trace_is_a_process",
    "003-8": "driver/test_tileir_pipeline.py::test_the_trace_of_a_product_has_copies_stages_and_agents",
    "003-10": "schedule/test_reservation_table.py::test_a_table_of_just_the_threshold_is_placed",
    "003-14": "driver/test_tileir_pipeline.py::test_snapshots_for_line_information_have_locations",
    "004-1": "stages/test_ptx_versions.py::test_the_documented_ceiling_is_the_default_of_pipelines",
    "004-2": "diagnostics/test_diagnostic_body.py::test_the_layout_is_the_documented_one",
    "004-4": "diagnostics/test_diagnostic_body.py::test_the_bit_is_at_its_offset_and_set_by_diagnostics_only",
    "004-5": "diagnostics/test_diagnostic_body.py::test_a_failing_pass_leaves_its_input_unchanged",
    "004-6": "codegen/test_device_runtime.py::test_a_launch_of_a_function_is_an_error",
    "004-7": "diagnostics/test_diagnostics_table.py::test_it_is_reported_with_its_exit_code",
    "004-11": "cli/test_driver_options.py::test_instrumentation_does_not_change_the_code",
    "000-3": "passes/nvvm_ir_verifier_flags_invalid.mlir",
    "000-7": "passes/convert_debuginfo_to_llvm_invalid.mlir",
}
"""Row -> the test with its command, below `tests/`."""

DOCUMENTED_PASSES = (
    "convert-cudatile-to-tileaa", "tileir-insert-debug-scope", "canonicalize", "convert-tileaa-to-tileas",
    "tileir-emit-host-wrapper", "convert-tileas-to-llvm", "cse", "convert-tileas-to-nvgpu",
    "tileir-verify-ops-analysis", "host-device-assert-enable", "tileir-gpu-module-prepare",
    "tileas-unspecialized-pipeline", "test-convert-to-llvm", "tileir-legalize-llvm-kernel",
    "tileir-finalize-llvm-kernel", "convert-to-llvm", "convert-nvgpu-to-nvvm", "convert-vector-to-llvm",
    "convert-math-to-funcs", "arith-expand", "convert-memref-to-llvm", "synthesize-debug-info-scopes",
    "convert-target-to-nvvm",
)  # fmt: skip


class Commands:
    """The commands of this process, with their texts."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def opt(self, text: str | Path, *words: str) -> tuple[int, str, str]:
        path = text
        if isinstance(text, str):
            path = self.folder / "k.mlir"
            path.write_text(text)
        code = tileiras_opt.main([str(path), *words])
        return code, *self._capsys.readouterr()

    def compile(self, *words: str) -> tuple[int, str, str]:
        code = main([*words])
        return code, *self._capsys.readouterr()


def named_passes(run: Commands) -> None:
    _, listed, _ = run.opt("", "--list-passes")
    assert not set(DOCUMENTED_PASSES) - set(listed.split())
    assert all(passes.lookup_pass(name).name == name for name in DOCUMENTED_PASSES)


def scopes_in_pipelines(run: Commands) -> None:
    for level, wanted in ((1, ["tileir-insert-debug-scope"]), (3, ["synthesize-debug-info-scopes"])):
        result = [item.name for item in build(TileIRPipelineOptions({"opt-level": level}))]
        assert set(wanted) <= set(result)
    assert result.count("tileir-insert-debug-scope") == 2


def placed_loops(run: Commands) -> None:
    """On request a loop is placed at level 2; rewriting it consumes the stages of its operations."""
    pytest.importorskip("cuda.tile")
    result = tileiras.compile(
        ROOT / "examples" / "kernels" / "attention.py", entry="attention", gpu_name="sm_80", emit="tileas",
        opt_level=2, v2_opt_level=2, emit_remarks=True,
    )  # fmt: skip
    assert any("loops.overlap" in diagnostic.message for diagnostic in result.diagnostics)


def scheduler_in_docs(run: Commands) -> None:
    text = (ROOT / "docs" / "diagnostics.md").read_text(encoding="utf-8")
    assert "scheduled by intervals" not in text and "modulo scheduler" in text


def light_and_heavy(run: Commands) -> None:
    """Where both are the same, a code says so."""
    codes = {}
    for threshold in (0, 4096):
        result = tileiras.compile(
            PRODUCT, gpu_name="sm_90", emit="tileas", emit_remarks=True, pipeline_strategy="warp-specialize",
            tensor_maps="host", rrt_size_threshold=threshold,
        )  # fmt: skip
        codes[threshold] = result.text, any("agents.heavy-as-light" in d.message for d in result.diagnostics)
    assert codes[0][1] is False and codes[4096][1] == (codes[0][0] == codes[4096][0])


def default_levels(run: Commands) -> None:
    assert (OPTIONS["opt-level"].default, COMPILER["opt-level"].default) == (2, 3)


def overflow_word(run: Commands) -> None:
    parameters = ", ".join(f"%p{n}: tile<ptr<f32>>" for n in range(5002))
    text = f"cuda_tile.module @m {{ entry @k({parameters}) {{ return }} }}"
    with pytest.raises(CompileError) as error:
        tileiras.compile(text, gpu_name="sm_80", emit="llvm", source_name="k.mlir")
    assert error.value.diagnostics[0].word == 0x103 and error.value.code == 5


def verify_each(run: Commands) -> None:
    assert "verify-each" in tileiras_opt.Options().flags


def verifying_constructor(run: Commands) -> None:
    module = tileiras.parse(SAXPY)
    (tile,) = {op.results[0] for op in module.walk() if op.name == "cuda_tile.iota"} or {None}
    assert tile is not None
    with pytest.raises(VerifyError, match="'cuda_tile.addf' op"):
        cuda_tile.AddFOp(tile, tile, rounding_mode="nearest_even")


def narrow_triple(run: Commands) -> None:
    text = 'module { gpu.module @a [#nvvm.target<triple = "nvptx-nvidia-cuda", chip = "sm_90">] {} }'
    code, _, errors = run.opt(text, "--nvvm-ir-verifier")
    assert code == 5 and "failed to look up NVPTX target for requested triple: 'nvptx-nvidia-cuda'" in errors


def target_spec(run: Commands) -> None:
    attributes = '{nv_tileaa.compute_capability = 999 : i32, nv_tileaa.target_spec = "sm_80"}'
    code, text, errors = run.opt(f"module {{ gpu.module @a attributes {attributes} {{}} }}", "--convert-target-to-nvvm")
    assert (code, errors) == (0, "") and 'chip = "sm_80"' in text


def capability_texts(run: Commands) -> None:
    for value in ("", "=compute-capability=sm_91", "=compute-capability=sm_42", "=compute-capability=foo"):
        code, _, errors = run.opt(SAXPY, f"--convert-cudatile-to-tileaa{value}")
        assert code == 5 and "invalid or missing --compute-capability option" in errors, value


def help_texts(run: Commands) -> None:
    code, text, _ = run.compile("--help")
    assert code == 0 and "tileir{key=value ...}" in text and "Tileir{" not in text
    assert "--mlir-pass-pipeline-crash-reproducer=<file>" in text


CHECKS: dict[str, Callable[[Commands], None]] = {
    "003-2": named_passes, "003-4": scopes_in_pipelines, "003-5": placed_loops, "003-6": scheduler_in_docs,
    "003-9": light_and_heavy, "003-20": default_levels, "004-3": overflow_word, "004-12": verify_each,
    "004-13": verifying_constructor, "002-5": narrow_triple, "000-1": target_spec, "000-2": capability_texts,
    "cli-1": help_texts,
}  # fmt: skip


def test_every_row_has_a_test_or_a_line_with_its_reason():
    assert LISTED.isdisjoint(CHECKS) and LISTED.isdisjoint(IN_OTHER_TESTS) and not set(CHECKS) & set(IN_OTHER_TESTS)
    assert {*CHECKS, *IN_OTHER_TESTS, *LISTED} == IDS


def test_few_lines_are_listed_each_with_one_of_the_reasons():
    lines = [line for line in PAGE.splitlines() if line.startswith("| 00")]
    assert len(lines) <= 12
    assert all(re.search(r"\*(binary|tool|worse)\*", line.split("|")[4]) for line in lines)
    assert LISTED.isdisjoint({"003-1", "001-1", "004-6"}), "rows that a reader would call missing"


@pytest.mark.parametrize("row", sorted(IN_OTHER_TESTS))
def test_tests_of_rows_exist(row):
    file, _, name = IN_OTHER_TESTS[row].partition("::")
    path = ROOT / "tests" / file
    assert path.is_file()
    if name:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", sorted(CHECKS))
def test_the_row_holds(row, tmp_path, capsys):
    CHECKS[row](Commands(tmp_path, capsys))
