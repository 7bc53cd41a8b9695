// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: entry @products
entry @products() {
  %a = constant <f16: 0.0> : tile<16x32xf16>
  %b = constant <f16: 0.0> : tile<32x8xf16>
  %c = constant <f32: 0.0> : tile<16x8xf32>
  // CHECK: mmaf %{{.*}}, %{{.*}}, %{{.*}} : tile<16x32xf16>, tile<32x8xf16>, tile<16x8xf32>
  %0 = mmaf %a, %b, %c : tile<16x32xf16>, tile<32x8xf16>, tile<16x8xf32>
  %d = constant <f8E4M3FN: 0.0> : tile<2x16x32xf8E4M3FN>
  %e = constant <f8E4M3FN: 0.0> : tile<2x32x8xf8E4M3FN>
  %f = constant <f16: 0.0> : tile<2x16x8xf16>
  // CHECK: mmaf %{{.*}}, %{{.*}}, %{{.*}} fast_acc : tile<2x16x32xf8E4M3FN>, tile<2x32x8xf8E4M3FN>, tile<2x16x8xf16>
  %1 = mmaf %d, %e, %f fast_acc : tile<2x16x32xf8E4M3FN>, tile<2x32x8xf8E4M3FN>, tile<2x16x8xf16>
  %g = constant <i8: 0> : tile<16x32xi8>
  %h = constant <i8: 0> : tile<32x8xi8>
  %i = constant <i32: 0> : tile<16x8xi32>
  // CHECK: mmai %{{.*}}, %{{.*}}, %{{.*}} signed unsigned : tile<16x32xi8>, tile<32x8xi8>, tile<16x8xi32>
  %2 = mmai %g, %h, %i signed unsigned : tile<16x32xi8>, tile<32x8xi8>, tile<16x8xi32>
}

// CHECK-LABEL: entry @scaled
entry @scaled() {
  %a = constant <f8E4M3FN: 0.0> : tile<16x64xf8E4M3FN>
  %b = constant <f8E4M3FN: 0.0> : tile<64x8xf8E4M3FN>
  %c = constant <f32: 0.0> : tile<16x8xf32>
  %x = constant <f8E8M0FNU: 1.0> : tile<16x2xf8E8M0FNU>
  %y = constant <f8E8M0FNU: 1.0> : tile<2x8xf8E8M0FNU>
  // CHECK: mmaf_scaled %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tile<16x64xf8E4M3FN>, tile<64x8xf8E4M3FN>, tile<16x8xf32>, tile<16x2xf8E8M0FNU>, tile<2x8xf8E8M0FNU>
  %0 = mmaf_scaled %a, %b, %c, %x, %y : tile<16x64xf8E4M3FN>, tile<64x8xf8E4M3FN>, tile<16x8xf32>, tile<16x2xf8E8M0FNU>, tile<2x8xf8E8M0FNU>
}
