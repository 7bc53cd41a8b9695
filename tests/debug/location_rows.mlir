// What every kind of location becomes in LLVM IR and in PTX.

// RUN: tileiras %s --gpu-name sm_90 --lineinfo --emit llvm -o - | FileCheck %s
// RUN: tileiras %s --gpu-name sm_90 -O0 -g --emit ptx -o - | FileCheck %s --check-prefix=PTX

#file = #cuda_tile.di_file<"k.py" in "">
#lib = #cuda_tile.di_file<"lib.py" in "">
#unit = #cuda_tile.di_compile_unit<file = #file>
#kernel = #cuda_tile.di_subprogram<file = #file, line = 1, name = "k", linkageName = "k", compileUnit = #unit>
#block = #cuda_tile.di_lexical_block<scope = #kernel, file = #file, line = 2, column = 3>
#inner = #cuda_tile.di_lexical_block<scope = #block, file = #file, line = 5>
#helper = #cuda_tile.di_subprogram<file = #lib, line = 70, name = "helper", linkageName = "helper", compileUnit = #unit>
#deeper = #cuda_tile.di_subprogram<file = #lib, line = 80, name = "deeper", linkageName = "deeper", compileUnit = #unit>
#in_kernel = #cuda_tile.di_loc<loc("k.py":30:3) in #kernel>
#in_block = #cuda_tile.di_loc<loc("k.py":31:3) in #block>
#in_inner = #cuda_tile.di_loc<loc("k.py":32:3) in #inner>
#in_helper = #cuda_tile.di_loc<loc("lib.py":71:3) in #helper>
#in_deeper = #cuda_tile.di_loc<loc("lib.py":81:3) in #deeper>
#elsewhere = #cuda_tile.di_loc<loc("generated.py":9:3) in #kernel>

cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>) {
    %v, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token loc(#in_kernel)
    // CHECK: %[[V:[0-9]+]] = load i32, {{.*}}, !dbg ![[IN_KERNEL:[0-9]+]]
    // PTX: .loc{{\s}}1 30 3
    %0 = addi %v, %v : tile<i32> loc(#in_block)
    // CHECK: add i32 {{.*}}, !dbg ![[IN_BLOCK:[0-9]+]]
    // PTX: .loc{{\s}}1 31 3
    %1 = muli %0, %v : tile<i32> loc(#in_inner)
    // CHECK: mul i32 {{.*}}, !dbg ![[IN_INNER:[0-9]+]]
    // PTX: .loc{{\s}}1 32 3

    // A call site is the callee's position, inlined at the caller's.
    %2 = addi %1, %v : tile<i32> loc(callsite(#in_helper at #in_kernel))
    // CHECK: add i32 {{.*}}, !dbg ![[CALLED:[0-9]+]]
    // PTX: .loc{{\s}}2 71 3, function_name $L__info_string0, inlined_at 1 30 3
    %3 = muli %2, %v : tile<i32> loc(callsite(#in_deeper at callsite(#in_helper at #in_block)))
    // CHECK: mul i32 {{.*}}, !dbg ![[TWICE:[0-9]+]]
    // PTX: .loc{{\s}}2 71 3, function_name $L__info_string0, inlined_at 1 31 3
    // PTX-NEXT: .loc{{\s}}2 81 3, function_name $L__info_string1, inlined_at 2 71 3
    %4 = addi %3, %v : tile<i32> loc(callsite(#in_helper at unknown))
    // CHECK: add i32 {{[^!\n]*$}}
    %5 = muli %4, %v : tile<i32> loc(callsite(unknown at #in_kernel))
    // CHECK: mul i32 {{[^!\n]*$}}

    // Of a fusion the first that has a scope; its metadata's scope or position goes first.
    %6 = addi %5, %v : tile<i32> loc(fused[unknown, "k.py":1:1, #in_block, #in_kernel])
    // CHECK: add i32 {{.*}}, !dbg ![[IN_BLOCK]]
    // PTX: .loc{{\s}}1 31 3
    %7 = muli %6, %v : tile<i32> loc(fused<#kernel>["k.py":33:3, "k.py":34:3])
    // CHECK: mul i32 {{.*}}, !dbg ![[FUSED_SCOPE:[0-9]+]]
    // PTX: .loc{{\s}}1 33 3
    %8 = addi %7, %v : tile<i32> loc(fused<#in_helper>[#in_kernel])
    // CHECK: add i32 {{.*}}, !dbg ![[CALLED]]
    // PTX: .loc{{\s}}2 71 3

    // A name is what it names; positions without a scope, and none, are no debug information.
    %9 = muli %8, %v : tile<i32> loc("name"(#in_block))
    // CHECK: mul i32 {{.*}}, !dbg ![[IN_BLOCK]]
    // PTX: .loc{{\s}}1 31 3
    %10 = addi %9, %v : tile<i32> loc("k.py":7:7)
    // CHECK: add i32 {{[^!\n]*$}}
    // PTX-NOT: .loc{{\s}}1 7 7
    %11 = muli %10, %v : tile<i32> loc(unknown)
    // CHECK: mul i32 {{[^!\n]*$}}

    // A position in another file than its scope's.
    %12 = addi %11, %v : tile<i32> loc(#elsewhere)
    // CHECK: add i32 {{.*}}, !dbg ![[ELSEWHERE:[0-9]+]]
    // PTX: .loc{{\s}}3 9 3
    %u = store_ptr_tko weak %p, %12 token = %t : tile<ptr<i32>>, tile<i32> -> token loc(#in_kernel)
    return loc(#in_kernel)
  } loc(#cuda_tile.di_loc<loc("k.py":1:1) in #kernel>)
} loc(unknown)

// The names of inlined functions, zero-terminated.
// PTX: .section{{\s}}.debug_str
// PTX: $L__info_string0:
// PTX-NEXT: .b8 104
// PTX-NEXT: .b8 101
// PTX-NEXT: .b8 108
// PTX-NEXT: .b8 112
// PTX-NEXT: .b8 101
// PTX-NEXT: .b8 114
// PTX-NEXT: .b8 0
// PTX-NEXT: $L__info_string1:

// CHECK-DAG: ![[FILE:[0-9]+]] = !DIFile(filename: "k.py", directory: "")
// CHECK-DAG: ![[LIB:[0-9]+]] = !DIFile(filename: "lib.py", directory: "")
// CHECK-DAG: ![[OTHER:[0-9]+]] = !DIFile(filename: "generated.py", directory: "")
// CHECK-DAG: ![[KERNEL:[0-9]+]] = distinct !DISubprogram(name: "k", {{.*}} line: 1, {{.*}} scopeLine: 1,
// CHECK-DAG: ![[HELPER:[0-9]+]] = distinct !DISubprogram(name: "helper", linkageName: "helper", scope: ![[LIB]], file: ![[LIB]], line: 70,
// CHECK-DAG: ![[DEEPER:[0-9]+]] = distinct !DISubprogram(name: "deeper",
// CHECK-DAG: ![[BLOCK:[0-9]+]] = distinct !DILexicalBlock(scope: ![[KERNEL]], file: ![[FILE]], line: 2, column: 3)
// CHECK-DAG: ![[INNER:[0-9]+]] = distinct !DILexicalBlock(scope: ![[BLOCK]], file: ![[FILE]], line: 5, column: 0)
// CHECK-DAG: ![[IN_KERNEL]] = !DILocation(line: 30, column: 3, scope: ![[KERNEL]])
// CHECK-DAG: ![[IN_BLOCK]] = !DILocation(line: 31, column: 3, scope: ![[BLOCK]])
// CHECK-DAG: ![[IN_INNER]] = !DILocation(line: 32, column: 3, scope: ![[INNER]])
// CHECK-DAG: ![[CALLED]] = !DILocation(line: 71, column: 3, scope: ![[HELPER]], inlinedAt: ![[IN_KERNEL]])
// CHECK-DAG: ![[TWICE]] = !DILocation(line: 81, column: 3, scope: ![[DEEPER]], inlinedAt: ![[ONCE:[0-9]+]])
// CHECK-DAG: ![[ONCE]] = !DILocation(line: 71, column: 65535, scope: ![[HELPER]], inlinedAt: ![[IN_BLOCK]])
// CHECK-DAG: ![[FUSED_SCOPE]] = !DILocation(line: 33, column: 3, scope: ![[KERNEL]])
// CHECK-DAG: ![[ELSEWHERE]] = !DILocation(line: 9, column: 3, scope: ![[IN_OTHER:[0-9]+]])
// CHECK-DAG: ![[IN_OTHER]] = !DILexicalBlockFile(scope: ![[KERNEL]], file: ![[OTHER]], discriminator: 0)
