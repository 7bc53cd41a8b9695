// RUN: tileiras-opt %s --tileas=to=tileas-remove-layout-conversions --verify-roundtrip | FileCheck %s

// A row reduction leaves its result with every thread that held a part of the row; putting it back beside the row moves
// nothing.

// CHECK: @row_sum
// CHECK-NOT: convert_layout
// CHECK: nv_tileas.reduce
// CHECK: nv_tileas.view
// CHECK: nv_tileas.broadcast
// CHECK-NOT: convert_layout
// CHECK: return
builtin.module {
  nv_tileaa.func @row_sum(%a: !nv_tileaa.ptr<f32>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %p = nv_tileaa.assume #nv_tileaa.div_by<16>, %a : !nv_tileaa.ptr<f32>
    %s = nv_tileaa.assume #nv_tileaa.div_by<16>, %n : i32
    %m = nv_tileaa.make_memref %p, sizes = [%n, %n], strides = [%s] : !nv_tileaa.ptr<f32>, (i32, i32), (i32) -> !nv_tileaa.memref<?x?xf32, strides = [?, 1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[8, 128], !nv_tileaa.memref<?x?xf32, strides = [?, 1]>>
    %i = nv_tileaa.get_program_id x : i32
    %x, %k = nv_tileaa.tiled_load %v[%i, %i] : !nv_tileaa.tiled_view<[8, 128], !nv_tileaa.memref<?x?xf32, strides = [?, 1]>>, (i32, i32) -> tensor<8x128xf32>, !nv_tileaa.mem_token
    %sum = nv_tileaa.reduce %x {dim = 1 : i64, identities = [0.0 : f32]} : (tensor<8x128xf32>) -> (tensor<8xf32>) {
    ^bb0(%l: f32, %r: f32):
      %z = nv_tileaa.addf %l, %r : f32
      nv_tileaa.yield %z : f32
    }
    %column = nv_tileaa.view %sum : tensor<8xf32> -> tensor<8x1xf32>
    %wide = nv_tileaa.broadcast %column : tensor<8x1xf32> -> tensor<8x128xf32>
    %q = nv_tileaa.divf %x, %wide : tensor<8x128xf32>
    %st = nv_tileaa.tiled_store %q, %v[%i, %i] token = %k : tensor<8x128xf32>, !nv_tileaa.tiled_view<[8, 128], !nv_tileaa.memref<?x?xf32, strides = [?, 1]>>, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
