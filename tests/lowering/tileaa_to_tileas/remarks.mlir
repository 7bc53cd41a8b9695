// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --remarks "--pass-pipeline=builtin.module(tileir{opt-level=2 compute-capability=sm_80})"
// RUN: tileiras-opt %s --split-input-file "--pass-pipeline=builtin.module(tileir{opt-level=2 compute-capability=sm_80})" 2>&1 | FileCheck %s
// CHECK-NOT: remark

cuda_tile.module @accesses {
  // expected-remark @below {{[kernel.launch warps=2 ctas=1; kernel.warps-by-tiles]}}
  // expected-remark @below {{[analysis] Shared memory allocated: }}
  entry @k(%p: tile<ptr<f32>>, %n: tile<i32>) {
    %base = assume div_by<16>, %p : tile<ptr<f32>>
    %x, %y, %z = get_tile_block_id : tile<i32>

    %v = make_tensor_view %base, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
    %t = make_partition_view %v : partition_view<tile=(512), tensor_view<1024xf32, strides=[1]>>
    // expected-remark @below {{[passed] Load instruction selected (Instruction = ld.global, Width = 16 bytes, Shape = [512], Elements per access = 4)}}
    %0, %tok0 = load_view_tko weak %t[%x] : partition_view<tile=(512), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> tile<512xf32>, token

    %v1 = make_tensor_view %p, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
    %t1 = make_partition_view %v1 : partition_view<tile=(512), tensor_view<1024xf32, strides=[1]>>
    // expected-remark @below {{[access.load bytes=4; access.base-unknown]}}
    %1, %tok1 = load_view_tko weak %t1[%x] : partition_view<tile=(512), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> tile<512xf32>, token

    %v2 = make_tensor_view %base, shape = [1024], strides = [2] : tensor_view<1024xf32, strides=[2]>
    %t2 = make_partition_view %v2 : partition_view<tile=(512), tensor_view<1024xf32, strides=[2]>>
    // expected-remark @below {{[access.load bytes=4; access.no-unit-stride]}}
    %2, %tok2 = load_view_tko weak %t2[%x] : partition_view<tile=(512), tensor_view<1024xf32, strides=[2]>>, tile<i32> -> tile<512xf32>, token

    %v3 = make_tensor_view %base, shape = [64, 66], strides = [66, 1] : tensor_view<64x66xf32, strides=[66,1]>
    %t3 = make_partition_view %v3 : partition_view<tile=(64x8), tensor_view<64x66xf32, strides=[66,1]>>
    // expected-remark @below {{[access.load bytes=8; access.stride-alignment dim=0 bytes=8]}}
    %3, %tok3 = load_view_tko weak %t3[%x, %y] : partition_view<tile=(64x8), tensor_view<64x66xf32, strides=[66,1]>>, tile<i32> -> tile<64x8xf32>, token

    %r = reshape %base : tile<ptr<f32>> -> tile<1xptr<f32>>
    %b = broadcast %r : tile<1xptr<f32>> -> tile<512xptr<f32>>
    %i = iota : tile<512xi32>
    %a = offset %b, %i : tile<512xptr<f32>>, tile<512xi32> -> tile<512xptr<f32>>
    %nr = reshape %n : tile<i32> -> tile<1xi32>
    %nb = broadcast %nr : tile<1xi32> -> tile<512xi32>
    %m = cmpi not_equal %i, %nb, signed : tile<512xi32> -> tile<512xi1>
    // expected-remark @below {{[access.load bytes=4; access.mask-varies]}}
    %4, %tok4 = load_ptr_tko weak %a, %m : tile<512xptr<f32>>, tile<512xi1> -> tile<512xf32>, token
    %l = cmpi less_than %i, %nb, signed : tile<512xi32> -> tile<512xi1>
    // expected-remark @below {{[passed] Load instruction selected (Instruction = ld.global, Width = 16 bytes, Shape = [512], Elements per access = 4)}}
    %6, %tok12 = load_ptr_tko weak %a, %l : tile<512xptr<f32>>, tile<512xi1> -> tile<512xf32>, token

    // expected-remark @below {{[passed] Store instruction selected (Instruction = st.global, Width = 16 bytes, Shape = [512], Elements per access = 4)}}
    %tok5 = store_view_tko weak %0, %t[%x] : tile<512xf32>, partition_view<tile=(512), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token
    // expected-remark @below {{[passed] Atomic instruction selected (Instruction = atom.global, Width = 4 bytes, Shape = [512], Elements per access = 1)}}
    %5, %tok6 = atomic_rmw_tko relaxed device %a, addf, %0 : tile<512xptr<f32>>, tile<512xf32> -> tile<512xf32>, token
    %tok7 = store_view_tko weak %1, %t[%x] : tile<512xf32>, partition_view<tile=(512), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token // expected-remark {{Store instruction}}
    %tok8 = store_view_tko weak %2, %t[%x] : tile<512xf32>, partition_view<tile=(512), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token // expected-remark {{Store instruction}}
    %tok9 = store_view_tko weak %4, %t[%x] : tile<512xf32>, partition_view<tile=(512), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token // expected-remark {{Store instruction}}
    %tok13 = store_view_tko weak %6, %t[%x] : tile<512xf32>, partition_view<tile=(512), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token // expected-remark {{Store instruction}}
    %tok10 = store_view_tko weak %5, %t[%x] : tile<512xf32>, partition_view<tile=(512), tensor_view<1024xf32, strides=[1]>>, tile<i32> -> token // expected-remark {{Store instruction}}
    %tok11 = store_view_tko weak %3, %t3[%x, %y] : tile<64x8xf32>, partition_view<tile=(64x8), tensor_view<64x66xf32, strides=[66,1]>>, tile<i32> -> token // expected-remark {{Store instruction}}
    return
  }
}

