"""The llvm and nvvm dialects as LLVM IR text; LLVM parses and verifies all output."""

import re
import struct

import pytest

from tileiras.codegen import admission, kernel_metadata, libdevice, llvm_pipeline, ptx, ptxas
from tileiras.codegen.target_machine import processor
from tileiras.diagnostics import CompileError
from tileiras.dialects import llvm, nvvm
from tileiras.dialects.nvvm.base import EFFECT_TRAITS, NVVMOp
from tileiras.dialects.nvvm.intrinsics import Intrinsic
from tileiras.ir import (
    Builder,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    MemoryWrite,
    Pure,
    UnitAttr,
    VectorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
    parse_module,
    verify,
)
from tileiras.lowering.llvm_to_ir import translate_module
from tileiras.lowering.llvm_to_ir.literals import constant_text
from tileiras.targets.nvptx import MODULE_HEADER

CHIPS = ("sm_80", "sm_90", "sm_100", "sm_120")


def translate(text: str, chip: str | None = None) -> str:
    module = parse_module(text, "kernel.mlir")
    verify(module)
    ir = translate_module(module, chip)
    llvm_pipeline.verify_module(ir)
    return ir


def assemble(ir: str, chips=CHIPS) -> dict[str, str]:
    """PTX per chip, each assembled when there is a ptxas."""
    texts = {}
    for chip in chips:
        row = processor(chip)
        wanted = [name for name in llvm_pipeline.external_functions(ir) if name.startswith(libdevice.PREFIX)]
        library = libdevice.find()
        if wanted and library is None:
            pytest.skip("no libdevice")
        libraries = [library.closure(wanted)] if wanted else []
        required = admission.check(ir, row).ptx
        texts[chip] = llvm_pipeline.compile_to_ptx(ir, row, required_ptx=required, libraries=libraries).text
        try:
            path = ptxas.find()
        except CompileError:
            continue
        assert ptxas.assemble(texts[chip], chip, ptxas=path).resources
    return texts


KERNEL = """\
module attributes {nvvm.reflect_ftz} {
  llvm.mlir.global external @smem() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
  llvm.func @__nv_expf(f32) -> f32
  llvm.func @scale(%p: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias,
                                      tileiras.name = "x", tileiras.type = "ptr<f32>"},
                   %n: i32 {tileiras.name = "n", tileiras.type = "i32"})
      attributes {nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>, nvvm.minctasm = 1 : i32,
                  tileiras.shared_memory = 512 : i64} {
    %tid = nvvm.read.ptx.sreg.tid.x : i32
    %zero = llvm.mlir.constant(0 : i32) : i32
    %four = llvm.mlir.constant(4 : i32) : i32
    %two = llvm.mlir.constant(dense<2.0> : vector<4xf32>) : vector<4xf32>
    %s = llvm.mlir.addressof @smem : !llvm.ptr<3>
    llvm.br ^loop(%zero, %two : i32, vector<4xf32>)
  ^loop(%i: i32, %v: vector<4xf32>):
    %more = llvm.icmp "slt" %i, %n : i32
    llvm.cond_br %more, ^body, ^done(%v : vector<4xf32>)
  ^body:
    %at = llvm.mul %tid, %four overflow<nsw, nuw> : i32
    %q = llvm.getelementptr inbounds %p[%at] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
    %x = llvm.load %q {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
    %w = llvm.fadd %x, %v {fastmathFlags = #llvm.fastmath<contract>} : vector<4xf32>
    %next = llvm.add %i, %four overflow<nsw> : i32
    llvm.br ^loop(%next, %w : i32, vector<4xf32>)
  ^done(%r: vector<4xf32>):
    %e = llvm.extractelement %r[%zero : i32] : vector<4xf32>
    %t = llvm.call @__nv_expf(%e) : (f32) -> f32
    %m = llvm.mlir.constant(-1 : i32) : i32
    %c = llvm.mlir.constant(31 : i32) : i32
    %o = nvvm.shfl.sync bfly %m, %t, %four, %c : f32 -> f32
    llvm.store %o, %s {alignment = 4 : i64} : f32, !llvm.ptr<3>
    nvvm.barrier
    %back = llvm.load %s {alignment = 4 : i64} : !llvm.ptr<3> -> f32
    %y = llvm.insertelement %back, %r[%zero : i32] : vector<4xf32>
    %z = nvvm.ex2.approx %y {ftz} : vector<4xf32>
    llvm.store %z, %p {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
    llvm.return
  ^never(%u: i32):
    llvm.br ^never(%u : i32)
  }
}
"""


