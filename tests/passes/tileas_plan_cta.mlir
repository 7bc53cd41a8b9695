// Each CTA of a cluster gets rows of the stored tile of its own.
// RUN: tileiras-opt %s --tileas-plan-cta --verify-roundtrip | FileCheck %s

!memref = !nv_tileaa.memref<?x2xi8, strides = [2, 1]>
!view = !nv_tileaa.tiled_view<[128, 2], !memref>
!out = !nv_tileaa.memref<?x?xi32, strides = [?, 1]>
!store = !nv_tileaa.tiled_view<[128, 128], !out>

module {
  // A is cut into rows, and B is not: the constant that both are shifted by is used whole by each.
  // CHECK-LABEL: @shared_constant
  // CHECK-DAG: %[[SHIFTS:.*]] = arith.constant dense<{{.*}}0, 4{{.*}}> : tensor<1x2xi8>
  // CHECK-DAG: nv_tileaa.broadcast %[[SHIFTS]] : tensor<1x2xi8> -> tensor<64x2xi8>
  // CHECK-DAG: nv_tileaa.broadcast %[[SHIFTS]] : tensor<1x2xi8> -> tensor<128x2xi8>
  // CHECK: nv_tileaa.dot {{.*}} : tensor<64x2xi8>, tensor<2x128xi8> -> tensor<64x128xi32>
  // CHECK: nv_tileaa.tiled_store {{.*}} : tensor<64x128xi32>
  nv_tileaa.func @shared_constant(%p: !nv_tileaa.ptr<i8>, %q: !nv_tileaa.ptr<i32>, %n: i64, %at: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>, target_spec = "sm_100"} {
    %m = nv_tileaa.make_memref %p, sizes = [%n], strides = [] : !nv_tileaa.ptr<i8>, (i64), () -> !memref
    %v = nv_tileaa.block_tile %m : !view
    %o = nv_tileaa.make_memref %q, sizes = [%n, %n], strides = [%n] : !nv_tileaa.ptr<i32>, (i64, i64), (i64) -> !out
    %w = nv_tileaa.block_tile %o : !store
    %zero = arith.constant 0 : i32
    %none = arith.constant dense<0> : tensor<128x128xi32>
    %shifts = arith.constant dense<[[0, 4]]> : tensor<1x2xi8>
    %spread = nv_tileaa.broadcast %shifts : tensor<1x2xi8> -> tensor<128x2xi8>
    %a, %s = nv_tileaa.tiled_load %v[%at, %zero] : !view, (i32, i32) -> tensor<128x2xi8>, !nv_tileaa.mem_token
    %b, %t = nv_tileaa.tiled_load %v[%zero, %zero] : !view, (i32, i32) -> tensor<128x2xi8>, !nv_tileaa.mem_token
    %x = arith.shrui %a, %spread : tensor<128x2xi8>
    %y = arith.shrui %b, %spread : tensor<128x2xi8>
    %z = nv_tileaa.permute %y {permutation = array<i32: 1, 0>} : tensor<128x2xi8> -> tensor<2x128xi8>
    %r = nv_tileaa.dot %x, %z, %none {signedness_a = #nv_tileaa.signedness<signed>, signedness_b = #nv_tileaa.signedness<signed>} : tensor<128x2xi8>, tensor<2x128xi8> -> tensor<128x128xi32>
    %done = nv_tileaa.tiled_store %r, %w[%at, %zero] : tensor<128x128xi32>, !store, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Rows of a constant whose elements differ are not one CTA's alone: one CTA does the work.
  // CHECK-LABEL: @constant_along_rows
  // CHECK-NOT: get_cta_rank
  // CHECK: nv_tileaa.tiled_store {{.*}} : tensor<2x2xi8>
  nv_tileaa.func @constant_along_rows(%p: !nv_tileaa.ptr<i8>, %n: i64, %at: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>, target_spec = "sm_100"} {
    %m = nv_tileaa.make_memref %p, sizes = [%n], strides = [] : !nv_tileaa.ptr<i8>, (i64), () -> !memref
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[2, 2], !memref>
    %zero = arith.constant 0 : i32
    %corner = arith.constant dense<[[0, 1], [2, 3]]> : tensor<2x2xi8>
    %done = nv_tileaa.tiled_store %corner, %v[%at, %zero] : tensor<2x2xi8>, !nv_tileaa.tiled_view<[2, 2], !memref>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