// -----

cuda_tile.module @products {
  // expected-remark @below {{[kernel.launch warps=4 ctas=1; kernel.warps-by-tiles]}}
  // expected-remark @below {{[analysis] Shared memory allocated: }}
  entry @k(%p: tile<ptr<f32>>) {
    %a = constant <f16: 1.0> : tile<64x32xf16>
    %b = constant <f16: 1.0> : tile<32x64xf16>
    %c = constant <f32: 0.0> : tile<64x64xf32>
    // expected-remark @below {{[passed] MMA operation successfully optimized to use Tensor Cores (Instruction = mma.sync, Shape = [16, 8, 16], Atom = mma_m16n8k16_f32_f16_f16)}}
    %0 = mmaf %a, %b, %c : tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>
    %a8 = constant <f16: 1.0> : tile<64x8xf16>
    %b8 = constant <f16: 1.0> : tile<8x64xf16>
    // expected-remark @below {{[dots.tensor-cores; dots.atom-deeper atom=m16n8k16 k=8]}}
    // expected-remark @below {{[analysis] Layout conversion: 16384 bytes of shared memory (Shape = [64, 64])}}
    %1 = mmaf %a8, %b8, %0 : tile<64x8xf16>, tile<8x64xf16>, tile<64x64xf32>
    %af = constant <f32: 1.0> : tile<64x8xf32>
    %bf = constant <f32: 1.0> : tile<8x64xf32>
    // expected-remark @below {{[failed] MMA operation failed to optimize to use Tensor Cores, it is using FMA instructions instead (Instruction = FMA, Shape = [1, 1, 1], Atom = universal_fma)}}
    // expected-remark @below {{[analysis] Layout conversion: 16384 bytes of shared memory (Shape = [64, 64])}}
    %2 = mmaf %af, %bf, %1 : tile<64x8xf32>, tile<8x64xf32>, tile<64x64xf32>
    %ad = constant <f64: 1.0> : tile<16x16xf64>
    %cd = constant <f64: 1.0> : tile<16x16xf64>
    // expected-remark @below {{[dots.tensor-cores; dots.atom-needs atom=m16n8k16 needs="sm_90 or newer"]}}
    %3 = mmaf %ad, %ad, %cd : tile<16x16xf64>, tile<16x16xf64>, tile<16x16xf64>
    %v = make_tensor_view %p, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %t = make_partition_view %v : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
    %z = constant <i32: 0> : tile<i32>
    %tok = store_view_tko weak %2, %t[%z, %z] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token // expected-remark {{Store instruction}}
    %f = ftof %3 rounding<nearest_even> : tile<16x16xf64> -> tile<16x16xf32>
    %t2 = make_partition_view %v : partition_view<tile=(16x16), tensor_view<64x64xf32, strides=[64,1]>>
    %tok2 = store_view_tko weak %f, %t2[%z, %z] : tile<16x16xf32>, partition_view<tile=(16x16), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token // expected-remark {{Store instruction}}
    return
  }
}
