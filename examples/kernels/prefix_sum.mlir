// out[i] = in[0] + ... + in[i], in one launch over any number of tile blocks of 256 elements.
//
// A tile block scans its tile, waits until the one before it has published the sum of all that came earlier, and
// publishes its own.  `published` has two numbers for every tile block: a flag, 0 at first, and the sum.  Tile blocks
// start in the order of their numbers, so the one waited for is running.

cuda_tile.module @prefix_sum {
  entry @prefix_sum(%in: tile<ptr<i32>>, %out: tile<ptr<i32>>, %n: tile<i32>, %published: tile<ptr<i32>>) {
    %block, %unused_y, %unused_z = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>

    %array = make_tensor_view %in, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
    %tiles = make_partition_view %array
        : partition_view<tile=(256), padding_value = zero, tensor_view<?xi32, strides=[1]>>
    %tile, %tile_token = load_view_tko weak %tiles[%block]
        : partition_view<tile=(256), padding_value = zero, tensor_view<?xi32, strides=[1]>>, tile<i32>
        -> tile<256xi32>, token
    %sums = scan %tile dim=0 reverse=false identities=[0 : i32] : tile<256xi32> -> tile<256xi32>
        (%a: tile<i32>, %b: tile<i32>) {
      %c = addi %a, %b : tile<i32>
      yield %c : tile<i32>
    }
    %mine = reduce %tile dim=0 identities=[0 : i32] : tile<256xi32> -> tile<i32> (%a: tile<i32>, %b: tile<i32>) {
      %c = addi %a, %b : tile<i32>
      yield %c : tile<i32>
    }

    %own = muli %block, %two : tile<i32>
    %previous = subi %own, %two : tile<i32>
    %start = make_token : token
    %first = cmpi equal %block, %zero, signed : tile<i32> -> tile<i1>
    %earlier = if %first -> (tile<i32>) {
      yield %zero : tile<i32>
    } else {
      %flag_place = offset %published, %previous : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %sum_place = offset %flag_place, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
      %seen = loop iter_values(%before = %start) : token -> token {
        %flag, %after = load_ptr_tko acquire device %flag_place token = %before
            : tile<ptr<i32>> -> tile<i32>, token
        %ready = cmpi equal %flag, %one, signed : tile<i32> -> tile<i1>
        if %ready {
          break %after : token
        }
        continue %after : token
      }
      %sum, %sum_token = load_ptr_tko weak %sum_place token = %seen : tile<ptr<i32>> -> tile<i32>, token
      yield %sum : tile<i32>
    }

    %through = addi %earlier, %mine : tile<i32>
    %own_flag = offset %published, %own : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %own_sum = offset %own_flag, %one : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %stored = store_ptr_tko weak %own_sum, %through : tile<ptr<i32>>, tile<i32> -> token
    %told = store_ptr_tko release device %own_flag, %one token = %stored : tile<ptr<i32>>, tile<i32> -> token

    %earlier_1 = reshape %earlier : tile<i32> -> tile<1xi32>
    %earlier_256 = broadcast %earlier_1 : tile<1xi32> -> tile<256xi32>
    %result = addi %sums, %earlier_256 : tile<256xi32>
    %out_array = make_tensor_view %out, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
    %out_tiles = make_partition_view %out_array : partition_view<tile=(256), tensor_view<?xi32, strides=[1]>>
    %done = store_view_tko weak %result, %out_tiles[%block]
        : tile<256xi32>, partition_view<tile=(256), tensor_view<?xi32, strides=[1]>>, tile<i32> -> token
    return
  }
}
