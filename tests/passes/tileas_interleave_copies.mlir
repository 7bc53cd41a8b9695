// RUN: tileiras-opt %s --tileas="compute-capability=sm_80 to=tileas-interleave-copies" --remarks 2>&1 | FileCheck %s
// RUN: tileiras-opt %s --tileas="compute-capability=sm_80 to=tileas-roll-mma-dot opt-level=2" | FileCheck %s --check-prefix=LEVEL
// A dot of 64 instructions of a warp, in a loop whose loads run ahead.

// LEVEL-NOT: predicated

!a_memref = !nv_tileaa.memref<1024x1024xf16, strides = [1024, 1]>
!rows = !nv_tileaa.tiled_view<[64, 64], !a_memref>
!columns = !nv_tileaa.tiled_view<[64, 128], !a_memref>
!c_memref = !nv_tileaa.memref<1024x1024xf32, strides = [1024, 1]>
!result = !nv_tileaa.tiled_view<[64, 128], !c_memref>
!token = !nv_tileaa.mem_token

module attributes {nv_tileaa.compute_capability = 80 : i32} {
  // CHECK: 2 copies start between 4 steps of a dot
  // CHECK: scf.for
  // CHECK: nv_tileas.async.wait
  // CHECK-NOT: scf.if
  // CHECK: nv_tileas.dot {{.*}} : tensor<64x16xf16
  // CHECK: scf.if
  // CHECK: nv_tileas.async.tiled_load
  // CHECK: nv_tileas.predicated
  // CHECK: nv_tileas.dot
  // CHECK: nv_tileas.dot
  // CHECK: scf.if
  // CHECK: nv_tileas.async.tiled_load
  // CHECK: nv_tileas.predicated
  // CHECK-NEXT: nv_tileas.async.commit_group
  // CHECK: nv_tileas.dot
  // CHECK: scf.yield
  // CHECK: nv_tileas.async.wait {pending = 0 : i32}
  nv_tileaa.func @product(%pa: !nv_tileaa.ptr<f16>, %pb: !nv_tileaa.ptr<f16>, %pc: !nv_tileaa.ptr<f32>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_80"} {
    %qa = nv_tileaa.assume #nv_tileaa.div_by<16>, %pa : !nv_tileaa.ptr<f16>
    %qb = nv_tileaa.assume #nv_tileaa.div_by<16>, %pb : !nv_tileaa.ptr<f16>
    %qc = nv_tileaa.assume #nv_tileaa.div_by<16>, %pc : !nv_tileaa.ptr<f32>
    %ma = nv_tileaa.make_memref %qa, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !a_memref
    %mb = nv_tileaa.make_memref %qb, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !a_memref
    %mc = nv_tileaa.make_memref %qc, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !c_memref
    %va = nv_tileaa.block_tile %ma : !rows
    %vb = nv_tileaa.block_tile %mb : !columns
    %vc = nv_tileaa.block_tile %mc : !result
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : tensor<64x128xf32>
    %r = scf.for %i = %zero to %n step %one iter_args(%acc = %none) -> (tensor<64x128xf32>) : i32 {
      %a, %ta = nv_tileaa.tiled_load %va[%zero, %i] : !rows, (i32, i32) -> tensor<64x64xf16>, !token
      %b, %tb = nv_tileaa.tiled_load %vb[%i, %zero] : !columns, (i32, i32) -> tensor<64x128xf16>, !token
      %d = nv_tileaa.dot %a, %b, %acc : tensor<64x64xf16>, tensor<64x128xf16> -> tensor<64x128xf32>
      scf.yield %d : tensor<64x128xf32>
    }
    %t = nv_tileaa.tiled_store %r, %vc[%zero, %zero] : tensor<64x128xf32>, !result, (i32, i32) -> !token
    nv_tileaa.return
  }
}
