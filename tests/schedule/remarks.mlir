// RUN: tileiras-opt %s --split-input-file --remarks "--pass-pipeline=builtin.module(tileir{opt-level=2 compute-capability=sm_80 pipeline-strategy=unspecialize})" 2>&1 | FileCheck %s
// RUN: tileiras-opt %s --split-input-file --remarks "--pass-pipeline=builtin.module(tileir{opt-level=2 compute-capability=sm_75 pipeline-strategy=unspecialize})" 2>&1 | FileCheck %s --check-prefix=OLD
// RUN: tileiras-opt %s --split-input-file --remarks "--pass-pipeline=builtin.module(tileir{opt-level=2 compute-capability=sm_80 pipeline-strategy=unspecialize unspecialized-pipeline-num-stages=1})" 2>&1 | FileCheck %s --check-prefix=SINGLE

// CHECK: remarks.mlir:[[@LINE+20]]:{{[0-9]+}}: remark: [missed] Load does not run ahead of its loop{{.*}}[loops.load-stays; copies.width bytes=2 
// CHECK: remarks.mlir:[[@LINE+17]]:{{[0-9]+}}: remark: [passed] Software pipeline applied: 3 stages (Loads = 1, Buffers = 12288 bytes) [loops.pipelined stages=3]
// CHECK: remarks.mlir:[[@LINE+17]]:{{[0-9]+}}: remark: [passed] Load instruction selected (Instruction = cp.async, Width = 16 bytes, Shape = [64, 32], Elements per access = 8, Stages = 3)
// OLD: remarks.mlir:[[@LINE+15]]:{{[0-9]+}}: remark: [passed] Software pipeline applied: 2 stages (Loads = 2, Buffers = registers){{.*}}[loops.pipelined stages=2; loops.no-async-copy target=sm_75]
// SINGLE: remarks.mlir:[[@LINE+14]]:{{[0-9]+}}: remark: [missed] Loop runs as written{{.*}}[loops.as-written; loops.one-stage-option]
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
    %a = assume div_by<16>, %p : tile<ptr<f16>>
    %va = make_tensor_view %a, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %vb = make_tensor_view %b, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf16, strides=[128,1]>
    %vc = make_tensor_view %c, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %pa = make_partition_view %va : partition_view<tile=(64x32), tensor_view<128x128xf16, strides=[128,1]>>
    %pb = make_partition_view %vb : partition_view<tile=(32x64), tensor_view<128x128xf16, strides=[128,1]>>
    %pc = make_partition_view %vc : partition_view<tile=(64x64), tensor_view<128x128xf32, strides=[128,1]>>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %lb = constant <i32: 0> : tile<i32>
    %st = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<64x64xf32>
    %acc = for %i in (%lb to %n, step %st) : tile<i32> iter_values(%s = %zero) -> (tile<64x64xf32>) {
      %ta, %ka = load_view_tko weak %pa[%x, %i] : partition_view<tile=(64x32), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x32xf16>, token
      %tb, %kb = load_view_tko weak %pb[%i, %y] : partition_view<tile=(32x64), tensor_view<128x128xf16, strides=[128,1]>>, tile<i32> -> tile<32x64xf16>, token
      %m = mmaf %ta, %tb, %s : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
      continue %m : tile<64x64xf32>
    }
    %tok2 = store_view_tko weak %acc, %pc[%x, %y] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}

// -----

// Nothing of a sum goes through shared memory.
// CHECK: remark: [missed] Load does not run ahead of its loop{{.*}}[loops.load-stays; copies.no-dot]
// CHECK: remark: [missed] Loop runs as written{{.*}}[loops.as-written; loops.no-load-ahead]
cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %a = assume div_by<16>, %p : tile<ptr<f32>>
    %va = make_tensor_view %a, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
    %pa = make_partition_view %va : partition_view<tile=(128), tensor_view<1024xf32, strides=[1]>>
    %lb = constant <i32: 0> : tile<i32>
    %st = constant <i32: 1> : tile<i32>
    %zero = constant <f32: 0.0> : tile<128xf32>
    %acc = for %i in (%lb to %n, step %st) : tile<i32> iter_values(%s = %zero) -> (tile<128xf32>) {
      %ta, %ka = load_view_tko weak %pa[%i] : partition_view<tile=(128), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> tile<128xf32>, token
      %m = addf %ta, %s : tile<128xf32>
      continue %m : tile<128xf32>
    }
    %tok2 = store_view_tko weak %acc, %pa[%lb] : tile<128xf32>, partition_view<tile=(128), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
