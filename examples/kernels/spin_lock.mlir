// All tile blocks add to one row of numbers, one after the other, behind a lock.
//
// Grid: rows tile blocks.  The lock is 0 when free.  Taking it acquires: what its last holder stored is seen.  Giving it
// back releases: it is ordered after the store by the store's token.

cuda_tile.module @spin_lock {
  entry @spin_lock(%values: tile<ptr<f32>>, %total: tile<ptr<f32>>, %lock: tile<ptr<i32>>) {
    %row, %unused_y, %unused_z = get_tile_block_id : tile<i32>
    %rows, %unused_a, %unused_b = get_num_tile_blocks : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %free = constant <i32: 0> : tile<i32>
    %taken = constant <i32: 1> : tile<i32>

    %matrix = make_tensor_view %values, shape = [%rows, 64], strides = [64, 1]
        : tile<i32> -> tensor_view<?x64xf32, strides=[64,1]>
    %lines = make_partition_view %matrix : partition_view<tile=(1x64), tensor_view<?x64xf32, strides=[64,1]>>
    %mine, %mine_token = load_view_tko weak %lines[%row, %zero]
        : partition_view<tile=(1x64), tensor_view<?x64xf32, strides=[64,1]>>, tile<i32> -> tile<1x64xf32>, token
    %addend = reshape %mine : tile<1x64xf32> -> tile<64xf32>

    %start = make_token : token
    %held = loop iter_values(%before = %start) : token -> token {
      %old, %after = atomic_cas_tko acq_rel device %lock, %free, %taken token = %before
          : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
      %was_free = cmpi equal %old, %free, signed : tile<i32> -> tile<i1>
      if %was_free {
        break %after : token
      }
      continue %after : token
    }

    %sum = make_tensor_view %total, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
    %sum_tile = make_partition_view %sum : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
    %so_far, %loaded = load_view_tko weak %sum_tile[%zero] token = %held
        : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
    %new = addf %so_far, %addend rounding<nearest_even> : tile<64xf32>
    %stored = store_view_tko weak %new, %sum_tile[%zero] token = %loaded
        : tile<64xf32>, partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
    %given_back, %released = atomic_rmw_tko release device %lock, xchg, %free token = %stored
        : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    return
  }
}
