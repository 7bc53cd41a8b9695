"""`ptx-version`: diagnostics name a feature that a version lacks, its replacement, and the limits of the version."""

import pytest

import tileiras
from tileiras import api
from tileiras.cli import tileiras_opt
from tileiras.diagnostics import CompileError
from tileiras.options import CompileOptions

EMPTY = "cuda_tile.module @m {\n  entry @k(PARAMETERS) {\n    return\n  }\n}\n"


def refused(text: str, gpu: str = "sm_90", emit: str = "ptx", **options) -> CompileError:
    values = CompileOptions({"gpu-name": gpu, **{name.replace("_", "-"): value for name, value in options.items()}})
    with pytest.raises(CompileError) as error:
        api.compile_with(text, values, emit, source_name="k.mlir")
    return error.value


def pointers(number: int) -> str:
    return EMPTY.replace("PARAMETERS", ", ".join(f"%p{index}: tile<ptr<f32>>" for index in range(number)))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("version, ceiling", [("8.0", (544, 4352)), ("8.1", (4095, 32764)), (None, (4095, 32764))])
@pytest.mark.parametrize("emit", ["llvm", "ptx"])
@pytest.mark.parametrize("gpu", ["sm_75", "sm_90"])
def test_one_version_has_one_ceiling(version, ceiling, emit, gpu):
    """Every stage reports it: for the number after the one that fits, and for one beyond every version's limit.  Above
    the documented limit of the GPU, the message has that one."""
    most, of_version = ceiling
    documented = 1024 if gpu == "sm_75" else 32760
    for number in {most + 1, 4096}:
        limit = documented if number * 8 > documented else of_version
        error = refused(pointers(number), gpu, emit, ptx_version=version)
        (result,) = error.diagnostics
        needed = f"({number * 8} bytes required, max {limit} bytes allowed) in function k"
        assert (error.code, result.message) == (5, f"Formal parameter space overflowed {needed}")
        assert result.position[:3] == ("k.mlir", 2, 3)
        assert [f"limit of {of_version} bytes" in note.message for note in result.notes] == [True] * (
            limit == documented
        )
    if most < 1000:
        assert tileiras.compile(pointers(most), gpu_name=gpu, emit=emit, ptx_version=version)


@pytest.mark.parametrize("gpu, number", [("sm_75", 129), ("sm_90", 4096)])
def test_the_documented_ceiling_is_the_default_of_pipelines(gpu, number, tmp_path, capsys):
    """1024 bytes on sm_75, 32760 from sm_80 on; the command admits what PTX does."""
    path = tmp_path / "k.mlir"
    path.write_text(pointers(number - 1))
    pipeline = f"--pass-pipeline=builtin.module(tileir{{opt-level=3 compute-capability={gpu}}})"
    fits = number < 4096
    assert tileiras_opt.main([str(path), pipeline]) == 0
    path.write_text(pointers(number))
    assert tileiras_opt.main([str(path), pipeline]) == 5
    assert f"max {1024 if fits else 32760} bytes allowed" in capsys.readouterr().err
    assert tileiras_opt.main([str(path), pipeline, "--parameter-ceiling=ptx"]) == (0 if fits else 5)
    if fits:
        assert tileiras.compile(pointers(number), gpu_name=gpu, emit="llvm")
        assert refused(pointers(number), gpu, "llvm", parameter_ceiling="documented").code == 5


def test_tile_launch_is_named_with_the_option_against_it():
    error = refused(pointers(1), ptx_version="8.6", tile_launch=True)
    assert error.code == 2
    lines = error.render().splitlines()
    assert lines[0] == "k.mlir:2:3: error: PTX version 8.6 does not support the tile launch, which needs 9.2 or newer"
    assert [line for line in lines if line.startswith("note: --tile-launch=false ")]
    assert tileiras.compile(pointers(1), gpu_name="sm_90", ptx_version="8.6", tile_launch=False)
    assert ".version 9.2" in tileiras.compile(pointers(1), gpu_name="sm_90", ptx_version="9.2", tile_launch=True).text


def test_everything_too_new_is_named():
    error = refused(pointers(1), ptx_version="7.2", tile_launch=True, device_debug=True, opt_level=0)
    result = error.render()
    assert "does not support the tile launch, which needs 9.2" in result
    assert "note: sm_90 needs PTX 7.8 or newer" in result
    assert "note: full debug information needs PTX 7.5 or newer; --lineinfo " in result


ASSEMBLY = """\
module {
  llvm.func @k() attributes {nvvm.kernel} {
    llvm.inline_asm has_side_effects {min_ptx = "7.5"} "fence.proxy.alias;", "~{memory}"  : () -> ()
    llvm.inline_asm has_side_effects {min_ptx = "8.1"} "@p multimem.red.add.f32 [a], b;", "~{memory}"  : () -> ()
    llvm.inline_asm has_side_effects {min_ptx = "7.8"} "griddepcontrol.wait;", "~{memory}"  : () -> ()
    llvm.return
  }
}
"""

INTRINSIC = """\
target triple = "nvptx64-nvidia-cuda"

define ptx_kernel void @k() {
  call void @llvm.nvvm.griddepcontrol.wait()
  ret void
}

declare void @llvm.nvvm.griddepcontrol.wait()
"""


@pytest.mark.parametrize("name, text, what", [
    ("k.llvm.mlir", ASSEMBLY, "'multimem.red.add.f32'"),
    ("k.ll", INTRINSIC, "intrinsic 'llvm.nvvm.griddepcontrol.wait'"),
])  # fmt: skip
def test_the_instruction_that_needs_it_is_named(tmp_path, name, text, what):
    (tmp_path / name).write_text(text)
    with pytest.raises(CompileError) as error:
        tileiras.compile(tmp_path / name, gpu_name="sm_90", ptx_version="7.7")
    assert f"{what}" in error.value.render() and error.value.code == 2


def test_an_invalid_version_is_refused_in_a_pipeline(tmp_path, capsys):
    from tileiras.cli.tileiras_opt import main

    (tmp_path / "k.mlir").write_text("module {\n  llvm.func @k() attributes {nvvm.kernel} {\n    llvm.return\n  }\n}\n")
    for version in ("new", "8", "8.", "-8.1", "8.1.2"):
        assert main([str(tmp_path / "k.mlir"), f"--nvvm-ir-verifier=ptx-version={version}"]) == 2
        assert f"'{version}' value invalid for option 'ptx-version'" in capsys.readouterr().err
    assert main([str(tmp_path / "k.mlir"), "--nvvm-ir-verifier=ptx-version=8.1"]) == 0
