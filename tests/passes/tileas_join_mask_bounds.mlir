// A number that is compared with two bounds of fewer elements than the mask is compared with the nearer one.
// RUN: tileiras-opt %s --tileas-join-mask-bounds=compute-capability=sm_90 --verify-roundtrip | FileCheck %s

module {
  // The mask of causal attention: a bound for each row, found before the loop.
  // CHECK-LABEL: @causal
  // CHECK: %[[N:.*]] = nv_tileaa.splat %{{.*}} : i32 -> tensor<64x1xi32>
  // CHECK: %[[LAST:.*]] = arith.minsi %[[N]], %{{.*}} : tensor<64x1xi32>
  // CHECK: scf.for
  // CHECK: %[[C:.*]] = nv_tileaa.broadcast %{{.*}} : tensor<1x32xi32> -> tensor<64x32xi32>
  // CHECK: %[[B:.*]] = nv_tileaa.broadcast %[[LAST]] : tensor<64x1xi32> -> tensor<64x32xi32>
  // CHECK: arith.cmpi slt, %[[C]], %[[B]] : tensor<64x32xi32>
  // CHECK-NOT: arith.andi
  // CHECK: return
  nv_tileaa.func @causal(%n: i32, %to: !nv_tileaa.ptr<i8>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %thirty = arith.constant 32 : i32
    %rows = nv_tileaa.make_range : tensor<64xi32>
    %range = nv_tileaa.make_range : tensor<32xi32>
    %start = arith.constant dense<false> : tensor<64x32xi1>
    %bound = nv_tileaa.splat %n : i32 -> tensor<32xi32>
    %r1 = nv_tileaa.view %rows : tensor<64xi32> -> tensor<64x1xi32>
    %r2 = nv_tileaa.broadcast %r1 : tensor<64x1xi32> -> tensor<64x32xi32>
    %all = scf.for %i = %zero to %n step %one iter_args(%before = %start) -> (tensor<64x32xi1>) : i32 {
      %first = arith.muli %i, %thirty : i32
      %firsts = nv_tileaa.splat %first : i32 -> tensor<32xi32>
      %columns = arith.addi %firsts, %range : tensor<32xi32>
      %in = arith.cmpi slt, %columns, %bound : tensor<32xi32>
      %in1 = nv_tileaa.view %in : tensor<32xi1> -> tensor<1x32xi1>
      %in2 = nv_tileaa.broadcast %in1 : tensor<1x32xi1> -> tensor<64x32xi1>
      %c1 = nv_tileaa.view %columns : tensor<32xi32> -> tensor<1x32xi32>
      %c2 = nv_tileaa.broadcast %c1 : tensor<1x32xi32> -> tensor<64x32xi32>
      %past = arith.cmpi sge, %r2, %c2 : tensor<64x32xi32>
      %visible = arith.andi %in2, %past : tensor<64x32xi1>
      %next = arith.ori %before, %visible : tensor<64x32xi1>
      scf.yield %next : tensor<64x32xi1>
    }
    %wide = arith.extui %all : tensor<64x32xi1> to tensor<64x32xi8>
    %pointers = nv_tileaa.splat %to : !nv_tileaa.ptr<i8> -> tensor<64x32x!nv_tileaa.ptr<i8>>
    %done = nv_tileaa.store %pointers, %wide : tensor<64x32x!nv_tileaa.ptr<i8>>, tensor<64x32xi8> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Bounds of which nothing is known, one within and one beyond: neither can be said as the other is.  Two sides of a
  // window, and two numbers below one bound, stay as well.
  // CHECK-LABEL: @apart
  // CHECK-COUNT-3: arith.andi
  // CHECK: return
  nv_tileaa.func @apart(%m: i32, %n: i32, %to: !nv_tileaa.ptr<i8>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %range = nv_tileaa.make_range : tensor<64xi32>
    %most = nv_tileaa.splat %m : i32 -> tensor<64xi32>
    %least = nv_tileaa.splat %n : i32 -> tensor<64xi32>
    %moved = arith.addi %range, %least : tensor<64xi32>
    %below = arith.cmpi slt, %range, %most : tensor<64xi32>
    %within = arith.cmpi sle, %range, %least : tensor<64xi32>
    %above = arith.cmpi sge, %range, %least : tensor<64xi32>
    %too = arith.cmpi slt, %moved, %most : tensor<64xi32>
    %a = arith.andi %below, %within : tensor<64xi1>
    %b = arith.andi %below, %above : tensor<64xi1>
    %c = arith.andi %below, %too : tensor<64xi1>
    %ab = arith.xori %a, %b : tensor<64xi1>
    %abc = arith.xori %ab, %c : tensor<64xi1>
    %wide = arith.extui %abc : tensor<64xi1> to tensor<64xi8>
    %pointers = nv_tileaa.splat %to : !nv_tileaa.ptr<i8> -> tensor<64x!nv_tileaa.ptr<i8>>
    %done = nv_tileaa.store %pointers, %wide : tensor<64x!nv_tileaa.ptr<i8>>, tensor<64xi8> -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