def test_a_loop_with_shared_memory_and_libdevice_assembles():
    ir = translate(KERNEL, "sm_80")
    assert ir.startswith(MODULE_HEADER)
    assert "@smem = external addrspace(3) global [0 x i8], align 1024" in ir
    assert (
        'define ptx_kernel void @scale(ptr addrspace(1) noalias align 16 %0, i32 %1) "nvvm.reqntid"="128,1,1"'
        ' "nvvm.minctasm"="1" {' in ir
    )
    assert "phi i32 [0, %entry], [%" in ir
    assert "phi <4 x float> [splat (float 0x4000000000000000), %entry]" in ir
    assert "br label %bb4" not in ir, "an unreachable block is left out"
    for text in assemble(ir).values():
        assert ".extern .shared .align 1024 .b8 smem[];" in text
        # sm_100 keeps pairs of floats in 64-bit registers.
        assert "ld.global.v4.b32" in text or "ld.global.v2.b64" in text
        assert "bar.sync" in text and "ex2.approx.ftz.f32" in text
        assert ".ptr .global .align 16 scale_param_0" in text


def test_loops_without_unrolling_have_their_own_metadata():
    annotation = "{loop_annotation = #llvm.loop_annotation<unroll = <disable = true>>}"
    back = "llvm.br ^loop(%next, %w : i32, vector<4xf32>)"
    ir = translate(KERNEL.replace(back, f"{back} {annotation}"), "sm_80")
    (number,) = re.findall(r"br label %\w+, !llvm\.loop !(\d+)", ir)
    (unroll,) = re.findall(r'^!(\d+) = !\{!"llvm\.loop\.unroll\.disable"\}', ir, re.MULTILINE)
    assert f"!{number} = distinct !{{!{number}, !{unroll}}}" in ir
    assert all('.pragma "nounroll"' in text for text in assemble(ir).values())


BY_VALUE = """\
llvm.func @k(%out: !llvm.ptr<1> {tileiras.name = "out", tileiras.type = "ptr<i32>"},
             %map: !llvm.ptr {llvm.byval = !llvm.array<128 x i8>, llvm.align = 64 : i64, nvvm.grid_constant,
                              tileiras.hidden = "tensor_map 0"})
    attributes {nvvm.kernel, nvvm.reqntid = array<i32: 32, 1, 1>, tileiras.shared_memory = 0 : i64} {
  %tid = nvvm.read.ptx.sreg.tid.x : i32
  %p = llvm.getelementptr %map[%tid] : (!llvm.ptr, i32) -> !llvm.ptr, i32
  %x = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> i32
  %q = llvm.getelementptr %out[%tid] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
  llvm.store %x, %q {alignment = 4 : i64} : i32, !llvm.ptr<1>
  llvm.return
}
"""


def test_an_aggregate_by_value_stays_where_the_launch_put_it():
    ir = translate(BY_VALUE)
    assert 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %1' in ir
    for text in assemble(ir).values():
        assert ".param .align 64 .b8 k_param_1[128]" in text and ".local" not in text
        (kernel,) = kernel_metadata.describe(ptx.parse(text), kernel_metadata.from_ir(ir))["kernels"]
        assert kernel["parameters"] == [{"name": "out", "type": "ptr<i32>", "offset": 0, "size": 8}]
        (hidden,) = kernel["hidden_parameters"]
        assert (hidden["offset"], hidden["size"], hidden["fill"]) == (64, 128, "tensor_map 0")


