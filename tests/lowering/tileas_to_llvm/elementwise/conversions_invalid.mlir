// RUN: not tileiras-opt %s --tileas-optimize-alloc-tensor --tileas-insert-barriers --tileas-assign-launch-bounds --convert-tileas-to-llvm 2>&1 | FileCheck %s

// CHECK: conversions_invalid.mlir:[[@LINE+3]]:{{[0-9]+}}: error: {{.*}}has no conversion to f8E8M0FNU with rounding mode 'nearest_even'
builtin.module {
  nv_tileaa.func @exponent(%x: f32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %0 = nv_tileas.fp_to_fp %x : f32 to f8E8M0FNU
    nv_tileaa.return
  }
}
