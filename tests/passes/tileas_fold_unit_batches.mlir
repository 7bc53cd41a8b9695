// Dots of batches of one are of matrices, and so is what loops carry from one to the next.
// RUN: tileiras-opt %s --tileas-fold-unit-batches=compute-capability=sm_100 --verify-roundtrip | FileCheck %s

!a = tensor<1x64x32xf16>
!b = tensor<1x32x64xf16>
!c = tensor<1x64x64xf32>
!view = !nv_tileaa.tiled_view<[1, 64, 64], !nv_tileaa.memref<?x?x?xf32, strides = [?, ?, 1]>>
!two = !nv_tileaa.tiled_view<[2, 64, 64], !nv_tileaa.memref<?x?x?xf32, strides = [?, ?, 1]>>

module {
  // One loop inside of another: neither carries a batch, and what is used behind them has it again.
  // CHECK-LABEL: @carried
  // CHECK: arith.constant dense<0.0{{.*}}> : tensor<64x64xf32>
  // CHECK: scf.for {{.*}} -> (tensor<64x64xf32>)
  // CHECK: scf.for {{.*}} -> (tensor<64x64xf32>)
  // CHECK: %[[A:.*]] = nv_tileaa.view {{.*}} : tensor<1x64x32xf16> -> tensor<64x32xf16>
  // CHECK: %[[B:.*]] = nv_tileaa.view {{.*}} : tensor<1x32x64xf16> -> tensor<32x64xf16>
  // CHECK: %[[R:.*]] = nv_tileaa.dot %[[A]], %[[B]], {{.*}} -> tensor<64x64xf32>
  // CHECK: scf.yield %[[R]]
  // CHECK: nv_tileaa.view {{.*}} : tensor<64x64xf32> -> tensor<1x64x64xf32>
  // CHECK: return
  nv_tileaa.func @carried(%a: !a, %b: !b, %n: i32, %v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %at = arith.constant 0 : i32
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : !c
    %outer = scf.for %i = %zero to %n step %one iter_args(%x = %none) -> (!c) : i32 {
      %inner = scf.for %j = %zero to %n step %one iter_args(%y = %x) -> (!c) : i32 {
        %r = nv_tileaa.dot %a, %b, %y : !a, !b -> !c
        scf.yield %r : !c
      }
      scf.yield %inner : !c
    }
    %done = nv_tileaa.tiled_store %outer, %v[%at, %at, %at] : !c, !view, (i32, i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // What the loop itself uses of it has the batch.
  // CHECK-LABEL: @used
  // CHECK: scf.for {{.*}} -> (tensor<1x64x64xf32>)
  // CHECK: nv_tileaa.dot {{.*}} -> tensor<64x64xf32>
  // CHECK: nv_tileaa.view {{.*}} : tensor<64x64xf32> -> tensor<1x64x64xf32>
  // CHECK: nv_tileaa.addf {{.*}} tensor<1x64x64xf32>
  nv_tileaa.func @used(%a: !a, %b: !b, %n: i32, %v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %at = arith.constant 0 : i32
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : !c
    %sum = scf.for %i = %zero to %n step %one iter_args(%x = %none) -> (!c) : i32 {
      %r = nv_tileaa.dot %a, %b, %x : !a, !b -> !c
      %s = nv_tileaa.addf %r, %x : !c
      scf.yield %s : !c
    }
    %done = nv_tileaa.tiled_store %sum, %v[%at, %at, %at] : !c, !view, (i32, i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // CHECK-LABEL: @of_two
  // CHECK: nv_tileaa.dot {{.*}} -> tensor<2x64x64xf32>
  nv_tileaa.func @of_two(%a: tensor<2x64x32xf16>, %b: tensor<2x32x64xf16>, %c: tensor<2x64x64xf32>, %v: !two) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_100"} {
    %at = arith.constant 0 : i32
    %r = nv_tileaa.dot %a, %b, %c : tensor<2x64x32xf16>, tensor<2x32x64xf16> -> tensor<2x64x64xf32>
    %done = nv_tileaa.tiled_store %r, %v[%at, %at, %at] : tensor<2x64x64xf32>, !two, (i32, i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