@pytest.mark.parametrize(
    ("given", "taken", "message"),
    [
        ("llvm.byval = !llvm.array<128 x i8>, ", "", "requires the argument to also have 'llvm.byval'"),
        ("nvvm.kernel, ", "", "must be present only on kernel arguments"),
    ],
)
def test_parameters_never_passed_by_value_are_no_grid_constants(given, taken, message):
    with pytest.raises(CompileError, match=message):
        translate(BY_VALUE.replace(given, taken))


def test_the_text_does_not_depend_on_names_or_locations():
    renamed = "\n\n// moved\n" + KERNEL.replace("%next", "%following").replace("^loop", "^head")
    assert translate(renamed) == translate(KERNEL)


def test_metadata_for_the_launcher_and_libdevice_flags():
    from tileiras.codegen import kernel_metadata

    ir = translate(KERNEL)
    assert '!{i32 4, !"nvvm-reflect-ftz", i32 1}' in ir
    info = kernel_metadata.from_ir(ir)["scale"]
    assert info.shared_memory == 512
    assert [(p.name, p.type) for p in info.parameters] == [("x", "ptr<f32>"), ("n", "i32")]


@pytest.mark.parametrize(
    "line, expected",
    [
        ("%0 = llvm.or disjoint %i, %i : i32", "or disjoint i32 %1, %1"),
        ("%0 = llvm.zext nneg %i : i32 to i64", "zext nneg i32 %1 to i64"),
        ("%0 = llvm.shufflevector %v, %v [0, -1] : vector<4xf32>", "<2 x i32> <i32 0, i32 poison>"),
        ("%0 = llvm.load %p invariant {alignment = 4 : i64} : !llvm.ptr<1> -> f32", "align 4, !invariant.load !0"),
        (
            '%0 = llvm.load %p atomic syncscope("device") acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32',
            'load atomic i32, ptr addrspace(1) %0 syncscope("device") acquire, align 4',
        ),
        (
            '%0 = llvm.cmpxchg %p, %i, %i syncscope("device") acq_rel monotonic : !llvm.ptr<1>, i32',
            'cmpxchg ptr addrspace(1) %0, i32 %1, i32 %1 syncscope("device") acq_rel monotonic',
        ),
        ("%0 = llvm.intr.ctlz(%i) {flag = true} : (i32) -> i32", "call i32 @llvm.ctlz.i32(i32 %1, i1 true)"),
        (
            "%0 = llvm.intr.fma(%v, %v, %v) : (vector<4xf32>, vector<4xf32>, vector<4xf32>) -> vector<4xf32>",
            "call <4 x float> @llvm.fma.v4f32(<4 x float> %2, <4 x float> %2, <4 x float> %2)",
        ),
        ("%0 = nvvm.tanh.approx %f : f32", 'call float asm "tanh.approx.f32 $0, $1;", "=f,f"(float %3)'),
        ("nvvm.cp.async.wait.group {n = 2 : i32}", "call void @llvm.nvvm.cp.async.wait.group(i32 2)"),
        ("nvvm.barrier id = %i number_of_threads = %i", "@llvm.nvvm.barrier.cta.sync.aligned.count(i32 %1, i32 %1)"),
        (
            "%0 = nvvm.cvt %f {is_unsigned, rounding = #nvvm.fp_rnd_mode<rp>} : f32 -> i64",
            "call i64 @llvm.nvvm.f2ull.rp(float %3)",
        ),
        (
            "%0 = nvvm.divf %f, %f {ftz, rounding = #nvvm.fp_rnd_mode<full>} : f32",
            "call float @llvm.nvvm.div.full.ftz(float %3, float %3)",
        ),
        (
            "%0 = llvm.getelementptr %p[%i, 3] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, !llvm.array<8 x f32>",
            "getelementptr [8 x float], ptr addrspace(1) %0, i32 %1, i32 3",
        ),
    ],
    ids=lambda value: value.partition("= ")[2].split(" ")[0] if value.startswith("%0") else "",
)
def test_instruction(line, expected):
    ir = translate(
        "module {\n  llvm.func @k(%p: !llvm.ptr<1>, %i: i32, %v: vector<4xf32>, %f: f32) attributes {nvvm.kernel} {\n"
        f"    {line}\n    llvm.return\n  }}\n}}\n"
    )
    assert expected in ir
    assemble(ir, ("sm_90",))


