"""Calls of the user's own device code: PTX, bitcode, cubins and archives, executed or linked."""

from __future__ import annotations

import subprocess

import llvmlite.binding as llvm
import numpy as np
import pytest

import tileiras
from tileiras.codegen import device_code, toolkit
from tileiras.diagnostics import CompileError
from tileiras.sim import emulate, interpret

PTX = """\
.version 7.0
.target sm_75
.address_size 64
.global .align 4 .f32 factor = 0f40400000;
.func (.param .b32 r) helper(.param .b32 a)
{
	.reg .f32 %f<4>;
	ld.param.f32 %f1, [a];
	ld.global.f32 %f2, [factor];
	mul.f32 %f3, %f1, %f2;
	st.param.f32 [r], %f3;
	ret;
}
.visible .func (.param .b32 r) affine(.param .b32 a, .param .b32 b)
{
	.reg .f32 %f<5>;
	ld.param.f32 %f1, [a];
	ld.param.f32 %f4, [b];
	{
	.param .b32 p0;
	.param .b32 q0;
	st.param.f32 [p0], %f1;
	call.uni (q0), helper, (p0);
	ld.param.f32 %f2, [q0];
	}
	add.f32 %f3, %f2, %f4;
	st.param.f32 [r], %f3;
	ret;
}
.visible .func (.param .b32 r) my_pe()
{
	.reg .b32 %r<2>;
	mov.u32 %r1, 5;
	st.param.b32 [r], %r1;
	ret;
}
.visible .func put_block(.param .b64 to, .param .b64 from, .param .b64 n, .param .b32 pe)
{
	.reg .pred %p<2>;
	.reg .b32 %r<4>;
	.reg .f32 %f<3>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [to];
	ld.param.u64 %rd2, [from];
	ld.param.u64 %rd3, [n];
	ld.param.u32 %r3, [pe];
	cvt.rn.f32.s32 %f2, %r3;
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %ntid.x;
	cvt.u64.u32 %rd4, %r1;
	cvt.u64.u32 %rd5, %r2;
$L:
	setp.ge.u64 %p1, %rd4, %rd3;
	@%p1 bra $E;
	shl.b64 %rd6, %rd4, 2;
	add.s64 %rd7, %rd2, %rd6;
	ld.f32 %f1, [%rd7];
	add.f32 %f1, %f1, %f2;
	add.s64 %rd7, %rd1, %rd6;
	st.f32 [%rd7], %f1;
	add.s64 %rd4, %rd4, %rd5;
	bra $L;
$E:
	bar.sync 0;
	ret;
}
.visible .func takes_structure(.param .align 8 .b8 s[16])
{
	ret;
}
.visible .entry unrelated()
{
	ret;
}
"""

BITCODE = """\
target triple = "nvptx64-nvidia-cuda"
@factor = addrspace(1) externally_initialized global float 3.0
define float @affine(float %a, float %b) {
  %f = load float, ptr addrspace(1) @factor
  %p = fmul float %a, %f
  %r = fadd float %p, %b
  ret float %r
}
define half @halves(half %a) {
  %r = fadd half %a, %a
  ret half %r
}
"""


def elementwise(rows: int, columns: int) -> str:
    """y = affine(x, 1) for a matrix of one tile."""
    tile, view = f"tile<{rows}x{columns}xf32>", f"tensor_view<{rows}x{columns}xf32, strides=[{columns},1]>"
    part = f"partition_view<tile=({rows}x{columns}), {view}>"
    return f"""\
cuda_tile.module @m {{
  entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>) {{
    %i = constant <i32: 0> : tile<i32>
    %one = constant <f32: 1.0> : {tile}
    %vx = make_tensor_view %x, shape = [{rows}, {columns}], strides = [{columns}, 1] : {view}
    %vy = make_tensor_view %y, shape = [{rows}, {columns}], strides = [{columns}, 1] : {view}
    %px = make_partition_view %vx : {part}
    %py = make_partition_view %vy : {part}
    %a, %t = load_view_tko weak %px[%i, %i] : {part}, tile<i32> -> {tile}, token
    %r = preview$call @affine(%a, %one) : (!cuda_tile.{tile}, !cuda_tile.{tile}) -> !cuda_tile.{tile}
    %u = store_view_tko weak %r, %py[%i, %i] : {tile}, {part}, tile<i32> -> token
    return
  }}
}}
"""


