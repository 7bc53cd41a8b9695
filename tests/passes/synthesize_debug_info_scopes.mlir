// RUN: tileiras-opt %s --pass-pipeline="builtin.module(cuda_tile.module(synthesize-debug-info-scopes))" --mlir-print-debuginfo | FileCheck %s

#file = #cuda_tile.di_file<"own.py" in "/src">
#unit = #cuda_tile.di_compile_unit<file = #file>
#own = #cuda_tile.di_subprogram<file = #file, line = 7, name = "own", linkageName = "own", compileUnit = #unit>

// CHECK-DAG: #[[MODULE:.*]] = #cuda_tile.di_file<"module.py" in "/a/b">
// CHECK-DAG: #[[KERNEL:.*]] = #cuda_tile.di_file<"kernel.py" in "">
// CHECK-DAG: #[[UNIT:.*]] = #cuda_tile.di_compile_unit<file = #[[MODULE]]>
// CHECK-DAG: #[[PLACED:.*]] = #cuda_tile.di_subprogram<file = #[[KERNEL]], line = 10, name = "placed", linkageName = "placed", compileUnit = #[[UNIT]], scopeLine = 10>
// CHECK-DAG: #[[NOWHERE:.*]] = #cuda_tile.di_subprogram<file = #[[MODULE]], line = 1, name = "nowhere", linkageName = "nowhere", compileUnit = #[[UNIT]], scopeLine = 1>
// CHECK-DAG: #cuda_tile.di_subprogram<file = #{{.*}}, line = 7, name = "own"

// An operation without a position has the kernel's, one that was inlined the caller's.
// CHECK-DAG: #[[AT:.*]] = loc("kernel.py":10:4)
// CHECK-DAG: #[[CALLER:.*]] = loc("kernel.py":12:8)
// CHECK-DAG: = #cuda_tile.di_loc<#[[AT]] in #[[PLACED]]>
// CHECK-DAG: = #cuda_tile.di_loc<#[[CALLER]] in #[[PLACED]]>
// CHECK-DAG: #[[START:.*]] = loc("module.py":1:1)
// CHECK-DAG: = #cuda_tile.di_loc<#[[START]] in #[[NOWHERE]]>
cuda_tile.module @m {
  entry @placed() {
    %0 = make_token : token loc(unknown)
    %1 = make_token : token loc(callsite("inlined.py":1:1 at "kernel.py":12:8))
    return loc("kernel.py":13:4)
  } loc(fused["kernel.py":10:4, unknown])
  entry @nowhere() {
    return loc(unknown)
  } loc(unknown)
  entry @own() {
    return loc(unknown)
  } loc(#cuda_tile.di_loc<loc("own.py":7:1) in #own>)
} loc("name"("/a/b/module.py":1:1))
