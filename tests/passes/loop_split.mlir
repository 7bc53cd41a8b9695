// RUN: tileiras-opt %s --loop-split --split-input-file | FileCheck %s
// RUN: tileiras-opt %s --loop-split=split-threshold=4 --split-input-file | FileCheck %s --check-prefix=FOUR

// Counters below the bound take one branch, the others the other one.

// CHECK-LABEL: entry @split
// CHECK-SAME: %[[N:.*]]: tile<i32>
// CHECK: %[[ZERO:.*]] = constant <i32: 0>
// CHECK: %[[ONE:.*]] = constant <i32: 1>
// CHECK: %[[BOUND:.*]] = constant <i32: 32>
// CHECK-NEXT: %[[END:.*]] = mini %[[BOUND]], %[[N]] signed
// CHECK-NEXT: %[[START:.*]] = maxi %[[BOUND]], %[[ZERO]] signed
// CHECK-NEXT: %[[FIRST:.*]] = for %[[I:.*]] in (%[[ZERO]] to %[[END]], step %[[ONE]]) : tile<i32> iter_values(%[[A:.*]] = %[[ZERO]])
// CHECK-NEXT: addi %[[A]], %[[I]]
// CHECK-NEXT: continue
// CHECK-NEXT: }
// CHECK-NEXT: %[[SECOND:.*]] = for %[[J:.*]] in (%[[START]] to %[[N]], step %[[ONE]]) : tile<i32> iter_values(%[[B:.*]] = %[[FIRST]])
// CHECK-NEXT: %[[M:.*]] = muli %[[J]], %[[N]]
// CHECK-NEXT: addi %[[B]], %[[M]]
// CHECK-NEXT: continue
// CHECK-NEXT: }
// CHECK-NEXT: print_tko "%d", %[[SECOND]]
// FOUR-LABEL: entry @split
// FOUR: if
cuda_tile.module @m {
  entry @split(%n: tile<i32>) {
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %bound = constant <i32: 32> : tile<i32>
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%a = %zero) -> (tile<i32>) {
      %c = cmpi less_than_or_equal %bound, %i, signed : tile<i32> -> tile<i1>
      %v = if %c -> (tile<i32>) {
        %m = muli %i, %n : tile<i32>
        yield %m : tile<i32>
      } else {
        yield %i : tile<i32>
      }
      %b = addi %a, %v : tile<i32>
      continue %b : tile<i32>
    }
    %t = print_tko "%d", %sum : tile<i32> -> token
    return
  }
}

// -----

// Where the bound is part of the first loop, one is added; a bound that may be the largest number is kept in the
// range first.  Steps other than one move the start to a counter that the loop has.  Memory accesses are always worth it.

// CHECK-LABEL: entry @included
// CHECK-SAME: %[[P:.*]]: tile<ptr<i32>>, %[[L:.*]]: tile<i32>, %[[N:.*]]: tile<i32>, %[[B:.*]]: tile<i32>, %[[S:.*]]: tile<i32>
// CHECK: %[[ONE:.*]] = constant <i32: 1>
// CHECK-NEXT: %[[LAST:.*]] = subi %[[N]], %[[ONE]]
// CHECK-NEXT: %[[IN:.*]] = mini %[[B]], %[[LAST]] unsigned
// CHECK-NEXT: %[[NEXT:.*]] = addi %[[IN]], %[[ONE]]
// CHECK-NEXT: %[[FROM:.*]] = maxi %[[NEXT]], %[[L]] unsigned
// CHECK-NEXT: %[[FAR:.*]] = subi %[[FROM]], %[[L]]
// CHECK-NEXT: %[[STEPS:.*]] = divi %[[FAR]], %[[S]] unsigned rounding<positive_inf>
// CHECK-NEXT: %[[WAY:.*]] = muli %[[STEPS]], %[[S]]
// CHECK-NEXT: %[[NEAR:.*]] = addi %[[L]], %[[WAY]]
// CHECK-NEXT: %[[WRAPPED:.*]] = cmpi less_than %[[NEAR]], %[[FROM]], unsigned
// CHECK-NEXT: %[[AT:.*]] = select %[[WRAPPED]], %[[N]], %[[NEAR]]
// CHECK-NEXT: %[[END:.*]] = mini %[[AT]], %[[N]] unsigned
// CHECK-NEXT: %[[START:.*]] = maxi %[[AT]], %[[L]] unsigned
// CHECK-NEXT: for unsigned %{{.*}} in (%[[L]] to %[[END]], step %[[S]])
// CHECK-NOT: if
// CHECK: store_ptr_tko
// CHECK: for unsigned %{{.*}} in (%[[START]] to %[[N]], step %[[S]])
// CHECK-NOT: store_ptr_tko
// CHECK: return
// FOUR-LABEL: entry @included
// FOUR-NOT: if
// FOUR: return
cuda_tile.module @m {
  entry @included(%p: tile<ptr<i32>>, %l: tile<i32>, %n: tile<i32>, %b: tile<i32>, %s: tile<i32>) {
    for unsigned %i in (%l to %n, step %s) : tile<i32> {
      %c = cmpi less_than_or_equal %i, %b, unsigned : tile<i32> -> tile<i1>
      if %c {
        %t = store_ptr_tko weak %p, %i : tile<ptr<i32>>, tile<i32> -> token
      }
      continue
    }
    return
  }
}

