// Descriptors of one view and box are one argument; the host is told of the kernel's own arguments what to make it of.
// RUN: tileiras-opt %s --pass-pipeline='builtin.module(tileas-attach-tma-desc-args{compute-capability=sm_90})' --verify-roundtrip | FileCheck %s

!rows = !nv_tileaa.memref<?x?xf16, strides = [?, 1]>
!view = !nv_tileaa.tiled_view<[64, 64], !rows>
!padded = !nv_tileaa.tiled_view<[64, 32], !rows, dim_map = [1, 0], padding = #nv_tileaa.padding_value<nan>>
!one = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 128>
!two = !nv_tileas.tma_desc<!padded, box = [64, 32], order = [0, 1], swizzle = 128, atom = 32>

// CHECK: nv_tileaa.func @k(%{{.*}}: !nv_tileaa.ptr<f16>, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i64, {{.*}}, %[[ONE:[a-z0-9]+]]: !nv_tileas.tma_desc<{{.*}}box = [64, 64]{{.*}}, %[[TWO:[a-z0-9]+]]: !nv_tileas.tma_desc<{{.*}}box = [64, 32], order = [0, 1], swizzle = 128, atom = 32
// CHECK-SAME: nv_tileas.tensor_maps = ["tensor_map element=f16 address=p0 dims=p2,p1 strides=p3 box=64,64 swizzle=128", "tensor_map element=f16 address=p0 dims=p2,4096 strides=p3 box=64,32 swizzle=128_atom_32 oob=nan"]
// CHECK-NOT: make_tma_desc
// CHECK: nv_tileas.async.pipeline.producer_acquire
// CHECK: nv_tileas.async.tma_load %[[ONE]][
// CHECK-NEXT: nv_tileas.async.tma_load %[[ONE]][
// CHECK-NEXT: nv_tileas.async.tma_load %[[TWO]][
module {
  nv_tileaa.func @k(%a: !nv_tileaa.ptr<f16>, %m: i32, %n: i32, %stride: i64, %p: !nv_tileas.producer_token, %i: !nv_tileas.pipeline_iterator) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %many = arith.constant 4096 : i32
    %known = nv_tileas.assume #nv_tileaa.div_by<16>, %a : !nv_tileaa.ptr<f16>
    %memref = nv_tileas.make_memref %known, sizes = [%m, %n], strides = [%stride] : !nv_tileaa.ptr<f16>, (i32, i32), (i64) -> !rows
    %other = nv_tileas.make_memref %known, sizes = [%many, %n], strides = [%stride] : !nv_tileaa.ptr<f16>, (i32, i32), (i64) -> !rows
    %v = nv_tileas.block_tile %memref : !view
    %w = nv_tileas.block_tile %other : !padded
    %d = nv_tileas.make_tma_desc %v : !view -> !one
    %again = nv_tileas.make_tma_desc %v : !view -> !one
    %e = nv_tileas.make_tma_desc %w : !padded -> !two
    %q = nv_tileas.async.pipeline.producer_acquire %p, %i
    nv_tileas.async.tma_load %d[%zero, %zero] into %q : !one, (i32, i32)
    nv_tileas.async.tma_load %again[%zero, %zero] into %q buffer = 1 : !one, (i32, i32)
    nv_tileas.async.tma_load %e[%zero, %zero] into %q buffer = 2 : !two, (i32, i32)
    nv_tileaa.return
  }
}
