// A dot in a loop on sm_90: atoms of warpgroups, operands in shared memory, the accumulator in flight around the loop.
// RUN: tileiras-opt %s --tileas="compute-capability=sm_90 to=tileas-remove-layout-conversions" --verify-roundtrip | FileCheck %s --check-prefix=LAYOUTS
// RUN: tileiras-opt %s --tileas="compute-capability=sm_90 to=tileas-generate-schedule" --verify-roundtrip | FileCheck %s --check-prefix=SCHEDULED
// RUN: tileiras-opt %s --tileas="compute-capability=sm_90 to=tileas-materialize-async" --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --tileas="compute-capability=sm_90 to=tileas-insert-barriers" --verify-roundtrip | FileCheck %s --check-prefix=BARRIERS
// RUN: tileiras-opt %s --tileas="compute-capability=sm_90 unspecialized-pipeline-num-stages=2 to=tileas-materialize-async" | FileCheck %s --check-prefix=TWO

// What is loaded goes to shared memory, in the layouts of two swizzles; the accumulator has the fragments of a warpgroup.
// LAYOUTS: #[[A:shared[0-9]*]] = #nv_tileas.shared<offset = {{.}}[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [1, 0], [2, 8], [4, 16], [8, 0], [16, 0], [32, 0]]>
// LAYOUTS: #[[B:shared[0-9]+]] = #nv_tileas.shared<offset = {{.}}[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0]]>
// LAYOUTS: convert_layout {{.*}} -> tensor<64x32xf16, #[[A]]>
// LAYOUTS: convert_layout {{.*}} -> tensor<32x64xf16, #[[B]]>
// LAYOUTS: nv_tileas.dot {{.*}} {atom = #nv_tileas.mma_atom<"wgmma_m64n64k16_f32_f16_f16_ss">} : tensor<64x32xf16, #[[A]]>, tensor<32x64xf16, #[[B]]>

// A stage more than the copies need, for the dot that is in flight.
// SCHEDULED: nv_tileas.dots_in_flight
// SCHEDULED-SAME: nv_tileas.loop_schedule = #nv_tileas.loop_schedule<plain, 4>

// CHECK: %[[RA:.*]] = nv_tileas.alloc_tensor : !nv_tileas.buffer<4, tensor<64x32xf16
// CHECK: %[[RB:.*]] = nv_tileas.alloc_tensor : !nv_tileas.buffer<4, tensor<32x64xf16
// CHECK: %[[INIT:.*]] = nv_tileas.async.to_async
// CHECK: scf.for {{.*}} iter_args(%[[ACC:[a-z0-9]*]] = %[[INIT]], %[[STAGE:[a-z0-9]*]] = %{{.*}}) -> (!nv_tileas.in_flight<tensor<64x64xf32
// CHECK-NEXT: nv_tileas.async.wait {pending = 1 : i32}
// CHECK-NEXT: nv_tileas.fence_proxy_async
// CHECK: nv_tileas.async.commit_group
// CHECK: %[[A:.*]] = nv_tileas.copy %[[RA]][%[[STAGE]] : i32]
// CHECK: %[[B:.*]] = nv_tileas.copy %[[RB]][%[[STAGE]] : i32]
// CHECK: %[[NEXT:.*]] = nv_tileas.async.dot %[[A]], %[[B]], %[[ACC]] {atom
// CHECK-NEXT: nv_tileas.async.commit_dots
// CHECK-NOT: to_async
// CHECK: nv_tileas.async.future_wait {pending = 1 : i32} : () -> ()
// CHECK-NEXT: scf.yield %[[NEXT]],
// CHECK: nv_tileas.async.future_wait %{{.*}} {pending = 0 : i32} : (!nv_tileas.in_flight<tensor<64x64xf32
// CHECK-NEXT: nv_tileas.dealloc_tensor
// CHECK-NOT: future_wait

// The barrier of the wait stands behind the fence.
// BARRIERS: nv_tileas.alloc_tensor {offset = 0 : i32}
// BARRIERS: nv_tileas.alloc_tensor {offset = 16384 : i32}
// BARRIERS: scf.for
// BARRIERS-NEXT: nv_tileas.async.wait
// BARRIERS-NEXT: nv_tileas.fence_proxy_async
// BARRIERS-NEXT: nv_tileas.barrier id = 0
// BARRIERS-NOT: nv_tileas.barrier
// BARRIERS: scf.yield

