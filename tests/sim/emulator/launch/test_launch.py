"""Launching: arguments, shapes, results, errors, and the imports that the emulator may have."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from tileiras.sim import EmulationError, Memory, emulate

VECTOR_ADD = """
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
define ptx_kernel void @add(ptr addrspace(1) %a, ptr addrspace(1) %b, ptr addrspace(1) %c, i32 %n)
    "nvvm.reqntid"="128" {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %block, 512
  %part = mul i32 %tid, 4
  %i = add i32 %base, %part
  %inside = icmp slt i32 %i, %n
  br i1 %inside, label %do, label %end
do:
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %i
  %pc = getelementptr float, ptr addrspace(1) %c, i32 %i
  %x = load <4 x float>, ptr addrspace(1) %pa, align 16
  %y = load <4 x float>, ptr addrspace(1) %pb, align 16
  %s = fadd <4 x float> %x, %y
  store <4 x float> %s, ptr addrspace(1) %pc, align 16
  br label %end
end:
  ret void
}
"""


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_vector_add(compile_ir, seed):
    n = 1000
    a, b = np.random.default_rng(0).random((2, n), np.float32)
    c = np.zeros_like(a)
    result = emulate(compile_ir(VECTOR_ADD), "add", 2, [a, b, c, n], seed=seed)
    assert np.array_equal(c, a + b)
    assert result.instruction_counts["ld.global.v4.b32"] == 2 * 8  # 250 threads are 8 warps
    assert result.steps == sum(result.instruction_counts.values())


def test_access_past_the_end_names_line_thread_and_address(compile_ir):
    ptx = compile_ir(VECTOR_ADD)
    a, b, c = np.zeros((3, 1000), np.float32).copy(), np.zeros(1000, np.float32), np.zeros(1000, np.float32)
    with pytest.raises(EmulationError, match="in no allocation") as info:
        emulate(ptx, "add", 2, [a, b[:900].copy(), c, 1000])
    error = info.value
    assert error.text.startswith("ld.global.v4.b32")
    assert ptx.splitlines()[error.line - 1].strip().split() == error.text.split()
    assert (error.block, error.thread) == ((1, 0, 0), (97, 0, 0))
    assert error.address is not None


def test_misaligned_access_is_an_error(compile_ir):
    a, b, c = np.zeros((3, 1001), np.float32)
    shifted = np.zeros(1001, np.float32)[1:]
    with pytest.raises(EmulationError, match="not aligned to 16 bytes"):
        emulate(compile_ir(VECTOR_ADD), "add", 1, [shifted, b.copy(), c.copy(), 512])


def test_views_of_one_array_alias(compile_ir):
    base = np.arange(1536, dtype=np.float32)
    emulate(compile_ir(VECTOR_ADD), "add", 1, [base[:512], base[512:1024], base[1024:], 512])
    assert np.array_equal(base[1024:], np.arange(512) * 2 + 512)


def test_an_address_from_memory_is_a_pointer(compile_ir):
    memory = Memory()
    c = np.zeros(512, np.float32)
    address = memory.allocate(c)
    emulate(compile_ir(VECTOR_ADD), "add", 1, [np.ones(512, np.float32), np.ones(512, np.float32), address, 512])
    assert (c == 2).all()


def test_scalars_take_the_parameters_type(kernel):
    body = """
        st.global.b32 [%a0], %a1;  st.global.b64 [%a0+8], %a2;  st.global.b16 [%a0+16], %a3;
        st.global.b32 [%a0+20], %a4;
    """
    ptx = kernel(body, (".u64", ".f32", ".f64", ".b16", ".u32"), threads=1)
    out = np.zeros(3, np.uint64)
    emulate(ptx, "k", 1, [out, 1.5, 2, ml_dtypes.bfloat16(3), -1])
    raw = out.view(np.uint8)
    assert raw[:4].view(np.float32)[0] == 1.5 and raw[8:16].view(np.float64)[0] == 2.0
    assert raw[16:18].view(ml_dtypes.bfloat16)[0] == 3 and raw[20:24].view(np.int32)[0] == -1


def test_metadata_types_a_bf16_parameter(kernel):
    ptx = kernel("st.global.b16 [%a0], %a1;", (".u64", ".b16"), threads=1)
    out = np.zeros(1, np.uint16)
    metadata = {"kernels": [{"name": "k", "parameters": [{"type": "ptr<bf16>"}, {"type": "bf16"}]}]}
    emulate(ptx, "k", 1, [out, 1.5], metadata)
    assert out.view(ml_dtypes.bfloat16)[0] == 1.5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((), TypeError, "takes 2 arguments"),
        ((np.zeros(1), np.zeros(1)), TypeError, "parameter is a scalar of 4 bytes"),
        ((np.zeros(1), 1 << 32), ValueError, "does not fit"),
        ((np.zeros(1), "x"), TypeError, "neither an array nor a number"),
    ],
)
def test_arguments_that_do_not_fit(kernel, arguments, error, message):
    with pytest.raises(error, match=message):
        emulate(kernel("", (".u64", ".u32")), "k", 1, arguments)


def test_unknown_entry_and_instruction(kernel):
    with pytest.raises(EmulationError, match="no entry 'x' in the PTX; entries: k"):
        emulate(kernel(""), "x", 1, [np.zeros(1)])
    ptx = kernel("tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%a0, {%r5}];", assemble=False)
    with pytest.raises(EmulationError, match="unsupported instruction") as info:
        emulate(ptx, "k", 1, [np.zeros(1)])
    assert info.value.text.startswith("tex.1d") and "tex.1d" in ptx.splitlines()[info.value.line - 1]


def test_syntax_error_has_a_line():
    with pytest.raises(EmulationError, match="ptx:3: "):
        emulate(".version 8.6\n.target sm_90\n.visible .entry k( ? )", "k", 1, [])


def test_special_registers(kernel):
    body = """
        mov.u32 %r1, %tid.x;  mov.u32 %r2, %tid.y;  mov.u32 %r3, %ctaid.y;  mov.u32 %r4, %nctaid.x;
        mov.u32 %r5, %laneid;  mov.u32 %r6, %warpid;  mov.u32 %r7, %ntid.x; mov.u32 %r8, %ctaid.x;
        mad.lo.u32 %r9, %r3, %r4, %r8;  mad.lo.u32 %r10, %r2, %r7, %r1;  mad.lo.u32 %r9, %r9, 80, %r10;
        mad.wide.u32 %q1, %r9, 16, %a0;  mov.u32 %r11, %lanemask_lt;
        st.global.v4.u32 [%q1], {%r10, %r5, %r6, %r11};
    """
    ptx = kernel(body, threads="20, 4")
    out = np.zeros((6, 80, 4), np.uint32)
    emulate(ptx, "k", (3, 2), [out])
    thread = np.arange(80)
    expected = np.stack([thread, thread % 32, thread // 32, (1 << thread % 32) - 1], axis=1)
    assert (out == expected).all()


def test_step_limit_stops_an_endless_loop(kernel):
    with pytest.raises(EmulationError, match="step limit"):
        emulate(kernel("L: bra L;"), "k", 1, [np.zeros(1)], step_limit=1000)


def test_the_emulator_imports_nothing_of_the_compiler():
    code = """
import sys
import tileiras.sim
tileiras.sim.emulate
before = {m for m in sys.modules if m.startswith("tileiras")}
allowed = {"tileiras", "tileiras.sim", "tileiras.sim.memory", "tileiras.sim.errors", "tileiras.sim.blas"}
assert all(m in allowed or m.startswith("tileiras.sim.emulator") for m in before), before
assert not any(m.split(".")[0] in ("llvmlite", "SCons", "cuda") for m in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_module_of_the_emulator_imports_only_sim_and_numpy():
    import ast
    import importlib.util
    from pathlib import Path

    folder = Path(importlib.util.find_spec("tileiras.sim.emulator").origin).parent
    standard = sys.stdlib_module_names | {"numpy"}
    for source in folder.rglob("*.py"):
        depth = len(source.relative_to(folder).parts)
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                assert all(each.name.split(".")[0] in standard for each in node.names), source.name
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                assert node.module.split(".")[0] in standard, source.name
            elif isinstance(node, ast.ImportFrom):
                shared = node.level == depth + 1 and node.module in ("memory", "errors", "blas")
                assert node.level <= depth or shared, source.name
