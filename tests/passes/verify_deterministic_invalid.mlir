// RUN: not tileiras-opt %s --verify-deterministic 2>&1 | FileCheck %s

cuda_tile.module @m {
  entry @ordered(%p: tile<ptr<f32>>, %q: tile<ptr<i32>>) {
    %x = constant <f32: 1.0> : tile<f32>
    %one = constant <i32: 1> : tile<i32>
    // CHECK: verify_deterministic_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: 'cuda_tile.atomic_rmw_tko' op adds floats in the order in which tile blocks arrive, and rounds after each addition: results may differ from run to run
    %old, %t = atomic_rmw_tko relaxed device %p, addf, %x : tile<ptr<f32>>, tile<f32> -> tile<f32>, token
    // CHECK: verify_deterministic_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: 'cuda_tile.atomic_rmw_tko' op returns a value that earlier tile blocks left
    %ticket, %t1 = atomic_rmw_tko relaxed device %q, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    // CHECK: verify_deterministic_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: 'cuda_tile.atomic_cas_tko' op succeeds for the tile block that arrives first
    %was, %t2 = atomic_cas_tko relaxed device %q, %one, %ticket : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    // CHECK: verify_deterministic_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: 'cuda_tile.load_ptr_tko' op reads memory while other tile blocks may write it
    %seen, %t3 = load_ptr_tko acquire device %q : tile<ptr<i32>> -> tile<i32>, token
    // CHECK: verify_deterministic_invalid.mlir:[[@LINE+1]]:{{[0-9]+}}: error: 'cuda_tile.atomic_rmw_tko' op keeps the value of the tile block that arrives last
    %last, %t4 = atomic_rmw_tko relaxed device %q, xchg, %seen : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    return
  }
}
