// RUN: not tileiras-opt %s --convert-debuginfo-to-llvm 2>&1 | FileCheck %s

#file = #cuda_tile.di_file<"k.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#k = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#at = #cuda_tile.di_loc<loc("k.py":4:2) in #k>

// CHECK: k.py:4:3: error: unsupported debug type '!llvm.struct<(i32, i4)>'
// CHECK: k.py:4:3: note: of the variable 'n'
module {
  llvm.func @k(%n: !llvm.struct<(i32, i4)>) {
    debuginfo.value %n, #debuginfo.di_local_variable<"n" in #k, line = 4> : !llvm.struct<(i32, i4)> loc(#at)
    llvm.return loc(#at)
  } loc(#at)
}
