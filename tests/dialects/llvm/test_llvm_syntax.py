"""Every operation of the llvm and nvvm dialects: text that prints as it was written, and text that is refused."""

import pytest

from tileiras.diagnostics import CompileError
from tileiras.ir import parse_module, print_op, verify

FUNCTION = "module {\n  llvm.func @f(%arg0: !llvm.ptr<1>, %arg1: i32, %arg2: f32, %arg3: vector<4xf32>, %arg4: i1) {\n"
END = "    llvm.return\n  }\n}\n"

LINES = [
    "%0 = llvm.mlir.constant(1 : i32) : i32",
    "%0 = llvm.mlir.constant(dense<1.000000e+00> : vector<4xf32>) : vector<4xf32>",
    "%0 = llvm.mlir.poison : vector<4xf32>",
    "%0 = llvm.mlir.undef : i32",
    "%0 = llvm.mlir.zero : !llvm.ptr<1>",
    "%0 = llvm.add %arg1, %arg1 overflow<nsw, nuw> : i32",
    "%0 = llvm.sub %arg1, %arg1 : i32",
    "%0 = llvm.mul %arg1, %arg1 overflow<none> : i32",
    "%0 = llvm.shl %arg1, %arg1 overflow<nuw> : i32",
    "%0 = llvm.udiv exact %arg1, %arg1 : i32",
    "%0 = llvm.ashr %arg1, %arg1 : i32",
    "%0 = llvm.srem %arg1, %arg1 : i32",
    "%0 = llvm.or disjoint %arg1, %arg1 : i32",
    "%0 = llvm.xor %arg1, %arg1 : i32",
    "%0 = llvm.fadd %arg3, %arg3 {fastmathFlags = #llvm.fastmath<contract, afn>} : vector<4xf32>",
    "%0 = llvm.fneg %arg2 : f32",
    '%0 = llvm.icmp "ult" %arg1, %arg1 : i32',
    '%0 = llvm.fcmp "une" %arg3, %arg3 : vector<4xf32>',
    "%0 = llvm.select %arg4, %arg2, %arg2 : i1, f32",
    "%0 = llvm.trunc %arg1 : i32 to i8",
    "%0 = llvm.zext nneg %arg1 : i32 to i64",
    "%0 = llvm.fptosi %arg2 : f32 to i32",
    "%0 = llvm.fptrunc %arg3 : vector<4xf32> to vector<4xbf16>",
    "%0 = llvm.bitcast %arg3 : vector<4xf32> to vector<8xi16>",
    "%0 = llvm.ptrtoint %arg0 : !llvm.ptr<1> to i64",
    "%0 = llvm.addrspacecast %arg0 : !llvm.ptr<1> to !llvm.ptr",
    "%0 = llvm.extractelement %arg3[%arg1 : i32] : vector<4xf32>",
    "%0 = llvm.insertelement %arg2, %arg3[%arg1 : i32] : vector<4xf32>",
    "%0 = llvm.shufflevector %arg3, %arg3 [0, 7, -1] : vector<4xf32>",
    "%0 = llvm.getelementptr inbounds %arg0[%arg1, 2] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, !llvm.array<4 x f32>",
    "%0 = llvm.load volatile %arg0 {alignment = 4 : i64} : !llvm.ptr<1> -> f32",
    "%0 = llvm.load %arg0 invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>",
    '%0 = llvm.load %arg0 atomic syncscope("device") acquire {alignment = 4 : i64} : !llvm.ptr<1> -> i32',
    "llvm.store %arg3, %arg0 {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>",
    "llvm.store %arg1, %arg0 atomic release {alignment = 4 : i64} : i32, !llvm.ptr<1>",
    "%0 = llvm.alloca %arg1 x f32 {alignment = 4 : i64} : (i32) -> !llvm.ptr<5>",
    '%0 = llvm.atomicrmw _xor %arg0, %arg1 syncscope("device") monotonic : !llvm.ptr<1>, i32',
    '%0 = llvm.cmpxchg %arg0, %arg1, %arg1 syncscope("block") acq_rel monotonic : !llvm.ptr<1>, i32',
    'llvm.fence syncscope("device") seq_cst',
    '%0 = llvm.call_intrinsic "llvm.nvvm.prmt"(%arg1, %arg1, %arg1) : (i32, i32, i32) -> i32',
    '%0 = llvm.inline_asm has_side_effects "add.u32 $0, $1, $2;", "=r,r,r" %arg1, %arg1 : (i32, i32) -> i32',
    'llvm.inline_asm has_side_effects {min_ptx = "7.8"} "griddepcontrol.wait;", "~{memory}"  : () -> ()',
    "%0 = llvm.intr.maxnum(%arg3, %arg3) : (vector<4xf32>, vector<4xf32>) -> vector<4xf32>",
    "%0 = llvm.intr.ctlz(%arg1) : (i32) -> i32",
    "%0 = llvm.intr.vector.reduce.fmax(%arg3) : (vector<4xf32>) -> f32",
    "%0 = nvvm.read.ptx.sreg.ctaid.y : i32",
    "nvvm.barrier",
    "nvvm.barrier id = %arg1 number_of_threads = %arg1",
    "nvvm.barrier.arrive id = %arg1 number_of_threads = %arg1",
    "nvvm.bar.warp.sync %arg1 : i32",
    "%0 = nvvm.shfl.sync idx %arg1, %arg2, %arg1, %arg1 : f32 -> f32",
    "%0 = nvvm.vote.sync ballot %arg1, %arg4 -> i32",
    "%0 = nvvm.redux.sync umax %arg1, %arg1 : i32 -> i32",
    "%0 = nvvm.activemask : i32",
    "nvvm.cp.async.commit.group",
    "nvvm.cp.async.wait.group {n = 2 : i32}",
    "%0 = nvvm.addf %arg3, %arg3 {ftz, rounding = #nvvm.fp_rnd_mode<rz>} : vector<4xf32>",
    "%0 = nvvm.sqrt %arg2 {rounding = #nvvm.fp_rnd_mode<approx>} : f32",
    "%0 = nvvm.ex2.approx %arg2 : f32",
    "%0 = nvvm.fma %arg2, %arg2, %arg2 : f32",
    "%0 = nvvm.tanh.approx %arg2 : f32",
    "%0 = nvvm.cvt %arg2 {rounding = #nvvm.fp_rnd_mode<rm>} : f32 -> i32",
    "%0 = nvvm.cvt.float.to.tf32 %arg3 : vector<4xf32> -> vector<4xi32>",
    "%0 = nvvm.atom umax acq_rel sys %arg0, %arg1 : (!llvm.ptr<1>, i32) -> i32",
    "nvvm.red fadd relaxed gpu %arg0, %arg2 : !llvm.ptr<1>, f32",
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.partition("= ")[2] or line)
def test_text_round_trip(line):
    text = FUNCTION + "    " + line + "\n" + END
    module = parse_module(text, "ops.mlir")
    verify(module)
    assert print_op(module) == text
    generic = print_op(module, generic=True)
    assert print_op(parse_module(generic, "generic.mlir")) == text


