"""How each diagnostic of `docs/diagnostics_table.py` is brought about, by its text there.

A provocation is a function of a `Run`, which has the means of a user: the commands, the library, files.  It gives the
exit code and the messages.
"""

from __future__ import annotations

import ctypes  # noqa: F401  loaded before memory is taken away
import os
import sys

from building import TILE_I32, build, varint
from invocations import object_file

from tests.kernels import tensor_maps
from tileiras import api
from tileiras.cli import tileiras, tileiras_opt, tileiras_translate
from tileiras.codegen import host_code, toolkit
from tileiras.diagnostics import CompileError
from tileiras.driver.program import Configuration, Program, c_create

KERNEL = "cuda_tile.module @m {\n  entry @k() {\n    return\n  }\n}\n"
SINE = (
    "cuda_tile.module @m {\n  entry @k(%p: tile<ptr<f32>>) {\n"
    "    %v, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token\n    %s = sin %v : tile<f32>\n"
    "    %u = store_ptr_tko weak %p, %s : tile<ptr<f32>>, tile<f32> -> token\n    return\n  }\n}\n"
)
NARROW = KERNEL.replace("()", "(%p: tile<ptr<f8E4M3FN>>)").replace(
    "    return", "    %v, %t = load_ptr_tko weak %p : tile<ptr<f8E4M3FN>> -> tile<f8E4M3FN>, token\n    return"
)
REFLECT = (
    '@e = private constant [1 x i8] c"\\00"\n@n = private constant [2 x i8] c"ab"\n'
    "declare i32 @__nvvm_reflect({})\ndefine ptx_kernel void @k(ptr addrspace(1) %p) {{\n  {}\n  ret void\n}}\n"
)
TWO_PARAMETERS = """\
#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#at = #cuda_tile.di_loc<loc("k.py":4:1) in #k>
module {
  llvm.func @k(%x: i32, %y: i32) attributes {nvvm.kernel} {
    debuginfo.value %x, #debuginfo.di_local_variable<"x" in #k, line = 1, arg = 1> : i32 loc(#at)
    debuginfo.value %y, #debuginfo.di_local_variable<"y" in #k, line = 1, arg = 1> : i32 loc(#at)
    llvm.return loc(#at)
  } loc(#at)
}
"""
GPU = (
    "module {\n  gpu.module @kernels {\n    llvm.func @k() attributes {nvvm.kernel} {\n      llvm.return\n    }\n"
    "  }\n}\n"
)
FUNC = (
    "module {{\n  nv_tileaa.func @f({}) attributes {{kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, "
    'target_spec = "sm_90"}} {{\n    {}\n    nv_tileaa.return\n  }}\n}}\n'
)


class Run:
    def __init__(self, folder, capsys, monkeypatch):
        self.folder = folder
        self.capsys = capsys
        self.monkeypatch = monkeypatch

    def file(self, content, suffix=".mlir"):
        path = self.folder / f"k{suffix}"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def command(self, content=KERNEL, *arguments, suffix=".mlir", gpu="sm_90"):
        target = [f"--gpu-name={gpu}"] if gpu else []
        code = tileiras.main([self.file(content, suffix), *target, "-o", str(self.folder / "out"), *arguments])
        return code, self.capsys.readouterr().err

    def opt(self, content, *arguments):
        code = tileiras_opt.main([self.file(content), *arguments])
        return code, self.capsys.readouterr().err

    def translate(self, content):
        code = tileiras_translate.main([self.file(content, ".tileirbc"), "--cudatilebc-to-mlir"])
        return code, self.capsys.readouterr().err

    def library(self, call):
        try:
            call()
        except CompileError as error:
            return error.code, error.render()
        return 0, ""

    def create(self, **fields):
        configuration = {"input": KERNEL.encode(), "gpu": 90} | fields
        return self.library(lambda: Program.create(Configuration(**configuration)))

    def program(self, body):
        """A shell script in the place of a tool."""
        path = self.folder / "tool"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(path)

    def without_tools(self):
        self.monkeypatch.setattr(sys, "path", [])
        self.monkeypatch.setenv("PATH", "")
        for variable in toolkit.ROOT_VARIABLES:
            self.monkeypatch.delenv(variable, raising=False)

    def ll(self, body, reflect="ptr"):
        return self.command(REFLECT.format(reflect, body), "--emit=ptx", suffix=".ll")


