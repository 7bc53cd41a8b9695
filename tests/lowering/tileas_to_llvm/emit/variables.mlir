// RUN: tileiras-opt %s --pass-pipeline="builtin.module(tileas,convert-tileas-to-llvm{variables=true})" 2>&1 | FileCheck %s
// RUN: tileiras-opt %s --pass-pipeline="builtin.module(tileas,convert-tileas-to-llvm)" | FileCheck %s --check-prefix=WITHOUT

// WITHOUT-NOT: debuginfo

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#at = #cuda_tile.di_loc<loc("k.py":4:1) in #k>

// A pointer points to its elements; what is at an address has their type. Tokens are nothing that a thread holds.
// CHECK: k.py:4:2: warning: no debug information for values of type '!nv_tileaa.mem_token'
// CHECK-DAG: #[[PARAMETER:.*]] = #debuginfo.di_local_variable<"p" in #{{.*}}, line = 1, arg = 1, type = #debuginfo.di_pointer_type<#debuginfo.di_basic_type<"f32", 32, float>>>
// CHECK-DAG: #[[THERE:.*]] = #debuginfo.di_local_variable<"there" in #{{.*}}, line = 4, type = #debuginfo.di_basic_type<"f32", 32, float>>
// CHECK-DAG: #[[TOKEN:.*]] = #debuginfo.di_local_variable<"token" in #{{.*}}, line = 4, type = #debuginfo.di_unspecified_type<"!nv_tileaa.mem_token">>
module {
  nv_tileaa.func @k(%p: !nv_tileaa.ptr<f32>) attributes {
      kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    debuginfo.value %p, #debuginfo.di_local_variable<"p" in #k, line = 1, arg = 1> : !nv_tileaa.ptr<f32> loc(#at)
    debuginfo.addr %p, #debuginfo.di_local_variable<"there" in #k, line = 4> : !nv_tileaa.ptr<f32> loc(#at)
    %lane = nv_tileaa.make_range : tensor<512xi32> loc(#at)
    %ones = arith.constant dense<1.0> : tensor<512xf32> loc(#at)
    %t = nv_tileaa.create_mem_token : !nv_tileaa.mem_token loc(#at)
    // What a thread holds of a tile, also of one that nothing else would keep.
    // CHECK: debuginfo.value %{{.*}}, #{{.*}} : vector<8xi32>
    debuginfo.value %lane, #debuginfo.di_local_variable<"lane" in #k, line = 4> : tensor<512xi32> loc(#at)
    // CHECK: debuginfo.value %{{.*}}, #{{.*}} : vector<8xf32>
    debuginfo.value %ones, #debuginfo.di_local_variable<"ones" in #k, line = 4> : tensor<512xf32> loc(#at)
    // CHECK: debuginfo.value %{{.*}}, #[[TOKEN]] : i32
    debuginfo.value %t, #debuginfo.di_local_variable<"token" in #k, line = 4> : !nv_tileaa.mem_token loc(#at)
    nv_tileaa.return loc(#at)
  } loc(#at)
}
