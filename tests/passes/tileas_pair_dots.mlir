// RUN: tileiras-opt %s --tileas-assign-dot-layouts=compute-capability=sm_100 --tileas-pair-dots=compute-capability=sm_100 --verify-roundtrip | FileCheck %s
// Neighbours in a cluster multiply together where both come to each dot with the same B, of which each loads half.

!a_memref = !nv_tileaa.memref<1024x16xf16, strides = [16, 1]>
!rows = !nv_tileaa.tiled_view<[128, 16], !a_memref>
!b_memref = !nv_tileaa.memref<256x16xf16, strides = [16, 1]>
!b_view = !nv_tileaa.tiled_view<[64, 16], !b_memref>
!token = !nv_tileaa.mem_token

module attributes {nv_tileaa.compute_capability = 100 : i32} {
  // CHECK-LABEL: @together
  // CHECK: %[[RANK:.*]] = nv_tileas.get_cta_rank
  // CHECK: %[[HALF:.*]] = arith.andi %[[RANK]],
  // CHECK: nv_tileas.tiled_load {{.*}} -> tensor<128x16xf16>
  // CHECK: nv_tileas.tiled_load {{.*}} -> tensor<32x16xf16>
  // CHECK: nv_tileas.permute {{.*}} -> tensor<16x32xf16>
  // CHECK-NOT: tensor<16x64xf16>
  // CHECK: nv_tileas.dot {{.*}}tcgen05_m256n64k16_f32_f16_f16_ss_pair{{.*}}tensor<16x32xf16> -> tensor<128x64xf32>
  nv_tileaa.func @together(%pa: !nv_tileaa.ptr<f16>, %pb: !nv_tileaa.ptr<f16>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>, target_spec = "sm_100"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %rank = nv_tileas.get_cta_rank : i32
    %ma = nv_tileas.make_memref %pa, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !a_memref
    %mb = nv_tileas.make_memref %pb, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !b_memref
    %va = nv_tileas.block_tile %ma : !rows
    %vb = nv_tileas.block_tile %mb : !b_view
    %a, %ta = nv_tileas.tiled_load %va[%rank, %zero] : !rows, (i32, i32) -> tensor<128x16xf16>, !token
    %r = scf.for %i = %zero to %n step %one iter_args(%acc = %none) -> (tensor<128x64xf32>) : i32 {
      %b, %tb = nv_tileas.tiled_load %vb[%i, %zero] : !b_view, (i32, i32) -> tensor<64x16xf16>, !token
      %bt = nv_tileas.permute %b {permutation = array<i32: 1, 0>} : tensor<64x16xf16> -> tensor<16x64xf16>
      %d = nv_tileas.dot %a, %bt, %acc : tensor<128x16xf16>, tensor<16x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    nv_tileaa.return
  }

  // B is of the CTA's own rank.
  // CHECK-LABEL: @own_b
  // CHECK-NOT: _pair
  nv_tileaa.func @own_b(%pa: !nv_tileaa.ptr<f16>, %pb: !nv_tileaa.ptr<f16>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>, target_spec = "sm_100"} {
    %zero = arith.constant 0 : i32
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %rank = nv_tileas.get_cta_rank : i32
    %ma = nv_tileas.make_memref %pa, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !a_memref
    %mb = nv_tileas.make_memref %pb, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !b_memref
    %va = nv_tileas.block_tile %ma : !rows
    %vb = nv_tileas.block_tile %mb : !b_view
    %a, %ta = nv_tileas.tiled_load %va[%rank, %zero] : !rows, (i32, i32) -> tensor<128x16xf16>, !token
    %b, %tb = nv_tileas.tiled_load %vb[%rank, %zero] : !b_view, (i32, i32) -> tensor<64x16xf16>, !token
    %bt = nv_tileas.permute %b {permutation = array<i32: 1, 0>} : tensor<64x16xf16> -> tensor<16x64xf16>
    %d = nv_tileas.dot %a, %bt, %none : tensor<128x16xf16>, tensor<16x64xf16> -> tensor<128x64xf32>
    nv_tileaa.return
  }

  // How often a CTA comes to its dot is for its rank to say.
  // CHECK-LABEL: @own_iterations
  // CHECK-NOT: _pair
  nv_tileaa.func @own_iterations(%pa: !nv_tileaa.ptr<f16>, %pb: !nv_tileaa.ptr<f16>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>, target_spec = "sm_100"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %rank = nv_tileas.get_cta_rank : i32
    %ma = nv_tileas.make_memref %pa, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !a_memref
    %mb = nv_tileas.make_memref %pb, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !b_memref
    %va = nv_tileas.block_tile %ma : !rows
    %vb = nv_tileas.block_tile %mb : !b_view
    %a, %ta = nv_tileas.tiled_load %va[%rank, %zero] : !rows, (i32, i32) -> tensor<128x16xf16>, !token
    %r = scf.for %i = %zero to %rank step %one iter_args(%acc = %none) -> (tensor<128x64xf32>) : i32 {
      %b, %tb = nv_tileas.tiled_load %vb[%i, %zero] : !b_view, (i32, i32) -> tensor<64x16xf16>, !token
      %bt = nv_tileas.permute %b {permutation = array<i32: 1, 0>} : tensor<64x16xf16> -> tensor<16x64xf16>
      %d = nv_tileas.dot %a, %bt, %acc : tensor<128x16xf16>, tensor<16x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    nv_tileaa.return
  }

  // One dot of the function could be of pairs, the other one, whose B is used elsewhere as well, could not.
  // CHECK-LABEL: @not_all
  // CHECK-NOT: _pair
  nv_tileaa.func @not_all(%pa: !nv_tileaa.ptr<f16>, %pb: !nv_tileaa.ptr<f16>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>, target_spec = "sm_100"} {
    %zero = arith.constant 0 : i32
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %rank = nv_tileas.get_cta_rank : i32
    %ma = nv_tileas.make_memref %pa, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !a_memref
    %mb = nv_tileas.make_memref %pb, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !b_memref
    %va = nv_tileas.block_tile %ma : !rows
    %vb = nv_tileas.block_tile %mb : !b_view
    %a, %ta = nv_tileas.tiled_load %va[%rank, %zero] : !rows, (i32, i32) -> tensor<128x16xf16>, !token
    %b, %tb = nv_tileas.tiled_load %vb[%zero, %zero] : !b_view, (i32, i32) -> tensor<64x16xf16>, !token
    %bt = nv_tileas.permute %b {permutation = array<i32: 1, 0>} : tensor<64x16xf16> -> tensor<16x64xf16>
    %d = nv_tileas.dot %a, %bt, %none : tensor<128x16xf16>, tensor<16x64xf16> -> tensor<128x64xf32>
    %e, %te = nv_tileas.tiled_load %vb[%zero, %zero] : !b_view, (i32, i32) -> tensor<64x16xf16>, !token
    %et = nv_tileas.permute %e {permutation = array<i32: 1, 0>} : tensor<64x16xf16> -> tensor<16x64xf16>
    %s = nv_tileas.addf %et, %et : tensor<16x64xf16>
    %f = nv_tileas.dot %a, %et, %d : tensor<128x16xf16>, tensor<16x64xf16> -> tensor<128x64xf32>
    nv_tileaa.return
  }

  // The first CTA of the cluster does all the work.
  // CHECK-LABEL: @first_cta
  // CHECK-NOT: _pair
  nv_tileaa.func @first_cta(%pa: !nv_tileaa.ptr<f16>, %pb: !nv_tileaa.ptr<f16>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>, target_spec = "sm_100"} {
    %zero = arith.constant 0 : i32
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %ma = nv_tileas.make_memref %pa, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !a_memref
    %mb = nv_tileas.make_memref %pb, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !b_memref
    %va = nv_tileas.block_tile %ma : !rows
    %vb = nv_tileas.block_tile %mb : !b_view
    %a, %ta = nv_tileas.tiled_load %va[%zero, %zero] : !rows, (i32, i32) -> tensor<128x16xf16>, !token
    %b, %tb = nv_tileas.tiled_load %vb[%zero, %zero] : !b_view, (i32, i32) -> tensor<64x16xf16>, !token
    %bt = nv_tileas.permute %b {permutation = array<i32: 1, 0>} : tensor<64x16xf16> -> tensor<16x64xf16>
    %d = nv_tileas.dot %a, %bt, %none : tensor<128x16xf16>, tensor<16x64xf16> -> tensor<128x64xf32>
    nv_tileaa.return
  }
}
