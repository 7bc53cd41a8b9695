// Variables reach LLVM's records and DWARF with full debug information, and nothing without.

// RUN: tileiras %s --gpu-name sm_90 -O0 -g --emit llvm -o - | FileCheck %s
// RUN: tileiras %s --gpu-name sm_90 -O0 -g --emit ptx -o - | FileCheck %s --check-prefix=PTX
// RUN: tileiras %s --gpu-name sm_90 -O0 --lineinfo --emit llvm -o - | FileCheck %s --check-prefix=LINES

// LINES-NOT: dbg_value
// LINES-NOT: nvvm.move
// LINES-NOT: DILocalVariable

// CHECK: define ptx_kernel void @k(ptr addrspace(1) %0, i32 %1, i1 %2, half %3)
// CHECK: %[[P:[0-9]+]] = call ptr addrspace(1) @llvm.nvvm.move.ptr.p1(ptr addrspace(1) %0), !dbg ![[AT:[0-9]+]]
// CHECK-NEXT: #dbg_value(ptr addrspace(1) %[[P]], ![[P_VARIABLE:[0-9]+]], !DIExpression(), ![[AT]])
// CHECK-NEXT: call void (...) @llvm.fake.use(ptr addrspace(1) %[[P]]), !dbg ![[AT]]
// CHECK: %[[N:[0-9]+]] = call i32 @llvm.nvvm.move.i32(i32 %1), !dbg ![[AT]]
// CHECK-NEXT: #dbg_value(i32 %[[N]], ![[N_VARIABLE:[0-9]+]], !DIExpression(), ![[AT]])
// CHECK: %[[WIDE:[0-9]+]] = zext i1 %2 to i16
// CHECK-NEXT: %[[B:[0-9]+]] = call i16 @llvm.nvvm.move.i16(i16 %[[WIDE]])
// CHECK-NEXT: #dbg_value(i16 %[[B]], ![[B_VARIABLE:[0-9]+]], !DIExpression(), ![[AT]])
// CHECK: %[[BITS:[0-9]+]] = bitcast half %3 to i16
// CHECK-NEXT: %[[H:[0-9]+]] = call i16 @llvm.nvvm.move.i16(i16 %[[BITS]])
// CHECK-NEXT: #dbg_value(i16 %[[H]], ![[H_VARIABLE:[0-9]+]], !DIExpression(), ![[AT]])

// CHECK-DAG: ![[P_VARIABLE]] = !DILocalVariable(name: "arg0", arg: 1, scope: ![[SCOPE:[0-9]+]], file: ![[FILE:[0-9]+]], line: {{[0-9]+}}, type: ![[POINTER:[0-9]+]])
// CHECK-DAG: ![[POINTER]] = !DIDerivedType(tag: DW_TAG_pointer_type, baseType: ![[INT:[0-9]+]], size: 64)
// CHECK-DAG: ![[INT]] = !DIBasicType(name: "i32", size: 32, encoding: DW_ATE_signed)
// CHECK-DAG: ![[N_VARIABLE]] = !DILocalVariable(name: "arg1", arg: 2, {{.*}} type: ![[INT]])
// CHECK-DAG: ![[B_VARIABLE]] = !DILocalVariable(name: "arg2", arg: 3, {{.*}} type: ![[BOOL:[0-9]+]])
// CHECK-DAG: ![[BOOL]] = !DIBasicType(name: "i1", size: 8, encoding: DW_ATE_boolean)
// CHECK-DAG: ![[H_VARIABLE]] = !DILocalVariable(name: "arg3", arg: 4, {{.*}} type: ![[HALF:[0-9]+]])
// CHECK-DAG: ![[HALF]] = !DIBasicType(name: "f16", size: 16, encoding: DW_ATE_float)

// PTX: .loc
// PTX: mov.u64
// PTX: mov.b32
// PTX: .section{{\s}}.debug_loc

cuda_tile.module @m {
  entry @k(%p: tile<ptr<i32>>, %n: tile<i32>, %b: tile<i1>, %h: tile<f16>) {
    %t = store_ptr_tko weak %p, %n : tile<ptr<i32>>, tile<i32> -> token
    return
  }
}
