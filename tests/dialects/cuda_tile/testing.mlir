// RUN: tileiras-opt %s --testing-ops --verify-roundtrip | FileCheck %s
// RUN: tileiras-translate --testing-ops --test-cudatile-roundtrip --bytecode-version=250.1 %s | FileCheck %s
// RUN: tileiras-translate --testing-ops --list-versions | FileCheck %s --check-prefix=VERSIONS
// RUN: tileiras-translate --list-versions | FileCheck %s --check-prefix=RELEASED --implicit-check-not=250
// RUN: not tileiras-opt %s 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: custom op 'testing$func' is unknown (tried 'cuda_tile.testing$func' as well)
// RELEASED: 13.1
// VERSIONS: 13.1
// VERSIONS: 250.0
// VERSIONS-NEXT: 250.1

cuda_tile.module @kernels {
  // CHECK: testing$func @swap(%arg0: tile<4xf32>, %arg1: tile<2xi8>) -> (tile<2xi8>, tile<4xf32>) {
  // CHECK-NEXT: return %arg1, %arg0 : tile<2xi8>, tile<4xf32>
  testing$func @swap(%a: tile<4xf32>, %b: tile<2xi8>) -> (tile<2xi8>, tile<4xf32>) {
    return %b, %a : tile<2xi8>, tile<4xf32>
  }

  // CHECK: testing$func @early(%arg0: tile<i1>, %arg1: tile<f64>) -> tile<f64> {
  // CHECK: return %arg1 : tile<f64>
  testing$func @early(%c: tile<i1>, %a: tile<f64>) -> tile<f64> {
    if %c {
      return %a : tile<f64>
    }
    return %a : tile<f64>
  }

  // CHECK: testing$func @evolved(%arg0: tile<8xf32>) {
  testing$func @evolved(%x: tile<8xf32>) {
    // CHECK: testing$bytecode_test_new_attribute{{$}}
    testing$bytecode_test_new_attribute new_param = 42
    // CHECK: testing$bytecode_test_new_attribute new_flag new_param = 7
    testing$bytecode_test_new_attribute new_flag new_param = 7
    // CHECK: %[[T:.*]] = testing$bytecode_test_evolution(%arg0, %arg0 : !cuda_tile.tile<8xf32>, !cuda_tile.tile<8xf32>) priority = <high> -> token
    %0 = testing$bytecode_test_evolution(%x, %x : !cuda_tile.tile<8xf32>, !cuda_tile.tile<8xf32>) priority = <high> -> token
    // CHECK: testing$bytecode_test_evolution(%arg0 : !cuda_tile.tile<8xf32>) new_attr = 3 token = %[[T]] : token -> token
    %1 = testing$bytecode_test_evolution(%x : !cuda_tile.tile<8xf32>) new_attr = 3 token = %0 : token -> token
    // CHECK: return
  }
}
