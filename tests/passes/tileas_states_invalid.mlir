// RUN: not tileiras-opt %s --split-input-file --tileas-assign-load-store-layouts 2>&1 | FileCheck %s --check-prefix=ACCESSES
// RUN: not tileiras-opt %s --split-input-file --tileas-remove-layout-conversions 2>&1 | FileCheck %s --check-prefix=LAYOUTS
// RUN: not tileiras-opt %s --split-input-file --tileas-smem-operands 2>&1 | FileCheck %s --check-prefix=OPERANDS
// RUN: not tileiras-opt %s --split-input-file --tileas-unspecialized-pipeline 2>&1 | FileCheck %s --check-prefix=LOOPS
// RUN: not tileiras-opt %s --split-input-file --tileas-optimize-alloc-tensor 2>&1 | FileCheck %s --check-prefix=PLACES
// RUN: not tileiras-opt %s --split-input-file --tileas-insert-barriers 2>&1 | FileCheck %s --check-prefix=BARRIERS
// RUN: not tileiras-opt %s --split-input-file --tileas-assign-launch-bounds 2>&1 | FileCheck %s --check-prefix=BOUNDS
// RUN: not tileiras-opt %s --split-input-file --convert-tileas-to-llvm 2>&1 | FileCheck %s --check-prefix=LLVM
// RUN: not tileiras-opt %s --split-input-file --tileas-slicing 2>&1 | FileCheck %s --check-prefix=WARPS

// A pass that is given a function in an earlier state than it needs says which pass is missing, once, at the function.

builtin.module {
  // ACCESSES: tileas_states_invalid.mlir:[[@LINE+5]]:3: error: 'nv_tileaa.func' op is in state 'tileaa', pass 'tileas-assign-load-store-layouts' needs 'dot atoms': run 'convert-tileaa-to-tileas' first
  // LAYOUTS: :[[@LINE+4]]:3: error: {{.*}} is in state 'tileaa', pass 'tileas-remove-layout-conversions' needs 'atoms': run 'convert-tileaa-to-tileas' first
  // OPERANDS: :[[@LINE+3]]:3: error: {{.*}} is in state 'tileaa', pass 'tileas-smem-operands' needs 'layouts': run 'convert-tileaa-to-tileas' first
  // LLVM: :[[@LINE+2]]:3: error: {{.*}} is in state 'tileaa', pass 'convert-tileas-to-llvm' needs 'placed': run 'convert-tileaa-to-tileas' first
  // WARPS: :[[@LINE+1]]:3: error: 'nv_tileaa.func' op has no number of warps, which pass 'tileas-slicing' needs: run 'tileas-assign-num-warps' first
  nv_tileaa.func @of_nv_tileaa() attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %0 = nv_tileaa.make_range : tensor<32xi32>
    nv_tileaa.return
  }
}

// -----

builtin.module {
  // ACCESSES: :[[@LINE+3]]:3: error: {{.*}} is in state 'no layouts', pass 'tileas-assign-load-store-layouts' needs 'dot atoms': run 'tileas-assign-dot-layouts' first
  // LAYOUTS: :[[@LINE+2]]:3: error: {{.*}} is in state 'no layouts', pass 'tileas-remove-layout-conversions' needs 'atoms': run 'tileas-assign-dot-layouts' first
  // LLVM: :[[@LINE+1]]:3: error: {{.*}} is in state 'no layouts', pass 'convert-tileas-to-llvm' needs 'placed': run 'tileas-assign-dot-layouts' first
  nv_tileaa.func @dots() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %0 = arith.constant dense<1.0> : tensor<16x16xf32>
    %1 = nv_tileas.dot %0, %0, %0 : tensor<16x16xf32>, tensor<16x16xf32> -> tensor<16x16xf32>
    nv_tileaa.return
  }
}

// -----

