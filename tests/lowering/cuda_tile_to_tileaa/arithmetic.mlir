// RUN: tileiras-opt %s --convert-cudatile-to-tileaa=compute-capability=sm_90 | FileCheck %s

// CHECK-LABEL: nv_tileaa.func @integers(%arg0: i32, %arg1: i64)
// CHECK-SAME: target_spec = "sm_90"
builtin.module {
cuda_tile.module @kernels {
  entry @integers(%a: tile<i32>, %b: tile<i64>) {
    // CHECK: arith.addi %arg0, %arg0 : i32
    %0 = addi %a, %a : tile<i32>
    // CHECK: arith.muli {{.*}} {overflowFlags = #arith.overflow<nsw>} : i32
    %1 = muli %0, %a overflow<no_signed_wrap> : tile<i32>
    // CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
    // CHECK: arith.subi %[[ZERO]], %{{.*}} : i32
    %2 = negi %1 : tile<i32>
    // CHECK: arith.divsi
    %3 = divi %2, %a signed : tile<i32>
    // CHECK: arith.floordivsi
    %4 = divi %3, %a signed rounding<negative_inf> : tile<i32>
    // CHECK: arith.ceildivui
    %5 = divi %4, %a unsigned rounding<positive_inf> : tile<i32>
    // CHECK: arith.remui
    %6 = remi %5, %a unsigned : tile<i32>
    // CHECK: arith.shrsi
    %7 = shri %6, %a signed : tile<i32>
    // CHECK: nv_tileaa.mulhiui
    %8 = mulhii %7, %a : tile<i32>
    // CHECK: arith.maxui
    %9 = maxi %8, %a unsigned : tile<i32>
    // CHECK: arith.cmpi ult,
    %10 = cmpi less_than %9, %a, unsigned : tile<i32> -> tile<i1>
    // CHECK: arith.cmpi eq,
    %11 = cmpi equal %9, %a, unsigned : tile<i32> -> tile<i1>
    // CHECK: arith.select {{.*}} : i1, i32
    %12 = select %10, %9, %a : tile<i1>, tile<i32>
    // CHECK: arith.extsi {{.*}} : i32 to i64
    %13 = exti %12 signed : tile<i32> -> tile<i64>
    // CHECK: arith.trunci {{.*}} : i64 to i32
    %14 = trunci %13 : tile<i64> -> tile<i32>
    // CHECK: math.absi
    %15 = absi %14 : tile<i32>
    // CHECK: nv_tileaa.return
    return
  }

  // CHECK-LABEL: nv_tileaa.func @floats
  entry @floats(%a: tile<f32>) {
    // CHECK: %[[S:.*]] = nv_tileaa.splat %arg0 : f32 -> tensor<1xf32>
    %0 = reshape %a : tile<f32> -> tile<1xf32>
    // CHECK: nv_tileaa.splat %arg0 : f32 -> tensor<8xf32>
    %1 = broadcast %0 : tile<1xf32> -> tile<8xf32>
    // CHECK: nv_tileaa.addf {{.*}} : tensor<8xf32>
    %2 = addf %1, %1 : tile<8xf32>
    // CHECK: nv_tileaa.mulf {{.*}} {flush_to_zero, rounding_mode = #nv_tileaa.rounding_mode<zero>} : tensor<8xf32>
    %3 = mulf %2, %1 rounding<zero> flush_to_zero : tile<8xf32>
    // CHECK: nv_tileaa.divf {{.*}} {rounding_mode = #nv_tileaa.rounding_mode<approx>} : tensor<8xf32>
    %4 = divf %3, %1 rounding<approx> : tile<8xf32>
    // CHECK: arith.maxnumf
    %5 = maxf %4, %1 : tile<8xf32>
    // CHECK: arith.minimumf
    %6 = minf %5, %1 propagate_nan : tile<8xf32>
    // CHECK: arith.cmpf olt, {{.*}} : tensor<8xf32>
    %7 = cmpf less_than ordered %6, %1 : tile<8xf32> -> tile<8xi1>
    // CHECK: arith.cmpf une, {{.*}} : tensor<8xf32>
    %8 = cmpf not_equal unordered %6, %1 : tile<8xf32> -> tile<8xi1>
    // CHECK: math.exp2 {{.*}} {flush_to_zero} : tensor<8xf32>
    %9 = exp2 %6 flush_to_zero : tile<8xf32>
    // CHECK: math.tanh {{.*}} {approx} : tensor<8xf32>
    %10 = tanh %9 rounding<approx> : tile<8xf32>
    // CHECK: nv_tileaa.sqrt {{.*}} {rounding_mode = #nv_tileaa.rounding_mode<approx>} : tensor<8xf32>
    %11 = sqrt %10 rounding<approx> : tile<8xf32>
    // CHECK: nv_tileaa.fp_to_fp {{.*}} : tensor<8xf32> to tensor<8xf16>
    %12 = ftof %11 : tile<8xf32> -> tile<8xf16>
    // CHECK: arith.fptosi {{.*}} : tensor<8xf16> to tensor<8xi32>
    %13 = ftoi %12 signed : tile<8xf16> -> tile<8xi32>
    // CHECK: arith.uitofp {{.*}} : tensor<8xi32> to tensor<8xf32>
    %14 = itof %13 unsigned : tile<8xi32> -> tile<8xf32>
    return
  }
}
}