MMA = [
    ((16, 8, 16), "f16", "f32", 4, 2, VectorType((2,), f16), f32, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    ((16, 8, 16), "bf16", "f32", 4, 2, i32, f32, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
    ((16, 8, 8), "tf32", "f32", 4, 2, i32, f32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"),
    ((16, 8, 32), "s8", "s32", 4, 2, i32, i32, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"),
]


@pytest.mark.parametrize("shape, kind, accumulator, a, b, operand, element, instruction", MMA)
def test_mma(shape, kind, accumulator, a, b, operand, element, instruction):
    result = llvm.LLVMStructType([element] * 4)
    function = llvm.LLVMFuncOp.define(
        "k",
        [llvm.LLVMPointerType(1), *[operand] * (a + b), *[element] * 4],
        attributes={"nvvm.kernel": UnitAttr()},
    )
    entry = function.body.blocks[0]
    out, *fragments = entry.arguments
    build = Builder.at_end(entry)
    d = build.insert(
        nvvm.MmaOp(
            fragments[:a], fragments[a : a + b], fragments[a + b :],
            shape=shape,
            multiplicandAPtxType=nvvm.MMATypeAttr(kind),
            multiplicandBPtxType=nvvm.MMATypeAttr(kind),
            accumulatorPtxType=nvvm.MMATypeAttr(accumulator),
            res=result,
        )
    )  # fmt: skip
    build.insert(llvm.StoreOp(d.res, out, alignment=4))
    build.insert(llvm.ReturnOp())
    module = module_of(function)
    verify(module)
    ir = translate_module(module)
    # PTX ISA, mma: all threads of the warp execute it; LLVM's own table omits this.
    assert re.search(r"= call .*@llvm\.nvvm\.mma\..*\) convergent$", ir, re.MULTILINE)
    for text in assemble(ir).values():
        assert instruction in text


def module_of(*operations):
    module = parse_module("module {\n}\n", "empty.mlir")
    block = module.regions[0].blocks[0]
    for op in operations:
        block.append(op)
    return module


def test_ldmatrix_and_cp_async():
    ir = translate(
        """
module {
  llvm.func @k(%s: !llvm.ptr<3>, %p: !llvm.ptr<1>, %n: i32) attributes {nvvm.kernel} {
    nvvm.cp.async.shared.global %s, %p, %n {modifier = #nvvm.load_cache_modifier<cg>, size = 16 : i32}
      : !llvm.ptr<3>, !llvm.ptr<1>, i32
    nvvm.cp.async.commit.group
    nvvm.cp.async.wait.group {n = 0 : i32}
    nvvm.barrier
    %m = nvvm.ldmatrix %s {layout = #nvvm.mma_layout<col>, num = 4 : i32}
      : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32, i32, i32)>
    %x = llvm.extractvalue %m[2] : !llvm.struct<(i32, i32, i32, i32)>
    llvm.store %x, %p {alignment = 4 : i64} : i32, !llvm.ptr<1>
    llvm.return
  }
}
"""
    )
    for text in assemble(ir).values():
        assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in text
        assert "cp.async.cg.shared.global" in text and "cp.async.wait_group" in text


NVVM = """\
%0 = nvvm.read.ptx.sreg.cluster.ctarank : i32
nvvm.barrier.arrive id = %i number_of_threads = %i
nvvm.bar.warp.sync %i : i32
nvvm.cluster.arrive
nvvm.cluster.arrive.relaxed
nvvm.cluster.wait
nvvm.griddepcontrol.wait
nvvm.griddepcontrol.launch.dependents
nvvm.fence.proxy.async.shared_cta
nvvm.fence.mbarrier.init
nvvm.mbarrier.init.shared %s, %i : !llvm.ptr<3>, i32
nvvm.mbarrier.inval.shared %s : !llvm.ptr<3>
%0 = nvvm.mbarrier.arrive.shared %s : !llvm.ptr<3> -> i64
%0 = nvvm.mbarrier.try_wait.parity.shared %s, %i : !llvm.ptr<3>, i32 -> i1
%0 = nvvm.vote.sync any %i, %b -> i1
%0 = nvvm.redux.sync xor %i, %i : i32 -> i32
%0 = nvvm.activemask : i32
nvvm.stmatrix %s, %i, %i {layout = #nvvm.mma_layout<row>} : !llvm.ptr<3>, i32, i32
%0 = nvvm.mulf %v, %v {rounding = #nvvm.fp_rnd_mode<rm>} : vector<4xf32>
%0 = nvvm.divf %d, %d {rounding = #nvvm.fp_rnd_mode<rz>} : f64
%0 = nvvm.rcp %f {ftz, rounding = #nvvm.fp_rnd_mode<approx>} : f32
%0 = nvvm.sqrt %f {ftz} : f32
%0 = nvvm.rsqrt.approx %v : vector<4xf32>
%0 = nvvm.rsqrt.approx %d : f64
%0 = nvvm.lg2.approx %f {ftz} : f32
%0 = nvvm.sin.approx %f : f32
%0 = nvvm.cos.approx %f : f32
%0 = nvvm.fmin %f, %f {ftz, nan} : f32
%0 = nvvm.fmax %v, %v : vector<4xf32>
%0 = nvvm.cvt %v {ftz, is_unsigned, rounding = #nvvm.fp_rnd_mode<rn>} : vector<4xf32> -> vector<4xi64>
%0 = nvvm.cvt %d {rounding = #nvvm.fp_rnd_mode<rz>} : f64 -> f32
%0 = nvvm.cvt %f {rounding = #nvvm.fp_rnd_mode<rz>} : f32 -> bf16
%0 = nvvm.cvt.float.to.tf32 %f : f32 -> i32
%0 = nvvm.cvt.f32x2.to.f8x2 %f, %f {kind = "e4m3"} : i16
%0 = nvvm.cvt.f8x2.to.f16x2 %h {kind = "e5m2"} : vector<2xf16>
%0 = nvvm.atom cas acq_rel gpu %p, %i, %i : (!llvm.ptr<1>, i32, i32) -> i32
%0 = nvvm.atom exch relaxed cluster %s, %f : (!llvm.ptr<3>, f32) -> f32
%0 = nvvm.atom min release cta %g, %l : (!llvm.ptr, i64) -> i64
%0 = nvvm.atom fadd acquire sys %p, %v2 : (!llvm.ptr<1>, vector<2xbf16>) -> vector<2xbf16>
nvvm.red umin release sys %p, %l : !llvm.ptr<1>, i64
nvvm.red fadd relaxed cta %s, %d : !llvm.ptr<3>, f64
"""


def test_every_nvvm_operation_assembles():
    functions = []
    for number, line in enumerate(NVVM.splitlines()):
        store, kind = "", ""
        if line.startswith("%0"):
            kind = line.rpartition("-> ")[2] if "-> " in line else line.rpartition(" : ")[2]
            store = f"llvm.store volatile %0, %p {{alignment = 16 : i64}} : {kind}, !llvm.ptr<1>\n"
        functions.append(
            f"llvm.func @k{number}(%p: !llvm.ptr<1>, %s: !llvm.ptr<3>, %g: !llvm.ptr, %i: i32, %l: i64, %h: i16,"
            " %b: i1, %f: f32, %d: f64, %v: vector<4xf32>, %v2: vector<2xbf16>) attributes {nvvm.kernel} {\n"
            f"{line}\n{store}llvm.return\n}}\n"
        )
    ir = translate("module {\n" + "".join(functions) + "}\n", "sm_90")
    # Not on older targets: the list has instructions of each generation up to sm_90.
    assemble(ir, ("sm_90", "sm_100", "sm_120"))


def test_instructions_have_the_effects_of_their_operations():
    """LLVM may not move an instruction across operations that its own operation may not be moved across."""
    functions = "".join(
        f"llvm.func @k{number}(%p: !llvm.ptr<1>, %s: !llvm.ptr<3>, %g: !llvm.ptr, %i: i32, %l: i64, %h: i16, %b: i1,"
        f" %f: f32, %d: f64, %v: vector<4xf32>, %v2: vector<2xbf16>) {{\n{line}\nllvm.return\n}}\n"
        for number, line in enumerate(NVVM.splitlines())
    )
    checked = 0
    for op in parse_module("module {\n" + functions + "}\n", "kernel.mlir").walk():
        if not isinstance(op, NVVMOp):
            continue
        target = op.target()
        if isinstance(target, Intrinsic):
            assert all(op.has_trait(trait) for trait in EFFECT_TRAITS[target.effects]), op.name
        else:
            assert op.has_trait(Pure) is not target.side_effects, op.name
            assert op.has_trait(MemoryWrite) is ("~{memory}" in target.constraints), op.name
        checked += 1
    assert checked == len(NVVM.splitlines())


@pytest.mark.parametrize(
    "value, text",
    [
        (IntegerAttr(-1, i32), "-1"),
        (IntegerAttr(1, i1), "true"),
        (IntegerAttr(200, i8), "-56"),
        (FloatAttr(0x3C00, f16), "0xH3C00"),
        (FloatAttr(0x7F80, bf16), "0xR7F80"),
        (FloatAttr(0x80000000, f32), "0x8000000000000000"),
        (FloatAttr(0x00000001, f32), "0x36A0000000000000"),
        (FloatAttr(0x7F800001, f32), "0x7FF0000020000000"),
        (FloatAttr(0xFFC00000, f32), "0xFFF8000000000000"),
        (FloatAttr(0x3FF0000000000000, f64), "0x3FF0000000000000"),
        (DenseElementsAttr(VectorType((4,), f32), struct.pack("<f", 0.0) * 4), "zeroinitializer"),
        (DenseElementsAttr(VectorType((4,), f32), struct.pack("<f", -0.0) * 4), "splat (float 0x8000000000000000)"),
        (DenseElementsAttr(VectorType((2,), i1), b"\x01\x00"), "<i1 true, i1 false>"),
        (DenseElementsAttr(VectorType((2,), i64), struct.pack("<qq", -1, 2)), "<i64 -1, i64 2>"),
    ],
    ids=str,
)
def test_constant(value, text):
    assert constant_text(value) == text
    kind = llvm.llvm_text(value.type)
    llvm_pipeline.verify_module(f"define {kind} @f() {{ ret {kind} {text} }}\n")


def test_refusals_are_located():
    text = (
        "module {\n  llvm.func @declared(i32) -> i32\n  llvm.func @k(%i: i32, %f: f32) attributes {nvvm.kernel} {\n"
        "    LINE\n    llvm.return\n  }\n}\n"
    )
    for line, message in (
        ("%0 = nvvm.redux.sync add %i, %i : i32 -> i32", "'nvvm.redux.sync' op needs sm_80 or newer, not sm_75"),
        ("%0 = llvm.call @missing(%i) : (i32) -> i32", "'llvm.call' op 'missing' does not reference a valid function"),
        ("%0 = llvm.call @declared(%f) : (f32) -> i32", "calls 'declared' as i32 (float), which is i32 (i32)"),
        ("%0 = llvm.mlir.addressof @g : !llvm.ptr", "'g' does not name a global or function"),
        ("%0 = arith.addi %i, %i : i32", "'arith.addi' op has no LLVM IR"),
    ):
        module = parse_module(text.replace("LINE", line), "kernel.mlir")
        verify(module)
        with pytest.raises(CompileError) as error:
            translate_module(module, "sm_75")
        assert message in str(error.value)
        assert error.value.diagnostics[0].position.line == 4
        assert error.value.code == 5


def test_names_that_ptx_cannot_spell_are_refused():
    text = 'module {\n  llvm.func @"a.b"() attributes {nvvm.kernel} {\n    llvm.return\n  }\n}\n'
    module = parse_module(text, "kernel.mlir")
    with pytest.raises(CompileError, match="symbol 'a.b' is not a PTX identifier"):
        translate_module(module)
