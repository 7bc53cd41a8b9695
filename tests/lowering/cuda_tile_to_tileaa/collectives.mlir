// RUN: tileiras-opt %s --convert-cudatile-to-tileaa=compute-capability=sm_90 | FileCheck %s

// CHECK-LABEL: nv_tileaa.func @collectives
builtin.module {
cuda_tile.module @kernels {
  entry @collectives() {
    // CHECK: %[[X:.*]] = arith.constant dense<1.000000e+00> : tensor<8x16xf32>
    %x = constant <f32: 1.0> : tile<8x16xf32>
    // CHECK: nv_tileaa.reduce %[[X]] {dim = 1 : i64, identities = [0.000000e+00 : f32]} : (tensor<8x16xf32>) -> (tensor<8xf32>) {
    // CHECK-NEXT: ^bb0(%[[ACC:.*]]: f32, %[[E:.*]]: f32):
    // CHECK-NEXT: %[[S:.*]] = nv_tileaa.subf %[[ACC]], %[[E]] : f32
    // CHECK-NEXT: nv_tileaa.yield %[[S]] : f32
    %sum = reduce %x dim=1 identities=[0.0 : f32] : tile<8x16xf32> -> tile<8xf32>
    (%acc: tile<f32>, %e: tile<f32>) {
      %s = subf %acc, %e : tile<f32>
      yield %s : tile<f32>
    }
    // A reduction to rank 0 gives a scalar.
    // CHECK: nv_tileaa.reduce {{.*}} : (tensor<8xf32>) -> (f32)
    %total = reduce %sum dim=0 identities=[0.0 : f32] : tile<8xf32> -> tile<f32>
    (%acc: tile<f32>, %e: tile<f32>) {
      %s = addf %acc, %e : tile<f32>
      yield %s : tile<f32>
    }
    // CHECK: nv_tileaa.scan {{.*}}reverse{{.*}} : (tensor<8x16xf32>) -> (tensor<8x16xf32>)
    %prefix = scan %x dim=0 reverse=true identities=[0.0 : f32] : tile<8x16xf32> -> tile<8x16xf32>
    (%acc: tile<f32>, %e: tile<f32>) {
      %s = addf %acc, %e : tile<f32>
      yield %s : tile<f32>
    }
    return
  }

  // CHECK-LABEL: nv_tileaa.func @products
  entry @products() {
    %a = constant <f16: 1.0> : tile<16x32xf16>
    %b = constant <f16: 1.0> : tile<32x8xf16>
    %c = constant <f32: 0.0> : tile<16x8xf32>
    // CHECK: nv_tileaa.dot {{.*}} : tensor<16x32xf16>, tensor<32x8xf16> -> tensor<16x8xf32>
    %d = mmaf %a, %b, %c : tile<16x32xf16>, tile<32x8xf16>, tile<16x8xf32>
    %i = constant <i8: 1> : tile<16x32xi8>
    %j = constant <i8: 1> : tile<32x8xi8>
    %k = constant <i32: 0> : tile<16x8xi32>
    // CHECK: nv_tileaa.dot {{.*}} {signedness_a = #nv_tileaa.signedness<signed>, signedness_b = #nv_tileaa.signedness<unsigned>}
    %l = mmai %i, %j, %k signed unsigned : tile<16x32xi8>, tile<32x8xi8>, tile<16x8xi32>
    return
  }
}
}
