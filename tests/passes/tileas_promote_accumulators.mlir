// RUN: tileiras-opt %s --tileas-assign-dot-layouts=compute-capability=sm_90 -o %t.mlir
// RUN: tileiras-opt %t.mlir --tileas-promote-accumulators=compute-capability=sm_90 --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %t.mlir --tileas-promote-accumulators=compute-capability=sm_90 --remarks 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: tileiras-opt %s --tileas-assign-dot-layouts=compute-capability=sm_89 --tileas-promote-accumulators=compute-capability=sm_89 | FileCheck %s --check-prefix=ADA
// RUN: tileiras-opt %s --tileas-assign-dot-layouts=compute-capability=sm_120 --tileas-promote-accumulators=compute-capability=sm_120 | FileCheck %s --check-prefix=WIDE
// Dots of f8 whose instruction sums in 13 fraction bits.

// WIDE-NOT: promoted

module {
  // CHECK-LABEL: @into_f32
  // CHECK: nv_tileas.dot {{.*}}wgmma_m64n128k32_f32_f8E4M3FN_f8E4M3FN_ss{{.*}}promoted = 128 : i32
  // REMARK: sums of 128 products in 13 fraction bits
  // ADA-LABEL: @into_f32
  // ADA: nv_tileas.dot {{.*}}mma_m16n8k32_f32_f8E4M3FN_f8E4M3FN{{.*}}promoted = 128 : i32
  nv_tileaa.func @into_f32(%a: tensor<64x256xf8E4M3FN>, %b: tensor<256x128xf8E4M3FN>, %c: tensor<64x128xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %d = nv_tileas.dot %a, %b, %c : tensor<64x256xf8E4M3FN>, tensor<256x128xf8E4M3FN> -> tensor<64x128xf32>
    nv_tileaa.return
  }

  // A thread has 128 accumulators and no room for as many sums.
  // CHECK-LABEL: @wide
  // CHECK: nv_tileas.dot {{.*}}wgmma_m64n128k32_f32_f8E5M2_f8E4M3FN_ss{{.*}}promoted
  nv_tileaa.func @wide(%a: tensor<64x64xf8E5M2>, %b: tensor<64x256xf8E4M3FN>, %c: tensor<64x256xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %d = nv_tileas.dot %a, %b, %c : tensor<64x64xf8E5M2>, tensor<64x256xf8E4M3FN> -> tensor<64x256xf32>
    nv_tileaa.return
  }

  // CHECK-LABEL: @fast
  // CHECK: nv_tileas.dot
  // CHECK-NOT: promoted
  nv_tileaa.func @fast(%a: tensor<64x64xf8E5M2>, %b: tensor<64x32xf8E5M2>, %c: tensor<64x32xf32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %d = nv_tileas.dot %a, %b, %c {nv_tileaa.fast_acc} : tensor<64x64xf8E5M2>, tensor<64x32xf8E5M2> -> tensor<64x32xf32>
    nv_tileaa.return
  }

  // The sum has more bits than the accumulator.
  // CHECK-LABEL: @into_f16
  // CHECK: nv_tileas.dot
  // CHECK-NOT: promoted
  nv_tileaa.func @into_f16(%a: tensor<64x64xf8E5M2>, %b: tensor<64x32xf8E5M2>, %c: tensor<64x32xf16>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %d = nv_tileas.dot %a, %b, %c : tensor<64x64xf8E5M2>, tensor<64x32xf8E5M2> -> tensor<64x32xf16>
    nv_tileaa.return
  }
}
