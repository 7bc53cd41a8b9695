// RUN: tileiras-opt %s --convert-debuginfo-to-llvm | tileiras-opt | FileCheck %s
// RUN: tileiras-opt %s --convert-debuginfo-to-llvm 2>&1 | FileCheck %s --check-prefix=WARN

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#other = #cuda_tile.di_subprogram<file = #file, line = 9, name = "other", linkageName = "o", compileUnit = #unit>
#block = #cuda_tile.di_lexical_block<scope = #k, file = #file, line = 2>
#int = #debuginfo.di_basic_type<"int", 32, signed>
#at = #cuda_tile.di_loc<loc("k.py":4:1) in #k>

module {
  // CHECK-LABEL: llvm.func @scalars
  llvm.func @scalars(%p: !llvm.ptr<1>, %i: i32, %b: i1, %h: f16) attributes {nvvm.kernel} {
    // A value goes through a copy that LLVM keeps; with a type of its own the variable keeps that.
    // CHECK: %[[I:.*]] = nvvm.move %{{.*}} : i32
    // CHECK-NEXT: llvm.intr.dbg.value #[[I_VARIABLE:.*]] = %[[I]] : i32
    // CHECK-NEXT: llvm.intr.fake.use %[[I]] : i32
    debuginfo.value %i, #debuginfo.di_local_variable<"i" in #block, line = 4> : i32 loc(#at)
    // CHECK: llvm.intr.dbg.value #[[TYPED:.*]] = %
    debuginfo.value %i, #debuginfo.di_local_variable<"typed" in #k, line = 5, arg = 2, type = #int> : i32 loc(#at)

    // A predicate and a float of 16 bits are in a register of 16 bits.
    // CHECK: %[[WIDE:.*]] = llvm.zext %{{.*}} : i1 to i16
    // CHECK-NEXT: %[[B:.*]] = nvvm.move %[[WIDE]] : i16
    // CHECK-NEXT: llvm.intr.dbg.value #[[B_VARIABLE:.*]] = %[[B]] : i16
    // CHECK-NEXT: llvm.intr.fake.use %[[B]] : i16
    debuginfo.value %b, #debuginfo.di_local_variable<"b" in #k, line = 6> : i1 loc(#at)
    // CHECK-NEXT: %[[BITS:.*]] = llvm.bitcast %{{.*}} : f16 to i16
    // CHECK-NEXT: %[[H:.*]] = nvvm.move %[[BITS]] : i16
    // CHECK-NEXT: llvm.intr.dbg.value #[[H_VARIABLE:.*]] = %[[H]] : i16
    debuginfo.value %h, #debuginfo.di_local_variable<"h" in #k, line = 7> : f16 loc(#at)

    // CHECK: %[[P:.*]] = nvvm.move %{{.*}} : !llvm.ptr<1>
    // CHECK-NEXT: llvm.intr.dbg.value #[[P_VARIABLE:.*]] deref = %[[P]] : !llvm.ptr<1>
    // CHECK-NEXT: llvm.intr.fake.use
    debuginfo.addr %p, #debuginfo.di_local_variable<"there" in #k, line = 8, type = #int> : !llvm.ptr<1> loc(#at)
    // CHECK-NEXT: llvm.intr.dbg.declare #[[D_VARIABLE:.*]] = %{{[^ ]*}} : !llvm.ptr<1>
    debuginfo.declare %p, #debuginfo.di_local_variable<"home" in #k, line = 9> : !llvm.ptr<1> loc(#at)
    llvm.return loc(#at)
  } loc(#at)

  // CHECK-LABEL: llvm.func @aggregates
  llvm.func @aggregates(%v: vector<2xf32>, %s: !llvm.struct<(i32, i32)>, %m: !llvm.struct<(i32, f64, !llvm.array<2 x bf16>)>, %q: i128, %n: !llvm.struct<(i32, i4)>, %one: vector<1xf32>) {
    // CHECK: %[[V0:.*]] = llvm.extractelement
    // CHECK: %[[V1:.*]] = llvm.extractelement
    // CHECK: %[[PIN0:.*]] = nvvm.move %[[V0]] : f32
    // CHECK: llvm.intr.dbg.value #[[V_VARIABLE:.*]] fragment [0, 32] = %[[PIN0]] : f32
    // CHECK: %[[PIN1:.*]] = nvvm.move %[[V1]] : f32
    // CHECK: llvm.intr.dbg.value #[[V_VARIABLE]] fragment [32, 32] = %[[PIN1]] : f32
    debuginfo.value %v, #debuginfo.di_local_variable<"v" in #k, line = 4> : vector<2xf32> loc(#at)
    // CHECK: llvm.extractvalue %{{.*}}[0]
    // CHECK: llvm.extractvalue %{{.*}}[1]
    // CHECK: fragment [0, 32]
    // CHECK: fragment [32, 32]
    debuginfo.value %s, #debuginfo.di_local_variable<"s" in #k, line = 4> : !llvm.struct<(i32, i32)> loc(#at)
    // Members of several types, each at its alignment, down to what a register holds.
    // CHECK: fragment [0, 32]
    // CHECK: fragment [64, 64]
    // CHECK: fragment [128, 16]
    // CHECK: fragment [144, 16]
    debuginfo.value %m, #debuginfo.di_local_variable<"m" in #k, line = 4> : !llvm.struct<(i32, f64, !llvm.array<2 x bf16>)> loc(#at)
    // CHECK: %[[LOW:.*]] = llvm.trunc %{{.*}} : i128 to i64
    // CHECK: %[[HIGH:.*]] = llvm.lshr
    // CHECK: nvvm.move %[[LOW]] : i64
    // CHECK: fragment [0, 64]
    // CHECK: fragment [64, 64]
    debuginfo.value %q, #debuginfo.di_local_variable<"q" in #k, line = 4> : i128 loc(#at)
    // One register is no part of its variable; parts that the variable has no room for are left out.
    // CHECK: llvm.intr.dbg.value #[[ONE_VARIABLE:[a-z_0-9]*]] = %
    debuginfo.value %one, #debuginfo.di_local_variable<"one" in #k, line = 4> : vector<1xf32> loc(#at)
    // WARN: k.py:4:2: warning: no debug information for 'narrow': its type has 32 bits, its value 64
    debuginfo.value %v, #debuginfo.di_local_variable<"narrow" in #k, line = 4, type = #int> : vector<2xf32> loc(#at)
    llvm.return loc(#at)
  } loc(#at)

  // CHECK-LABEL: llvm.func @expressions
  llvm.func @expressions(%i: i32, %f: f32, %p: !llvm.ptr<3>) {
    // The documented form names the type of what is watched, and what is to be done with the value.
    // CHECK: llvm.intr.dbg.value #[[E:.*]] expression #debuginfo.di_expression<[DW_OP_plus_uconst(8), DW_OP_deref]> = %
    debuginfo.value %i, #debuginfo.di_local_variable<"e" in #k, line = 4>, #debuginfo.di_expression<[DW_OP_plus_uconst(8), DW_OP_deref]> : !debuginfo.value<i32> loc(#at)
    // CHECK: llvm.intr.dbg.value #[[PART:[a-z_0-9]*]] fragment [16, 16] = %
    debuginfo.value %i, #debuginfo.di_local_variable<"part" in #k, line = 4, type = #int>, #debuginfo.di_expression<[DW_OP_LLVM_fragment(16, 16)]> : i32 loc(#at)
    // CHECK: %[[P:.*]] = nvvm.move %{{.*}} : !llvm.ptr<3>
    // CHECK: llvm.intr.dbg.value #[[AT:.*]] expression #debuginfo.di_expression<[DW_OP_plus_uconst(4)]> deref = %[[P]] : !llvm.ptr<3>
    debuginfo.addr %p, #debuginfo.di_local_variable<"at" in #k, line = 4, type = #int>, #debuginfo.di_expression<[DW_OP_plus_uconst(4)]> : !debuginfo.value<!llvm.ptr<3>> loc(#at)
    // CHECK: llvm.intr.dbg.declare #{{.*}} expression #debuginfo.di_expression<[DW_OP_plus_uconst(4)]> = %
    debuginfo.declare %p, #debuginfo.di_local_variable<"home" in #k, line = 4>, #debuginfo.di_expression<[DW_OP_plus_uconst(4)]> : !llvm.ptr<3> loc(#at)
    // A variable has one type: that of its first value.
    // CHECK: llvm.intr.dbg.value #[[TWICE:di_local_variable[0-9]*]] = %{{.*}} : i32
    // CHECK: llvm.intr.dbg.value #[[TWICE]] = %{{.*}} : f32
    debuginfo.value %i, #debuginfo.di_local_variable<"twice" in #k, line = 4, arg = 1> : i32 loc(#at)
    debuginfo.value %f, #debuginfo.di_local_variable<"twice" in #k, line = 4, arg = 1> : f32 loc(#at)
    llvm.return loc(#at)
  } loc(#at)

  // CHECK-LABEL: llvm.func @elsewhere
  llvm.func @elsewhere(%i: i32) {
    // WARN: k.py:4:2: warning: 'x' is a variable of 'other'; it is shown in 'k'
    // CHECK: llvm.intr.dbg.value #[[X_VARIABLE:.*]] = %
    debuginfo.value %i, #debuginfo.di_local_variable<"x" in #other, line = 4> : i32 loc(#at)
    llvm.return loc(#at)
  } loc(#at)

  // CHECK-LABEL: llvm.func @without
  llvm.func @without(%i: i32) {
    // WARN: warning: no debug information for 'x': its function has no debug scope
    // CHECK-NEXT: llvm.return{{$}}
    debuginfo.value %i, #debuginfo.di_local_variable<"x" in #k, line = 4> : i32 loc(unknown)
    llvm.return
  } loc(unknown)
}
