// y = a * x + y over n elements, through tiles of pointers.
//
// Grid: one tile block per 1024 elements, (n + 1023) / 1024 of them.  The last one runs past the end of the arrays; its
// mask keeps it from touching what is not there.

cuda_tile.module @saxpy {
  entry @saxpy(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>, %a: tile<f32>, %n: tile<i32>) {
    // The base pointers come from an allocator: saying so lets every access be 16 bytes wide.
    %x_aligned = assume div_by<16>, %x : tile<ptr<f32>>
    %y_aligned = assume div_by<16>, %y : tile<ptr<f32>>

    // The elements of this block: 1024 * block + [0, 1024).
    %block, %block_y, %block_z = get_tile_block_id : tile<i32>
    %block_size = constant <i32: 1024> : tile<i32>
    %first = muli %block, %block_size : tile<i32>
    %first_1 = reshape %first : tile<i32> -> tile<1xi32>
    %first_tile = broadcast %first_1 : tile<1xi32> -> tile<1024xi32>
    %lane = iota : tile<1024xi32>
    %index = addi %first_tile, %lane : tile<1024xi32>

    // True for the elements that exist.
    %n_1 = reshape %n : tile<i32> -> tile<1xi32>
    %n_tile = broadcast %n_1 : tile<1xi32> -> tile<1024xi32>
    %mask = cmpi less_than %index, %n_tile, signed : tile<1024xi32> -> tile<1024xi1>

    // One pointer per element.
    %x_1 = reshape %x_aligned : tile<ptr<f32>> -> tile<1xptr<f32>>
    %x_base = broadcast %x_1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
    %x_ptr = offset %x_base, %index : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
    %y_1 = reshape %y_aligned : tile<ptr<f32>> -> tile<1xptr<f32>>
    %y_base = broadcast %y_1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
    %y_ptr = offset %y_base, %index : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>

    // Masked elements read as zero; the store leaves them alone.
    %zero = constant <f32: 0.0> : tile<1024xf32>
    %xs, %x_token = load_ptr_tko weak %x_ptr, %mask, %zero
        : tile<1024xptr<f32>>, tile<1024xi1>, tile<1024xf32> -> tile<1024xf32>, token
    %ys, %y_token = load_ptr_tko weak %y_ptr, %mask, %zero
        : tile<1024xptr<f32>>, tile<1024xi1>, tile<1024xf32> -> tile<1024xf32>, token

    %a_1 = reshape %a : tile<f32> -> tile<1xf32>
    %a_tile = broadcast %a_1 : tile<1xf32> -> tile<1024xf32>
    %sum = fma %a_tile, %xs, %ys : tile<1024xf32>

    // The store waits for the load of the same places.
    %done = store_ptr_tko weak %y_ptr, %sum, %mask token = %y_token
        : tile<1024xptr<f32>>, tile<1024xf32>, tile<1024xi1> -> token
    return
  }
}
