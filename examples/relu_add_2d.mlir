// out = max(x + y, 0) over a matrix whose sides need not be multiples of the tile.
//
// Grid: (rows + 31) / 32 by (columns + 63) / 64 tile blocks.  The matrices are row-major with a common distance `pitch`
// between rows, in elements.  Tiles at the right and lower edge hang over: what is outside of the matrix is read as zero
// and not written.

cuda_tile.module @relu_add_2d {
  entry @relu_add_2d(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %out: tile<ptr<f32>>,
                     %rows: tile<i32>, %columns: tile<i32>, %pitch: tile<i32>) {
    // Rows start at multiples of 16 bytes: vector loads even at ragged widths.
    %x_aligned = assume div_by<16>, %x : tile<ptr<f32>>
    %y_aligned = assume div_by<16>, %y : tile<ptr<f32>>
    %out_aligned = assume div_by<16>, %out : tile<ptr<f32>>
    %pitch_aligned = assume div_by<4>, %pitch : tile<i32>

    %x_matrix = make_tensor_view %x_aligned, shape = [%rows, %columns], strides = [%pitch_aligned, 1]
        : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %y_matrix = make_tensor_view %y_aligned, shape = [%rows, %columns], strides = [%pitch_aligned, 1]
        : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %out_matrix = make_tensor_view %out_aligned, shape = [%rows, %columns], strides = [%pitch_aligned, 1]
        : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>

    %x_tiles = make_partition_view %x_matrix
        : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %y_tiles = make_partition_view %y_matrix
        : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
    %out_tiles = make_partition_view %out_matrix
        : partition_view<tile=(32x64), tensor_view<?x?xf32, strides=[?,1]>>

    %row, %column, %unused = get_tile_block_id : tile<i32>
    %xs, %x_token = load_view_tko weak %x_tiles[%row, %column]
        : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32>
        -> tile<32x64xf32>, token
    %ys, %y_token = load_view_tko weak %y_tiles[%row, %column]
        : partition_view<tile=(32x64), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32>
        -> tile<32x64xf32>, token

    %sum = addf %xs, %ys : tile<32x64xf32>
    %zero = constant <f32: 0.0> : tile<32x64xf32>
    %positive = maxf %sum, %zero : tile<32x64xf32>

    %done = store_view_tko weak %positive, %out_tiles[%row, %column]
        : tile<32x64xf32>, partition_view<tile=(32x64), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