def test_functions_globals_and_branches_round_trip():
    text = """\
module {
  llvm.mlir.global external @smem() {addr_space = 3 : i32, alignment = 1024 : i64} : !llvm.array<0 x i8>
  llvm.mlir.global internal constant @text("hi") {addr_space = 4 : i32} : !llvm.array<2 x i8>
  llvm.func @__nv_expf(f32) -> f32
  llvm.func internal @k(%arg0: !llvm.ptr<1> {llvm.align = 16 : i64, llvm.noalias}, %arg1: i32) -> i32 {
    %0 = llvm.mlir.addressof @smem : !llvm.ptr<3>
    llvm.br ^bb1(%arg1 : i32)
  ^bb1(%1: i32):  // 2 preds: ^bb0, ^bb1
    %2 = llvm.icmp "slt" %1, %arg1 : i32
    llvm.cond_br %2, ^bb1(%arg1 : i32), ^bb2
  ^bb2:  // pred: ^bb1
    llvm.switch %1 : i32, ^bb3 [1: ^bb4, -2: ^bb5]
  ^bb3:  // pred: ^bb2
    llvm.return %1 : i32
  ^bb4:  // pred: ^bb2
    llvm.unreachable
  ^bb5:  // 2 preds: ^bb2, ^bb5
    llvm.br ^bb5 {loop_annotation = #llvm.loop_annotation<unroll = <disable = true>>}
  }
}
"""
    module = parse_module(text, "module.mlir")
    verify(module)
    assert print_op(module) == text