def no_memory(run):
    def refuse(*arguments, **named):
        raise MemoryError

    run.monkeypatch.setattr(Program, "__init__", refuse)
    code, _, messages, _ = c_create(KERNEL.encode(), 90)
    return code, messages


def released(run):
    program = Program.create(KERNEL.encode(), gpu_name="sm_90")
    program.release()
    return run.library(program.compile)


def no_fork(run):
    import errno

    from tileiras.processes import programs

    def refuse(*arguments, **named):
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    # Ending a system's last process would end it for the tests, too.
    run.monkeypatch.setattr(programs._Child, "__init__", refuse)
    return run.command(KERNEL, f"--ptxas={run.program('exit 0')}")


def no_host_code(run):
    run.monkeypatch.setattr(host_code, "platform_of", lambda *_: None)
    return run.command(tensor_maps.matmul(), "--tile-launch=true", "--tensor-maps=host")


def no_libdevice(run):
    run.without_tools()
    return run.command(SINE, "--emit=ptx")


def no_program(name):
    def provoke(run):
        cubin = run.folder / "k.cubin"
        cubin.write_bytes(b"\x7fELF")
        run.without_tools()
        if name == "ptxas":
            return run.command()
        return run.library(lambda: api.compile(cubin, gpu_name="sm_90", emit="sass"))

    return provoke


def bytecode(data):
    return lambda run: run.command(data, suffix=".tileirbc")


def blob(content):
    def provoke(run):
        path = run.folder / "blob.bc"
        if content is not None:
            path.write_bytes(content)
        calls = "declare void @helper()\ndefine ptx_kernel void @k() {\n  call void @helper()\n  ret void\n}\n"
        return run.command(calls, "--emit=ptx", f"--blob-linked-lib={path}", suffix=".ll")

    return provoke


def library(sections):
    def provoke(run):
        path = run.folder / "library.o"
        if sections is not None:
            path.write_bytes(object_file(sections))
        return run.command(KERNEL, "--preview=simt", "-l", str(path))

    return provoke


def broken_pass(run):
    """A pass of the user's, in a pipeline of the library."""
    from tileiras.ir import Pass, PassManager, parse_module

    class Break(Pass):
        name = "break"

        def run(self, op, context):
            for inner in op.walk():
                if inner.name == "arith.addi":
                    inner.operands = (*inner.operands, inner.operands[0])

    module = parse_module(FUNC.format("%a: i32", "%0 = arith.addi %a, %a : i32"))
    return run.library(lambda: PassManager([Break()]).run(module))


def pass_makes_something_invalid(run):
    """A pass of the user's whose new attribute its own constructor refuses."""
    from tileiras.dialects.nv_tileaa import DivByAttr
    from tileiras.ir import Pass, PassManager, parse_module

    class Assume(Pass):
        name = "assume"

        def run(self, op, context):
            DivByAttr(3, None, None)

    return run.library(lambda: PassManager([Assume()]).run(parse_module(FUNC.format("", ""))))


def patterns_that_undo_one_another(run):
    from tileiras.dialects.arith import AddIOp, SubIOp
    from tileiras.ir import RewritePattern, apply_patterns_greedily, parse_module

    def exchange(old, new):
        class Exchange(RewritePattern):
            op = old

            def match_and_rewrite(self, op, rewriter):
                rewriter.replace_op(op, new(op.lhs, op.rhs))
                return True

        return Exchange()

    body = "%0 = arith.addi %a, %a : i32\n    nv_tileaa.assert %c, \"\" : i1\n    %1 = nv_tileaa.int_to_ptr %0 : i32 to"
    body += " !nv_tileaa.ptr<i32>\n    %v, %t = nv_tileaa.load %1 : !nv_tileaa.ptr<i32> -> i32, !nv_tileaa.mem_token"
    module = parse_module(FUNC.format("%a: i32, %c: i1", body))
    patterns = [exchange(AddIOp, SubIOp), exchange(SubIOp, AddIOp)]
    return run.library(lambda: apply_patterns_greedily(module, patterns))


