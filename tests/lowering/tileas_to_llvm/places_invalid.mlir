// RUN: tileiras-opt %s --verify-diagnostics --convert-tileas-to-llvm

#own = #nv_tileas.linear<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>
module {
  nv_tileaa.func @places() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @+2 {{'nv_tileas.alloc_tensor' op has no place in shared memory: run 'tileas-optimize-alloc-tensor' first}}
    // expected-error @+1 {{failed to convert nv_tileas to llvm}}
    %a = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64xf32, #own>>
    nv_tileaa.return
  }
}
