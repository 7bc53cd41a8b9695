// RUN: tileiras-opt %s --canonicalize --split-input-file | FileCheck %s

// A branch that is never taken goes; with one that leaves, so does what comes after it.

// CHECK-LABEL: entry @known
// CHECK-NOT: if
// CHECK: print_tko "taken"
// CHECK-NEXT: return
cuda_tile.module @m {
  entry @known() {
    %true = constant <i1: true> : tile<i1>
    %false = constant <i1: false> : tile<i1>
    if %false {
      %t = print_tko "not taken" -> token
    }
    if %true {
      %t = print_tko "taken" -> token
      return
    }
    %u = print_tko "not reached" -> token
    return
  }
}

// -----

// Values from outside are selected, tiles by a condition of their shape; what a branch computes is yielded, and tokens
// are not selected at all.

// CHECK-LABEL: entry @selected
// CHECK-SAME: %[[C:.*]]: tile<i1>, %[[X:.*]]: tile<i32>, %[[Y:.*]]: tile<i32>
// CHECK: %[[S:.*]] = select %[[C]], %[[X]], %[[Y]]
// CHECK-NEXT: %[[V:.*]] = if %[[C]] -> (tile<i32>) {
// CHECK-NEXT: %[[Q:.*]] = muli
// CHECK-NEXT: yield %[[Q]] : tile<i32>
// CHECK: print_tko "%d %d", %[[S]], %[[V]]
// CHECK: %[[T:.*]] = if %[[C]] -> (token)
// CHECK: print_tko "after" token=%[[T]]
cuda_tile.module @m {
  entry @selected(%c: tile<i1>, %x: tile<i32>, %y: tile<i32>) {
    %s, %v = if %c -> (tile<i32>, tile<i32>) {
      %q = muli %x, %y : tile<i32>
      yield %x, %q : tile<i32>, tile<i32>
    } else {
      yield %y, %y : tile<i32>, tile<i32>
    }
    %t0 = print_tko "%d %d", %s, %v : tile<i32>, tile<i32> -> token
    %t1 = make_token : token
    %t = if %c -> (token) {
      yield %t0 : token
    } else {
      yield %t1 : token
    }
    %u = print_tko "after" token=%t -> token
    return
  }
}

// -----

// With one branch that leaves the loop, the value is the other's.

// CHECK-LABEL: entry @leaves
// CHECK-SAME: %[[N:.*]]: tile<i32>
// CHECK: loop iter_values(%[[I:.*]] =
// CHECK-NOT: select
// CHECK: if %{{.*}} {
// CHECK-NEXT: break
// CHECK-NEXT: }
// CHECK-NEXT: %[[J:.*]] = addi %[[I]], %[[N]]
// CHECK-NEXT: continue %[[J]]
cuda_tile.module @m {
  entry @leaves(%n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    loop iter_values(%i = %zero) : tile<i32> {
      %c = cmpi greater_than %i, %n, signed : tile<i32> -> tile<i1>
      %v = if %c -> (tile<i32>) {
        break
      } else {
        yield %n : tile<i32>
      }
      %j = addi %i, %v : tile<i32>
      continue %j : tile<i32>
    }
    return
  }
}

// -----

// True and false are the condition, or its inverse; not for a tile, whose shape is another.

// CHECK-LABEL: entry @conditions
// CHECK-SAME: %[[C:.*]]: tile<i1>
// CHECK-DAG: %[[TRUE:.*]] = constant <i1: true> : tile<i1>
// CHECK: %[[N:.*]] = xori %[[C]], %[[TRUE]]
// CHECK: broadcast
// CHECK: print_tko "%d %d %d", %[[C]], %[[N]], %{{.*}}
cuda_tile.module @m {
  entry @conditions(%c: tile<i1>) {
    %a, %b, %d = if %c -> (tile<i1>, tile<i1>, tile<4xi1>) {
      %true = constant <i1: true> : tile<i1>
      %false = constant <i1: false> : tile<i1>
      %all = constant <i1: true> : tile<4xi1>
      yield %true, %false, %all : tile<i1>, tile<i1>, tile<4xi1>
    } else {
      %true = constant <i1: true> : tile<i1>
      %false = constant <i1: false> : tile<i1>
      %none = constant <i1: false> : tile<4xi1>
      yield %false, %true, %none : tile<i1>, tile<i1>, tile<4xi1>
    }
    %t = print_tko "%d %d %d", %a, %b, %d : tile<i1>, tile<i1>, tile<4xi1> -> token
    return
  }
}

// -----

// Neighbours on one condition, and on its inverse, become one, in order; the third does not follow at once.

