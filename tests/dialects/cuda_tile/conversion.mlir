// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: entry @conversions
entry @conversions(%i: tile<i32>, %f: tile<f32>, %l: tile<i64>) {
  // CHECK: bitcast %arg0 : tile<i32> -> tile<f32>
  %0 = bitcast %i : tile<i32> -> tile<f32>
  // CHECK: exti %arg0 signed : tile<i32> -> tile<i64>
  %1 = exti %i signed : tile<i32> -> tile<i64>
  // CHECK: trunci %arg0 overflow<no_signed_wrap> : tile<i32> -> tile<i8>
  %2 = trunci %i overflow<no_signed_wrap> : tile<i32> -> tile<i8>
  // CHECK: trunci %arg0 : tile<i32> -> tile<i16>
  %3 = trunci %i : tile<i32> -> tile<i16>
  // CHECK: itof %arg0 unsigned : tile<i32> -> tile<f16>
  %4 = itof %i unsigned : tile<i32> -> tile<f16>
  // CHECK: ftof %arg1 : tile<f32> -> tile<bf16>
  %5 = ftof %f : tile<f32> -> tile<bf16>
  // CHECK: ftof %arg1 rounding<positive_inf> : tile<f32> -> tile<f8E8M0FNU>
  %6 = ftof %f rounding<positive_inf> : tile<f32> -> tile<f8E8M0FNU>
  // CHECK: ftof %arg1 rounding<nearest_away> : tile<f32> -> tile<tf32>
  %12 = ftof %f rounding<nearest_away> : tile<f32> -> tile<tf32>
  // CHECK: ftof %arg1 : tile<f32> -> tile<fnv8E5M3FNU>
  %13 = ftof %f : tile<f32> -> tile<fnv8E5M3FNU>
  // CHECK: ftof %{{.*}} rounding<negative_inf> : tile<fnv8E5M3FNU> -> tile<bf16>
  %14 = ftof %13 rounding<negative_inf> : tile<fnv8E5M3FNU> -> tile<bf16>
  // CHECK: constant <fnv8E5M3FNU: [0.000000e+00, 7.629390e-06, 1.000000e+00, 0xFF]> : tile<4xfnv8E5M3FNU>
  %15 = constant <fnv8E5M3FNU: [0.0, 7.62939e-06, 1.0, 0xFF]> : tile<4xfnv8E5M3FNU>
  // CHECK: ftoi %arg1 signed : tile<f32> -> tile<i32>
  %7 = ftoi %f signed rounding<nearest_int_to_zero> : tile<f32> -> tile<i32>
  // CHECK: ftoi %arg1 unsigned saturating : tile<f32> -> tile<i8>
  %8 = ftoi %f unsigned saturating : tile<f32> -> tile<i8>
  // CHECK: int_to_ptr %arg2 : tile<i64> -> tile<ptr<f32>>
  %9 = int_to_ptr %l : tile<i64> -> tile<ptr<f32>>
  // CHECK: ptr_to_ptr %{{.*}} : tile<ptr<f32>> -> tile<ptr<i8>>
  %10 = ptr_to_ptr %9 : tile<ptr<f32>> -> tile<ptr<i8>>
  // CHECK: ptr_to_int %{{.*}} : tile<ptr<i8>> -> tile<i64>
  %11 = ptr_to_int %10 : tile<ptr<i8>> -> tile<i64>
}
