// RUN: not tileiras-opt %s --split-input-file --tileas-optimize-alloc-tensor --tileas-insert-barriers --tileas-assign-launch-bounds --convert-tileas-to-llvm 2>&1 | FileCheck %s

// What has no lowering is refused where it stands.

// CHECK: unsupported_invalid.mlir:[[@LINE+4]]:{{[0-9]+}}: error: atomic 'add' of 'i8' is not supported on sm_90
// CHECK: error: failed to convert nv_tileas to llvm
builtin.module {
  nv_tileaa.func @show(%p: !nv_tileaa.ptr<i8, 1>, %x: i8) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %old, %t = nv_tileas.atomic_rmw add %p, %x {mem_semantic = #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>} : !nv_tileaa.ptr<i8, 1>, i8 -> i8, !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// One element of each thread is no neighbour of its next one.
#layout = #nv_tileas.linear<register = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>
builtin.module {
  nv_tileaa.func @apart(%p: !nv_tileaa.ptr<f32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileas.make_memref %p, sizes = [], strides = [] : !nv_tileaa.ptr<f32>, (), () -> !nv_tileaa.memref<64xf32, strides = [1]>
    %v = nv_tileas.block_tile %m : !nv_tileaa.tiled_view<[64], !nv_tileaa.memref<64xf32, strides = [1]>>
    %i = nv_tileas.get_program_id x : i32
    // CHECK: unsupported_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: 'nv_tileas.tiled_load' op moves 2 elements at once, which are not together in the layout
    %x, %k = nv_tileas.tiled_load %v[%i] {atom = #nv_tileas.copy_atom<ld_global, 2>} : !nv_tileaa.tiled_view<[64], !nv_tileaa.memref<64xf32, strides = [1]>>, (i32) -> tensor<64xf32, #layout>, !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// CHECK: unsupported_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: elements per access must be a power of two, got 3
builtin.module attributes {atom = #nv_tileas.copy_atom<ld_global, 3>} {}

// -----

#layout = #nv_tileas.linear<register = [], lane = [[1], [2], [4], [8], [16]], warp = []>
builtin.module {
  nv_tileaa.func @no_such_dimension(%x: f32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %a = nv_tileas.splat %x : f32 -> tensor<32xf32, #layout>
    // CHECK: unsupported_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: 'nv_tileas.reduce' op expects a dimension of
    %r = nv_tileas.reduce %a {dim = 1 : i64, identities = [0.0 : f32]} : (tensor<32xf32, #layout>) -> (f32) {
    ^bb0(%p: f32, %q: f32):
      nv_tileas.yield %p : f32
    }
    nv_tileaa.return
  }
}
