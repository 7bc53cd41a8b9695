// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --tileas-optimize-alloc-tensor --tileas-insert-barriers --tileas-assign-launch-bounds --convert-tileas-to-llvm

// Parts are of equal numbers of registers, and of single elements.

#line = #nv_tileas.linear<register = [[1], [2], [4]], lane = [[8], [16], [32], [64], [128]], warp = []>
!line = tensor<256xi32, #line>
!pointers = tensor<256x!nv_tileaa.ptr<i32>, #line>

module {
  nv_tileaa.func @k(%p: !nv_tileaa.ptr<i32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %x = nv_tileas.make_range : !line
    %all = nv_tileas.splat %p : !nv_tileaa.ptr<i32> -> !pointers
    %at = nv_tileas.addptr %all, %x : !pointers, !line
    // expected-error @+2 {{'nv_tileas.store' op cannot be made in 3 parts}}
    // expected-error @below {{failed to convert nv_tileas to llvm}}
    %s = nv_tileas.store %at, %x {atom = #nv_tileas.copy_atom<st_global, 1>, nv_tileas.parts = 3 : i32} : !pointers, !line -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

#line = #nv_tileas.linear<register = [[1], [2], [4]], lane = [[8], [16], [32], [64], [128]], warp = []>
!line = tensor<256xi32, #line>
!pointers = tensor<256x!nv_tileaa.ptr<i32>, #line>

module {
  nv_tileaa.func @k(%p: !nv_tileaa.ptr<i32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %x = nv_tileas.make_range : !line
    %all = nv_tileas.splat %p : !nv_tileaa.ptr<i32> -> !pointers
    %at = nv_tileas.addptr %all, %x : !pointers, !line
    // expected-error @+2 {{'nv_tileas.store' op cannot be made in 2 parts}}
    // expected-error @below {{failed to convert nv_tileas to llvm}}
    %s = nv_tileas.store %at, %x {atom = #nv_tileas.copy_atom<st_global, 4>, nv_tileas.parts = 2 : i32} : !pointers, !line -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
