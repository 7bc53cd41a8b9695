// RUN: tileiras-opt %s --canonicalize --allow-unregistered-dialect | FileCheck %s

// What has no effect and no user goes, with all that only it used; loads stay.

// CHECK: @dead
// CHECK-NEXT: nv_tileaa.load
// CHECK-NEXT: nv_tileaa.return
builtin.module {
  nv_tileaa.func @dead(%p: !nv_tileaa.ptr<f32>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %a = arith.addi %n, %n : i32
    %b = arith.muli %a, %n : i32
    %x, %t = nv_tileaa.load %p : !nv_tileaa.ptr<f32> -> f32, !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
