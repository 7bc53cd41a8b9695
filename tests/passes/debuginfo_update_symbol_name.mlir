// RUN: tileiras-opt %s --debuginfo-update-symbol-name="symbol-to-rename=m::kernel new-name=mangled" --mlir-print-debuginfo | FileCheck %s
// RUN: tileiras-opt %s --debuginfo-update-symbol-name="symbol-to-rename=m::memory new-name=renamed update-uses=true" | FileCheck %s --check-prefix=USES
// RUN: not tileiras-opt %s --debuginfo-update-symbol-name="symbol-to-rename=m::kernel scope=m::other new-name=x" 2>&1 | FileCheck %s --check-prefix=SCOPE
// RUN: not tileiras-opt %s --debuginfo-update-symbol-name="symbol-to-rename=m::none new-name=x" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not tileiras-opt %s --debuginfo-update-symbol-name="symbol-to-rename=m::kernel" 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not tileiras-opt %s --debuginfo-update-symbol-name="symbol-to-rename=m::kernel new-name=" 2>&1 | FileCheck %s --check-prefix=EMPTY

// EMPTY: error: pass 'debuginfo-update-symbol-name' needs a value for option 'new-name'

// The function of the source keeps its name, its linkage name follows the kernel's wherever the scope is mentioned.

// CHECK-DAG: entry @mangled
// CHECK-DAG: #[[SUB:.*]] = #cuda_tile.di_subprogram<{{.*}} name = "kernel", linkageName = "mangled"
// CHECK-DAG: #cuda_tile.di_lexical_block<scope = #[[SUB]]
// CHECK-NOT: linkageName = "kernel"

// USES: global @renamed
// USES: entry @kernel
// USES: get_global @renamed

// SCOPE: a.py:1:{{.*}}: error: attempted to update symbol names in a scope that did not enclose the symbol itself
// SCOPE: note: scope defined here
// NONE: error: could not find symbol op with name '@m::@none'

#file = #cuda_tile.di_file<"a.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#kernel = #cuda_tile.di_subprogram<file = #file, line = 1, name = "kernel", linkageName = "kernel", compileUnit = #unit>
#block = #cuda_tile.di_lexical_block<scope = #kernel, file = #file, line = 2, column = 1>

cuda_tile.module @m {
  global @memory <i32: 0> : tile<1xi32>
  entry @kernel() {
    %p = get_global @memory : tile<ptr<i32>> loc(#cuda_tile.di_loc<loc("a.py":2:2) in #block>)
    return loc(#cuda_tile.di_loc<loc("a.py":3:1) in #kernel>)
  } loc(#cuda_tile.di_loc<loc("a.py":1:1) in #kernel>)
  entry @other() {
    return
  }
} loc(unknown)
