"""Launches from a kernel: correct code is linked with the device runtime, wrong code diagnosed."""

import pytest

import tileiras
from tileiras.codegen import device_runtime, toolkit
from tileiras.diagnostics import CompileError

SIGNATURE = "(!llvm.ptr, !llvm.struct<(i32, i32, i32)>, !llvm.struct<(i32, i32, i32)>, i32) -> !llvm.ptr"
TEXT = f"""\
module {{
  llvm.func @cudaGetParameterBufferV2{SIGNATURE}
  llvm.func @cudaLaunchDeviceV2(!llvm.ptr, !llvm.ptr) -> i32
  llvm.func @child(%p: !llvm.ptr<1>) attributes {{nvvm.kernel}} {{
    %v = llvm.mlir.constant(7 : i32) : i32
    llvm.store %v, %p : i32, !llvm.ptr<1>
    llvm.return
  }}
  llvm.func @parent(%data: !llvm.ptr<1>, %stream: !llvm.ptr) attributes {{nvvm.kernel}} {{
    %f = llvm.mlir.addressof @child : !llvm.ptr
    %one = llvm.mlir.constant(1 : i32) : i32
    %d = llvm.mlir.undef : !llvm.struct<(i32, i32, i32)>
    %b = llvm.call @cudaGetParameterBufferV2(%f, %d, %d, %one) : {SIGNATURE}
    llvm.store %data, %b : !llvm.ptr<1>, !llvm.ptr
    %r = llvm.call @cudaLaunchDeviceV2(%b, %stream) : (!llvm.ptr, !llvm.ptr) -> i32
    llvm.return
  }}
}}
"""

needs_tools = pytest.mark.skipif(
    not all(map(toolkit.find_program, ("ptxas", "nvlink", "nvdisasm"))) or device_runtime.find_library() is None,
    reason="needs ptxas, nvlink, nvdisasm and libcudadevrt.a",
)


def compiled(tmp_path, text=TEXT, **options):
    path = tmp_path / "launch.llvm.mlir"
    path.write_text(text)
    return tileiras.compile(path, gpu_name="sm_90", **options)


def test_ptx_declares_the_functions_of_the_library(tmp_path):
    artifact = compiled(tmp_path)
    assert not artifact.diagnostics, "the stream is no argument of the launch"
    assert device_runtime.is_called(artifact.text) and ".entry child" in artifact.text


@needs_tools
@pytest.mark.parametrize("tile_launch", [False, True])
def test_a_cubin_has_the_library(tmp_path, tile_launch):
    artifact = compiled(tmp_path, emit="sass", tile_launch=tile_launch)
    assert not artifact.diagnostics
    for name in ("parent", "child", "cudaLaunchDeviceV2", "cudaGetParameterBufferV2"):
        assert f".text.{name}:" in artifact.text.replace(",", ":")


@needs_tools
def test_a_module_that_the_user_links_is_not_linked(tmp_path):
    alone = compiled(tmp_path, emit="cubin", ptxas_options=["-c"])
    assert len(alone.data) < len(compiled(tmp_path, emit="cubin").data)


def test_a_launch_of_a_function_is_an_error(tmp_path):
    text = TEXT.replace("@child(%p: !llvm.ptr<1>) attributes {nvvm.kernel}", "@child(%p: !llvm.ptr<1>)")
    with pytest.raises(CompileError) as error:
        compiled(tmp_path, text)
    (result,) = error.value.diagnostics[:1]
    assert result.message == "a function that is not __global__ cannot be launched" and result.position.line == 13


def test_missing_parts_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(toolkit, "find_library", lambda *_: None)
    with pytest.raises(CompileError, match="could not find libcudadevrt.a"):
        device_runtime.link(b"", "sm_90")


def test_nvjitlink_refuses(tmp_path):
    if toolkit.find_library("lib/libnvJitLink.so.13") is None:
        pytest.skip("needs nvJitLink")
    with pytest.raises(CompileError, match="assembler=nvjitlink does not link the device runtime") as error:
        compiled(tmp_path, emit="cubin", assembler="nvjitlink")
    assert error.value.code == 2
