"""Artifacts of a compilation are sources of another one."""

import re
from pathlib import Path

import pytest

from tileiras import api
from tileiras.diagnostics import CompileError
from tileiras.stages.units import ARTIFACTS

MATMUL = Path(__file__).parents[2] / "examples" / "matmul_f32.mlir"
GPU = """\
module {{
  gpu.module @kernels{} {{
    llvm.func @k(%p: !llvm.ptr<1>) attributes {{nvvm.kernel}} {{
      llvm.return
    }}
  }}{}
}}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Suffix -> a file of that kind; the PTX that all of them lead to."""
    folder = tmp_path_factory.mktemp("made")
    files = {}

    def keep(unit, suffix, data):
        if suffix in ARTIFACTS:
            files[suffix] = folder / f"k{suffix}"
            files[suffix].write_bytes(data if isinstance(data, bytes) else data())

    from tileiras.options import CompileOptions

    whole = api.compile_with(MATMUL, CompileOptions({"gpu-name": "sm_90"}), "ptx", keep=keep)
    return files, whole.data


@pytest.mark.parametrize("suffix", [".tileaa.mlir", ".tileas.mlir", ".llvm.mlir", ".ll"])
def test_every_artifact_leads_to_the_same_product(made, suffix):
    files, ptx = made
    assert api.compile(files[suffix], gpu_name="sm_90").data == ptx


def test_stages_before_the_source_are_not_run(made):
    files, _ = made
    with pytest.raises(CompileError, match="k.ll is past the stage of emit=tileas") as error:
        api.compile(files[".ll"], gpu_name="sm_90", emit="tileas")
    assert error.value.code == 2


@pytest.mark.parametrize("suffix", [".tileas.mlir", ".llvm.mlir", ".ll"])
def test_artifacts_without_certificate_are_not_deterministic(made, suffix):
    files, _ = made
    options = {"gpu_name": "sm_90", "deterministic": "require"}
    with pytest.raises(CompileError, match="no certificate of order") as error:
        api.compile(files[suffix], **options)
    (diagnostic,) = error.value.diagnostics
    assert error.value.code == 5 and diagnostic.position.filename.endswith(f"k{suffix}")
    assert api.compile(files[".tileaa.mlir"], **options).data == made[1]


@pytest.mark.parametrize("suffix", [".tileas.mlir", ".llvm.mlir", ".ptx"])
def test_artifacts_of_one_gpu_are_not_compiled_for_another(made, suffix):
    files, ptx = made
    files[".ptx"] = files[".ll"].with_suffix(".ptx")
    files[".ptx"].write_bytes(ptx)
    with pytest.raises(CompileError) as error:
        api.compile(files[suffix], gpu_name="sm_80", emit="cubin")
    assert "is for sm_90, " in error.value.render()


def test_an_artifact_is_verified(tmp_path):
    path = tmp_path / "k.llvm.mlir"
    path.write_text("module {\n  llvm.func @k(%p: !llvm.ptr<1>) attributes {nvvm.kernel} {\n  }\n}\n")
    with pytest.raises(CompileError, match="k.llvm.mlir:2:3: error: empty block") as error:
        api.compile(path, gpu_name="sm_90")
    assert error.value.code == 3


def test_modules_name_their_target(made):
    files, _ = made
    text = files[".llvm.mlir"].read_text()
    flags = '{"-Xopt", "-fma=0", "-pragma-unroll-threshold=9900000"}'
    assert f'  gpu.module @kernels [#nvvm.target<O = 3, chip = "sm_90", flags = {flags}>] ' in text
    assert "attributes {nv_tileaa.compute_capability = 90 : i32} {\n" in text
    again = api.compile(files[".llvm.mlir"], gpu_name="sm_90", emit="llvm")
    assert again.kernels[0].artifacts[".llvm.mlir"].decode() == text
    debug = api.compile(files[".tileas.mlir"], gpu_name="sm_90", opt_level=0, device_debug=True, emit="llvm")
    text = debug.kernels[0].artifacts[".llvm.mlir"].decode()
    assert '<O = 0, chip = "sm_90", flags = {"-Xopt", "-fma=0", "-g", ' in text


