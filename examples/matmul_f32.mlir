// C = A * B in f32: A is m x k, B is k x n, C is m x n, all row-major and dense.
//
// Grid: (m + 31) / 32 by (n + 31) / 32 tile blocks, each making one 32 x 32 tile of C out of k / 16 pairs of tiles.
// There are no tensor-core instructions for f32 operands; every product is a fused multiply-add.

cuda_tile.module @matmul_f32 {
  entry @matmul_f32(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>,
                    %m: tile<i32>, %n: tile<i32>, %k: tile<i32>) {
    %a_aligned = assume div_by<16>, %a : tile<ptr<f32>>
    %b_aligned = assume div_by<16>, %b : tile<ptr<f32>>
    %c_aligned = assume div_by<16>, %c : tile<ptr<f32>>

    %a_matrix = make_tensor_view %a_aligned, shape = [%m, %k], strides = [%k, 1]
        : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %b_matrix = make_tensor_view %b_aligned, shape = [%k, %n], strides = [%n, 1]
        : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %c_matrix = make_tensor_view %c_aligned, shape = [%m, %n], strides = [%n, 1]
        : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>

    // Padding with zero makes a ragged k harmless: the missing products are zero.
    %a_tiles = make_partition_view %a_matrix
        : partition_view<tile=(32x16), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %b_tiles = make_partition_view %b_matrix
        : partition_view<tile=(16x32), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %c_tiles = make_partition_view %c_matrix
        : partition_view<tile=(32x32), tensor_view<?x?xf32, strides=[?,1]>>

    %row, %column, %unused = get_tile_block_id : tile<i32>
    %row_tiles, %steps = get_index_space_shape %a_tiles
        : partition_view<tile=(32x16), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>> -> tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %nothing = constant <f32: 0.0> : tile<32x32xf32>

    %sum = for %step in (%zero to %steps, step %one) : tile<i32>
        iter_values(%partial = %nothing) -> (tile<32x32xf32>) {
      %a_tile, %a_token = load_view_tko weak %a_tiles[%row, %step]
          : partition_view<tile=(32x16), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32>
          -> tile<32x16xf32>, token
      %b_tile, %b_token = load_view_tko weak %b_tiles[%step, %column]
          : partition_view<tile=(16x32), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32>
          -> tile<16x32xf32>, token
      %next = mmaf %a_tile, %b_tile, %partial : tile<32x16xf32>, tile<16x32xf32>, tile<32x32xf32>
      continue %next : tile<32x32xf32>
    }

    %done = store_view_tko weak %sum, %c_tiles[%row, %column]
        : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
