// Writes a tile of 128x128 f16 through pointers, one per element.
//
// Grid: one tile block.  The assumption on the offsets holds for every number: it must not cost anything.

cuda_tile.module @scatter {
  entry @scatter(%p: tile<ptr<f16>>) {
    %base = assume div_by<16>, %p : tile<ptr<f16>>

    // The offset of element (i, j) is 128 * i + j.
    %iota = iota : tile<128xi32>
    %column = reshape %iota : tile<128xi32> -> tile<128x1xi32>
    %row = reshape %iota : tile<128xi32> -> tile<1x128xi32>
    %i = broadcast %column : tile<128x1xi32> -> tile<128x128xi32>
    %j = broadcast %row : tile<1x128xi32> -> tile<128x128xi32>
    %stride = constant <i32: 128> : tile<128x128xi32>
    %first = muli %i, %stride : tile<128x128xi32>
    %offset = addi %first, %j : tile<128x128xi32>
    %assumed = assume div_by<1>, %offset : tile<128x128xi32>

    %base_1 = reshape %base : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %bases = broadcast %base_1 : tile<1x1xptr<f16>> -> tile<128x128xptr<f16>>
    %pointers = offset %bases, %assumed : tile<128x128xptr<f16>>, tile<128x128xi32> -> tile<128x128xptr<f16>>
    %values = itof %assumed signed : tile<128x128xi32> -> tile<128x128xf16>
    %token = store_ptr_tko weak %pointers, %values : tile<128x128xptr<f16>>, tile<128x128xf16> -> token
    return
  }
}
