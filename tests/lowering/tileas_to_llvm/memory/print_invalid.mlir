// RUN: tileiras-opt %s --verify-diagnostics --tileas-optimize-alloc-tensor --tileas-insert-barriers --tileas-assign-launch-bounds --convert-tileas-to-llvm

module {
  nv_tileaa.func @f(%n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.print' op has 2 conversions in its format for 1 values}}
    // expected-error @below {{failed to convert nv_tileas to llvm}}
    %t = nv_tileas.print "%d %d", %n : i32 -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
