// A dot in a loop, through the decisions of TileAS one by one: each row is given what the rows before it left as text.
// RUN: tileiras-opt %s --tileas-assign-num-warps | FileCheck %s --check-prefix=WARPS
// RUN: tileiras-opt %s --tileas-assign-num-warps=num-warps=8 | FileCheck %s --check-prefix=EIGHT
// RUN: tileiras-opt %s --tileas-assign-num-warps --convert-tileaa-to-tileas -o %t.plain.mlir
// RUN: tileiras-opt %t.plain.mlir --verify-roundtrip | FileCheck %s --check-prefix=PLAIN
// RUN: tileiras-opt %t.plain.mlir --tileas-assign-dot-layouts=compute-capability=sm_80 -o %t.dots.mlir
// RUN: tileiras-opt %t.dots.mlir --verify-roundtrip | FileCheck %s --check-prefix=DOTS
// RUN: tileiras-opt %t.dots.mlir --tileas-assign-load-store-layouts=compute-capability=sm_80 -o %t.atoms.mlir
// RUN: tileiras-opt %t.atoms.mlir --verify-roundtrip | FileCheck %s --check-prefix=ATOMS
// RUN: tileiras-opt %t.atoms.mlir --tileas-remove-layout-conversions -o %t.layouts.mlir
// RUN: tileiras-opt %t.layouts.mlir --verify-roundtrip | FileCheck %s --check-prefix=LAYOUTS
// RUN: tileiras-opt %t.layouts.mlir --tileas-generate-schedule=compute-capability=sm_80 -o %t.scheduled.mlir
// RUN: tileiras-opt %t.scheduled.mlir --verify-roundtrip | FileCheck %s --check-prefix=SCHEDULED
// RUN: tileiras-opt %t.layouts.mlir --tileas-generate-schedule="compute-capability=sm_80 strategy={stages=2}" | FileCheck %s --check-prefix=TWO
// RUN: tileiras-opt %t.layouts.mlir --tileas-generate-schedule="compute-capability=sm_80 strategy={stages=1}" | FileCheck %s --check-prefix=SERIAL
// RUN: tileiras-opt %t.scheduled.mlir --tileas-unspecialized-pipeline=compute-capability=sm_80 -o %t.rings.mlir
// RUN: tileiras-opt %t.rings.mlir --verify-roundtrip | FileCheck %s --check-prefix=RINGS
// RUN: tileiras-opt %t.rings.mlir --tileas-unspecialized-pipeline=compute-capability=sm_80 | FileCheck %s --check-prefix=RINGS
// RUN: tileiras-opt %t.rings.mlir --tileas-optimize-alloc-tensor=compute-capability=sm_80 | FileCheck %s --check-prefix=PLACED

// The number of warps is all that changes.
// WARPS: kernel_spec<numWarps = 4, numCtas = 1>
// WARPS: nv_tileaa.dot
// EIGHT: kernel_spec<numWarps = 8, numCtas = 1>

// One operation for another: no layout, no atom.
// PLAIN-NOT: atom
// PLAIN-NOT: nv_tileas.linear
// PLAIN: nv_tileas.dot %{{.*}} : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>

// The atom of the dot, and the layouts of A, B and the accumulator; types stay.
// DOTS-NOT: copy_atom
// DOTS: nv_tileas.dot %{{.*}} {atom = #nv_tileas.mma_atom<"mma_m16n8k16_f32_f16_f16">, operand_layouts = [#[[A:.*]], #[[B:.*]], #[[C:.*]]]} : tensor<64x32xf16>, tensor<32x64xf16> -> tensor<64x64xf32>

// Loads are 16 bytes wide; the result is stored in the layout in which the dot leaves it, two elements at once.
// ATOMS: tiled_load {{.*}} {atom = #nv_tileas.copy_atom<ld_global, 8>, layout = #[[LA:.*]]} {{.*}} -> tensor<64x32xf16>,
// ATOMS: tiled_load {{.*}} {atom = #nv_tileas.copy_atom<ld_global, 8>, layout = #[[LB:.*]]} {{.*}} -> tensor<32x64xf16>,
// ATOMS: nv_tileas.dot {{.*}}, #[[C:layout[0-9]+]]{{.}}} : tensor<64x32xf16>
// ATOMS: tiled_store {{.*}} {atom = #nv_tileas.copy_atom<st_global, 2>, layout = #[[C]]}

// Every tile has an encoding; only what is loaded changes its layout, and the accumulator keeps its own around the loop.
// LAYOUTS-NOT: operand_layouts
// LAYOUTS: scf.for {{.*}} -> (tensor<64x64xf32, #[[C:layout[0-9]*]]>)
// LAYOUTS: tiled_load
// LAYOUTS-NEXT: convert_layout
// LAYOUTS: tiled_load
// LAYOUTS-NEXT: convert_layout
// LAYOUTS: nv_tileas.dot {{.*}} -> tensor<64x64xf32, #[[C]]>
// LAYOUTS-NOT: convert_layout
// LAYOUTS: tiled_store {{.*}} : tensor<64x64xf32, #[[C]]>

// Both loads run ahead through three stages; nothing has moved.
// SCHEDULED-NOT: alloc_tensor
// SCHEDULED: tiled_load {{.*}} nv_tileas.runs_ahead}
// SCHEDULED: tiled_load {{.*}} nv_tileas.runs_ahead}
// SCHEDULED: nv_tileas.loop_schedule = #nv_tileas.loop_schedule<plain, 3>
// TWO: nv_tileas.loop_schedule = #nv_tileas.loop_schedule<plain, 2>
// SERIAL-NOT: runs_ahead
// SERIAL: nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>

// Two rings, copies for two iterations in front, a wait at the head; a second run finds nothing to do.
// RINGS-COUNT-2: nv_tileas.alloc_tensor : !nv_tileas.buffer<3,
// RINGS-NOT: alloc_tensor
// RINGS: nv_tileas.async.commit_group
// RINGS: nv_tileas.async.commit_group
// RINGS: scf.for
// RINGS: nv_tileas.async.wait {pending = 1 : i32}
// RINGS: nv_tileas.copy
// RINGS-NOT: runs_ahead
// RINGS-NOT: nv_tileas.tiled_load

// 3 stages of 64x32 f16 are 12288 bytes.
// PLACED: nv_tileas.alloc_tensor {offset = 0 : i32}
// PLACED: nv_tileas.alloc_tensor {offset = 12288 : i32}

module attributes {nv_tileaa.compute_capability = 80 : i32} {
  nv_tileaa.func @k(%arg0: !nv_tileaa.ptr<f16>, %arg1: !nv_tileaa.ptr<f16>, %arg2: !nv_tileaa.ptr<f32>, %arg3: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_80"} {
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

