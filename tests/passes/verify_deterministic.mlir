// RUN: tileiras-opt %s --convert-cudatile-to-tileaa=compute-capability=sm_90 --verify-deterministic | FileCheck %s

// Sums within a tile block, and integers of several, are the same in every run.
builtin.module {
cuda_tile.module @m {
  // CHECK: func @sums
  entry @sums(%p: tile<ptr<f32>>, %q: tile<ptr<i32>>) {
    %x, %t = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
    %spread = reshape %x : tile<f32> -> tile<1xf32>
    %row = broadcast %spread : tile<1xf32> -> tile<64xf32>
    %sum = reduce %row dim=0 identities=[0.0 : f32] : tile<64xf32> -> tile<f32> (%a: tile<f32>, %b: tile<f32>) {
      %c = addf %a, %b : tile<f32>
      yield %c : tile<f32>
    }
    %t1 = store_ptr_tko weak %p, %sum token=%t : tile<ptr<f32>>, tile<f32> -> token
    %one = constant <i32: 1> : tile<i32>
    // CHECK: atomic_rmw add
    %old, %t2 = atomic_rmw_tko relaxed device %q, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    return
  }
}
}
