import os
import re
import subprocess
import sys
import threading

import pytest

from tileiras.codegen import llvm_pipeline
from tileiras.codegen.target_machine import processor
from tileiras.diagnostics import CompileError
from tileiras.processes import helper
from tileiras.targets.nvptx import MODULE_HEADER

STORE_ONE = (
    MODULE_HEADER
    + """
define ptx_kernel void @k(ptr addrspace(1) align 16 %p) "nvvm.reqntid"="128,1,1" {
  store float 1.0, ptr addrspace(1) %p
  ret void
}
"""
)


def test_kernel_becomes_an_entry_with_its_launch_bounds():
    result = llvm_pipeline.compile_to_ptx(STORE_ONE, processor("sm_90"))
    assert ".visible .entry k(" in result.text
    assert ".reqntid 128, 1, 1" in result.text
    assert result.version == (7, 8) and ".version 7.8" in result.text
    assert set(result.milliseconds) == {"parse", "verify", "optimize", "emit"}


def test_min_ptx_metadata_of_the_module_raises_the_version():
    ir = STORE_ONE + "!tileiras.min_ptx = !{!0}\n!0 = !{i32 8, i32 1}\n"
    assert llvm_pipeline.compile_to_ptx(ir, processor("sm_90")).version == (8, 1)


@pytest.mark.parametrize(
    "body, message",
    [
        ("%r = call float @llvm.log2.f32(float %x)\n  store float %r, ptr addrspace(1) null", "no libcall available"),
        ('fence syncscope("singlethread") seq_cst', "Unsupported scope"),
        ('call void asm "nonsense $0", "Z"(i32 1)', "unknown asm constraint 'Z'"),
    ],
)
def test_death_of_llvm_is_a_diagnostic_with_its_words(body, message):
    ir = MODULE_HEADER + (
        "declare float @llvm.log2.f32(float)\n"
        "define ptx_kernel void @k(float %x) {\n  " + body + "\n  ret void\n}\n"
    )
    with pytest.raises(CompileError) as error:
        llvm_pipeline.compile_to_ptx(ir, processor("sm_80"), opt_level=0)
    assert error.value.code == 5
    assert message in error.value.diagnostics[0].message
    # The next request starts another helper.
    assert ".entry k" in llvm_pipeline.compile_to_ptx(STORE_ONE, processor("sm_80")).text


def test_malformed_ir_is_a_diagnostic_with_the_place():
    with pytest.raises(CompileError, match="line 1, column 8: expected type"):
        llvm_pipeline.compile_to_ptx("define foo", processor("sm_80"))
    with pytest.raises(CompileError, match="immarg operand has non-immediate parameter"):
        llvm_pipeline.verify_module(
            "declare void @llvm.nvvm.cp.async.wait.group(i32)\n"
            "define void @f(i32 %n) {\n  call void @llvm.nvvm.cp.async.wait.group(i32 %n)\n  ret void\n}\n"
        )


def test_the_decisive_line_is_found_and_has_no_local_folder():
    text = (
        "Can't create an unknown libcall!\n"
        "UNREACHABLE executed at /home/builder/work/llvm/lib/CodeGen/LegalizeDAG.cpp:2205!\n"
        "PLEASE submit a bug report to x\nStack dump:\n0.\tRunning pass 'a'\n #0 0x00007f1 (/lib/x.so+0x12)\n"
    )
    assert llvm_pipeline.first_line(text) == "Can't create an unknown libcall!"
    (note,) = llvm_pipeline._quoted(text)
    assert "executed at llvm/lib/CodeGen/LegalizeDAG.cpp:2205!" in note.message
    assert "0x00007f1" not in note.message and "/home" not in note.message
    assert llvm_pipeline.first_line("warning: x\nLLVM ERROR: Cannot select: y\n") == "LLVM ERROR: Cannot select: y"


