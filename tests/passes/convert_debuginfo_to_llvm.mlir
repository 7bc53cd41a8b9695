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

    // There are no copies of these.
    // CHECK: llvm.intr.dbg.value #[[B_VARIABLE:.*]] = %{{[^ ]*}} : i1
    debuginfo.value %b, #debuginfo.di_local_variable<"b" in #k, line = 6> : i1 loc(#at)
    // CHECK-NEXT: llvm.intr.dbg.value #[[H_VARIABLE:.*]] = %{{[^ ]*}} : f16
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
  llvm.func @aggregates(%v: vector<2xf32>, %s: !llvm.struct<(i32, i32)>, %m: !llvm.struct<(i32, f32)>) {
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
    // Nothing that a debugger could show: a placeholder stands for it.
    // CHECK: %[[NONE:.*]] = llvm.mlir.poison : i32
    // CHECK-NEXT: llvm.intr.dbg.value #[[M_VARIABLE:.*]] = %[[NONE]] : i32
    // WARN: k.py:4:2: warning: no debug information for values of type '!llvm.struct<(i32, f32)>'
    debuginfo.value %m, #debuginfo.di_local_variable<"m" in #k, line = 4> : !llvm.struct<(i32, f32)> loc(#at)
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
