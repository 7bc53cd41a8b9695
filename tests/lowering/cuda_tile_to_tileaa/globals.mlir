// RUN: tileiras-opt %s --convert-cudatile-to-tileaa=compute-capability=sm_90 | FileCheck %s

// CHECK: nv_tileaa.global @table
// CHECK-SAME: dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK: nv_tileaa.global @odd {alignment = 8 : i64
// CHECK: nv_tileaa.global @natural {value
// CHECK-LABEL: nv_tileaa.func @reads
// CHECK: kernel_spec = #nv_tileaa.kernel_spec<numCtas = 2, occupancy = 3>
builtin.module {
cuda_tile.module @kernels {
  global @table <f32: [1.0, 2.0]> : tile<2xf32>
  global @odd alignment = 12 <f32: [1.0, 2.0]> : tile<2xf32>
  global @natural alignment = -1 <f32: [1.0, 2.0]> : tile<2xf32>
  entry @reads() optimization_hints=<sm_90 = {num_cta_in_cga = 2, occupancy = 3}> {
    // CHECK: nv_tileaa.get_global @table : !nv_tileaa.ptr<f32>
    %p = get_global @table : tile<ptr<f32>>
    // CHECK: %[[M:.+]] = nv_tileaa.alloca 4 : i64, 16 : i64 {global} : !nv_tileaa.ptr<f32>
    %m = alloca num_elem = 4, alignment = 16 global : tile<ptr<f32>>
    // CHECK: nv_tileaa.get_program_id x : i32
    // CHECK: nv_tileaa.get_program_id y : i32
    // CHECK: nv_tileaa.get_program_id z : i32
    %x, %y, %z = get_tile_block_id : tile<i32>
    // CHECK: nv_tileaa.get_num_programs z : i32
    %a, %b, %c = get_num_tile_blocks : tile<i32>
    // CHECK: nv_tileaa.dealloc %[[M]]
    // CHECK-NEXT: nv_tileaa.return
    return
  }
}
}
