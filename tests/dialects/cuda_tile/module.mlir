// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC

// LOC-DAG: #[[FILE:di_file[0-9]*]] = #cuda_tile.di_file<"k.py" in "src">
// LOC-DAG: #[[UNIT:di_compile_unit[0-9]*]] = #cuda_tile.di_compile_unit<file = #[[FILE]]>
// LOC-DAG: #cuda_tile.di_subprogram<file = #[[FILE]], line = 3, name = "k", linkageName = "kernel", compileUnit = #[[UNIT]]>
#file = #cuda_tile.di_file<"k.py" in "src">
#unit = #cuda_tile.di_compile_unit<file = #file>
#function = #cuda_tile.di_subprogram<file = #file, line = 3, name = "k", linkageName = "kernel", compileUnit = #unit>
#block = #cuda_tile.di_lexical_block<scope = #function, file = #file, line = 4, column = 5>

// CHECK: cuda_tile.module @kernels {
cuda_tile.module @kernels {
  // CHECK: global @table <i32: [1, 2, 3, 4]> : tile<4xi32>
  global @table <i32: [1, 2, 3, 4]> : tile<4xi32>
  // CHECK: global private constant @zeros alignment = 256 <f32: 0.000000e+00> : tile<8xf32>
  global private constant @zeros alignment = 256 <f32: 0.0> : tile<8xf32>
  // CHECK: entry @kernel(%arg0: tile<ptr<i32>>, %arg1: tile<i32>) optimization_hints=<default = {occupancy = 2}, sm_90 = {num_cta_in_cga = 2}> {
  entry @kernel(%p: tile<ptr<i32>>, %n: tile<i32>) optimization_hints=<default = {occupancy = 2}, sm_90 = {num_cta_in_cga = 2}> {
    // CHECK: get_global @table : tile<ptr<i32>>
    %0 = get_global @table : tile<ptr<i32>> loc(#cuda_tile.di_loc<loc("k.py":5:6) in #block>)
    // CHECK: %assume = assume div_by<16>, %arg0 : tile<ptr<i32>>
    %1 = assume div_by<16>, %p : tile<ptr<i32>>
    // CHECK: %assume_0 = assume bounded<0, ?>, %arg1 : tile<i32>
    %2 = assume bounded<0, ?>, %n : tile<i32>
    // CHECK: %assume_assume = assume bounded<?, 7>, %assume_0 : tile<i32>
    %3 = assume bounded<?, 7>, %2 : tile<i32>
    %4 = iota : tile<8xi32>
    // CHECK: assume same_elements<[4]>, %{{.*}} : tile<8xi32>
    %5 = assume same_elements<[4]>, %4 : tile<8xi32>
    // CHECK: assume div_by<4, every 4 along 0>, %{{.*}} : tile<8xi32>
    %6 = assume #cuda_tile.div_by<4, every 4 along 0>, %4 : tile<8xi32>
    // CHECK: print_tko "%d of 100%%\0A", %arg1 : tile<i32> -> token
    %7 = print_tko "%d of 100%%\0A", %n : tile<i32> -> token
    // CHECK: print_tko "done" token=%{{.*}} -> token
    %8 = print_tko "done" token=%7 -> token
    return
  } loc(#cuda_tile.di_loc<loc("k.py":3:1) in #function>)
}