TWO = """\
cuda_tile.module @m {
  global @table <f32: [1.0, 2.0]> : tile<2xf32>
  entry @first(%p: tile<ptr<f32>>) {
    %g = get_global @table : tile<ptr<f32>>
    %one, %t = load_ptr_tko weak %g : tile<ptr<f32>> -> tile<f32>, token
    %two = store_ptr_tko weak %p, %one : tile<ptr<f32>>, tile<f32> -> token
    return
  }
  entry @second(%p: tile<ptr<f32>>, %holds: tile<i1>) {
    assert %holds, "// -----\\0A; -----" : tile<i1>
    return
  }
}
"""
STAGES = {"tileaa": ".tileaa.mlir", "tileas": ".tileas.mlir", "llvm": ".ll"}


@pytest.mark.parametrize("emit", STAGES)
def test_artifacts_of_two_entries_give_the_same_product(tmp_path, emit):
    path = tmp_path / f"k{STAGES[emit]}"
    path.write_bytes(api.compile(TWO, gpu_name="sm_90", emit=emit).data)
    for product in ("ptx", "cubin"):
        whole = api.compile(TWO, gpu_name="sm_90", emit=product)
        again = api.compile(path, gpu_name="sm_90", emit=product)
        assert again.data == whole.data
        known = [{**kernel.metadata} for kernel in whole.kernels]
        for metadata in known:
            if emit != "tileaa":
                del metadata["order"]  # the file may have been edited after the decisions
        assert [kernel.metadata for kernel in again.kernels] == known
    for entry in ("first", "second"):
        alone = api.compile(TWO, gpu_name="sm_90", entry=entry)
        assert api.compile(path, gpu_name="sm_90", entry=entry).data == alone.data
    with pytest.raises(CompileError, match="no entry 'third' in .*; it has: first, second") as error:
        api.compile(path, gpu_name="sm_90", entry="third")
    assert error.value.code == 2


@pytest.mark.parametrize("emit", STAGES)
def test_a_mistake_in_the_second_module_is_at_its_line(tmp_path, emit):
    path = tmp_path / f"k{STAGES[emit]}"
    text = api.compile(TWO, gpu_name="sm_90", emit=emit).text
    head, wrong = ("  ret void", "  ret nothing") if emit == "llvm" else ("nv_tileaa.return", "nonsense")
    at = text.rindex(head)
    path.write_text(text[:at] + wrong + text[at + len(head) :])
    with pytest.raises(CompileError) as error:
        api.compile(path, gpu_name="sm_90")
    assert re.search(rf"\b{text.count(chr(10), 0, at) + 1}\b", error.value.diagnostics[0].render())


TARGET = ' [#nvvm.target<O = 3, chip = "sm_90">]'


@pytest.mark.parametrize(
    "targets, beside, message",
    [
        ("", "", "2:3: error: no target attribute"),
        (" []", "", "2:3: error: no target attribute"),
        (TARGET.replace("90", "100"), "", "2:3: error: gpu.module already carries a conflicting target"),
        (TARGET, "\n  gpu.module @other {\n  }", "'gpu.module' op stands beside the gpu.module that is translated"),
    ],
)
def test_a_gpu_module_is_translated_for_its_one_target(tmp_path, targets, beside, message):
    path = tmp_path / "k.llvm.mlir"
    path.write_text(GPU.format(targets, beside))
    with pytest.raises(CompileError) as error:
        api.compile(path, gpu_name="sm_90")
    assert message in str(error.value) and error.value.code == 5
    path.write_text(GPU.format(TARGET, ""))
    assert ".entry k(" in api.compile(path, gpu_name="sm_90").text
