// RUN: tileiras-opt %s --split-input-file --tileas=to=tileas-remove-layout-conversions --verify-roundtrip | FileCheck %s

// Accesses of one shape share a layout, whatever their element types: no conversion, and the narrowest element decides
// how many a thread holds in a row (eight halves fill 16 bytes).

// CHECK: #layout = #nv_tileas.linear<register = {{\[\[1\], \[2\], \[4\]\]}}, lane = {{\[\[8\], \[16\], \[32\], \[64\], \[128\]\]}}, warp = {{\[\[256\], \[512\]\]}}>
// CHECK: @mixed_widths
// CHECK-SAME: numWarps = 4
// CHECK-NOT: convert_layout
// CHECK: nv_tileas.tiled_load {{.*}} {atom = #nv_tileas.copy_atom<ld_global, 4>} {{.*}} tensor<1024xf32, #layout>
// CHECK: arith.constant dense<2.000000e+00> : tensor<1024xf32> as tensor<1024xf32, #layout>
// CHECK: nv_tileas.tiled_store {{.*}} {atom = #nv_tileas.copy_atom<st_global, 8>} : tensor<1024xf16, #layout>
builtin.module {
  nv_tileaa.func @mixed_widths(%a: !nv_tileaa.ptr<f32>, %n: i32, %c: !nv_tileaa.ptr<f16>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %p = nv_tileaa.assume #nv_tileaa.div_by<16>, %a : !nv_tileaa.ptr<f32>
    %q = nv_tileaa.assume #nv_tileaa.div_by<16>, %c : !nv_tileaa.ptr<f16>
    %m = nv_tileaa.make_memref %p, sizes = [%n], strides = [] : !nv_tileaa.ptr<f32>, (i32), () -> !nv_tileaa.memref<?xf32, strides = [1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[1024], !nv_tileaa.memref<?xf32, strides = [1]>>
    %m2 = nv_tileaa.make_memref %q, sizes = [%n], strides = [] : !nv_tileaa.ptr<f16>, (i32), () -> !nv_tileaa.memref<?xf16, strides = [1]>
    %v2 = nv_tileaa.block_tile %m2 : !nv_tileaa.tiled_view<[1024], !nv_tileaa.memref<?xf16, strides = [1]>>
    %i = nv_tileaa.get_program_id x : i32
    %x, %k = nv_tileaa.tiled_load %v[%i] : !nv_tileaa.tiled_view<[1024], !nv_tileaa.memref<?xf32, strides = [1]>>, (i32) -> tensor<1024xf32>, !nv_tileaa.mem_token
    %s = arith.constant dense<2.0> : tensor<1024xf32>
    %r = nv_tileaa.mulf %x, %s : tensor<1024xf32>
    %h = nv_tileaa.fp_to_fp %r : tensor<1024xf32> to tensor<1024xf16>
    %st = nv_tileaa.tiled_store %h, %v2[%i] : tensor<1024xf16>, !nv_tileaa.tiled_view<[1024], !nv_tileaa.memref<?xf16, strides = [1]>>, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// A pointer that nobody vouches for is accessed element by element.

// CHECK: @unaligned
// CHECK: copy_atom<ld_global, 1>
// CHECK: copy_atom<st_global, 1>
builtin.module {
  nv_tileaa.func @unaligned(%a: !nv_tileaa.ptr<f32>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileaa.make_memref %a, sizes = [%n], strides = [] : !nv_tileaa.ptr<f32>, (i32), () -> !nv_tileaa.memref<?xf32, strides = [1]>
    %v = nv_tileaa.block_tile %m : !nv_tileaa.tiled_view<[256], !nv_tileaa.memref<?xf32, strides = [1]>>
    %i = nv_tileaa.get_program_id x : i32
    %x, %k = nv_tileaa.tiled_load %v[%i] : !nv_tileaa.tiled_view<[256], !nv_tileaa.memref<?xf32, strides = [1]>>, (i32) -> tensor<256xf32>, !nv_tileaa.mem_token
    %st = nv_tileaa.tiled_store %x, %v[%i] token = %k : tensor<256xf32>, !nv_tileaa.tiled_view<[256], !nv_tileaa.memref<?xf32, strides = [1]>>, (i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// A range and the mask made from it have no layout of their own: they are made in the load's. Contiguous pointers and a
// mask whose bound is a multiple of four allow 16-byte accesses.

// CHECK: @pointers
// CHECK-NOT: convert_layout
// CHECK: nv_tileas.make_range : tensor<512xi32, #layout>
// CHECK: arith.cmpi slt
// CHECK: nv_tileas.load {{.*}} {atom = #nv_tileas.copy_atom<ld_global, 4>}
builtin.module {
  nv_tileaa.func @pointers(%a: !nv_tileaa.ptr<f32>, %n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %p = nv_tileaa.assume #nv_tileaa.div_by<16>, %a : !nv_tileaa.ptr<f32>
    %n4 = nv_tileaa.assume #nv_tileaa.div_by<4>, %n : i32
    %r = nv_tileaa.make_range : tensor<512xi32>
    %bound = nv_tileaa.splat %n4 : i32 -> tensor<512xi32>
    %mask = arith.cmpi slt, %r, %bound : tensor<512xi32>
    %base = nv_tileaa.splat %p : !nv_tileaa.ptr<f32> -> tensor<512x!nv_tileaa.ptr<f32>>
    %ptrs = nv_tileaa.addptr %base, %r : tensor<512x!nv_tileaa.ptr<f32>>, tensor<512xi32>
    %x, %k = nv_tileaa.load %ptrs mask = %mask : tensor<512xi1> : tensor<512x!nv_tileaa.ptr<f32>> -> tensor<512xf32>, !nv_tileaa.mem_token
    %st = nv_tileaa.store %ptrs, %x mask = %mask : tensor<512xi1> token = %k : tensor<512x!nv_tileaa.ptr<f32>>, tensor<512xf32> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
