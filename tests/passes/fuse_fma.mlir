// RUN: tileiras-opt %s --fuse-fma | FileCheck %s
// RUN: tileiras-opt %s --pass-pipeline="builtin.module(cuda_tile.module(cuda_tile.entry(fuse-fma)))" | FileCheck %s

cuda_tile.module @m {
  // CHECK-LABEL: entry @fused
  // CHECK-SAME: %[[A:.*]]: tile<f32>, %[[B:.*]]: tile<f32>, %[[C:.*]]: tile<f32>
  // CHECK-NEXT: fma %[[A]], %[[B]], %[[C]] : tile<f32>
  // CHECK-NEXT: fma %[[B]], %[[A]], %[[C]] rounding<zero> flush_to_zero : tile<f32>
  // CHECK-NEXT: %[[N:.*]] = negf %[[A]]
  // CHECK-NEXT: fma %[[B]], %[[C]], %[[N]] : tile<f32>
  // CHECK-NEXT: print_tko
  entry @fused(%a: tile<f32>, %b: tile<f32>, %c: tile<f32>) {
    %p0 = mulf %a, %b : tile<f32>
    %s0 = addf %p0, %c : tile<f32>
    %p1 = mulf %b, %a rounding<zero> flush_to_zero : tile<f32>
    %s1 = addf %c, %p1 rounding<zero> flush_to_zero : tile<f32>
    %p2 = mulf %b, %c : tile<f32>
    %s2 = subf %p2, %a : tile<f32>
    %t = print_tko "%f %f %f", %s0, %s1, %s2 : tile<f32>, tile<f32>, tile<f32> -> token
    return
  }

  // A chain: the second product is added to the first sum.
  // CHECK-LABEL: entry @chain
  // CHECK: %[[F:.*]] = fma %{{.*}}, %{{.*}}, %{{.*}} : tile<8xf16>
  // CHECK-NEXT: fma %{{.*}}, %{{.*}}, %[[F]] : tile<8xf16>
  // CHECK-NOT: mulf
  entry @chain(%s: tile<f16>) {
    %r = reshape %s : tile<f16> -> tile<1xf16>
    %a = broadcast %r : tile<1xf16> -> tile<8xf16>
    %b = negf %a : tile<8xf16>
    %p = mulf %a, %b : tile<8xf16>
    %x = addf %a, %p : tile<8xf16>
    %q = mulf %b, %b : tile<8xf16>
    %y = addf %x, %q : tile<8xf16>
    %t = print_tko "%f", %y : tile<8xf16> -> token
    return
  }

  // Rounded differently, flushed differently, used twice, or taken away from something: nothing is fused.
  // CHECK-LABEL: entry @untouched
  // CHECK-NOT: fma
  // CHECK: return
  entry @untouched(%a: tile<f32>, %b: tile<f32>, %c: tile<f32>) {
    %p0 = mulf %a, %b rounding<zero> : tile<f32>
    %s0 = addf %p0, %c : tile<f32>
    %p1 = mulf %a, %b flush_to_zero : tile<f32>
    %s1 = subf %p1, %c : tile<f32>
    %p2 = mulf %a, %b : tile<f32>
    %s2 = addf %p2, %c : tile<f32>
    %p3 = mulf %a, %c : tile<f32>
    %s3 = subf %c, %p3 : tile<f32>
    %t = print_tko "%f %f %f %f %f", %s0, %s1, %s2, %p2, %s3 : tile<f32>, tile<f32>, tile<f32>, tile<f32>, tile<f32> -> token
    return
  }
}
