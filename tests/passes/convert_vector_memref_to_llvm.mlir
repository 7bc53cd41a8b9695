// RUN: tileiras-opt %s --convert-vector-to-llvm | FileCheck %s --check-prefixes=VECTOR
// RUN: tileiras-opt %s --tileir-gpu-module-prepare --convert-memref-to-llvm | FileCheck %s --check-prefixes=MEMREF

// VECTOR: memref.global
// VECTOR: llvm.insertelement %{{.*}}, %{{.*}}[%{{.*}} : i32] : vector<4xf32>
// VECTOR: llvm.shufflevector %{{.*}}, %{{.*}} [3, 0] : vector<4xf32>
// VECTOR: llvm.extractelement %{{.*}}[%{{.*}} : i32] : vector<2xf32>
// VECTOR-NOT: vector.

// Four bits share a byte with their neighbours; the host may write what it can see.
// MEMREF: gpu.module @kernels
// MEMREF: llvm.mlir.global external @shown(dense<[1, 2]> : tensor<2xi32>)
// MEMREF: llvm.mlir.global internal constant @hidden(dense<[33, 3]> : tensor<2xi8>)
// MEMREF: llvm.mlir.addressof @shown : !llvm.ptr<1>
// MEMREF-NOT: memref.
module {
  memref.global @shown {constant, value = dense<[1, 2]> : tensor<2xi32>}
  memref.global @hidden {constant, sym_visibility = "private", value = dense<[1, 2, 3]> : tensor<3xi4>}
  llvm.func @k(%v: vector<4xf32>, %x: f32, %i: i32) {
    %0 = vector.insert %x, %v[%i : i32] : vector<4xf32>
    %1 = vector.shuffle %0, %v [3, 0] : vector<4xf32>
    %2 = vector.extract %1[%i : i32] : vector<2xf32>
    %3 = memref.get_global @shown : !llvm.ptr<1>
    llvm.store %2, %3 : f32, !llvm.ptr<1>
    llvm.return
  }
}