def reproducer(run):
    """Its command runs the failing pass again, with the same message."""
    import shlex

    path = run.folder / "reproducer.mlir"
    text = FUNC.format("%a: tensor<4xi32>", "").replace("<numCtas = 1>", "<numWarps = 1, numCtas = 1>")
    code, result = run.opt(text, "--cse", "--tileas=from=tileas-lower-occupancy compute-capability=sm_90",
                         "--convert-tileas-to-llvm=compute-capability=sm_90",
                         f"--mlir-pass-pipeline-crash-reproducer={path}")  # fmt: skip
    command = shlex.split(path.read_text().partition("\n")[0].removeprefix("// tileiras-opt "))
    again = tileiras_opt.main(command), run.capsys.readouterr().err
    assert again[0] == code and again[1].splitlines()[0] == result.splitlines()[0]
    return code, result


def half_an_assumption(run):
    """The text format cannot express it."""
    from tileiras.dialects.cuda_tile import DivByAttr
    from tileiras.ir import parse_module, verify

    def change():
        assume = "    %0 = assume div_by<4>, %n : tile<i32>\n"
        module = parse_module(KERNEL.replace("()", "(%n: tile<i32>)").replace("    return", assume + "    return"))
        op = next(op for op in module.walk() if op.name == "cuda_tile.assume")
        op.attributes["predicate"] = DivByAttr(4, 2, None)
        verify(module)

    return run.library(change)


def parameters(count):
    names = ", ".join(f"%p{number}: tile<ptr<f32>>" for number in range(count))
    return KERNEL.replace("()", f"({names})")


def ptxas(body, *arguments):
    return lambda run: run.command(KERNEL, f"--ptxas={run.program(body)}", *arguments)


UNCUT = """cuda_tile.module @m {
  entry @k() {
    %a = constant <f32: 0.0> : tile<1024x512xf32>
    %c = cat %a, %a dim = 0 : tile<1024x512xf32>, tile<1024x512xf32> -> tile<2048x512xf32>
    print_tko "%f", %c : tile<2048x512xf32> -> token
    return
  }
}
"""
"""A tile that is printed completely."""

