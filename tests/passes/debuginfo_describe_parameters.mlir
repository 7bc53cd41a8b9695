// RUN: tileiras-opt %s --debuginfo-describe-parameters | FileCheck %s

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 3, name = "k", linkageName = "k", compileUnit = #unit>

// CHECK-DAG: #[[FIRST:.*]] = #debuginfo.di_local_variable<"arg0" in #{{.*}}, line = 3, arg = 1>
// CHECK-DAG: #[[SECOND:.*]] = #debuginfo.di_local_variable<"arg1" in #{{.*}}, line = 3, arg = 2>
module {
  // CHECK: nv_tileaa.func @k(%[[P:.*]]: !nv_tileaa.ptr<f32>, %[[N:.*]]: i32)
  // CHECK-NEXT: debuginfo.value %[[P]], #[[FIRST]] : !nv_tileaa.ptr<f32>
  // CHECK-NEXT: debuginfo.value %[[N]], #[[SECOND]] : i32
  // CHECK-NEXT: nv_tileaa.return
  nv_tileaa.func @k(%p: !nv_tileaa.ptr<f32>, %n: i32) attributes {
      kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    nv_tileaa.return
  } loc(#cuda_tile.di_loc<loc("k.py":3:1) in #k>)
  // CHECK: nv_tileaa.func @without
  // CHECK-NEXT: nv_tileaa.return
  nv_tileaa.func @without(%n: i32) attributes {
      kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    nv_tileaa.return
  } loc("k.py":9:1)
}
