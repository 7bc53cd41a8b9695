// RUN: tileiras-opt %s --convert-cudatile-to-tileaa=compute-capability=sm_90 | FileCheck %s

// CHECK-LABEL: nv_tileaa.func @rows(%arg0: !nv_tileaa.ptr<f32>, %arg1: i32, %arg2: i32)
builtin.module {
cuda_tile.module @kernels {
  entry @rows(%p: tile<ptr<f32>>, %n: tile<i32>, %start: tile<i32>) {
    %t = make_tensor_view %p, shape = [%n, 24], strides = [24, 1] : tile<i32> -> tensor_view<?x24xf32, strides=[24,1]>
    %v = make_gather_scatter_view %t : gather_scatter_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x24xf32, strides=[24,1]>, sparse_dim=0>
    %rows = constant <i32: [7, 0, 9, 3]> : tile<4xi32>
    // The given rows, and 8 columns from the start on, which counts elements.
    // CHECK: %[[ROWS:.*]] = arith.extsi %{{.*}} : tensor<4xi32> to tensor<4xi64>
    // CHECK: %[[SIZE:.*]] = arith.extui %arg1 : i32 to i64
    // CHECK: %[[LIMIT:.*]] = nv_tileaa.splat %[[SIZE]]
    // CHECK: arith.cmpi ult, %[[ROWS]], %[[LIMIT]] : tensor<4xi64>
    // CHECK: arith.extsi %arg2 : i32 to i64
    // CHECK: nv_tileaa.make_range : tensor<8xi32>
    // CHECK: %[[MASK:.*]] = arith.andi {{.*}} : tensor<4x8xi1>
    // CHECK: %[[OFFSET:.*]] = arith.addi {{.*}} : tensor<4x8xi64>
    // CHECK: %[[BASE:.*]] = nv_tileaa.splat %arg0
    // CHECK: %[[PTRS:.*]] = nv_tileaa.addptr %[[BASE]], %[[OFFSET]]
    // CHECK: %[[PAD:.*]] = arith.constant dense<0xFF800000> : tensor<4x8xf32>
    // CHECK: nv_tileaa.load %[[PTRS]] mask = %[[MASK]] {{.*}} other = %[[PAD]]
    %x, %k = load_view_tko weak %v[%rows, %start] : gather_scatter_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x24xf32, strides=[24,1]>, sparse_dim=0>, tile<4xi32>, tile<i32> -> tile<4x8xf32>, token
    // CHECK: nv_tileaa.store {{.*}} mask =
    %k1 = store_view_tko weak %x, %v[%rows, %start] : tile<4x8xf32>, gather_scatter_view<tile=(4x8), padding_value = neg_inf, tensor_view<?x24xf32, strides=[24,1]>, sparse_dim=0>, tile<4xi32>, tile<i32> -> token
    return
  }

  // CHECK-LABEL: nv_tileaa.func @bytes
  entry @bytes() {
    %x = constant <f32: 1.0> : tile<4xf32>
    // CHECK: arith.bitcast {{.*}} : tensor<4xf32> to tensor<4xi32>
    // CHECK: arith.shrui {{.*}} : tensor<4x4xi32>
    // CHECK: nv_tileaa.view {{.*}} : tensor<4x4xi8> -> tensor<16xi8>
    %b = pack %x : tile<4xf32> -> tile<16xi8>
    // CHECK: arith.shli {{.*}} : tensor<8x2xi16>
    // CHECK: nv_tileaa.reduce {{.*}} : (tensor<8x2xi16>) -> (tensor<8xi16>)
    // CHECK: arith.bitcast {{.*}} : tensor<8xi16> to tensor<8xf16>
    %h = unpack %b : tile<16xi8> -> tile<8xf16>
    return
  }

  // CHECK-LABEL: nv_tileaa.func @scaled
  entry @scaled() {
    %a = constant <f8E4M3FN: 1.0> : tile<16x64xf8E4M3FN>
    %b = constant <f8E4M3FN: 1.0> : tile<64x8xf8E4M3FN>
    %c = constant <f32: 0.0> : tile<16x8xf32>
    %s = constant <f8E8M0FNU: 2.0> : tile<16x2xf8E8M0FNU>
    %t = constant <f8E8M0FNU: 2.0> : tile<2x8xf8E8M0FNU>
    // CHECK: nv_tileaa.block_scaled_mma {{.*}} scale {{.*}} : tensor<16x64xf8E4M3FN>, tensor<16x2xf8E8M0FNU>, tensor<64x8xf8E4M3FN>, tensor<2x8xf8E8M0FNU> -> tensor<16x8xf32>
    %d = mmaf_scaled %a, %b, %c, %s, %t : tile<16x64xf8E4M3FN>, tile<64x8xf8E4M3FN>, tile<16x8xf32>, tile<16x2xf8E8M0FNU>, tile<2x8xf8E8M0FNU>
    return
  }
}
}