// -----

// Other users of the comparison see a constant.  Signs that differ, a bound that the loop changes, and hints on the
// branch, the loop and the kernel keep a loop whole.

// CHECK-LABEL: entry @other_users
// CHECK: for
// CHECK-NEXT: %[[F:.*]] = constant <i1: false>
// CHECK-NEXT: print_tko "%d", %[[F]]
// CHECK: for
// CHECK-NEXT: %[[T:.*]] = constant <i1: true>
// CHECK-NEXT: print_tko "%d", %[[T]]
// CHECK-NEXT: print_tko "in"
// CHECK-LABEL: entry @whole
// CHECK-COUNT-5: for %
// CHECK-NOT: for %
// CHECK-LABEL: entry @kernel_hint
// CHECK-COUNT-1: for %
// CHECK-NOT: for %
// FOUR-LABEL: entry @other_users
cuda_tile.module @m {
  entry @other_users(%n: tile<i32>, %b: tile<i32>) {
    %one = constant <i32: 1> : tile<i32>
    for %i in (%one to %n, step %one) : tile<i32> {
      %c = cmpi greater_than_or_equal %i, %b, signed : tile<i32> -> tile<i1>
      %t = print_tko "%d", %c : tile<i1> -> token
      if %c {
        %u = print_tko "in" -> token
      }
      continue
    }
    return
  }
  entry @whole(%n: tile<i32>, %b: tile<i32>) {
    %one = constant <i32: 1> : tile<i32>
    for %i in (%one to %n, step %one) : tile<i32> {
      %c = cmpi greater_than %i, %b, unsigned : tile<i32> -> tile<i1>
      if %c {
        %u = print_tko "signs" -> token
      }
      continue
    }
    %s = for %i in (%one to %n, step %one) : tile<i32> iter_values(%a = %b) -> (tile<i32>) {
      %c = cmpi greater_than %i, %a, signed : tile<i32> -> tile<i1>
      if %c {
        %u = print_tko "carried" -> token
      }
      continue %i : tile<i32>
    }
    for %i in (%one to %n, step %one) : tile<i32> {
      %c = cmpi equal %i, %b, signed : tile<i32> -> tile<i1>
      if %c {
        %u = print_tko "relation" -> token
      }
      continue
    }
    for %i in (%one to %n, step %one) : tile<i32> {
      %c = cmpi less_than %i, %b, signed : tile<i32> -> tile<i1>
      if %c {
        %u = print_tko "hint of the branch" -> token
      } {cuda_tile.loop_split = 0}
      continue
    }
    for %i in (%one to %n, step %one) : tile<i32> {
      %c = cmpi less_than %i, %b, signed : tile<i32> -> tile<i1>
      if %c {
        %u = print_tko "hint of the loop" -> token
      }
      continue
    } {cuda_tile.loop_split = 0}
    return
  }
  entry @kernel_hint(%n: tile<i32>, %b: tile<i32>) {
    %one = constant <i32: 1> : tile<i32>
    for %i in (%one to %n, step %one) : tile<i32> {
      %c = cmpi less_than %i, %b, signed : tile<i32> -> tile<i1>
      if %c {
        %u = print_tko "hint of the kernel" -> token
      }
      continue
    }
    return
  } {cuda_tile.loop_split = 0}
}