// CHECK-LABEL: entry @combined
// CHECK-SAME: %[[C:.*]]: tile<i1>
// CHECK: if %[[C]] {
// CHECK-NEXT: print_tko "then 1"
// CHECK-NEXT: print_tko "then 2"
// CHECK-NEXT: } else {
// CHECK-NEXT: print_tko "else 1"
// CHECK-NEXT: print_tko "else 2"
// CHECK-NEXT: }
// CHECK-NEXT: print_tko "between"
// CHECK-NEXT: if %[[C]] {
// CHECK-NEXT: print_tko "then 3"
cuda_tile.module @m {
  entry @combined(%c: tile<i1>) {
    %true = constant <i1: true> : tile<i1>
    %not = xori %c, %true : tile<i1>
    if %c {
      %t = print_tko "then 1" -> token
    } else {
      %t = print_tko "else 1" -> token
    }
    if %not {
      %t = print_tko "else 2" -> token
    } else {
      %t = print_tko "then 2" -> token
    }
    %m = print_tko "between" -> token
    if %c {
      %t = print_tko "then 3" -> token
    }
    return
  }
}

// -----

// One inside the other with nothing beside it is one on both conditions; with something beside it they stay two.

// CHECK-LABEL: entry @nested
// CHECK-SAME: %[[C:.*]]: tile<i1>, %[[D:.*]]: tile<i1>
// CHECK: %[[CD:.*]] = andi %[[C]], %[[D]]
// CHECK-NEXT: if %[[CD]] {
// CHECK-NEXT: print_tko "both"
// CHECK: print_tko "between"
// CHECK: if %[[C]] {
// CHECK-NEXT: if %[[D]] {
// CHECK: print_tko "beside"
cuda_tile.module @m {
  entry @nested(%c: tile<i1>, %d: tile<i1>) {
    if %c {
      if %d {
        %t = print_tko "both" -> token
      }
    }
    %b = print_tko "between" -> token
    if %c {
      if %d {
        %t = print_tko "both" -> token
      }
      %t = print_tko "beside" -> token
    }
    return
  }
}

// -----

// A result of the nested one has to be what the outer one yields otherwise.

// CHECK-LABEL: entry @nested_results
// CHECK-SAME: %[[C:.*]]: tile<i1>, %[[D:.*]]: tile<i1>, %[[X:.*]]: tile<i32>, %[[Y:.*]]: tile<i32>
// CHECK: %[[CD:.*]] = andi %[[C]], %[[D]]
// CHECK: %[[V:.*]] = if %[[CD]] -> (tile<i32>)
// CHECK: print_tko "%d", %[[V]]
// CHECK: %{{.*}} = if %[[C]] -> (tile<i32>)
// CHECK-NEXT: %{{.*}} = if %[[D]] -> (tile<i32>)
cuda_tile.module @m {
  entry @nested_results(%c: tile<i1>, %d: tile<i1>, %x: tile<i32>, %y: tile<i32>) {
    %v = if %c -> (tile<i32>) {
      %w = if %d -> (tile<i32>) {
        %p = muli %x, %y : tile<i32>
        yield %p : tile<i32>
      } else {
        yield %x : tile<i32>
      }
      yield %w : tile<i32>
    } else {
      yield %x : tile<i32>
    }
    %t = print_tko "%d", %v : tile<i32> -> token
    %v2 = if %c -> (tile<i32>) {
      %w = if %d -> (tile<i32>) {
        %p = muli %x, %y : tile<i32>
        yield %p : tile<i32>
      } else {
        yield %x : tile<i32>
      }
      yield %w : tile<i32>
    } else {
      yield %y : tile<i32>
    }
    %u = print_tko "%d", %v2 : tile<i32> -> token
    return
  }
}

// -----

// When both branches leave, the else branch is the rest of the function.

// CHECK-LABEL: entry @both_leave
// CHECK: if %{{.*}} {
// CHECK-NEXT: print_tko "then"
// CHECK-NEXT: return
// CHECK-NEXT: }
// CHECK-NEXT: print_tko "else"
// CHECK-NEXT: return
// CHECK-NOT: print_tko
cuda_tile.module @m {
  entry @both_leave(%c: tile<i1>) {
    if %c {
      %t = print_tko "then" -> token
      return
    } else {
      %t = print_tko "else" -> token
      return
    }
    %t = print_tko "never" -> token
    return
  }
}

// -----

// There is no selection of 4-bit floats.

// CHECK-LABEL: entry @four_bits
// CHECK-NOT: select
// CHECK: if %{{.*}} -> (tile<2xf4E2M1FN>)
cuda_tile.module @m {
  entry @four_bits(%c: tile<i1>) {
    %a = constant <f4E2M1FN: [1.0, 2.0]> : tile<2xf4E2M1FN>
    %b = constant <f4E2M1FN: [3.0, 4.0]> : tile<2xf4E2M1FN>
    %v = if %c -> (tile<2xf4E2M1FN>) {
      yield %a : tile<2xf4E2M1FN>
    } else {
      yield %b : tile<2xf4E2M1FN>
    }
    %p = pack %v : tile<2xf4E2M1FN> -> tile<1xi8>
    %t = print_tko "%d", %p : tile<1xi8> -> token
    return
  }
}
