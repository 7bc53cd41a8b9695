// RUN: tileiras-opt %s --dce --split-input-file | FileCheck %s --check-prefixes=CHECK,DCE
// RUN: tileiras-opt %s --canonicalize --split-input-file | FileCheck %s --check-prefixes=CHECK,CANON
// RUN: tileiras-opt %s --cse --split-input-file | FileCheck %s --check-prefix=CSE

// What touches memory, orders it, prints or stops stays, twice if it is there twice, whether or not results are used.

// CHECK-LABEL: entry @stays
// CHECK-COUNT-2: load_ptr_tko
// CHECK-COUNT-2: atomic_rmw_tko
// CHECK-COUNT-2: print_tko
// CHECK-COUNT-2: assert
// CHECK: assume
// CHECK-COUNT-2: gdc_wait_tko
// CHECK-COUNT-2: gdc_launch_dependents_tko
// CHECK-COUNT-2: memory_fence_alias_tko
// CSE-LABEL: entry @stays
// CSE-COUNT-2: load_ptr_tko
// CSE-COUNT-2: atomic_rmw_tko
// CSE-COUNT-2: print_tko
// CSE-COUNT-2: assert
// CSE: assume
// CSE-COUNT-2: gdc_wait_tko
// CSE-COUNT-2: gdc_launch_dependents_tko
// CSE-COUNT-2: memory_fence_alias_tko
cuda_tile.module @m {
  entry @stays(%p: tile<ptr<i32>>, %x: tile<i32>, %c: tile<i1>) {
    %t = make_token : token
    %v0, %t0 = load_ptr_tko weak %p token=%t : tile<ptr<i32>> -> tile<i32>, token
    %v1, %t1 = load_ptr_tko weak %p token=%t : tile<ptr<i32>> -> tile<i32>, token
    %v2, %t2 = atomic_rmw_tko relaxed device %p, add, %x : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %v3, %t3 = atomic_rmw_tko relaxed device %p, add, %x : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
    %t4 = print_tko "x" -> token
    %t5 = print_tko "x" -> token
    assert %c, "holds" : tile<i1>
    assert %c, "holds" : tile<i1>
    %a = assume div_by<4>, %x : tile<i32>
    %g0 = gdc_wait_tko -> token
    %g1 = gdc_wait_tko -> token
    %g2 = gdc_launch_dependents_tko -> token
    %g3 = gdc_launch_dependents_tko -> token
    %g4 = memory_fence_alias_tko %t
    %g5 = memory_fence_alias_tko %t
    return
  }
}

// -----

// What only computes goes, loops and reductions with it; divisions too, although they cannot be moved.

// CHECK-LABEL: entry @goes
// CHECK-NOT: cuda_tile
// CHECK-NEXT: return
// CSE-LABEL: entry @goes
cuda_tile.module @m {
  entry @goes(%x: tile<i32>, %c: tile<i1>) {
    %one = constant <i32: 1> : tile<i32>
    %t0 = make_token : token
    %t1 = join_tokens %t0, %t0 : token
    %d = divi %x, %x signed : tile<i32>
    %f = for %i in (%one to %x, step %one) : tile<i32> iter_values(%n = %x) -> (tile<i32>) {
      %b = if %c -> (tile<i32>) {
        continue %x : tile<i32>
      } else {
        %m = muli %i, %n : tile<i32>
        yield %m : tile<i32>
      }
      continue %b : tile<i32>
    }
    %r = reshape %x : tile<i32> -> tile<1xi32>
    %w = broadcast %r : tile<1xi32> -> tile<8xi32>
    %s = reduce %w dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32>
      (%p: tile<i32>, %q: tile<i32>) {
        %o = addi %p, %q : tile<i32>
        yield %o : tile<i32>
      }
    return
  }
}

// -----

// A loop that may not end, and branches that leave, are effects; so is a print somewhere inside.

// DCE-LABEL: entry @control
// DCE: for
// DCE: print_tko
// DCE: loop
// DCE: if
// DCE-NEXT: break
// DCE: if %arg1
// DCE-NEXT: return
// CANON-LABEL: entry @control
// CANON: for
// CANON: print_tko
// CANON: loop
// CANON: if
// CANON-NEXT: break
// CANON: if %arg1
// CANON-NEXT: return
// CSE-LABEL: entry @control
cuda_tile.module @m {
  entry @control(%x: tile<i32>, %c: tile<i1>) {
    %one = constant <i32: 1> : tile<i32>
    for %i in (%one to %x, step %one) : tile<i32> {
      if %c {
        %t = print_tko "x" -> token
      }
      continue
    }
    loop iter_values(%n = %x) : tile<i32> {
      %d = cmpi equal %n, %one, signed : tile<i32> -> tile<i1>
      if %d {
        break
      }
      %m = addi %n, %n : tile<i32>
      continue %m : tile<i32>
    }
    if %c {
      return
    }
    %t = print_tko "after" -> token
    return
  }
}

// -----

// Equal computations are one, in inner regions as well; across branches and kernels they are not.

// CSE-LABEL: entry @merged
// CSE-SAME: %[[X:.*]]: tile<i32>, %[[C:.*]]: tile<i1>
// CSE: %[[D:.*]] = divi %[[X]], %[[X]] signed
// CSE-NEXT: %[[U:.*]] = divi %[[X]], %[[X]] unsigned
// CSE-NEXT: if %[[C]] {
// CSE-NEXT: muli %[[X]], %[[X]]
// CSE-NEXT: print_tko "%d %d", %[[D]], %{{.*}}
// CSE-NEXT: } else {
// CSE-NEXT: muli %[[X]], %[[X]]
// CSE: print_tko "%d", %[[U]]
// CSE-LABEL: entry @other
// CSE: divi
cuda_tile.module @m {
  entry @merged(%x: tile<i32>, %c: tile<i1>) {
    %d = divi %x, %x signed : tile<i32>
    %u = divi %x, %x unsigned : tile<i32>
    if %c {
      %e = divi %x, %x signed : tile<i32>
      %m = muli %x, %x : tile<i32>
      %t = print_tko "%d %d", %e, %m : tile<i32>, tile<i32> -> token
    } else {
      %m = muli %x, %x : tile<i32>
      %t = print_tko "%d", %m : tile<i32> -> token
    }
    %v = divi %x, %x unsigned : tile<i32>
    %t = print_tko "%d", %v : tile<i32> -> token
    return
  }
  entry @other(%x: tile<i32>) {
    %d = divi %x, %x signed : tile<i32>
    %t = print_tko "%d", %d : tile<i32> -> token
    return
  }
}