PROVOCATIONS = {
    "the <shape> tile leaves each of N threads M elements": (
        lambda run: run.command(UNCUT, "--emit=ptx", "--num-warps=1")
    ),
    "kernel '<kernel>' takes tensor maps, which a tile launch does not make": no_host_code,
    # ---- command, library and C interface
    "failed to allocate memory for program": no_memory,
    "configuration is null": lambda run: run.library(lambda: Program.create(None)),
    "input buffer is null": lambda run: run.create(input=None),
    "GPU architecture <name> is not supported by this version of tileiras.": lambda run: run.create(gpu=42),
    "invalid optimization level: N": lambda run: run.command(KERNEL, "-O4"),
    "optimized debugging is currently not supported, change the optimization level to 0 or disable full debug info": (
        lambda run: run.command(KERNEL, "-g")
    ),
    "unsupported host architecture": lambda run: run.create(host_arch=3),
    "unsupported host operating system": lambda run: run.create(host_os=2),
    "input does not correspond to Tile IR bytecode": lambda run: run.command(b"\x00\x01"),
    "input does not correspond to Tile IR bytecode (it looks like MLIR bytecode instead)": (
        lambda run: run.command(b"ML\xefR\x01MLIR22\0")
    ),
    "program is null": released,
    "program has not been compiled": lambda run: run.library(
        Program.create(KERNEL.encode(), gpu_name="sm_90").get_output
    ),
    "unable to read controls file '<path>': <reason>": lambda run: run.command(KERNEL, "--apply-controls=absent"),
    "public-preview bytecode requires at least one enabled preview feature": bytecode(build(version=(13, 5, 1))),
    "libraries require the 'simt' preview feature": lambda run: run.command(KERNEL, "-l", "absent"),
    "failed to open tile library: <reason>": library(None),
    "failed to load linkage provider: <path>": library({".data": b""}),
    "failed to read interface and splice it into the module": library({".nvtlifc": b"", ".nvtl.0": b""}),
    "failed to compile Tile IR program": lambda run: run.command(NARROW, gpu="sm_80"),
    "no input file provided": lambda run: (tileiras.main([]), run.capsys.readouterr().err),
    "unable to read input file '<path>': <reason>": (
        lambda run: (tileiras.main([str(run.folder / "absent"), "--gpu-name=sm_90"]), run.capsys.readouterr().err)
    ),
    "could not find libdevice.bc": no_libdevice,
    "Please provide a valid dumpSassCommand. For example, `nvdisasm -c`.": (
        lambda run: run.command("text", "--emit=sass", "--dump-sass-command=", suffix=".cubin")
    ),
    # ---- child processes
    "Program could not be executed": ptxas("exit 127"),
    "Couldn't fork": no_fork,
    "Child timed out": ptxas("sleep 60", "--child-timeout=1"),
    "<program> ended with <signal>": ptxas("kill -SEGV $$"),
    "<program> failed with exit status N": ptxas("echo why; exit 3"),
    "could not find ptxas": no_program("ptxas"),
    "could not find nvdisasm": no_program("nvdisasm"),
    # ---- bytecode
    "invalid magic number at position N, got X expected Y": (
        lambda run: run.translate(b"\x7fTileIS\0" + build()[8:])
    ),
    "unsupported Tile version X": lambda run: run.opt(build(version=(13, 1, 7))),
    "non-canonical VarInt": bytecode(build(b"\x83\x00")),
    "unsupported AttributeTag N": bytecode(build(b"\x06" + varint(TILE_I32) + b"\x1f\x00")),
    "unknown or unimplemented opcode: N": bytecode(build(b"\x19")),
    "section length X exceeds remaining data size Y": bytecode(build()[:-1] + b"\x07\x7f\x00"),
    "operation being parsed with an unregistered dialect": lambda run: run.opt('"nowhere.op"() : () -> ()\n'),
    # ---- cuda_tile
    "'every'/'along' must be used in combination": half_an_assumption,
    # ---- conversions
    "Incompatibility with architecture '<name>': unsupported type '<type>'": (
        lambda run: run.command(NARROW, gpu="sm_80")
    ),
    "invalid or missing --compute-capability option": (
        lambda run: run.opt(KERNEL, '--convert-cudatile-to-tileaa=compute-capability=')
    ),
    "Failed to get ComputeCapability": lambda run: run.opt(KERNEL, "--convert-tileas-to-llvm=compute-capability="),
    "failed to convert function signature type for: X": (
        lambda run: run.opt(
            FUNC.format("%a: tensor<4xi32>", "").replace("<numCtas = 1>", "<numWarps = 1, numCtas = 1>"),
            "--tileas=from=tileas-lower-occupancy compute-capability=sm_90", "--convert-tileas-to-llvm",
        )
    ),
    "failed to convert cuda_tile to nv_tileaa": (
        lambda run: run.opt(
            KERNEL.replace("    return", "    testing$bytecode_test_new_attribute\n    return"),
            "--testing-ops", "--convert-cudatile-to-tileaa=compute-capability=sm_90",
        )
    ),
    "LowerTMALoadStoreToAsync: missing or invalid KernelSpecAttr on function": (
        lambda run: run.opt(
            '"builtin.module"() ({\n  "nv_tileaa.func"() <{sym_name = "k", function_type = () -> ()}> ({\n'
            '    "nv_tileaa.return"() : () -> ()\n  }) : () -> ()\n}) : () -> ()\n',
            "--no-verify", "--lower-tma-load-store-to-async",
        )
    ),
    # ---- pipelines
    "pass failed; per-op verifier may have fired": pass_makes_something_invalid,
    "failed to apply patterns greedily": patterns_that_undo_one_another,
    "reproducer generated at `<path>`": reproducer,
    "pass '<pass>' anchored on '<operation>' added to pipeline anchored on '<operation>'": (
        lambda run: run.opt(KERNEL, "--pass-pipeline=cuda_tile.module(convert-tileaa-to-tileas)")
    ),
    "nested pipeline anchor must be IsolatedFromAbove": (
        lambda run: run.opt(KERNEL, "--pass-pipeline=builtin.module(scf.for(cse))")
    ),
    "'tileir' has no option '<name>'": lambda run: run.opt(KERNEL, "--tileir=speed=3"),
    "between-pass verifier rejected IR after '<pass>'": broken_pass,
    "warp-specialize (<variant>): the warps of this kernel are not specialized": (
        lambda run: run.command(KERNEL, "--emit=ptx", "--pipeline-strategy=warp-specialize", "--remarks=all")
    ),
    # ---- target
    "no target attribute": lambda run: run.command(GPU, "--emit=ptx", suffix=".llvm.mlir"),
    "Formal parameter space overflowed (X bytes required, max Y bytes allowed) in function Z": (
        lambda run: run.command(parameters(5002), gpu="sm_80")
    ),
    # ---- LLVM
    "LLVM could not generate code for <gpu>": lambda run: run.ll('fence syncscope("nowhere") seq_cst'),
    "LLVM refused the module": lambda run: run.ll("nonsense"),
    "Unresolved extern function '<name>'": lambda run: run.command(
        "declare void @helper()\ndefine ptx_kernel void @k() {\n  call void @helper()\n  ret void\n}\n", "--emit=ptx",
        suffix=".ll",
    ),
    "blobLinkedLib: bitcode path does not exist or is not a file": blob(None),
    "blobLinkedLib: failed to parse embedded bitcode": blob(b"no bitcode"),
    "unsupported NVPTX synchronization scope": lambda run: run.command(
        "module {\n  llvm.func @k() attributes {nvvm.kernel} {\n"
        '    llvm.fence syncscope("nowhere") seq_cst\n    llvm.return\n  }\n}\n', "--emit=ptx", suffix=".llvm.mlir",
    ),
    "__nvvm_reflect can only be used in a call instruction": (
        lambda run: run.ll("store ptr @__nvvm_reflect, ptr addrspace(1) %p")
    ),
    "__nvvm_reflect requires exactly one argument": lambda run: run.ll("%v = call i32 @__nvvm_reflect()", ""),
    "__nvvm_reflect argument must be a constant string": lambda run: run.ll(
        "%q = addrspacecast ptr addrspace(1) %p to ptr\n  %v = call i32 @__nvvm_reflect(ptr %q)"
    ),
    "__nvvm_reflect argument must be a string constant": lambda run: run.ll("%v = call i32 @__nvvm_reflect(ptr @e)"),
    "__nvvm_reflect argument must be a null-terminated string": (
        lambda run: run.ll("%v = call i32 @__nvvm_reflect(ptr @n)")
    ),
    "failed to look up NVPTX target for requested triple": lambda run: run.command(
        'target triple = "x86_64-pc-linux-gnu"\ndefine ptx_kernel void @k() {\n  ret void\n}\n', "--emit=ptx",
        suffix=".ll",
    ),
    "data layout of another machine: <part>": lambda run: run.command(
        'target datalayout = "e-m:e"\ndefine ptx_kernel void @k() {\n  ret void\n}\n', "--emit=ptx", suffix=".ll"
    ),
    "functions are for '<processor>', which is no GPU": lambda run: run.command(
        'define ptx_kernel void @k() "target-cpu"="x86-64" {\n  ret void\n}\n', "--emit=ptx", suffix=".ll"
    ),
    "'<name>' annotation must be a positive number, got X": lambda run: run.command(
        'define void @k() {\n  ret void\n}\n!nvvm.annotations = !{!0}\n!0 = !{ptr @k, !"minctasm", i32 0}\n',
        "--emit=ptx", suffix=".ll",
    ),
    "'<name>' has arg = N, which is '<name>' already": lambda run: run.command(
        TWO_PARAMETERS, "--emit=ptx", "-g", "-O0", suffix=".llvm.mlir"
    ),
    "gpu.module has N targets; it is compiled for one": lambda run: run.command(
        GPU.replace("@kernels", '@kernels [#nvvm.target<chip = "sm_90">, #nvvm.target<chip = "sm_90">]'), "--emit=ptx",
        suffix=".llvm.mlir",
    ),
    "module is for <gpu>, the compilation for <gpu>": lambda run: run.command(
        "module attributes {nv_tileaa.compute_capability = 80 : i32} {\n}\n", "--emit=ptx", suffix=".tileas.mlir"
    ),
    "argument N has scalable type; not supported in NVVM kernels": lambda run: run.command(
        "define ptx_kernel void @k(i32 %a, <vscale x 4 x i32> %b) {\n  ret void\n}\n", "--emit=ptx", suffix=".ll"
    ),
    "PTX version X does not support <gpu>": lambda run: run.command(KERNEL, "--emit=ptx", "--ptx-version=6.0"),
}  # fmt: skip
