// RUN: tileiras-opt %s --tileir-insert-debug-scope --mlir-print-debuginfo | FileCheck %s
// RUN: tileiras-opt %s --tileir-insert-debug-scope --tileir-insert-debug-scope --mlir-print-debuginfo | FileCheck %s

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#helper = #cuda_tile.di_subprogram<file = #file, line = 90, name = "h", linkageName = "h", compileUnit = #unit>
#own = #cuda_tile.di_lexical_block<scope = #k, file = #file, line = 77, column = 7>
#in_own = #cuda_tile.di_loc<loc("k.py":78:3) in #own>
#callee = #cuda_tile.di_loc<loc("k.py":91:3) in #helper>

// Blocks of regions are the subprogram's, also those of regions in regions.
// CHECK-DAG: #[[K:.*]] = #cuda_tile.di_subprogram<{{.*}}name = "k"
// CHECK-DAG: #[[LOOP:.*]] = #cuda_tile.di_lexical_block<scope = #[[K]], file = #{{.*}}, line = 3, column = 5>
// CHECK-DAG: #[[BRANCH:.*]] = #cuda_tile.di_lexical_block<scope = #[[K]], file = #{{.*}}, line = 5, column = 7>
// CHECK-DAG: #[[OWN:.*]] = #cuda_tile.di_lexical_block<scope = #[[K]], file = #{{.*}}, line = 77, column = 7>

// CHECK-DAG: #[[AT_2:.*]] = loc("k.py":2:3)
// CHECK-DAG: #[[AT_4:.*]] = loc("k.py":4:7)
// CHECK-DAG: #[[AT_6:.*]] = loc("k.py":6:9)
// CHECK-DAG: #[[AT_8:.*]] = loc("k.py":8:9)
// CHECK-DAG: #[[AT_78:.*]] = loc("k.py":78:3)
// CHECK-DAG: #[[AT_91:.*]] = loc("k.py":91:3)

// CHECK-DAG: #cuda_tile.di_loc<#[[AT_2]] in #[[K]]>
// CHECK-DAG: #cuda_tile.di_loc<#[[AT_4]] in #[[LOOP]]>
// CHECK-DAG: #cuda_tile.di_loc<#[[AT_6]] in #[[BRANCH]]>
// What the input put into a block stays there; what was inlined stays in its function, called from the block.
// CHECK-DAG: #cuda_tile.di_loc<#[[AT_78]] in #[[OWN]]>
// CHECK-DAG: #[[CALLEE:.*]] = #cuda_tile.di_loc<#[[AT_91]] in #{{.*}}>
// CHECK-DAG: #[[CALLER:.*]] = #cuda_tile.di_loc<#[[AT_8]] in #[[BRANCH]]>
// CHECK-DAG: loc(callsite(#[[CALLEE]] at #[[CALLER]]))
module {
  nv_tileaa.func @k(%n: i32) attributes {
      kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %c = arith.constant 0 : i32 loc(#cuda_tile.di_loc<loc("k.py":2:3) in #k>)
    scf.for %i = %c to %n step %c : i32 {
      %b = arith.cmpi slt, %i, %n : i32 loc(#cuda_tile.di_loc<loc("k.py":4:7) in #k>)
      scf.if %b {
        %0 = arith.addi %i, %n : i32 loc(#cuda_tile.di_loc<loc("k.py":6:9) in #k>)
        %1 = arith.addi %i, %n : i32 loc(#in_own)
        %2 = arith.addi %i, %n : i32 loc(callsite(#callee at #cuda_tile.di_loc<loc("k.py":8:9) in #k>))
        %3 = arith.addi %i, %n : i32 loc(unknown)
        scf.yield loc(unknown)
      } loc(#cuda_tile.di_loc<loc("k.py":5:7) in #k>)
      scf.yield loc(unknown)
    } loc(#cuda_tile.di_loc<loc("k.py":3:5) in #k>)
    nv_tileaa.return loc(unknown)
  } loc(#cuda_tile.di_loc<loc("k.py":1:1) in #k>)
}