// Two stages have no room for a dot in flight: the iteration waits for its own.
// TWO-NOT: in_flight<{{.*}} iter_args
// TWO: scf.for
// TWO: nv_tileas.async.wait {pending = 0 : i32}
// TWO: nv_tileas.async.to_async
// TWO: nv_tileas.async.dot
// TWO: nv_tileas.async.future_wait %{{.*}} {pending = 0 : i32}
// TWO: scf.yield

module attributes {nv_tileaa.compute_capability = 90 : i32} {
  nv_tileaa.func @k(%arg0: !nv_tileaa.ptr<f16>, %arg1: !nv_tileaa.ptr<f16>, %arg2: !nv_tileaa.ptr<f32>, %arg3: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %0 = nv_tileaa.assume #nv_tileaa.div_by<16>, %arg0 : !nv_tileaa.ptr<f16>
    %1 = nv_tileaa.make_memref %0, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !nv_tileaa.memref<64x128xf16, strides = [128, 1]>
    %2 = nv_tileaa.block_tile %1 : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<64x128xf16, strides = [128, 1]>>
    %3 = nv_tileaa.assume #nv_tileaa.div_by<16>, %arg1 : !nv_tileaa.ptr<f16>
    %4 = nv_tileaa.make_memref %3, sizes = [], strides = [] : !nv_tileaa.ptr<f16>, (), () -> !nv_tileaa.memref<128x64xf16, strides = [64, 1]>
    %5 = nv_tileaa.block_tile %4 : !nv_tileaa.tiled_view<[32, 64], !nv_tileaa.memref<128x64xf16, strides = [64, 1]>>
    %6 = nv_tileaa.assume #nv_tileaa.div_by<16>, %arg2 : !nv_tileaa.ptr<f32>
    %7 = nv_tileaa.make_memref %6, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<64x64xf32, strides = [64, 1]>
    %8 = nv_tileaa.block_tile %7 : !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<64x64xf32, strides = [64, 1]>>
    %9 = nv_tileaa.assume #nv_tileaa.div_by<16>, %arg3 : !nv_tileaa.ptr<f32>
    %10 = nv_tileaa.make_memref %9, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<64x1xf32, strides = [1, 1]>
    %11 = nv_tileaa.block_tile %10 : !nv_tileaa.tiled_view<[64, 1], !nv_tileaa.memref<64x1xf32, strides = [1, 1]>>
    %12 = arith.constant 0 : i32
    %13 = arith.constant 1 : i32
    %14 = arith.constant 4 : i32
    %15 = arith.constant dense<0.000000e+00> : tensor<64x64xf32>
    %16 = scf.for %arg4 = %12 to %14 step %13 iter_args(%arg5 = %15) -> (tensor<64x64xf32>) : i32 {
      %data, %result_token = nv_tileaa.tiled_load %2[%12, %arg4] : !nv_tileaa.tiled_view<[64, 32], !nv_tileaa.memref<64x128xf16, strides = [128, 1]>>, (i32, i32) -> tensor<64x32xf16>, !nv_tileaa.mem_token
      %data_0, %result_token_1 = nv_tileaa.tiled_load %5[%arg4, %12] : !nv_tileaa.tiled_view<[32, 64], !nv_tileaa.memref<128x64xf16, strides = [64, 1]>>, (i32, i32) -> tensor<32x64xf16>, !nv_tileaa.mem_token
      %21 = nv_tileaa.dot %data, %data_0, %arg5 : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>
      scf.yield %21 : tensor<64x64xf32>
    }
    %17 = nv_tileaa.reduce %16 {dim = 1 : i64, identities = [0.000000e+00 : f32]} : (tensor<64x64xf32>) -> (tensor<64xf32>) {
    ^bb0(%arg4: f32, %arg5: f32):
      %21 = nv_tileaa.addf %arg4, %arg5 : f32
      nv_tileaa.yield %21 : f32
    }
    %18 = nv_tileaa.view %17 : tensor<64xf32> -> tensor<64x1xf32>
    %19 = nv_tileaa.tiled_store %16, %8[%12, %12] : tensor<64x64xf32>, !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<64x64xf32, strides = [64, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    %20 = nv_tileaa.tiled_store %18, %11[%12, %12] : tensor<64x1xf32>, !nv_tileaa.tiled_view<[64, 1], !nv_tileaa.memref<64x1xf32, strides = [1, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

