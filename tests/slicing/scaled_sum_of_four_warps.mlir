// RUN: tileiras %s --gpu-name=sm_103 --emit tileas -o - | FileCheck %s
// A sum of scaled dots, carried by a loop, is not cut into slices that read the dot in tensor memory: the loop, with its
// dot, would run for each of them.
// CHECK-COUNT-1: scf.for
// CHECK: tensor_memory.dot {{.*}}tcgen05_m128n128k16_f32_bf16_bf16_ss
// CHECK-NOT: scf.for
// CHECK-NOT: tensor_memory.dot

cuda_tile.module @m {
  entry @k(%pa: tile<ptr<bf16>>, %pw: tile<ptr<i8>>, %ps: tile<ptr<bf16>>, %pc: tile<ptr<f32>>, %n: tile<i32>) optimization_hints=<default = {num_worker_warps_per_cta = 4}> {
    %t = make_token : token
    %a = assume div_by<16>, %pa : tile<ptr<bf16>>
    %w = assume div_by<16>, %pw : tile<ptr<i8>>
    %s = assume div_by<16>, %ps : tile<ptr<bf16>>
    %c = assume div_by<16>, %pc : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %none = constant <f32: 0.0> : tile<128x128xf32>
    %ta = make_tensor_view %a, shape = [128, 4096], strides = [4096, 1] : tensor_view<128x4096xbf16, strides=[4096,1]>
    %tw = make_tensor_view %w, shape = [128, 2048], strides = [2048, 1] : tensor_view<128x2048xi8, strides=[2048,1]>
    %ts = make_tensor_view %s, shape = [256, 128], strides = [128, 1] : tensor_view<256x128xbf16, strides=[128,1]>
    %tc = make_tensor_view %c, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
    %va = make_partition_view %ta : partition_view<tile=(128x16), tensor_view<128x4096xbf16, strides=[4096,1]>>
    %vw = make_partition_view %tw : partition_view<tile=(128x8), tensor_view<128x2048xi8, strides=[2048,1]>>
    %vs = make_partition_view %ts : partition_view<tile=(1x128), tensor_view<256x128xbf16, strides=[128,1]>>
    %vc = make_partition_view %tc : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%x = %none) -> (tile<128x128xf32>) {
      %l, %t0 = load_view_tko weak %va[%zero, %i] token = %t : partition_view<tile=(128x16), tensor_view<128x4096xbf16, strides=[4096,1]>>, tile<i32> -> tile<128x16xbf16>, token
      %b, %t1 = load_view_tko weak %vw[%zero, %i] token = %t : partition_view<tile=(128x8), tensor_view<128x2048xi8, strides=[2048,1]>>, tile<i32> -> tile<128x8xi8>, token
      %flat = reshape %b : tile<128x8xi8> -> tile<1024xi8>
      %e = unpack %flat : tile<1024xi8> -> tile<2048xf4E2M1FN>
      %q = reshape %e : tile<2048xf4E2M1FN> -> tile<128x16xf4E2M1FN>
      %r = permute %q [1, 0] : tile<128x16xf4E2M1FN> -> tile<16x128xf4E2M1FN>
      %h = ftof %r : tile<16x128xf4E2M1FN> -> tile<16x128xbf16>
      %g, %t2 = load_view_tko weak %vs[%i, %zero] token = %t : partition_view<tile=(1x128), tensor_view<256x128xbf16, strides=[128,1]>>, tile<i32> -> tile<1x128xbf16>, token
      %d = mmaf %l, %h, %none : tile<128x16xbf16>, tile<16x128xbf16>, tile<128x128xf32>
      %f = ftof %g : tile<1x128xbf16> -> tile<1x128xf32>
      %all = broadcast %f : tile<1x128xf32> -> tile<128x128xf32>
      %y = fma %d, %all, %x : tile<128x128xf32>
      continue %y : tile<128x128xf32>
    }
    %done = store_view_tko weak %sum, %vc[%zero, %zero] token = %t : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
    return
  }
}
