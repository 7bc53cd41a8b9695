// The sum of an array in one launch: every tile block leaves a partial sum, and the one that finishes last adds them up,
// always in the same order, so that the result does not depend on who that is.
//
// Grid: up to 32 tile blocks, each with a tile of 256 elements.  `arrived` counts them and is 0 again at the end.

cuda_tile.module @last_block_reduction {
  entry @last_block_reduction(%values: tile<ptr<f32>>, %n: tile<i32>, %partial: tile<ptr<f32>>,
                              %arrived: tile<ptr<i32>>, %result: tile<ptr<f32>>) {
    %block, %unused_y, %unused_z = get_tile_block_id : tile<i32>
    %blocks, %unused_a, %unused_b = get_num_tile_blocks : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>

    %array = make_tensor_view %values, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %tiles = make_partition_view %array
        : partition_view<tile=(256), padding_value = zero, tensor_view<?xf32, strides=[1]>>
    %tile, %tile_token = load_view_tko weak %tiles[%block]
        : partition_view<tile=(256), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32>
        -> tile<256xf32>, token
    %mine = reduce %tile dim=0 identities=[0.0 : f32] : tile<256xf32> -> tile<f32> (%a: tile<f32>, %b: tile<f32>) {
      %c = addf %a, %b rounding<nearest_even> : tile<f32>
      yield %c : tile<f32>
    }

    %place = offset %partial, %block : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>
    %stored = store_ptr_tko weak %place, %mine : tile<ptr<f32>>, tile<f32> -> token
    // Releases this partial sum and, for the last one, acquires all the others.
    %before, %counted = atomic_rmw_tko acq_rel device %arrived, add, %one token = %stored
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %last = subi %blocks, %one : tile<i32>
    %is_last = cmpi equal %before, %last, signed : tile<i32> -> tile<i1>
    if %is_last {
      %sums = make_tensor_view %partial, shape = [%blocks], strides = [1]
          : tile<i32> -> tensor_view<?xf32, strides=[1]>
      %all = make_partition_view %sums
          : partition_view<tile=(32), padding_value = zero, tensor_view<?xf32, strides=[1]>>
      %parts, %parts_token = load_view_tko weak %all[%zero] token = %counted
          : partition_view<tile=(32), padding_value = zero, tensor_view<?xf32, strides=[1]>>, tile<i32>
          -> tile<32xf32>, token
      %sum = reduce %parts dim=0 identities=[0.0 : f32] : tile<32xf32> -> tile<f32> (%a: tile<f32>, %b: tile<f32>) {
        %c = addf %a, %b rounding<nearest_even> : tile<f32>
        yield %c : tile<f32>
      }
      %written = store_ptr_tko weak %result, %sum : tile<ptr<f32>>, tile<f32> -> token
      %reset = store_ptr_tko weak %arrived, %zero token = %counted : tile<ptr<i32>>, tile<i32> -> token
    }
    return
  }
}