SCALARS = """\
cuda_tile.module @m {
  entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %n: tile<i64>) {
    %i = iota : tile<256xi32>
    %p = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %b = broadcast %p : tile<1xptr<f32>> -> tile<256xptr<f32>>
    %o = offset %b, %i : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
    %v = itof %i signed : tile<256xi32> -> tile<256xf32>
    %stored = store_ptr_tko weak %o, %v : tile<256xptr<f32>>, tile<256xf32> -> token
    %zero = constant <i32: 0> : tile<i32>
    %t0, %pe = preview$call @my_pe(%stored, %zero)
      : (!cuda_tile.token, !cuda_tile.tile<i32>) -> (!cuda_tile.token, !cuda_tile.tile<i32>)
    %t1 = preview$call @put_block(%t0, %y, %x, %n, %pe)
      : (!cuda_tile.token, !cuda_tile.tile<ptr<f32>>, !cuda_tile.tile<ptr<f32>>, !cuda_tile.tile<i64>,
         !cuda_tile.tile<i32>) -> !cuda_tile.token
    %py = reshape %y : tile<ptr<f32>> -> tile<1xptr<f32>>
    %by = broadcast %py : tile<1xptr<f32>> -> tile<256xptr<f32>>
    %last = constant <i32: 255> : tile<256xi32>
    %back = subi %last, %i : tile<256xi32>
    %oy = offset %by, %back : tile<256xptr<f32>>, tile<256xi32> -> tile<256xptr<f32>>
    %w, %t2 = load_ptr_tko weak %oy token = %t1 : tile<256xptr<f32>> -> tile<256xf32>, token
    %again = store_ptr_tko weak %o, %w token = %t2 : tile<256xptr<f32>>, tile<256xf32> -> token
    return
  }
}
"""


def bitcode(text: str = BITCODE) -> bytes:
    return llvm.parse_assembly(text, context=llvm.create_context()).as_bitcode()


@pytest.fixture
def library(tmp_path):
    """Write a library of a kind, and return its path."""

    def write(kind: str) -> str:
        path = tmp_path / f"library.{kind}"
        if kind == "ptx":
            path.write_text(PTX)
        elif kind == "bc":
            path.write_bytes(bitcode())
        else:
            (tmp_path / "f.ptx").write_text(PTX)
            ptxas = toolkit.find_program("ptxas")
            if ptxas is None:
                pytest.skip("no ptxas")
            command = [ptxas, "-c", "-arch=sm_90", str(tmp_path / "f.ptx"), "-o", str(path)]
            subprocess.run(command, check=True)
        return str(path)

    return write


@pytest.mark.parametrize("kind", ["ptx", "bc"])
@pytest.mark.parametrize(
    ("gpu", "rows", "columns", "warps"),
    [("sm_80", 1, 32, 1), ("sm_90", 16, 64, 4), ("sm_100", 64, 64, 8), ("sm_120", 8, 8, 2)],
)
def test_a_function_is_called_for_each_element(library, kind, gpu, rows, columns, warps):
    text = elementwise(rows, columns)
    artifact = tileiras.compile(text.encode(), gpu_name=gpu, num_warps=warps, device_libraries=[library(kind)])
    random = np.random.default_rng(rows)
    x = random.standard_normal((rows, columns)).astype(np.float32)
    y, expected = np.zeros_like(x), np.zeros_like(x)
    emulate(artifact.text, "k", 1, [x, y], metadata=artifact.kernels[0].metadata)
    interpret(text, "k", 1, [x, expected], functions={"affine": lambda a, b: a * np.float32(3) + b})
    assert np.array_equal(y, expected) or np.allclose(y, expected, rtol=1e-6)  # bitcode may become a fused operation
    assert "unrelated" not in artifact.text


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("warps", [1, 4, 8])
def test_scalars_in_nvshmems_shape_are_ordered_with_accesses(library, gpu, warps):
    """Threads copy elements that other threads have stored, and each loads an element that another thread copied."""
    artifact = tileiras.compile(SCALARS.encode(), gpu_name=gpu, num_warps=warps, device_libraries=[library("ptx")])
    x, y = np.zeros(256, np.float32), np.zeros(256, np.float32)
    emulate(artifact.text, "k", 1, [x, y, 256], metadata=artifact.kernels[0].metadata)
    assert np.array_equal(y, np.arange(256) + 5) and np.array_equal(x, y[::-1])


def test_variables_that_the_host_initializes_keep_their_names(library):
    text = tileiras.compile(elementwise(4, 8).encode(), gpu_name="sm_90", device_libraries=[library("bc")]).text
    assert ".visible .global .align 4 .f32 factor" in text or ".visible .global .align 4 .b32 factor" in text


def test_halves_are_passed_to_bitcode(library):
    text = elementwise(4, 8).replace("affine(%a, %one)", "halves(%a)").replace("xf32", "xf16").replace("<f32", "<f16")
    tile = "!cuda_tile.tile<4x8xf16>"
    text = text.replace(f"({tile}, {tile})", f"({tile})")
    artifact = tileiras.compile(text.encode(), gpu_name="sm_90", device_libraries=[library("bc")])
    x, y = np.arange(32, dtype=np.float16), np.zeros(32, np.float16)
    emulate(artifact.text, "k", 1, [x, y], metadata=artifact.kernels[0].metadata)
    assert np.array_equal(y, x + x)