REFUSED = [
    ("%0 = llvm.trunc %arg1 : i32 to i64", "'i64' is not narrower than 'i32'"),
    ("%0 = llvm.bitcast %arg1 : i32 to i64", "cannot reinterpret 'i32' as 'i64'"),
    ('%0 = llvm.icmp "slt" %arg2, %arg2 : f32', "cannot compare values of type 'f32'"),
    ("%0 = llvm.load %arg0 {alignment = 3 : i64} : !llvm.ptr<1> -> f32", "power of two"),
    ("%0 = llvm.load %arg0 atomic acquire : !llvm.ptr<1> -> i32", "expected alignment for atomic access"),
    ('llvm.fence syncscope("singlethread") acquire', "unsupported NVPTX synchronization scope"),
    ("%0 = llvm.atomicrmw add %arg0, %arg1 acq_rel : !llvm.ptr<1>, i32", "NVPTX drops order and scope"),
    ('%0 = llvm.inline_asm "x $0, $1;", "=r,Z" %arg1 : (i32) -> i32', "unknown asm constraint 'Z'"),
    ('llvm.inline_asm "x $0;", "r,r" %arg1 : (i32) -> ()', "has 1 operands for 2 input constraints"),
    ('%0 = llvm.call_intrinsic "nvvm.prmt"() : () -> i32', "must start with 'llvm.'"),
    ("%0 = llvm.intr.exp2(%arg5) : (f64) -> f64", "has no NVPTX code for 'f64'"),
    ("%0 = llvm.shufflevector %arg3, %arg3 [8] : vector<4xf32>", "expected mask positions in -1..7"),
    ("%0 = nvvm.shfl.sync idx %arg1, %arg3, %arg1, %arg1 : vector<4xf32> -> vector<4xf32>", "has no instruction"),
    ("%0 = nvvm.redux.sync add %arg2, %arg1 : f32 -> f32", "requires an operand and a result of the kind's type"),
    ("%0 = nvvm.addf %arg2, %arg2 {rounding = #nvvm.fp_rnd_mode<approx>} : f32", "has no instruction 'add.approx.f'"),
    ("nvvm.red fadd acquire gpu %arg0, %arg2 : !llvm.ptr<1>, f32", "Invalid memory model ordering for nvvm.red"),
    ("%0 = nvvm.atom min relaxed gpu %arg0, %arg2 : (!llvm.ptr<1>, f32) -> f32", "no instruction for 'min' of 'f32'"),
]


@pytest.mark.parametrize("line, message", REFUSED, ids=[message for _, message in REFUSED])
def test_refused_with_a_place(line, message):
    text = (FUNCTION.replace("%arg4: i1", "%arg4: i1, %arg5: f64") + "    " + line + "\n" + END)
    with pytest.raises(CompileError) as error:
        verify(parse_module(text, "bad.mlir"))
    assert error.value.code == 3
    assert message in str(error.value)
    assert error.value.diagnostics[0].position.line == 3


def test_branch_operands_must_fit_the_block():
    text = "module {\n  llvm.func @f(%a: i32, %c: i1) {\n    %s\n  ^bb1(%x: i32):\n    llvm.return\n  }\n}\n"
    for branch, message in (
        ("llvm.br ^bb1", "has 0 operands for successor #0, but target block has 1"),
        ("llvm.br ^bb1(%c : i1)", "type mismatch for bb argument #0 of successor #0"),
        ("llvm.cond_br %c, ^bb1(%a : i32), ^bb1(%z : i32)", "gives different operands to one block"),
    ):
        body = text.replace("%s", "%z = llvm.mlir.zero : i32\n    " + branch)
        with pytest.raises(CompileError) as error:
            verify(parse_module(body, "bad.mlir"))
        assert message in str(error.value)
