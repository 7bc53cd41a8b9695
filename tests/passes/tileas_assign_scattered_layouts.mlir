// RUN: tileiras-opt %s --convert-tileaa-to-tileas --tileas-assign-load-store-layouts=compute-capability=sm_90 -o %t.mlir
// RUN: tileiras-opt %t.mlir --verify-roundtrip | FileCheck %s

// Lanes have neighbouring elements of a tile that is stored at computed places of which none are known neighbours.

// CHECK: #layout = #nv_tileas.linear<register = {{\[\[}}128], [256], [512]], lane = {{\[\[}}1], [2], [4], [8], [16]]

module {
  // The remainder of a division by an unknown number has no known runs.
  // CHECK-LABEL: @computed_places
  // CHECK: nv_tileas.load {{.*}}copy_atom<ld_global, 1>, layout = #layout}
  // CHECK: nv_tileas.store {{.*}}copy_atom<st_global, 1>, layout = #layout}
  nv_tileaa.func @computed_places(%v: !nv_tileaa.ptr<f32>, %base: !nv_tileaa.ptr<f32>, %span: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %i = nv_tileaa.make_range : tensor<1024xi32>
    %av = nv_tileaa.assume #nv_tileaa.div_by<16>, %v : !nv_tileaa.ptr<f32>
    %bv = nv_tileaa.splat %av : !nv_tileaa.ptr<f32> -> tensor<1024x!nv_tileaa.ptr<f32>>
    %pv = nv_tileaa.addptr %bv, %i : tensor<1024x!nv_tileaa.ptr<f32>>, tensor<1024xi32>
    %x, %tx = nv_tileaa.load %pv token = %t : tensor<1024x!nv_tileaa.ptr<f32>> -> tensor<1024xf32>, !nv_tileaa.mem_token
    %spans = nv_tileaa.splat %span : i32 -> tensor<1024xi32>
    %k = arith.remui %i, %spans : tensor<1024xi32>
    %bases = nv_tileaa.splat %base : !nv_tileaa.ptr<f32> -> tensor<1024x!nv_tileaa.ptr<f32>>
    %places = nv_tileaa.addptr %bases, %k : tensor<1024x!nv_tileaa.ptr<f32>>, tensor<1024xi32>
    %y = nv_tileaa.mulf %x, %x : tensor<1024xf32>
    %s = nv_tileaa.store %places, %y token = %t : tensor<1024x!nv_tileaa.ptr<f32>>, tensor<1024xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Places from memory suggest no order.
  // CHECK-LABEL: @loaded_places
  // CHECK: nv_tileas.load {{.*}}copy_atom<ld_global, 4>
  // CHECK: nv_tileas.load {{.*}}copy_atom<ld_global, 4>
  nv_tileaa.func @loaded_places(%v: !nv_tileaa.ptr<f32>, %w: !nv_tileaa.ptr<i32>, %base: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %i = nv_tileaa.make_range : tensor<1024xi32>
    %av = nv_tileaa.assume #nv_tileaa.div_by<16>, %v : !nv_tileaa.ptr<f32>
    %bv = nv_tileaa.splat %av : !nv_tileaa.ptr<f32> -> tensor<1024x!nv_tileaa.ptr<f32>>
    %pv = nv_tileaa.addptr %bv, %i : tensor<1024x!nv_tileaa.ptr<f32>>, tensor<1024xi32>
    %x, %tx = nv_tileaa.load %pv token = %t : tensor<1024x!nv_tileaa.ptr<f32>> -> tensor<1024xf32>, !nv_tileaa.mem_token
    %aw = nv_tileaa.assume #nv_tileaa.div_by<16>, %w : !nv_tileaa.ptr<i32>
    %bw = nv_tileaa.splat %aw : !nv_tileaa.ptr<i32> -> tensor<1024x!nv_tileaa.ptr<i32>>
    %pw = nv_tileaa.addptr %bw, %i : tensor<1024x!nv_tileaa.ptr<i32>>, tensor<1024xi32>
    %k, %tk = nv_tileaa.load %pw token = %t : tensor<1024x!nv_tileaa.ptr<i32>> -> tensor<1024xi32>, !nv_tileaa.mem_token
    %bases = nv_tileaa.splat %base : !nv_tileaa.ptr<f32> -> tensor<1024x!nv_tileaa.ptr<f32>>
    %places = nv_tileaa.addptr %bases, %k : tensor<1024x!nv_tileaa.ptr<f32>>, tensor<1024xi32>
    %s = nv_tileaa.store %places, %x token = %t : tensor<1024x!nv_tileaa.ptr<f32>>, tensor<1024xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
