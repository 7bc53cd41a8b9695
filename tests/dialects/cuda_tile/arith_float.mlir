// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: entry @arithmetic
entry @arithmetic(%a: tile<f32>, %b: tile<f32>) {
  // CHECK: addf %arg0, %arg1 : tile<f32>
  %0 = addf %a, %b rounding<nearest_even> : tile<f32>
  // CHECK: addf %arg0, %arg1 rounding<zero> flush_to_zero : tile<f32>
  %1 = addf %a, %b rounding<zero> flush_to_zero : tile<f32>
  // CHECK: subf %{{.*}}, %{{.*}} rounding<negative_inf> : tile<f32>
  %2 = subf %0, %1 rounding<negative_inf> : tile<f32>
  // CHECK: mulf %{{.*}}, %{{.*}} rounding<positive_inf> : tile<f32>
  %3 = mulf %1, %2 rounding<positive_inf> : tile<f32>
  // CHECK: divf %{{.*}}, %{{.*}} rounding<approx> flush_to_zero : tile<f32>
  %4 = divf %2, %3 rounding<approx> flush_to_zero : tile<f32>
  // CHECK: divf %{{.*}}, %{{.*}} rounding<full> : tile<f32>
  %5 = divf %2, %3 rounding<full> : tile<f32>
  // CHECK: remf %{{.*}}, %{{.*}} : tile<f32>
  %6 = remf %4, %5 : tile<f32>
  // CHECK: fma %{{.*}}, %{{.*}}, %{{.*}} rounding<zero> : tile<f32>
  %7 = fma %4, %5, %6 rounding<zero> : tile<f32>
  // CHECK: absf %{{.*}} : tile<f32>
  %8 = absf %7 : tile<f32>
  // CHECK: negf %{{.*}} : tile<f32>
  %9 = negf %8 : tile<f32>
}

// CHECK-LABEL: entry @extrema
entry @extrema(%a: tile<f32>) {
  // The modifiers may come in either order and are written in one.
  // CHECK: maxf %arg0, %arg0 flush_to_zero propagate_nan : tile<f32>
  %0 = maxf %a, %a propagate_nan flush_to_zero : tile<f32>
  // CHECK: minf %arg0, %arg0 propagate_nan : tile<f32>
  %1 = minf %a, %a propagate_nan : tile<f32>
  // CHECK: minf %arg0, %arg0 : tile<f32>
  %2 = minf %a, %a : tile<f32>
}

// CHECK-LABEL: entry @comparisons
entry @comparisons(%a: tile<f64>) {
  // CHECK: cmpf less_than ordered %arg0, %arg0 : tile<f64> -> tile<i1>
  %0 = cmpf less_than ordered %a, %a : tile<f64> -> tile<i1>
  // CHECK: cmpf not_equal unordered %arg0, %arg0 : tile<f64> -> tile<i1>
  %1 = cmpf not_equal unordered %a, %a : tile<f64> -> tile<i1>
}
