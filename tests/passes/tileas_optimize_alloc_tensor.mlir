// RUN: tileiras-opt %s --tileas-optimize-alloc-tensor --verify-roundtrip | FileCheck %s

// A buffer begins behind all that live with it, at a multiple of 128 bytes, and its place is free when it ends.

#own = #nv_tileas.linear<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>
#small = #nv_tileas.linear<register = [], lane = [[1], [2], [4], [8], [16]], warp = []>
module {
  // CHECK-LABEL: @lifetimes
  nv_tileaa.func @lifetimes(%n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    // CHECK: alloc_tensor {offset = 0 : i32} : !nv_tileas.buffer<2, tensor<64xf32
    %a = nv_tileas.alloc_tensor : !nv_tileas.buffer<2, tensor<64xf32, #own>>
    scf.for %i = %zero to %n step %one : i32 {
      // CHECK: alloc_tensor {offset = 512 : i32} : !nv_tileas.buffer<1, tensor<32xi8
      %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<32xi8, #small>>
      // CHECK: alloc_tensor {offset = 640 : i32}
      %c = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64xf32, #own>>
      // They may end in any order: what begins next lies behind the one that still lives.
      nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<1, tensor<32xi8, #small>>
      // CHECK: alloc_tensor {offset = 896 : i32}
      %d = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<32xi8, #small>>
      nv_tileas.dealloc_tensor %c : !nv_tileas.buffer<1, tensor<64xf32, #own>>
      nv_tileas.dealloc_tensor %d : !nv_tileas.buffer<1, tensor<32xi8, #small>>
    }
    nv_tileas.dealloc_tensor %a : !nv_tileas.buffer<2, tensor<64xf32, #own>>
    // CHECK: alloc_tensor {offset = 0 : i32}
    %e = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64xf32, #own>>
    nv_tileas.dealloc_tensor %e : !nv_tileas.buffer<1, tensor<64xf32, #own>>
    nv_tileaa.return
  }

  // What only this block sees is in shared memory; what is stored somewhere is on the heap.
  // CHECK-LABEL: @allocations
  nv_tileaa.func @allocations(%p: !nv_tileaa.ptr<!nv_tileaa.ptr<i32>>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    // CHECK: nv_tileas.alloca 16 : i64, 4 : i64 {offset = 0 : i32}
    %own = nv_tileas.alloca 16 : i64, 4 : i64 : !nv_tileaa.ptr<i32>
    %x, %u = nv_tileas.load %own token = %t {atom = #nv_tileas.copy_atom<ld_global, 1>} : !nv_tileaa.ptr<i32> -> i32, !nv_tileaa.mem_token
    // CHECK: nv_tileas.alloca 16 : i64, 4 : i64 :
    %known = nv_tileas.alloca 16 : i64, 4 : i64 : !nv_tileaa.ptr<i32>
    %v = nv_tileas.store %p, %known token = %t {atom = #nv_tileas.copy_atom<st_global, 1>} : !nv_tileaa.ptr<!nv_tileaa.ptr<i32>>, !nv_tileaa.ptr<i32> -> !nv_tileaa.mem_token
    nv_tileas.dealloc %known : !nv_tileaa.ptr<i32>
    nv_tileas.dealloc %own : !nv_tileaa.ptr<i32>
    nv_tileaa.return
  }
}
