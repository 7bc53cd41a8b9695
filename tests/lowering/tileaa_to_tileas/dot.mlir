// RUN: tileiras-opt %s --tileas="compute-capability=sm_80 to=tileas-remove-layout-conversions" --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --tileas="compute-capability=sm_75 to=tileas-remove-layout-conversions" | FileCheck %s --check-prefix=TURING

// The accumulator keeps the fragment layout around the loop; only what the loads bring and the result that is stored
// move between layouts.

// CHECK: @mm
// CHECK: scf.for {{.*}} -> (tensor<64x64xf32, #[[ACC:layout[0-9]*]]>)
// CHECK: nv_tileas.tiled_load {{.*}}<ld_global, 8>
// CHECK-NEXT: convert_layout
// CHECK-NEXT: nv_tileas.tiled_load {{.*}}<ld_global, 8>
// CHECK-NEXT: convert_layout
// CHECK-NEXT: nv_tileas.dot {{.*}} {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">}
// CHECK-NEXT: scf.yield {{.*}} : tensor<64x64xf32, #[[ACC]]>
// CHECK: convert_layout
// CHECK-NEXT: nv_tileas.tiled_store {{.*}}<st_global, 8>
// CHECK-NOT: convert_layout

// TURING: mma_atom<"mma_m16n8k8_f32_f16_f16">
builtin.module {
  nv_tileaa.func @mm(%a: !nv_tileaa.ptr<f16>, %n: i32, %c: !nv_tileaa.ptr<f16>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %p = nv_tileaa.assume #nv_tileaa.div_by<16>, %a : !nv_tileaa.ptr<f16>
    %q = nv_tileaa.assume #nv_tileaa.div_by<16>, %c : !nv_tileaa.ptr<f16>
    %n16 = nv_tileaa.assume #nv_tileaa.div_by<16>, %n : i32
    %m = nv_tileaa.make_memref %p, sizes = [%n, %n], strides = [%n16] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %va = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>, padding = #nv_tileaa.padding_value<zero>>
    %vb = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[32, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>, padding = #nv_tileaa.padding_value<zero>>
    %m2 = nv_tileaa.make_memref %q, sizes = [%n, %n], strides = [%n16] : !nv_tileaa.ptr<f16>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
    %vc = nv_tileaa.block_tile %m2 : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
    %i = nv_tileaa.get_program_id x : i32
    %j = nv_tileaa.get_program_id y : i32
    %z = arith.constant dense<0.0> : tensor<64x64xf32>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %acc = scf.for %k = %c0 to %n step %c1 iter_args(%x = %z) -> (tensor<64x64xf32>) : i32 {
      %ta, %k1 = nv_tileaa.tiled_load %va[%i, %k] : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>, padding = #nv_tileaa.padding_value<zero>>, (i32, i32) -> tensor<64x32xf16>, !nv_tileaa.mem_token
      %tb, %k2 = nv_tileaa.tiled_load %vb[%k, %j] : !nv_tileaa.tiled_view<[32, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>, padding = #nv_tileaa.padding_value<zero>>, (i32, i32) -> tensor<32x64xf16>, !nv_tileaa.mem_token
      %d = nv_tileaa.dot %ta, %tb, %x : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    %h = nv_tileaa.fp_to_fp %acc : tensor<64x64xf32> to tensor<64x64xf16>
    %st = nv_tileaa.tiled_store %h, %vc[%i, %j] : tensor<64x64xf16>, !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
