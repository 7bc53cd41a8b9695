// RUN: tileiras-opt %s --tileas-split-loop-steps=compute-capability=sm_120 --verify-roundtrip | FileCheck %s
// RUN: tileiras-opt %s --tileas-split-loop-steps="compute-capability=sm_120 strategy={stages=2}" | FileCheck %s --check-prefix=TWO

// Loops of products take smaller steps along K until shared memory holds three of them.

!a = !nv_tileaa.tiled_view<[128, 64], !nv_tileaa.memref<999x999xf16, strides = [1000, 1]>>
!b = !nv_tileaa.tiled_view<[64, 256], !nv_tileaa.memref<999x999xf16, strides = [1000, 1]>>
!p = !nv_tileaa.ptr<f16>
!ma = !nv_tileaa.memref<999x999xf16, strides = [1000, 1]>
!c = !nv_tileaa.tiled_view<[128, 256], !nv_tileaa.memref<?x?xf32, strides = [?, 1]>>

module {
  // The coordinate along K is the new counter, in 64 bits where twice the bound may not fit into 32.
  // CHECK-LABEL: @splits
  // CHECK: arith.muli
  // CHECK: scf.for %[[STEP:[a-z0-9]+]] = {{.*}} : i64 {
  // CHECK: tiled_load {{.*}}, %[[STEP]]] {{.*}} -> tensor<128x32xf16>
  // CHECK: tiled_load {{.*}}[%[[STEP]], {{.*}} -> tensor<32x256xf16>
  // CHECK: nv_tileaa.dot {{.*}} : tensor<128x32xf16>, tensor<32x256xf16> -> tensor<128x256xf32>
  // TWO-LABEL: @splits
  // TWO: tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
  nv_tileaa.func @splits(%pa: !p, %pb: !p, %n: i32, %out: !c) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_120"} {
    %ma = nv_tileaa.make_memref %pa, sizes = [], strides = [] : !p, (), () -> !ma
    %a = nv_tileaa.block_tile %ma : !a
    %mb = nv_tileaa.make_memref %pb, sizes = [], strides = [] : !p, (), () -> !ma
    %b = nv_tileaa.block_tile %mb : !b
    %t = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %sums = arith.constant dense<0.0> : tensor<128x256xf32>
    %r = scf.for %i = %zero to %n step %one iter_args(%c = %sums) -> (tensor<128x256xf32>) : i32 {
      %x, %tx = nv_tileaa.tiled_load %a[%zero, %i] token = %t : !a, (i32, i32) -> tensor<128x64xf16>, !nv_tileaa.mem_token
      %y, %ty = nv_tileaa.tiled_load %b[%i, %zero] token = %t : !b, (i32, i32) -> tensor<64x256xf16>, !nv_tileaa.mem_token
      %d = nv_tileaa.dot %x, %y, %c : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    %w = nv_tileaa.tiled_store %r, %out[%zero, %zero] token = %t : tensor<128x256xf32>, !c, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Bounds that are known stay in 32 bits; a coordinate of another kind is computed.
  // CHECK-LABEL: @known_bounds
  // CHECK-DAG: arith.constant 4 : i32
  // CHECK-DAG: arith.constant 18 : i32
  // CHECK: scf.for %[[STEP:[a-z0-9]+]] = {{.*}} : i32 {
  // CHECK: tiled_load {{.*}} : {{.*}} (i32, i64) -> tensor<128x32xf16>
  // CHECK: tiled_load {{.*}}[%[[STEP]], {{.*}} -> tensor<32x256xf16>
  nv_tileaa.func @known_bounds(%pa: !p, %pb: !p, %out: !c) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_120"} {
    %ma = nv_tileaa.make_memref %pa, sizes = [], strides = [] : !p, (), () -> !ma
    %a = nv_tileaa.block_tile %ma : !a
    %mb = nv_tileaa.make_memref %pb, sizes = [], strides = [] : !p, (), () -> !ma
    %b = nv_tileaa.block_tile %mb : !b
    %t = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %nine = arith.constant 9 : i32
    %sums = arith.constant dense<0.0> : tensor<128x256xf32>
    %r = scf.for %i = %two to %nine step %one iter_args(%c = %sums) -> (tensor<128x256xf32>) : i32 {
      %j = arith.addi %i, %two : i32
      %x, %tx = nv_tileaa.tiled_load %a[%zero, %j] token = %t : !a, (i32, i32) -> tensor<128x64xf16>, !nv_tileaa.mem_token
      %y, %ty = nv_tileaa.tiled_load %b[%i, %zero] token = %t : !b, (i32, i32) -> tensor<64x256xf16>, !nv_tileaa.mem_token
      %d = nv_tileaa.dot %x, %y, %c : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    %w = nv_tileaa.tiled_store %r, %out[%zero, %zero] token = %t : tensor<128x256xf32>, !c, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // What else is carried would change with each part of a step.
  // CHECK-LABEL: @carries_a_number
  // CHECK: tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
  nv_tileaa.func @carries_a_number(%pa: !p, %pb: !p, %n: i32, %out: !c) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_120"} {
    %ma = nv_tileaa.make_memref %pa, sizes = [], strides = [] : !p, (), () -> !ma
    %a = nv_tileaa.block_tile %ma : !a
    %mb = nv_tileaa.make_memref %pb, sizes = [], strides = [] : !p, (), () -> !ma
    %b = nv_tileaa.block_tile %mb : !b
    %t = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %sums = arith.constant dense<0.0> : tensor<128x256xf32>
    %r:2 = scf.for %i = %zero to %n step %one iter_args(%c = %sums, %k = %zero) -> (tensor<128x256xf32>, i32) : i32 {
      %x, %tx = nv_tileaa.tiled_load %a[%zero, %k] token = %t : !a, (i32, i32) -> tensor<128x64xf16>, !nv_tileaa.mem_token
      %y, %ty = nv_tileaa.tiled_load %b[%k, %zero] token = %t : !b, (i32, i32) -> tensor<64x256xf16>, !nv_tileaa.mem_token
      %d = nv_tileaa.dot %x, %y, %c : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      %next = arith.addi %k, %one : i32
      scf.yield %d, %next : tensor<128x256xf32>, i32
    }
    %w = nv_tileaa.tiled_store %r#0, %out[%zero, %zero] token = %t : tensor<128x256xf32>, !c, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // The counter does not follow the tiles one by one.
  // CHECK-LABEL: @steps_of_two
  // CHECK: tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
  nv_tileaa.func @steps_of_two(%pa: !p, %pb: !p, %n: i32, %out: !c) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 8, numCtas = 1>, target_spec = "sm_120"} {
    %ma = nv_tileaa.make_memref %pa, sizes = [], strides = [] : !p, (), () -> !ma
    %a = nv_tileaa.block_tile %ma : !a
    %mb = nv_tileaa.make_memref %pb, sizes = [], strides = [] : !p, (), () -> !ma
    %b = nv_tileaa.block_tile %mb : !b
    %t = nv_tileaa.create_mem_token : !nv_tileaa.mem_token
    %zero = arith.constant 0 : i32
    %two = arith.constant 2 : i32
    %sums = arith.constant dense<0.0> : tensor<128x256xf32>
    %r = scf.for %i = %zero to %n step %two iter_args(%c = %sums) -> (tensor<128x256xf32>) : i32 {
      %x, %tx = nv_tileaa.tiled_load %a[%zero, %i] token = %t : !a, (i32, i32) -> tensor<128x64xf16>, !nv_tileaa.mem_token
      %y, %ty = nv_tileaa.tiled_load %b[%i, %zero] token = %t : !b, (i32, i32) -> tensor<64x256xf16>, !nv_tileaa.mem_token
      %d = nv_tileaa.dot %x, %y, %c : tensor<128x64xf16>, tensor<64x256xf16> -> tensor<128x256xf32>
      scf.yield %d : tensor<128x256xf32>
    }
    %w = nv_tileaa.tiled_store %r, %out[%zero, %zero] token = %t : tensor<128x256xf32>, !c, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
