// RUN: tileiras-opt %s --tileas-assign-dot-layouts=compute-capability=sm_100 --tileas-pair-dots="compute-capability=sm_100 tensor-maps=host" --verify-roundtrip | FileCheck %s
// Neighbours in a cluster multiply together where both come to each dot with the same B, of which each loads half.

!a_memref = !nv_tileaa.memref<1024x1024xf16, strides = [1024, 1]>
!rows = !nv_tileaa.tiled_view<[128, 16], !a_memref>
!b_memref = !nv_tileaa.memref<1024x1024xf16, strides = [1024, 1]>
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
    %qa = nv_tileas.assume #nv_tileaa.div_by<16>, %pa : !nv_tileaa.ptr<f16>
    %qb = nv_tileas.assume #nv_tileaa.div_by<16>, %pb : !nv_tileaa.ptr<f16>
    %ma = nv_tileas.make_memref %qa, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !a_memref
    %mb = nv_tileas.make_memref %qb, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !b_memref
    %va = nv_tileas.block_tile %ma : !rows
    %vb = nv_tileas.block_tile %mb : !b_view
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %rank = nv_tileas.get_cta_rank : i32
    %r = scf.for %i = %zero to %n step %one iter_args(%acc = %none) -> (tensor<128x64xf32>) : i32 {
      %a, %ta = nv_tileas.tiled_load %va[%rank, %i] : !rows, (i32, i32) -> tensor<128x16xf16>, !token
      %b, %tb = nv_tileas.tiled_load %vb[%zero, %i] : !b_view, (i32, i32) -> tensor<64x16xf16>, !token
      %bt = nv_tileas.permute %b {permutation = array<i32: 1, 0>} : tensor<64x16xf16> -> tensor<16x64xf16>
      %d = nv_tileas.dot %a, %bt, %acc : tensor<128x16xf16>, tensor<16x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    nv_tileaa.return
  }

  // B is of the CTA's own rank.
  // CHECK-LABEL: @own_b
  // CHECK-NOT: _pair
  nv_tileaa.func @own_b(%pa: !nv_tileaa.ptr<f16>, %pb: !nv_tileaa.ptr<f16>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>, target_spec = "sm_100"} {
    %qa = nv_tileas.assume #nv_tileaa.div_by<16>, %pa : !nv_tileaa.ptr<f16>
    %qb = nv_tileas.assume #nv_tileaa.div_by<16>, %pb : !nv_tileaa.ptr<f16>
    %ma = nv_tileas.make_memref %qa, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !a_memref
    %mb = nv_tileas.make_memref %qb, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !b_memref
    %va = nv_tileas.block_tile %ma : !rows
    %vb = nv_tileas.block_tile %mb : !b_view
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %rank = nv_tileas.get_cta_rank : i32
    %r = scf.for %i = %zero to %n step %one iter_args(%acc = %none) -> (tensor<128x64xf32>) : i32 {
      %a, %ta = nv_tileas.tiled_load %va[%rank, %i] : !rows, (i32, i32) -> tensor<128x16xf16>, !token
      %b, %tb = nv_tileas.tiled_load %vb[%rank, %i] : !b_view, (i32, i32) -> tensor<64x16xf16>, !token
      %bt = nv_tileas.permute %b {permutation = array<i32: 1, 0>} : tensor<64x16xf16> -> tensor<16x64xf16>
      %d = nv_tileas.dot %a, %bt, %acc : tensor<128x16xf16>, tensor<16x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    nv_tileaa.return
  }

  // How often a CTA comes to its dot is for its rank to say.
  // CHECK-LABEL: @own_iterations
  // CHECK-NOT: _pair
  nv_tileaa.func @own_iterations(%pa: !nv_tileaa.ptr<f16>, %pb: !nv_tileaa.ptr<f16>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>, target_spec = "sm_100"} {
    %qa = nv_tileas.assume #nv_tileaa.div_by<16>, %pa : !nv_tileaa.ptr<f16>
    %qb = nv_tileas.assume #nv_tileaa.div_by<16>, %pb : !nv_tileaa.ptr<f16>
    %ma = nv_tileas.make_memref %qa, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !a_memref
    %mb = nv_tileas.make_memref %qb, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !b_memref
    %va = nv_tileas.block_tile %ma : !rows
    %vb = nv_tileas.block_tile %mb : !b_view
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %rank = nv_tileas.get_cta_rank : i32
    %r = scf.for %i = %zero to %rank step %one iter_args(%acc = %none) -> (tensor<128x64xf32>) : i32 {
      %a, %ta = nv_tileas.tiled_load %va[%rank, %i] : !rows, (i32, i32) -> tensor<128x16xf16>, !token
      %b, %tb = nv_tileas.tiled_load %vb[%zero, %i] : !b_view, (i32, i32) -> tensor<64x16xf16>, !token
      %bt = nv_tileas.permute %b {permutation = array<i32: 1, 0>} : tensor<64x16xf16> -> tensor<16x64xf16>
      %d = nv_tileas.dot %a, %bt, %acc : tensor<128x16xf16>, tensor<16x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    nv_tileaa.return
  }

  // One dot of the function could be of pairs, the other one, whose B is used elsewhere as well, could not.
  // CHECK-LABEL: @not_all
  // CHECK-NOT: _pair
  nv_tileaa.func @not_all(%pa: !nv_tileaa.ptr<f16>, %pb: !nv_tileaa.ptr<f16>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>, target_spec = "sm_100"} {
    %qa = nv_tileas.assume #nv_tileaa.div_by<16>, %pa : !nv_tileaa.ptr<f16>
    %qb = nv_tileas.assume #nv_tileaa.div_by<16>, %pb : !nv_tileaa.ptr<f16>
    %ma = nv_tileas.make_memref %qa, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !a_memref
    %mb = nv_tileas.make_memref %qb, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !b_memref
    %va = nv_tileas.block_tile %ma : !rows
    %vb = nv_tileas.block_tile %mb : !b_view
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %rank = nv_tileas.get_cta_rank : i32
    %r = scf.for %i = %zero to %n step %one iter_args(%acc = %none) -> (tensor<128x64xf32>) : i32 {
      %a, %ta = nv_tileas.tiled_load %va[%rank, %i] : !rows, (i32, i32) -> tensor<128x16xf16>, !token
      %b, %tb = nv_tileas.tiled_load %vb[%zero, %i] : !b_view, (i32, i32) -> tensor<64x16xf16>, !token
      %bt = nv_tileas.permute %b {permutation = array<i32: 1, 0>} : tensor<64x16xf16> -> tensor<16x64xf16>
      %e = nv_tileas.dot %a, %bt, %acc : tensor<128x16xf16>, tensor<16x64xf16> -> tensor<128x64xf32>
      %c, %tc = nv_tileas.tiled_load %vb[%one, %i] : !b_view, (i32, i32) -> tensor<64x16xf16>, !token
      %ct = nv_tileas.permute %c {permutation = array<i32: 1, 0>} : tensor<64x16xf16> -> tensor<16x64xf16>
      %s = nv_tileas.addf %ct, %ct : tensor<16x64xf16>
      %d = nv_tileas.dot %a, %ct, %e : tensor<128x16xf16>, tensor<16x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    nv_tileaa.return
  }

  // The first CTA of the cluster does all the work.
  // CHECK-LABEL: @first_cta
  // CHECK-NOT: _pair
  nv_tileaa.func @first_cta(%pa: !nv_tileaa.ptr<f16>, %pb: !nv_tileaa.ptr<f16>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>, target_spec = "sm_100"} {
    %qa = nv_tileas.assume #nv_tileaa.div_by<16>, %pa : !nv_tileaa.ptr<f16>
    %qb = nv_tileas.assume #nv_tileaa.div_by<16>, %pb : !nv_tileaa.ptr<f16>
    %ma = nv_tileas.make_memref %qa, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !a_memref
    %mb = nv_tileas.make_memref %qb, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !b_memref
    %va = nv_tileas.block_tile %ma : !rows
    %vb = nv_tileas.block_tile %mb : !b_view
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.constant dense<0.0> : tensor<128x64xf32>
    %r = scf.for %i = %zero to %n step %one iter_args(%acc = %none) -> (tensor<128x64xf32>) : i32 {
      %a, %ta = nv_tileas.tiled_load %va[%zero, %i] : !rows, (i32, i32) -> tensor<128x16xf16>, !token
      %b, %tb = nv_tileas.tiled_load %vb[%zero, %i] : !b_view, (i32, i32) -> tensor<64x16xf16>, !token
      %bt = nv_tileas.permute %b {permutation = array<i32: 1, 0>} : tensor<64x16xf16> -> tensor<16x64xf16>
      %d = nv_tileas.dot %a, %bt, %acc : tensor<128x16xf16>, tensor<16x64xf16> -> tensor<128x64xf32>
      scf.yield %d : tensor<128x64xf32>
    }
    nv_tileaa.return
  }
}