@pytest.mark.parametrize("assembler", ["ptxas", "nvjitlink"])
def test_a_cubin_is_linked(library, assembler):
    nvdisasm = toolkit.find_program("nvdisasm")
    if nvdisasm is None or toolkit.find_program("nvlink") is None:
        pytest.skip("needs nvdisasm and nvlink")
    options = {"gpu_name": "sm_90", "device_libraries": [library("cubin")], "assembler": assembler}
    text = elementwise(16, 16).encode()
    assert ".extern .func" in tileiras.compile(text, **options).text
    code = tileiras.compile(text, emit="sass", **options).text
    assert "CALL" in code and ".text.k" in code
    with pytest.raises(CompileError) as error:
        tileiras.compile(text, emit="cubin", **{**options, "gpu_name": "sm_80"})
    assert "nvlink" in str(error.value) or "nvJitLink" in str(error.value) or "nvjitlink" in str(error.value)


def test_an_archive_is_linked_and_answers_for_missing_functions(library, tmp_path):
    cubin = library("cubin")
    subprocess.run(["ar", "rcs", str(tmp_path / "library.a"), cubin], check=True)
    text = elementwise(16, 16).replace("@affine", "@absent").encode()
    with pytest.raises(CompileError) as error:
        tileiras.compile(text, gpu_name="sm_90", emit="cubin", device_libraries=[str(tmp_path / "library.a")])
    assert "absent" in str(error.value)


def refused(text: str, *libraries: str, gpu_name: str = "sm_90", **options) -> str:
    with pytest.raises(CompileError) as error:
        tileiras.compile(text.encode(), gpu_name=gpu_name, device_libraries=list(libraries), **options)
    assert error.value.code in (2, 5)
    return error.value.render()


def test_mistakes_are_located_at_the_call(library, tmp_path):
    ptx, code = library("ptx"), elementwise(4, 8)
    tile = "!cuda_tile.tile<4x8xf32>"
    one = code.replace(f"({tile}, {tile})", f"({tile})").replace("(%a, %one)", "(%a)")
    absent = refused(code.replace("@affine", "@absent"), ptx)
    where = "<input>:10:10: error: 'cuda_tile.preview$call' op "
    assert f"{where}calls '@absent', which no library defines: {ptx}" in absent
    assert f"calls '@affine' as (f32) -> f32, but '{ptx}' defines it as (b32, b32) -> b32" in refused(one, ptx)
    assert "(f32) -> f32, but" in refused(one.replace("@affine", "@takes_structure"), ptx)
    assert "defines it as (float, float) -> float" in refused(one, library("bc"))
    assert "function 'affine' is defined by" in refused(code, ptx, library("bc"))
    scalars = SCALARS.replace("%n: tile<i64>) {", "%n: tile<i64>) optimization_hints=<sm_90 = {num_cta_in_cga = 2}> {")
    assert "requires one CTA per tile block" in refused(scalars, ptx)


def test_files_of_other_kinds_are_refused(tmp_path):
    text = elementwise(4, 8)
    other = tmp_path / "library.txt"
    other.write_text("no code")
    assert "is neither PTX nor LLVM bitcode, a cubin or an archive of objects" in refused(text, str(other))
    assert "failed to open library" in refused(text, str(tmp_path / "absent"))
    other.write_bytes(b"BC\xc0\xde\0\0\0\0")
    assert "is no valid bitcode" in refused(text, str(other))


def test_code_for_another_gpu_or_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "library.ptx"
    path.write_text(PTX.replace("sm_75", "sm_100"))
    assert "is for sm_100, the kernel for sm_90" in refused(elementwise(4, 8), str(path))
    path.write_text(PTX.replace("sm_75", "sm_90a"))
    text = tileiras.compile(elementwise(4, 8).encode(), gpu_name="sm_90", device_libraries=[str(path)]).text
    assert ".target sm_90a" in text
    path.write_text(PTX.replace(".version 7.0", ".version 8.8"))
    text = tileiras.compile(elementwise(4, 8).encode(), gpu_name="sm_90", device_libraries=[str(path)]).text
    assert ".version 8.8" in text
    assert "needs PTX 8.8, but PTX 8.0 was requested" in refused(elementwise(4, 8), str(path), ptx_version="8.0")


def test_signatures_are_read(library):
    code = device_code.DeviceCode([library("ptx")])
    (ptx,) = code.libraries
    assert ptx.signature("put_block") == (("b64", "b64", "b64", "b32"), None)
    assert ptx.signature("my_pe") == ((), "b32") and ptx.signature("takes_structure").parameters == ("b8[16]",)
    (cubin,) = device_code.DeviceCode([library("cubin")]).libraries
    assert cubin.kind == device_code.CUBIN and cubin.defines("affine") and not cubin.defines("absent")
