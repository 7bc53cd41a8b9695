// What each level of debug information puts into the PTX of an input with scopes: nothing, positions, everything.

// RUN: tileiras %s --gpu-name sm_90 --emit ptx -o - | FileCheck %s --check-prefix=NONE
// RUN: tileiras %s --gpu-name sm_90 -O0 --emit ptx -o - | FileCheck %s --check-prefix=NONE
// RUN: tileiras %s --gpu-name sm_90 --lineinfo --emit ptx -o - | FileCheck %s --check-prefix=LINES
// RUN: tileiras %s --gpu-name sm_90 -O0 --lineinfo --emit ptx -o - | FileCheck %s --check-prefix=LINES
// RUN: tileiras %s --gpu-name sm_90 -O0 -g --emit ptx -o - | FileCheck %s --check-prefix=DEBUG
// RUN: tileiras %s --gpu-name sm_90 -O0 -g --lineinfo --emit ptx -o - | FileCheck %s --check-prefix=DEBUG
// RUN: not tileiras %s --gpu-name sm_90 -g --emit ptx -o - 2>&1 | FileCheck %s --check-prefix=OPTIMIZED

// RUN: tileiras %s --gpu-name sm_90 --emit llvm -o - | FileCheck %s --check-prefix=NO-METADATA
// RUN: tileiras %s --gpu-name sm_90 --lineinfo --emit llvm -o - | FileCheck %s --check-prefix=DIRECTIVES
// RUN: tileiras %s --gpu-name sm_90 -O0 --lineinfo --emit llvm -o - | FileCheck %s --check-prefix=UNOPTIMIZED
// RUN: tileiras %s --gpu-name sm_90 -O0 -g --emit llvm -o - | FileCheck %s --check-prefix=FULL

#file = #cuda_tile.di_file<"kernel.py" in "src">
#unit = #cuda_tile.di_compile_unit<file = #file>
#kernel = #cuda_tile.di_subprogram<file = #file, line = 3, name = "scale", linkageName = "kernel", compileUnit = #unit, scopeLine = 4>

// NONE: .target sm_90{{$}}
// NONE-NOT: .loc
// NONE-NOT: .file
// NONE-NOT: .section

// LINES: .target sm_90{{$}}
// LINES: .loc{{\s}}1 4 0
// LINES: .loc{{\s}}1 10 5
// LINES-NEXT: ld.global
// LINES: .loc{{\s}}1 12 7
// LINES: st.global
// LINES: .file{{\s}}1 "src/kernel.py"
// LINES-NOT: .debug_info

// DEBUG: .target sm_90, debug
// DEBUG: .loc{{\s}}1 10 5
// DEBUG-NEXT: ld.global
// DEBUG: .loc{{\s}}1 12 7
// DEBUG: .file{{\s}}1 "src/kernel.py"
// DEBUG: .section{{\s}}.debug_info

// OPTIMIZED: optimized debugging is currently not supported

// NO-METADATA-NOT: !dbg
// NO-METADATA-NOT: dbg_value
// NO-METADATA-NOT: !llvm.dbg.cu
// NO-METADATA-NOT: !DISubprogram
// NO-METADATA-NOT: !DILocalVariable

// DIRECTIVES: define ptx_kernel void @kernel({{.*}}) "nvvm.reqntid"="{{.*}}" !dbg ![[KERNEL:[0-9]+]] {
// DIRECTIVES: load {{.*}}, !dbg ![[LOAD:[0-9]+]]
// DIRECTIVES: !llvm.dbg.cu = !{![[UNIT:[0-9]+]]}
// DIRECTIVES-DAG: ![[FILE:[0-9]+]] = !DIFile(filename: "kernel.py", directory: "src")
// DIRECTIVES-DAG: ![[SOURCE:[0-9]+]] = !DIFile(filename: "src/kernel.py", directory: "")
// DIRECTIVES-DAG: ![[UNIT]] = distinct !DICompileUnit(language: DW_LANG_C, file: ![[SOURCE]], producer: "tileiras", isOptimized: true, runtimeVersion: 0, emissionKind: DebugDirectivesOnly)
// DIRECTIVES-DAG: ![[EMPTY:[0-9]+]] = !{}
// DIRECTIVES-DAG: ![[TYPE:[0-9]+]] = !DISubroutineType(types: ![[EMPTY]])
// DIRECTIVES-DAG: ![[KERNEL]] = distinct !DISubprogram(name: "scale", linkageName: "kernel", scope: ![[FILE]], file: ![[FILE]], line: 3, type: ![[TYPE]], scopeLine: 4, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: ![[UNIT]])
// DIRECTIVES-DAG: ![[LOAD]] = !DILocation(line: 10, column: 5, scope: ![[KERNEL]])

// UNOPTIMIZED-NOT: dbg_value
// UNOPTIMIZED: isOptimized: false, runtimeVersion: 0, emissionKind: DebugDirectivesOnly
// UNOPTIMIZED: spFlags: DISPFlagDefinition, unit

// FULL: #dbg_value(ptr addrspace(1)
// FULL: isOptimized: false, runtimeVersion: 0, emissionKind: FullDebug
// FULL: spFlags: DISPFlagDefinition, unit
// FULL: !DILocalVariable(name: "arg0", arg: 1

cuda_tile.module @m {
  entry @kernel(%p: tile<ptr<i32>>) {
    %v, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token loc(#cuda_tile.di_loc<loc("src/kernel.py":10:5) in #kernel>)
    %x = addi %v, %v : tile<i32> loc(#cuda_tile.di_loc<loc("src/kernel.py":11:5) in #kernel>)
    %u = store_ptr_tko weak %p, %x token = %t : tile<ptr<i32>>, tile<i32> -> token loc(#cuda_tile.di_loc<loc("src/kernel.py":12:7) in #kernel>)
    return loc(#cuda_tile.di_loc<loc("src/kernel.py":13:5) in #kernel>)
  } loc(#cuda_tile.di_loc<loc("src/kernel.py":3:1) in #kernel>)
} loc(unknown)