builtin.module {
  // LAYOUTS: :[[@LINE+3]]:3: error: {{.*}} is in state 'dot atoms', pass 'tileas-remove-layout-conversions' needs 'atoms': run 'tileas-assign-load-store-layouts' first
  // OPERANDS: :[[@LINE+2]]:3: error: {{.*}} is in state 'dot atoms', {{.*}}: run 'tileas-assign-load-store-layouts' first
  // LLVM: :[[@LINE+1]]:3: error: {{.*}} is in state 'dot atoms', {{.*}}: run 'tileas-assign-load-store-layouts' first
  nv_tileaa.func @accesses(%p: !nv_tileaa.ptr<i32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %x, %u = nv_tileas.load %p token = %t : !nv_tileaa.ptr<i32> -> i32, !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

builtin.module {
  // OPERANDS: :[[@LINE+3]]:3: error: {{.*}} is in state 'atoms', {{.*}}: run 'tileas-remove-layout-conversions' first
  // LOOPS: :[[@LINE+2]]:3: error: {{.*}} is in state 'atoms', pass 'tileas-unspecialized-pipeline' needs 'scheduled': run 'tileas-remove-layout-conversions' first
  // LLVM: :[[@LINE+1]]:3: error: {{.*}} is in state 'atoms', {{.*}}: run 'tileas-remove-layout-conversions' first
  nv_tileaa.func @tiles() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %0 = nv_tileas.make_range : tensor<32xi32>
    nv_tileaa.return
  }
}

// -----

builtin.module {
  // LOOPS: :[[@LINE+4]]:3: error: {{.*}} is in state 'layouts', pass 'tileas-unspecialized-pipeline' needs 'scheduled': run 'tileas-generate-schedule' first
  // PLACES: :[[@LINE+3]]:3: error: {{.*}} is in state 'layouts', pass 'tileas-optimize-alloc-tensor' needs 'asynchronous': run 'tileas-generate-schedule' first
  // BARRIERS: :[[@LINE+2]]:3: error: {{.*}} is in state 'layouts', pass 'tileas-insert-barriers' needs 'allocated': run 'tileas-generate-schedule' first
  // LLVM: :[[@LINE+1]]:3: error: {{.*}} is in state 'layouts', pass 'convert-tileas-to-llvm' needs 'placed': run 'tileas-generate-schedule' first
  nv_tileaa.func @loops() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %0 = arith.constant 0 : i32
    %1 = arith.constant 1 : i32
    scf.for %i = %0 to %1 step %1 : i32 {
    }
    nv_tileaa.return
  }
}

// -----

// A conversion between warps needs scratch memory.

#rows = #nv_tileas.linear<register = [[0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0]]>
#turned = #nv_tileas.linear<register = [[0, 1], [0, 2]], lane = [[32, 0], [16, 0], [8, 0], [4, 0], [2, 0]], warp = [[1, 0]]>
builtin.module {
  // BARRIERS: :[[@LINE+3]]:3: error: {{.*}} is in state 'asynchronous', pass 'tileas-insert-barriers' needs 'allocated': run 'tileas-optimize-alloc-tensor' first
  // BOUNDS: :[[@LINE+2]]:3: error: {{.*}} is in state 'asynchronous', pass 'tileas-assign-launch-bounds' needs 'synchronized': run 'tileas-optimize-alloc-tensor' first
  // LLVM: :[[@LINE+1]]:3: error: {{.*}} is in state 'asynchronous', pass 'convert-tileas-to-llvm' needs 'placed': run 'tileas-optimize-alloc-tensor' first
  nv_tileaa.func @without_places() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    %x = arith.constant dense<0> : tensor<64x4xi32> as tensor<64x4xi32, #rows>
    %y = nv_tileas.convert_layout %x : tensor<64x4xi32, #rows> -> tensor<64x4xi32, #turned>
    nv_tileaa.return
  }

  // What the function says counts for nothing while an operation has no place.
  // LLVM: :[[@LINE+1]]:3: error: {{.*}} is in state 'asynchronous', pass 'convert-tileas-to-llvm' needs 'placed': run 'tileas-optimize-alloc-tensor' first
  nv_tileaa.func @only_says_so() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, nv_tileas.block_warps = 2 : i32, nv_tileas.named_barriers = 1 : i32, nv_tileas.shared_memory = 1024 : i32, target_spec = "sm_90"} {
    %x = arith.constant dense<0> : tensor<64x4xi32> as tensor<64x4xi32, #rows>
    %y = nv_tileas.convert_layout %x : tensor<64x4xi32, #rows> -> tensor<64x4xi32, #turned>
    nv_tileaa.return
  }

  // BOUNDS: :[[@LINE+2]]:3: error: {{.*}} is in state 'allocated', pass 'tileas-assign-launch-bounds' needs 'synchronized': run 'tileas-insert-barriers' first
  // LLVM: :[[@LINE+1]]:3: error: {{.*}} is in state 'allocated', pass 'convert-tileas-to-llvm' needs 'placed': run 'tileas-insert-barriers' first
  nv_tileaa.func @without_barriers() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, nv_tileas.shared_memory = 1024 : i32, target_spec = "sm_90"} {
    %x = arith.constant dense<0> : tensor<64x4xi32> as tensor<64x4xi32, #rows>
    %y = nv_tileas.convert_layout %x {nv_tileas.scratch = [#nv_tileas.scratch<offset = 0, bytes = 1024>]} : tensor<64x4xi32, #rows> -> tensor<64x4xi32, #turned>
    nv_tileaa.return
  }

  // LLVM: :[[@LINE+1]]:3: error: {{.*}} is in state 'synchronized', pass 'convert-tileas-to-llvm' needs 'placed': run 'tileas-assign-launch-bounds' first
  nv_tileaa.func @without_launch() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, nv_tileas.named_barriers = 0 : i32, nv_tileas.shared_memory = 0 : i32, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}
