// A dot in a loop on sm_100: the accumulator stays in tensor memory, where one thread has the tensor core add to it.
// RUN: tileiras-opt %s --tileas="compute-capability=sm_100 tensor-maps=none num-warps=4 to=tileas-remove-layout-conversions" --verify-roundtrip | FileCheck %s --check-prefix=LAYOUTS
// RUN: tileiras-opt %s --tileas="compute-capability=sm_100 tensor-maps=none num-warps=4 to=tileas-materialize-async" --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --tileas="compute-capability=sm_100 tensor-maps=none num-warps=4 to=tileas-insert-barriers" --verify-roundtrip | FileCheck %s --check-prefix=BARRIERS
// RUN: tileiras-opt %s --tileas="compute-capability=sm_100 tensor-maps=none num-warps=4 unspecialized-pipeline-num-stages=2 to=tileas-materialize-async" | FileCheck %s --check-prefix=TWO

// A result has the registers that a load from tensor memory gives.
// LAYOUTS: #[[C:layout[0-9]*]] = #nv_tileas.linear<register = {{.}}[0, 1], [8, 0], [0, 8], [0, 16], [0, 32]], lane = {{.}}[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp = {{.}}[16, 0], [32, 0]]>
// LAYOUTS: nv_tileas.dot {{.*}} {atom = #nv_tileas.mma_atom<"tcgen05_m64n64k16_f32_f16_f16_ss">} : tensor<64x32xf16, #shared{{[0-9]*}}>, tensor<32x64xf16, #shared{{[0-9]*}}> -> tensor<64x64xf32, #[[C]]>

// Rows of 64 take 16 of every 32 lanes; the first iteration overwrites what is there.
// CHECK: #tensor = #nv_tileas.tensor<lane = {{.}}[1, 0], [2, 0], [4, 0], [8, 0], [0, 0], [16, 0], [32, 0]], column = {{.}}[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32]]>
// CHECK: %[[M:.*]] = nv_tileas.tensor_memory.reserve {commits = 4 : i32}
// CHECK: %[[BASE:.*]] = nv_tileas.tensor_memory.open %[[M]]
// CHECK: %[[T:.*]] = nv_tileas.tensor_memory.alloc %[[BASE]] : !nv_tileas.tensor_buffer<tensor<64x64xf32, #tensor>>
// CHECK-NEXT: %[[LOOP:[a-z0-9]*]]:2 = scf.for %[[I:.*]] = %[[FIRST:.*]] to {{.*}} iter_args(%{{.*}} = {{.*}}, %[[COUNT:[a-z0-9]*]] = {{.*}}) -> (i32, i32)
// CHECK-NEXT: nv_tileas.async.wait {pending = 1 : i32}
// CHECK-NEXT: nv_tileas.fence_proxy_async
// CHECK: %[[ADDS:.*]] = arith.cmpi ne, %[[I]], %[[FIRST]]
// CHECK-NEXT: nv_tileas.tensor_memory.dot {{.*}} into %[[T]] if %[[ADDS]]
// CHECK-NEXT: %[[NEXT:.*]] = nv_tileas.tensor_memory.commit %[[M]], %[[COUNT]]
// CHECK: nv_tileas.tensor_memory.wait %[[M]], %[[NEXT]] {pending = 1 : i32}
// CHECK-NEXT: scf.yield {{.*}}, %[[NEXT]]
// CHECK: nv_tileas.tensor_memory.wait %[[M]], %[[LOOP]]#1 {pending = 0 : i32}
// CHECK-NEXT: nv_tileas.tensor_memory.load %[[T]]
// CHECK-NEXT: nv_tileas.tensor_memory.dealloc %[[T]]
// CHECK-NEXT: nv_tileas.tensor_memory.release %[[M]]

// Columns are allocated by one warp, whose address the others read behind a barrier, and freed behind all loads.
// BARRIERS: nv_tileas.tensor_memory.reserve {columns = 64 : i32, commits = 4 : i32, offset = 0 : i32}
// BARRIERS: nv_tileas.barrier id = 0
// BARRIERS-NEXT: nv_tileas.tensor_memory.open
// BARRIERS: nv_tileas.tensor_memory.alloc {{.*}} {column = 0 : i32}
// BARRIERS: scf.for
// BARRIERS-NEXT: nv_tileas.async.wait
// BARRIERS-NEXT: nv_tileas.fence_proxy_async
// BARRIERS-NEXT: nv_tileas.barrier id = 0
// BARRIERS-NOT: nv_tileas.barrier
// BARRIERS: scf.yield
// BARRIERS: nv_tileas.tensor_memory.dealloc
// BARRIERS-NEXT: nv_tileas.barrier id = 0
// BARRIERS-NEXT: nv_tileas.tensor_memory.release

// Two stages have no room for a dot in flight: the iteration waits for its own.
// TWO: scf.for
// TWO: nv_tileas.tensor_memory.dot
// TWO: nv_tileas.tensor_memory.wait {{.*}} {pending = 0 : i32}
// TWO: scf.yield

module attributes {nv_tileaa.compute_capability = 100 : i32} {
  nv_tileaa.func @k(%arg0: !nv_tileaa.ptr<f16>, %arg1: !nv_tileaa.ptr<f16>, %arg2: !nv_tileaa.ptr<f32>, %arg3: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_100"} {
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

