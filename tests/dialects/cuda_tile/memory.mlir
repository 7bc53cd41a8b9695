// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: entry @pointers
entry @pointers(%p: tile<ptr<f32>>, %m: tile<i1>, %f: tile<f32>) {
  // CHECK: %0 = make_token : token
  %t = make_token : token
  // CHECK: %result, %result_token = load_ptr_tko weak %arg0 : tile<ptr<f32>> -> tile<f32>, token
  %0, %1 = load_ptr_tko weak %p : tile<ptr<f32>> -> tile<f32>, token
  // CHECK: load_ptr_tko relaxed device %arg0, %arg1, %arg2 token=%0 optimization_hints = <sm_90 = {latency = 2}> : tile<ptr<f32>>, tile<i1>, tile<f32> -> tile<f32>, token
  %2, %3 = load_ptr_tko relaxed device %p, %m, %f token=%t optimization_hints = <sm_90 = {latency = 2}> : tile<ptr<f32>>, tile<i1>, tile<f32> -> tile<f32>, token
  // CHECK: load_ptr_tko acquire sys %arg0, %arg1 : tile<ptr<f32>>, tile<i1> -> tile<f32>, token
  %4, %5 = load_ptr_tko acquire sys %p, %m : tile<ptr<f32>>, tile<i1> -> tile<f32>, token
  // CHECK: %{{.*}} = join_tokens %result_token, %result_token_{{[0-9]+}} : token
  %6 = join_tokens %1, %3 : token
  // CHECK: store_ptr_tko weak %arg0, %arg2, %arg1 token=%{{.*}} : tile<ptr<f32>>, tile<f32>, tile<i1> -> token
  %7 = store_ptr_tko weak %p, %f, %m token=%6 : tile<ptr<f32>>, tile<f32>, tile<i1> -> token
  // CHECK: store_ptr_tko release tl_blk %arg0, %arg2 : tile<ptr<f32>>, tile<f32> -> token
  %8 = store_ptr_tko release tl_blk %p, %f : tile<ptr<f32>>, tile<f32> -> token
}

// CHECK-LABEL: entry @own_memory
entry @own_memory() {
  // CHECK: alloca num_elem = 64, alignment = 16 : tile<ptr<f32>>
  %0 = alloca num_elem = 64, alignment = 16 : tile<ptr<f32>>
  // CHECK: alloca num_elem = 8, alignment = 8 global : tile<ptr<i64>>
  %1 = alloca num_elem = 8, alignment = 8 global : tile<ptr<i64>>
}

// CHECK-LABEL: entry @dependent_grids
entry @dependent_grids() {
  // CHECK: %0 = gdc_wait_tko -> token
  %0 = gdc_wait_tko -> token
  // CHECK: %1 = memory_fence_alias_tko %0
  %1 = memory_fence_alias_tko %0
  // CHECK: %2 = gdc_launch_dependents_tko token = %1 -> token
  %2 = gdc_launch_dependents_tko token = %1 -> token
}

// One more operand than a plain load has: the type tells padding from a mask.
// CHECK-LABEL: entry @padding_without_mask
entry @padding_without_mask(%p: tile<ptr<f32>>, %x: tile<f32>, %m: tile<i1>) {
  // CHECK: load_ptr_tko weak %arg0, %arg1 : tile<ptr<f32>>, tile<f32> -> tile<f32>, token
  %0, %1 = load_ptr_tko weak %p, %x : tile<ptr<f32>>, tile<f32> -> tile<f32>, token
  // CHECK: load_ptr_tko weak %arg0, %arg2 : tile<ptr<f32>>, tile<i1> -> tile<f32>, token
  %2, %3 = load_ptr_tko weak %p, %m : tile<ptr<f32>>, tile<i1> -> tile<f32>, token
}
