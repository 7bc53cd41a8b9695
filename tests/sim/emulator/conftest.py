"""Kernels for the emulator's tests: LLVM IR text compiled by llvmlite, or PTX written by hand; ptxas judges both."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tileiras.codegen import toolkit
from tileiras.sim import emulate


@functools.cache
def _target_machine(cpu: str, opt: int):
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    return target.create_target_machine(cpu=cpu, features="+ptx86", opt=opt)


@functools.cache
def _compile(ir: str, cpu: str, opt: int) -> str:
    import llvmlite.binding as llvm

    if "target triple" not in ir:
        ir = 'target triple = "nvptx64-nvidia-cuda"\n' + ir
    module = llvm.parse_assembly(ir)
    module.verify()
    return _target_machine(cpu, opt).emit_assembly(module)


@functools.cache
def _assemble(ptx: str, cpu: str) -> None:
    ptxas = toolkit.find_program("ptxas")
    if ptxas is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        command = [ptxas, f"-arch={cpu}", "-O0", str(source), "-o", str(Path(folder, "kernel.cubin"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr + ptx


@pytest.fixture
def compile_ir():
    """A function from LLVM IR text to PTX that ptxas accepts."""

    def compile_(ir: str, cpu: str = "sm_90", opt: int = 3) -> str:
        ptx = _compile(ir, cpu, opt)
        _assemble(ptx, cpu)
        return ptx

    return compile_


@pytest.fixture
def assemble():
    """A function that has ptxas judge a PTX text for a processor."""
    return _assemble


HEADER = ".version 8.8\n.target {cpu}\n.address_size 64\n"


def _kernel(
    body: str, parameters=(".u64",), threads: int = 32, declarations: str = "", cpu: str = "sm_90", assemble=True
) -> str:
    names = ", ".join(f".param {t} k_{i}" for i, t in enumerate(parameters))
    loads = []
    for i, t in enumerate(parameters):
        loads.append(f".reg {t.replace('.f', '.b').replace('.u', '.b').replace('.s', '.b')} %a{i};")
        loads.append(f"ld.param{t} %a{i}, [k_{i}];")
    ptx = (
        f"{HEADER.format(cpu=cpu)}\n{declarations}\n.visible .entry k({names})\n.reqntid {threads}\n{{\n"
        ".reg .pred %p<20>;\n.reg .b16 %h<40>;\n.reg .b32 %r<80>;\n.reg .b64 %q<60>;\n"
        + "\n".join(loads)
        + f"\n{body}\nret;\n}}\n"
    )
    if assemble:
        _assemble(ptx, cpu)
    return ptx


@pytest.fixture
def kernel():
    """A function from a PTX body to a module with one entry `k`, checked by ptxas.

    ``parameters`` are PTX types; parameter i is loaded into %a{i} (64-bit addresses for `.u64`), and a good supply of
    registers %r, %q (64 bits), %h (16 bits) and %p (predicates) is declared.
    """

    return _kernel


def _apply(kernel):
    """Run one instruction on arrays: ``apply("add.s32 $d, $0, $1;", np.int32, a, b)`` -> array of the result type.

    Sources and the result are registers of their element width, one element per thread; ``bool`` sources become
    predicates, a ``bool`` result comes back as one.
    """

    def run(text: str, result, *sources, cpu: str = "sm_90", **options) -> np.ndarray:
        sources = [np.asarray(s) for s in sources]
        n = max(s.size for s in sources)
        sources = [np.ascontiguousarray(np.broadcast_to(s, (n,))) for s in sources]
        result = np.dtype(result)
        names = {1: ("%h", "b8"), 2: ("%h", "b16"), 4: ("%r", "b32"), 8: ("%q", "b64")}
        lines = ["mov.u32 %r70, %tid.x;", "mov.u32 %r71, %ctaid.x;", "mad.lo.u32 %r70, %r71, 128, %r70;"]
        lines += [f"setp.ge.u32 %p19, %r70, {n};", "@%p19 bra END;"]
        for i, source in enumerate(sources):
            size = source.dtype.itemsize
            register, width = names[size]
            register = f"{register}{i + 1}"
            lines += [f"mad.wide.u32 %q50, %r70, {size}, %a{i};", f"ld.global.{width} {register}, [%q50];"]
            if source.dtype.kind == "b":
                lines += [f"setp.ne.b16 %p{i + 1}, {register}, 0;"]
                register = f"%p{i + 1}"
            text = text.replace(f"${i}", register)
        size = result.itemsize
        register, width = names[size]
        register = "%p18" if result.kind == "b" else f"{register}30"
        lines += [text.replace("$d", register)]
        if result.kind == "b":
            lines += ["selp.b16 %h30, 1, 0, %p18;"]
            register = "%h30"
        lines += [
            f"mad.wide.u32 %q50, %r70, {size}, %a{len(sources)};",
            f"st.global.{width} [%q50], {register};",
            "END:",
        ]
        ptx = kernel("\n".join(lines), (".u64",) * (len(sources) + 1), threads=128, cpu=cpu)
        out = np.zeros(n, result)
        emulate(ptx, "k", -(-n // 128), [*sources, out], **options)
        return out

    return run


@pytest.fixture
def apply():
    """A function that runs one instruction on arrays, see `_apply`."""
    return _apply(_kernel)


@pytest.fixture(scope="module")
def apply_once():
    """`apply` for hypothesis tests, whose examples share one fixture value."""
    return _apply(_kernel)
