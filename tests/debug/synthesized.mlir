// Text without scopes gets them when somebody asks for lines: its own, or those that its locations name.

// RUN: tileiras %s --gpu-name sm_90 --lineinfo --emit llvm -o - | FileCheck %s
// RUN: tileiras %s --gpu-name sm_90 -O0 -g --emit llvm -o - | FileCheck %s
// RUN: tileiras %s --gpu-name sm_90 --emit llvm -o - | FileCheck %s --check-prefix=NEITHER

// NEITHER-NOT: !dbg

cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
    // CHECK: load i32, {{.*}}, !dbg ![[LOAD:[0-9]+]]
    %v, %t = load_ptr_tko weak %p : tile<ptr<i32>> -> tile<i32>, token
    %c = cmpi less_than %v, %n, signed : tile<i32> -> tile<i1>
    if %c {
      // CHECK: mul i32 {{.*}}, !dbg ![[SQUARE:[0-9]+]]
      %x = muli %v, %n : tile<i32>
      for %i in (%v to %n, step %v) : tile<i32> {
        %u = store_ptr_tko weak %p, %x token = %t : tile<ptr<i32>>, tile<i32> -> token loc("other.py":5:3)
        continue
      }
      yield
    }
    // CHECK: ret void, !dbg ![[RETURN:[0-9]+]]
    return loc(unknown)
  }
}

// CHECK-DAG: ![[FILE:[0-9]+]] = !DIFile(filename: "synthesized.mlir", directory: "{{.*}}debug")
// CHECK-DAG: ![[KERNEL:[0-9]+]] = distinct !DISubprogram(name: "k", linkageName: "k", scope: ![[FILE]], file: ![[FILE]], line: 10, {{.*}} scopeLine: 10,
// CHECK-DAG: ![[LOAD]] = !DILocation(line: 12, column: 14, scope: ![[KERNEL]])
// CHECK-DAG: ![[BRANCH:[0-9]+]] = distinct !DILexicalBlock(scope: ![[KERNEL]], file: ![[FILE]], line: 14, column: 5)
// CHECK-DAG: ![[SQUARE]] = !DILocation(line: 16, column: 12, scope: ![[BRANCH]])
// A region in a region is a block of the subprogram as well; a position in another file says so.
// CHECK-DAG: ![[LOOP:[0-9]+]] = distinct !DILexicalBlock(scope: ![[KERNEL]], file: ![[FILE]], line: 17, column: 7)
// CHECK-DAG: ![[OTHER:[0-9]+]] = !DIFile(filename: "other.py", directory: "")
// CHECK-DAG: ![[ELSEWHERE:[0-9]+]] = !DILexicalBlockFile(scope: ![[LOOP]], file: ![[OTHER]], discriminator: 0)
// CHECK-DAG: !DILocation(line: 5, column: 3, scope: ![[ELSEWHERE]])
// What has no position has the kernel's.
// CHECK-DAG: ![[RETURN]] = !DILocation(line: 10, column: 3, scope: ![[KERNEL]])
