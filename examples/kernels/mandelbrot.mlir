// How many steps z -> z * z + c takes to leave the circle of radius 2, at most `limit`, for a plane of c.
//
// Grid: (width + 63) / 64 by height tile blocks of 64 points each.  The loop ends when no point of the tile is left: how
// often it runs depends on the data, and differs from tile block to tile block.

cuda_tile.module @mandelbrot {
  entry @mandelbrot(%counts: tile<ptr<i32>>, %width: tile<i32>, %height: tile<i32>,
                    %left: tile<f32>, %top: tile<f32>, %pitch: tile<f32>, %limit: tile<i32>) {
    %column, %row, %unused = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %zeros = constant <i32: 0> : tile<64xi32>
    %ones = constant <i32: 1> : tile<64xi32>
    %nothing = constant <f32: 0.0> : tile<64xf32>
    %four = constant <f32: 4.0> : tile<64xf32>
    %tile_width = constant <i32: 64> : tile<i32>

    %start = muli %column, %tile_width : tile<i32>
    %start_1 = reshape %start : tile<i32> -> tile<1xi32>
    %start_64 = broadcast %start_1 : tile<1xi32> -> tile<64xi32>
    %lane = iota : tile<64xi32>
    %x = addi %start_64, %lane : tile<64xi32>

    %pitch_1 = reshape %pitch : tile<f32> -> tile<1xf32>
    %pitch_64 = broadcast %pitch_1 : tile<1xf32> -> tile<64xf32>
    %left_1 = reshape %left : tile<f32> -> tile<1xf32>
    %left_64 = broadcast %left_1 : tile<1xf32> -> tile<64xf32>
    %x_float = itof %x signed rounding<nearest_even> : tile<64xi32> -> tile<64xf32>
    %c_real = fma %x_float, %pitch_64, %left_64 rounding<nearest_even> : tile<64xf32>

    %y_float = itof %row signed rounding<nearest_even> : tile<i32> -> tile<f32>
    %c_imaginary_0 = fma %y_float, %pitch, %top rounding<nearest_even> : tile<f32>
    %c_imaginary_1 = reshape %c_imaginary_0 : tile<f32> -> tile<1xf32>
    %c_imaginary = broadcast %c_imaginary_1 : tile<1xf32> -> tile<64xf32>

    %steps = loop iter_values(%real = %nothing, %imaginary = %nothing, %count = %zeros, %step = %zero)
        : tile<64xf32>, tile<64xf32>, tile<64xi32>, tile<i32> -> tile<64xi32> {
      %real_2 = mulf %real, %real rounding<nearest_even> : tile<64xf32>
      %imaginary_2 = mulf %imaginary, %imaginary rounding<nearest_even> : tile<64xf32>
      %size = addf %real_2, %imaginary_2 rounding<nearest_even> : tile<64xf32>
      %inside = cmpf less_than_or_equal ordered %size, %four : tile<64xf32> -> tile<64xi1>
      %inside_int = exti %inside unsigned : tile<64xi1> -> tile<64xi32>
      %left_over = reduce %inside_int dim=0 identities=[0 : i32] : tile<64xi32> -> tile<i32>
          (%a: tile<i32>, %b: tile<i32>) {
        %either = ori %a, %b : tile<i32>
        yield %either : tile<i32>
      }
      %none = cmpi equal %left_over, %zero, signed : tile<i32> -> tile<i1>
      %enough = cmpi greater_than_or_equal %step, %limit, signed : tile<i32> -> tile<i1>
      %finished = ori %none, %enough : tile<i1>
      if %finished {
        break %count : tile<64xi32>
      }
      %difference = subf %real_2, %imaginary_2 rounding<nearest_even> : tile<64xf32>
      %next_real = addf %difference, %c_real rounding<nearest_even> : tile<64xf32>
      %product = mulf %real, %imaginary rounding<nearest_even> : tile<64xf32>
      %twice = addf %product, %product rounding<nearest_even> : tile<64xf32>
      %next_imaginary = addf %twice, %c_imaginary rounding<nearest_even> : tile<64xf32>
      // A point that has left stays where it was, so that it neither counts nor overflows.
      %kept_real = select %inside, %next_real, %real : tile<64xi1>, tile<64xf32>
      %kept_imaginary = select %inside, %next_imaginary, %imaginary : tile<64xi1>, tile<64xf32>
      %next_count = addi %count, %inside_int : tile<64xi32>
      %next_step = addi %step, %one : tile<i32>
      continue %kept_real, %kept_imaginary, %next_count, %next_step
          : tile<64xf32>, tile<64xf32>, tile<64xi32>, tile<i32>
    }

    %picture = make_tensor_view %counts, shape = [%height, %width], strides = [%width, 1]
        : tile<i32> -> tensor_view<?x?xi32, strides=[?,1]>
    %lines = make_partition_view %picture : partition_view<tile=(1x64), tensor_view<?x?xi32, strides=[?,1]>>
    %line = reshape %steps : tile<64xi32> -> tile<1x64xi32>
    %done = store_view_tko weak %line, %lines[%row, %column]
        : tile<1x64xi32>, partition_view<tile=(1x64), tensor_view<?x?xi32, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
