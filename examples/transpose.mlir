// out = transpose(x): a rows x columns matrix becomes columns x rows, both row-major and dense.
//
// Grid: (rows + 31) / 32 by (columns + 31) / 32 tile blocks.  A tile is read along its rows and written along its
// columns; turning it around in between keeps both sides coalesced.

cuda_tile.module @transpose {
  entry @transpose(%x: tile<ptr<f32>>, %out: tile<ptr<f32>>, %rows: tile<i32>, %columns: tile<i32>) {
    %x_aligned = assume div_by<16>, %x : tile<ptr<f32>>
    %out_aligned = assume div_by<16>, %out : tile<ptr<f32>>

    %x_matrix = make_tensor_view %x_aligned, shape = [%rows, %columns], strides = [%columns, 1]
        : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %out_matrix = make_tensor_view %out_aligned, shape = [%columns, %rows], strides = [%rows, 1]
        : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %x_tiles = make_partition_view %x_matrix
        : partition_view<tile=(32x32), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %out_tiles = make_partition_view %out_matrix
        : partition_view<tile=(32x32), tensor_view<?x?xf32, strides=[?,1]>>

    %row, %column, %unused = get_tile_block_id : tile<i32>
    %tile, %token = load_view_tko weak %x_tiles[%row, %column]
        : partition_view<tile=(32x32), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32>
        -> tile<32x32xf32>, token
    %turned = permute %tile [1, 0] : tile<32x32xf32> -> tile<32x32xf32>
    %done = store_view_tko weak %turned, %out_tiles[%column, %row]
        : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
