"""Kernels for the CPU, compiled and launched in this process."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tileiras
from tileiras import runtime
from tileiras.diagnostics import CompileError
from tileiras.runtime import cpu
from tileiras.targets.cpu import host

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.skipif(host() is None, reason="no target for this machine")

BLOCKS = """cuda_tile.module @m {
entry @k(%p: tile<ptr<i32>>, %least: tile<i32>) {
  %x, %y, %z = get_tile_block_id : tile<i32>
  %good = cmpi greater_than_or_equal %x, %least, signed : tile<i32> -> tile<i1>
  assert %good, "too small" : tile<i1>
  %a = offset %p, %x : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %t = store_ptr_tko weak %a, %x : tile<ptr<i32>>, tile<i32> -> token
  return
}
}"""


def saxpy() -> tileiras.Artifact:
    return tileiras.compile(EXAMPLES / "saxpy.mlir", gpu_name="cpu")


@pytest.mark.parametrize("threads", [1, 3])
def test_arrays_are_updated_in_place(threads):
    x, y = np.arange(3000, dtype=np.float32), np.ones(3000, np.float32)
    runtime.launch(saxpy(), "saxpy", 3, [x, y, 2.0, 3000], threads=threads)
    assert (y == 2 * x + 1).all()


def test_bytes_are_launched_with_their_description(monkeypatch):
    artifact = saxpy()
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    monkeypatch.setenv(cpu.THREADS, "2")
    runtime.launch(artifact.data, "saxpy", 1, [x, y, 1.0, 8], metadata={"kernels": [artifact.kernels[0].metadata]})
    assert (y == x).all()


def test_an_object_that_calls_an_unknown_function_is_rejected():
    import llvmlite.binding as llvm

    saxpy()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    ir = "declare void @{0}()\ndefine void @k() {{\n call void @{0}()\n ret void\n}}"
    with pytest.raises(runtime.ArgumentError, match="calls 'no_such_function'"):
        cpu.Loaded(machine.emit_object(llvm.parse_assembly(ir.format("no_such_function"))))
    cpu.Loaded(machine.emit_object(llvm.parse_assembly(ir.format("tanh")))).function("k")


@pytest.mark.parametrize("function", ["tanh", "sinh", "cosh", "tan", "exp", "sin"])
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_functions_of_a_single_narrow_number(function, element):
    """A scalar: LLVM has other conversions for it than for vectors."""
    text = f"""cuda_tile.module @m {{
      entry @k(%p: tile<ptr<{element}>>) {{
        %x, %t = load_ptr_tko weak %p : tile<ptr<{element}>> -> tile<{element}>, token
        %y = {function} %x : tile<{element}>
        %done = store_ptr_tko weak %p, %y : tile<ptr<{element}>>, tile<{element}> -> token
        return
      }}
    }}"""
    x = np.array([-0.75], np.float16 if element == "f16" else ml_dtypes.bfloat16)
    wanted = getattr(np, function)(x.astype(np.float64))
    runtime.launch(tileiras.compile(text, gpu_name="cpu"), "k", 1, [x])
    assert np.allclose(x.astype(np.float64), wanted, rtol=2**-10 if element == "f16" else 2**-7)


def test_errors_of_a_launch(monkeypatch):
    artifact, x = saxpy(), np.zeros(4, np.float32)
    with pytest.raises(runtime.ArgumentError, match="takes 4 arguments"):
        runtime.launch(artifact, "saxpy", 1, [x, x])
    with pytest.raises(runtime.ArgumentError, match="no kernel 'other'"):
        runtime.launch(artifact, "other", 1, [x, x, 1.0, 4])
    with pytest.raises(runtime.ArgumentError, match="at least one thread"):
        runtime.launch(artifact, "saxpy", 1, [x, x, 1.0, 4], threads=0)
    monkeypatch.setenv(cpu.THREADS, "many")
    with pytest.raises(runtime.ArgumentError, match="TILEIRAS_CPU_THREADS=many"):
        runtime.launch(artifact, "saxpy", 1, [x, x, 1.0, 4])


def test_an_assertion_ends_the_launch():
    artifact, out = tileiras.compile(BLOCKS, gpu_name="cpu", source_name="k.mlir"), np.full(4, -1, np.int32)
    runtime.launch(artifact, "k", 4, [out, 0])
    assert out.tolist() == [0, 1, 2, 3]
    with pytest.raises(cpu.KernelFailure, match="assertion failed: too small"):
        runtime.launch(artifact, "k", 4, [out, 2])


def test_products_of_a_cpu():
    for emit in ("cubin", "tileas"):
        with pytest.raises(CompileError, match=f"emit: {emit}; accepted on target cpu: .*llvm, obj"):
            tileiras.compile(BLOCKS, gpu_name="cpu", emit=emit)
    with pytest.raises(CompileError, match="emit: obj; accepted: "):
        tileiras.compile(BLOCKS, gpu_name="sm_90", emit="obj")


def test_options_without_a_meaning_on_a_cpu():
    for options in ({"lineinfo": True}, {"device_debug": True, "opt_level": 0}, {"tile_launch": True, "num_ctas": 2}):
        assert tileiras.compile(BLOCKS, gpu_name="cpu", **options).data[:4] == b"\x7fELF"
    with pytest.raises(CompileError, match="deterministic=require: kernels for cpu"):
        tileiras.compile(BLOCKS, gpu_name="cpu", deterministic="require")


def test_llvm_ir_can_be_compiled_on(tmp_path):
    path = tmp_path / "saxpy.cpu.ll"
    path.write_bytes(tileiras.compile(EXAMPLES / "saxpy.mlir", gpu_name="cpu", emit="llvm").data)
    assert tileiras.compile(path, gpu_name="cpu").data == saxpy().data


def test_memory_of_a_gpu_is_refused():
    class Tensor:
        __cuda_array_interface__ = {"data": (4096, False), "shape": (4,), "typestr": "<f4", "version": 3}

    x = np.zeros(4, np.float32)
    with pytest.raises(runtime.ArgumentError, match="argument 1 of kernel 'saxpy' is memory of a GPU"):
        runtime.launch(saxpy(), "saxpy", 1, [x, Tensor(), 1.0, 4])


def test_arrays_that_are_not_writable_keep_their_elements():
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    y.flags.writeable = False
    runtime.launch(saxpy(), "saxpy", 1, [x, y, 1.0, 8])
    assert not y.any()


@pytest.mark.parametrize("target", ["cpu-x86-64-v3", "cpu-x86-64-v4", "cpu-aarch64"])
def test_levels_compile_on_any_machine(target):
    result = [tileiras.api.compile(EXAMPLES / "saxpy.mlir", gpu_name=target).data for _ in range(2)]
    assert result[0][:4] == b"\x7fELF" and result[0] == result[1]


def test_several_kernels_are_an_archive():
    other = BLOCKS.replace("@k", "@other").replace("cuda_tile.module @m {\n", "")
    artifact = tileiras.compile(BLOCKS.removesuffix("}") + other, gpu_name="cpu")
    assert artifact.data.startswith(b"!<arch>\n0.o/ ")
    assert [kernel.name for kernel in artifact.kernels] == ["k", "other"]
    out = np.full(2, -1, np.int32)
    runtime.launch(artifact, "other", 2, [out, 0])
    assert out.tolist() == [0, 1]
