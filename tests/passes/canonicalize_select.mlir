// RUN: tileiras-opt %s --canonicalize --split-input-file | FileCheck %s

// A selection whose outcome is known is that operand.

// CHECK-LABEL: entry @known_condition
// CHECK-SAME: %[[P:.*]]: tile<ptr<i32>>, %[[A:.*]]: tile<i32>, %[[B:.*]]: tile<i32>
// CHECK-NOT: select
// CHECK: store_ptr_tko weak %[[P]], %[[A]]
// CHECK: store_ptr_tko weak %[[P]], %[[B]]
// CHECK: store_ptr_tko weak %[[P]], %[[A]]
cuda_tile.module @m {
  entry @known_condition(%p: tile<ptr<i32>>, %a: tile<i32>, %b: tile<i32>, %c: tile<i1>) {
    %true = constant <i1: true> : tile<i1>
    %false = constant <i1: false> : tile<i1>
    %0 = select %true, %a, %b : tile<i1>, tile<i32>
    %1 = select %false, %a, %b : tile<i1>, tile<i32>
    %2 = select %c, %a, %a : tile<i1>, tile<i32>
    %t0 = store_ptr_tko weak %p, %0 : tile<ptr<i32>>, tile<i32> -> token
    %t1 = store_ptr_tko weak %p, %1 : tile<ptr<i32>>, tile<i32> -> token
    %t2 = store_ptr_tko weak %p, %2 : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}

// -----

// Where two values are equal it does not matter which one is taken; of floats that compare equal it does (-0, NaN).

// CHECK-LABEL: entry @compared
// CHECK-SAME: %[[P:.*]]: tile<ptr<i32>>, %[[A:.*]]: tile<i32>, %[[B:.*]]: tile<i32>
// CHECK: %[[FLOAT:.*]] = select
// CHECK-NOT: select
// CHECK: store_ptr_tko weak %[[P]], %[[B]]
// CHECK: store_ptr_tko weak %[[P]], %[[B]]
// CHECK: store_ptr_tko weak {{.*}}, %[[FLOAT]]
cuda_tile.module @m {
  entry @compared(%p: tile<ptr<i32>>, %a: tile<i32>, %b: tile<i32>, %q: tile<ptr<f32>>, %x: tile<f32>, %y: tile<f32>) {
    %eq = cmpi equal %a, %b, signed : tile<i32> -> tile<i1>
    %ne = cmpi not_equal %a, %b, signed : tile<i32> -> tile<i1>
    %same = cmpf equal ordered %x, %y : tile<f32> -> tile<i1>
    %0 = select %eq, %a, %b : tile<i1>, tile<i32>
    %1 = select %ne, %b, %a : tile<i1>, tile<i32>
    %2 = select %same, %x, %y : tile<i1>, tile<f32>
    %t0 = store_ptr_tko weak %p, %0 : tile<ptr<i32>>, tile<i32> -> token
    %t1 = store_ptr_tko weak %p, %1 : tile<ptr<i32>>, tile<i32> -> token
    %t2 = store_ptr_tko weak %q, %2 : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}

// -----

// Of constants, element by element and bit by bit: a NaN keeps its payload, -0 its sign.

// CHECK-LABEL: entry @constants
// CHECK: constant <f16: [0x7E01, -0.000000e+00, 2.000000e+00, 1.000000e+00]> : tile<4xf16>
// CHECK-NOT: select
cuda_tile.module @m {
  entry @constants(%p: tile<ptr<f16>>) {
    %c = constant <i1: [true, false, true, false]> : tile<4xi1>
    %a = constant <f16: [0x7E01, 3.0, 2.0, 4.0]> : tile<4xf16>
    %b = constant <f16: [5.0, -0.0, 6.0, 1.0]> : tile<4xf16>
    %s = select %c, %a, %b : tile<4xi1>, tile<4xf16>
    %r = reshape %p : tile<ptr<f16>> -> tile<1xptr<f16>>
    %q = broadcast %r : tile<1xptr<f16>> -> tile<4xptr<f16>>
    %t = store_ptr_tko weak %q, %s : tile<4xptr<f16>>, tile<4xf16> -> token
    return
  }
}

// -----

// Zero and one are an extension; other constants are not, nor are one and zero as floats.

// CHECK-LABEL: entry @to_exti
// CHECK-SAME: %[[P:.*]]: tile<ptr<i32>>, %[[Q:.*]]: tile<ptr<f32>>, %[[C:.*]]: tile<i1>
// CHECK-DAG: %[[TRUE:.*]] = constant <i1: true>
// CHECK: %[[E0:.*]] = exti %[[C]] unsigned : tile<i1> -> tile<i32>
// CHECK: %[[N:.*]] = xori %[[C]], %[[TRUE]]
// CHECK: %[[E1:.*]] = exti %[[N]] unsigned : tile<i1> -> tile<i32>
// CHECK: %[[S2:.*]] = select
// CHECK: %[[S3:.*]] = select
// CHECK: store_ptr_tko weak %[[P]], %[[E0]]
// CHECK: store_ptr_tko weak %[[P]], %[[E1]]
// CHECK: store_ptr_tko weak %[[P]], %[[S2]]
// CHECK: store_ptr_tko weak %[[Q]], %[[S3]]
cuda_tile.module @m {
  entry @to_exti(%p: tile<ptr<i32>>, %q: tile<ptr<f32>>, %c: tile<i1>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %fzero = constant <f32: 0.0> : tile<f32>
    %fone = constant <f32: 1.0> : tile<f32>
    %0 = select %c, %one, %zero : tile<i1>, tile<i32>
    %1 = select %c, %zero, %one : tile<i1>, tile<i32>
    %2 = select %c, %two, %zero : tile<i1>, tile<i32>
    %3 = select %c, %fone, %fzero : tile<i1>, tile<f32>
    %t0 = store_ptr_tko weak %p, %0 : tile<ptr<i32>>, tile<i32> -> token
    %t1 = store_ptr_tko weak %p, %1 : tile<ptr<i32>>, tile<i32> -> token
    %t2 = store_ptr_tko weak %p, %2 : tile<ptr<i32>>, tile<i32> -> token
    %t3 = store_ptr_tko weak %q, %3 : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}

// -----

// Selections of selections on one condition, and on its inverse, are one; on another condition they stay two.

// CHECK-LABEL: entry @nested
// CHECK-SAME: %[[P:.*]]: tile<ptr<i32>>, %[[C:.*]]: tile<i1>, %[[D:.*]]: tile<i1>, %[[X:.*]]: tile<i32>, %[[Y:.*]]: tile<i32>, %[[Z:.*]]: tile<i32>
// CHECK-NEXT: %[[XY:.*]] = select %[[C]], %[[X]], %[[Y]]
// CHECK-NEXT: %[[XZ:.*]] = select %[[C]], %[[X]], %[[Z]]
// CHECK-NEXT: %[[YX:.*]] = select %[[C]], %[[Y]], %[[X]]
// CHECK-NEXT: %[[OTHER:.*]] = select %[[D]], %[[XY]], %[[Z]]
// CHECK-NEXT: store_ptr_tko weak %[[P]], %[[XZ]]
// CHECK-NEXT: store_ptr_tko weak %[[P]], %[[YX]]
// CHECK-NEXT: store_ptr_tko weak %[[P]], %[[OTHER]]
cuda_tile.module @m {
  entry @nested(%p: tile<ptr<i32>>, %c: tile<i1>, %d: tile<i1>, %x: tile<i32>, %y: tile<i32>, %z: tile<i32>) {
    %true = constant <i1: true> : tile<i1>
    %false = constant <i1: false> : tile<i1>
    %0 = select %c, %x, %y : tile<i1>, tile<i32>
    %1 = select %c, %0, %z : tile<i1>, tile<i32>
    %not = select %c, %false, %true : tile<i1>, tile<i1>
    %2 = select %not, %x, %y : tile<i1>, tile<i32>
    %3 = select %d, %0, %z : tile<i1>, tile<i32>
    %t1 = store_ptr_tko weak %p, %1 : tile<ptr<i32>>, tile<i32> -> token
    %t2 = store_ptr_tko weak %p, %2 : tile<ptr<i32>>, tile<i32> -> token
    %t3 = store_ptr_tko weak %p, %3 : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}

// -----

// A product stands on the left of a sum; assumptions are not repeated, and arithmetic on constants is left alone.

// CHECK-LABEL: entry @sums
// CHECK-SAME: %[[P:.*]]: tile<ptr<f32>>, %[[X:.*]]: tile<f32>
// CHECK: %[[A:.*]] = assume div_by<16>, %[[P]]
// CHECK-NOT: assume
// CHECK: %[[M:.*]] = mulf %[[X]], %[[X]]
// CHECK: addf %[[M]], %[[X]]
// CHECK: %[[K:.*]] = addf %{{.*}}, %{{.*}}
// CHECK: store_ptr_tko weak %[[A]], %[[K]]
cuda_tile.module @m {
  entry @sums(%p: tile<ptr<f32>>, %x: tile<f32>) {
    %a = assume div_by<16>, %p : tile<ptr<f32>>
    %b = assume div_by<16>, %a : tile<ptr<f32>>
    %one = constant <f32: 1.0> : tile<f32>
    %two = constant <f32: 2.0> : tile<f32>
    %m = mulf %x, %x : tile<f32>
    %s = addf %x, %m : tile<f32>
    %k = addf %one, %two : tile<f32>
    %t0 = store_ptr_tko weak %b, %s : tile<ptr<f32>>, tile<f32> -> token
    %t1 = store_ptr_tko weak %b, %k : tile<ptr<f32>>, tile<f32> -> token
    return
  }
}