def test_loops_are_not_unrolled():
    ir = (
        MODULE_HEADER
        + """
define ptx_kernel void @k(ptr addrspace(1) %p) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %at = getelementptr float, ptr addrspace(1) %p, i64 %i
  store volatile float 1.0, ptr addrspace(1) %at
  %next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
    )
    assert llvm_pipeline.compile_to_ptx(ir, processor("sm_80")).text.count("st.volatile") == 1


SHARED_SUM = """
@smem = %s
define ptx_kernel void @k(ptr addrspace(1) %%p, i32 %%n) {
  %%t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %%q = getelementptr float, ptr addrspace(3) @smem, i32 %%t
  %%a = load float, ptr addrspace(1) %%p
  store float %%a, ptr addrspace(3) %%q
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %%c = icmp slt i32 %%n, 8
  br i1 %%c, label %%then, label %%end
then:
  %%r = getelementptr float, ptr addrspace(3) @smem, i32 7
  %%b = load float, ptr addrspace(3) %%r
  store float %%b, ptr addrspace(1) %%p
  br label %%end
end:
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
"""


def test_shared_memory_of_a_known_size_changes_no_instruction(monkeypatch):
    """A tile launch defines the symbol: the kernel is still the only function of its module."""
    import llvmlite.binding as llvm

    monkeypatch.setattr(llvm.ModulePassManager, "run", None)  # the passes of a module cannot run
    items = []
    for definition in ("external addrspace(3) global [0 x i8]", "internal addrspace(3) global [512 x i8] undef"):
        text, _ = llvm_pipeline._compile(MODULE_HEADER + SHARED_SUM % definition, "sm_90", "+ptx78", 3, (), ())
        body = text[text.index("{\n") :].split("\n")
        items.append([line for line in body if line and ".shared .align" not in line and "demoted" not in line])
    assert items[0] == items[1]


def test_same_bytes_from_a_used_helper_and_a_fresh_process():
    typed = STORE_ONE.replace("define", "%pair = type { i32, i32 }\n@g = global %pair zeroinitializer\ndefine")
    texts = {llvm_pipeline.compile_to_ptx(typed, processor("sm_80")).text for _ in range(3)}
    script = (
        "import sys; from tileiras.codegen import llvm_pipeline as p, target_machine as t\n"
        "sys.stdout.write(p.compile_to_ptx(sys.stdin.read(), t.processor('sm_80')).text)"
    )
    fresh = subprocess.run(
        [sys.executable, "-c", script],
        input=typed,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    texts.add(fresh.stdout)
    assert len(texts) == 1


def test_calls_are_numbered_alike_after_other_compilations():
    ir = MODULE_HEADER + (
        "declare i32 @vprintf(ptr, ptr)\n"
        "define ptx_kernel void @k(ptr %p) {\n"
        "  %a = call i32 @vprintf(ptr %p, ptr null)\n  %b = call i32 @vprintf(ptr %p, ptr %p)\n  ret void\n}\n"
    )
    texts = {llvm_pipeline.compile_to_ptx(ir, processor("sm_80")).text for _ in range(3)}
    (text,) = texts
    assert re.findall(r"// callseq (\d+)", text) == ["0", "0", "1", "1"]


def test_threads_compile_at_the_same_time():
    results: list[str] = []
    helpers: list[int] = []

    def work() -> None:
        results.append(llvm_pipeline.compile_to_ptx(STORE_ONE, processor("sm_80")).text)
        helpers.append(helper._local.helper._pid)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert len(results) == 4 and len(set(results)) == 1
    # A helper ends with its thread.
    assert len(set(helpers)) == 4
    for pid in helpers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_forked_worker_starts_its_own_helper():
    llvm_pipeline.compile_to_ptx(STORE_ONE, processor("sm_80"))
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            text = llvm_pipeline.compile_to_ptx(STORE_ONE, processor("sm_80")).text
            os.write(write, b"ok" if ".entry k" in text else b"no")
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    assert os.waitpid(pid, 0)[1] == 0
    assert os.read(read, 2) == b"ok"
    os.close(read)
    # The child's end has not affected our helper.
    assert ".entry k" in llvm_pipeline.compile_to_ptx(STORE_ONE, processor("sm_80")).text


def test_invalid_level_is_a_configuration_error():
    with pytest.raises(CompileError, match="invalid LLVM optimization level: 4") as error:
        llvm_pipeline.compile_to_ptx(STORE_ONE, processor("sm_80"), opt_level=4)
    assert error.value.code == 2


KILLED = """
import os, signal, sys
from tileiras import api
from tileiras.processes import helper
if sys.argv[1] == "embedded":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # as in a program that embeds Python
def made():
    return api.compile(sys.argv[2], gpu_name="sm_90").data
first = made()
os.kill(helper._local.helper._pid, signal.SIGKILL)
os.waitid(os.P_PID, helper._local.helper._pid, os.WEXITED | os.WNOWAIT)
assert made() == first and signal.SIGPIPE not in signal.sigpending()
"""


@pytest.mark.parametrize("program", ["python", "embedded"])
def test_a_helper_killed_between_kernels_is_replaced(program):
    words = [sys.executable, "-c", KILLED, program, "examples/saxpy.mlir"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "conversion",
    [
        "%r = sitofp i1 %c to bfloat",
        "%w = sitofp i1 %c to float\n%r = fptrunc float %w to bfloat",
        "%v = insertelement <2 x i1> poison, i1 %c, i32 0\n%w = insertelement <2 x i1> %v, i1 %d, i32 1\n"
        "%f = sitofp <2 x i1> %w to <2 x bfloat>\n%r = extractelement <2 x bfloat> %f, i32 %i",
    ],
)
def test_a_signed_bit_is_minus_one_in_bf16(conversion):
    ir = MODULE_HEADER + (
        "define ptx_kernel void @k(ptr addrspace(1) %p, i64 %n, i32 %i) {\n"
        "%c = trunc i64 %n to i1\n%m = lshr i64 %n, 7\n%d = trunc i64 %m to i1\n"
        f"{conversion}\nstore bfloat %r, ptr addrspace(1) %p\nret void\n}}\n"
    )
    ptx = llvm_pipeline.compile_to_ptx(ir, processor("sm_90")).text
    assert "0xBF80, 0x0000" in ptx and "cvt.rn.bf16" not in ptx
