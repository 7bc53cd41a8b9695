// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: entry @functions
entry @functions(%a: tile<f32>, %n: tile<i32>) {
  // CHECK: ceil %arg0 : tile<f32>
  %0 = ceil %a : tile<f32>
  // CHECK: floor %{{.*}} : tile<f32>
  %1 = floor %0 : tile<f32>
  // CHECK: cos %{{.*}} : tile<f32>
  %2 = cos %1 : tile<f32>
  // CHECK: cosh %{{.*}} : tile<f32>
  %3 = cosh %2 : tile<f32>
  // CHECK: sin %{{.*}} : tile<f32>
  %4 = sin %3 : tile<f32>
  // CHECK: sinh %{{.*}} : tile<f32>
  %5 = sinh %4 : tile<f32>
  // CHECK: tan %{{.*}} : tile<f32>
  %6 = tan %5 : tile<f32>
  // CHECK: tanh %{{.*}} : tile<f32>
  %7 = tanh %6 rounding<full> : tile<f32>
  // CHECK: tanh %{{.*}} rounding<approx> : tile<f32>
  %8 = tanh %7 rounding<approx> : tile<f32>
  // CHECK: exp %{{.*}} rounding<approx> : tile<f32>
  %9 = exp %8 rounding<approx> : tile<f32>
  // CHECK: exp2 %{{.*}} flush_to_zero : tile<f32>
  %10 = exp2 %9 flush_to_zero : tile<f32>
  // CHECK: log %{{.*}} : tile<f32>
  %11 = log %10 : tile<f32>
  // CHECK: log2 %{{.*}} : tile<f32>
  %12 = log2 %11 : tile<f32>
  // CHECK: rsqrt %{{.*}} flush_to_zero : tile<f32>
  %13 = rsqrt %12 flush_to_zero : tile<f32>
  // CHECK: sqrt %{{.*}} rounding<approx> flush_to_zero : tile<f32>
  %14 = sqrt %13 rounding<approx> flush_to_zero : tile<f32>
  // CHECK: atan2 %{{.*}}, %{{.*}} : tile<f32>
  %15 = atan2 %13, %14 : tile<f32>
  // CHECK: fpowf %{{.*}}, %{{.*}} : tile<f32>
  %16 = fpowf %14, %15 : tile<f32>
  // CHECK: fpowi %{{.*}}, %arg1 : tile<f32>, tile<i32>
  %17 = fpowi %16, %n : tile<f32>, tile<i32>
}

// The spelling of the versions before 13.4.
// CHECK-LABEL: entry @older_spelling
entry @older_spelling(%a: tile<f64>) {
  // CHECK: fpowf %arg0, %arg0 : tile<f64>
  %0 = pow %a, %a : tile<f64>
}
