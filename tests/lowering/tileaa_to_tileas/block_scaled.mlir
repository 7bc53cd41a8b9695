// RUN: tileiras-opt %s --tileas="compute-capability=sm_120 to=tileas-remove-layout-conversions" --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --tileas="compute-capability=sm_90 to=tileas-remove-layout-conversions" | FileCheck %s --check-prefix=RUNS
// RUN: tileiras-opt %s --tileas="compute-capability=sm_80 to=tileas-remove-layout-conversions" | FileCheck %s --check-prefix=HALVES

// One instruction where the target has it; elsewhere a plain one, of whose type the factors are or become.

// CHECK: @scaled
// CHECK: nv_tileas.block_scaled_mma {{.*}} {atom = #nv_tileas.mma_atom<"mma_m16n8k32_f32_f8E4M3FN_f8E4M3FN_f8E8M0FNU_32">}

// RUNS: @scaled
// RUNS: nv_tileas.block_scaled_mma {{.*}} {atom = #nv_tileas.mma_atom<"mma_m16n8k32_f32_f8E4M3FN_f8E4M3FN">} : tensor<16x64xf8E4M3FN, {{.*}}>, tensor<16x2xf8E8M0FNU, {{.*}}>

// HALVES: @scaled
// HALVES: nv_tileas.block_scaled_mma {{.*}} {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">} : tensor<16x64xf16, {{.*}}>, tensor<16x2xf8E8M0FNU, {{.*}}>

// Runs of four are shorter than any instruction is deep.

// RUNS: @short_runs
// RUNS: nv_tileas.block_scaled_mma {{.*}} {atom = #nv_tileas.mma_atom<"universal_fma">} : tensor<16x64xf8E4M3FN, {{.*}}>, tensor<16x16xf8E8M0FNU, {{.*}}>
builtin.module {
  nv_tileaa.func @scaled(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_120"} {
    %a = arith.constant dense<1.0> : tensor<16x64xf8E4M3FN>
    %b = arith.constant dense<1.0> : tensor<64x8xf8E4M3FN>
    %c = arith.constant dense<0.0> : tensor<16x8xf32>
    %s = arith.constant dense<2.0> : tensor<16x2xf8E8M0FNU>
    %t = arith.constant dense<2.0> : tensor<2x8xf8E8M0FNU>
    %z = arith.constant 0 : i32
    %d = nv_tileaa.block_scaled_mma %a scale %s, %b scale %t, %c : tensor<16x64xf8E4M3FN>, tensor<16x2xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<2x8xf8E8M0FNU> -> tensor<16x8xf32>
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<16x8xf32, strides = [8, 1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[16, 8], !nv_tileaa.memref<16x8xf32, strides = [8, 1]>>
    %k = nv_tileaa.tiled_store %d, %v[%z, %z] : tensor<16x8xf32>, !nv_tileaa.tiled_view<[16, 8], !nv_tileaa.memref<16x8xf32, strides = [8, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
  nv_tileaa.func @short_runs(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_120"} {
    %a = arith.constant dense<1.0> : tensor<16x64xf8E4M3FN>
    %b = arith.constant dense<1.0> : tensor<64x8xf8E4M3FN>
    %c = arith.constant dense<0.0> : tensor<16x8xf32>
    %s = arith.constant dense<2.0> : tensor<16x16xf8E8M0FNU>
    %t = arith.constant dense<2.0> : tensor<16x8xf8E8M0FNU>
    %z = arith.constant 0 : i32
    %d = nv_tileaa.block_scaled_mma %a scale %s, %b scale %t, %c : tensor<16x64xf8E4M3FN>, tensor<16x16xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<16x8xf8E8M0FNU> -> tensor<16x8xf32>
    %m = nv_tileaa.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<16x8xf32, strides = [8, 1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[16, 8], !nv_tileaa.memref<16x8xf32, strides = [8, 1]>>
    %k = nv_tileaa.tiled_store %d, %v[%z, %z] : tensor<16x8xf32>, !nv_tileaa.tiled_view<[16, 8], !nv_tileaa.memref<16x8xf32, strides = [8, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
