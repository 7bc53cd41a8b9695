// RUN: tileiras-opt %s --tileas-optimize-alloc-tensor --tileas-split-addresses --verify-roundtrip | FileCheck %s

// Addresses and conditions of a thread's elements are computed for as many at a time as take 64 registers.

#many = #nv_tileas.linear<register = [[1], [2], [4], [8], [16]], lane = [[32], [64], [128], [256], [512]], warp = []>
#few = #nv_tileas.linear<register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = []>
#twice = #nv_tileas.linear<register = [[1], [2], [4], [8], [0]], lane = [[16], [32], [64], [128], [256]], warp = []>
!many = tensor<1024xi32, #many>
!twice = tensor<512xi32, #twice>
!few = tensor<128xi32, #few>

module {
  nv_tileaa.func @k(%p: !nv_tileaa.ptr<i32>, %m: !many, %f: !few, %w: !twice) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %pm = nv_tileas.splat %p : !nv_tileaa.ptr<i32> -> tensor<1024x!nv_tileaa.ptr<i32>, #many>
    %pf = nv_tileas.splat %p : !nv_tileaa.ptr<i32> -> tensor<128x!nv_tileaa.ptr<i32>, #few>
    %pw = nv_tileas.splat %p : !nv_tileaa.ptr<i32> -> tensor<512x!nv_tileaa.ptr<i32>, #twice>
    %om = arith.muli %m, %m : !many
    %cm = arith.cmpi slt, %om, %m : !many
    %am = nv_tileas.addptr %pm, %om : tensor<1024x!nv_tileaa.ptr<i32>, #many>, !many
    // CHECK: nv_tileas.store {{.*}}nv_tileas.parts = 2 : i32
    %s = nv_tileas.store %am, %m mask = %cm : tensor<1024xi1, #many> {atom = #nv_tileas.copy_atom<st_global, 1>} : tensor<1024x!nv_tileaa.ptr<i32>, #many>, !many -> !nv_tileaa.mem_token
    %af = nv_tileas.addptr %pf, %f : tensor<128x!nv_tileaa.ptr<i32>, #few>, !few
    // Few elements, and elements that a thread has twice, are moved as they are.
    // CHECK-NOT: nv_tileas.parts
    %t = nv_tileas.store %af, %f {atom = #nv_tileas.copy_atom<st_global, 1>} : tensor<128x!nv_tileaa.ptr<i32>, #few>, !few -> !nv_tileaa.mem_token
    %ow = arith.muli %w, %w : !twice
    %aw = nv_tileas.addptr %pw, %ow : tensor<512x!nv_tileaa.ptr<i32>, #twice>, !twice
    %u = nv_tileas.store %aw, %w {atom = #nv_tileas.copy_atom<st_global, 1>} : tensor<512x!nv_tileaa.ptr<i32>, #twice>, !twice -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
