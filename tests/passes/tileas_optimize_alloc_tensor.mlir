// RUN: tileiras-opt %s --tileas-optimize-alloc-tensor --verify-roundtrip | FileCheck %s

// A buffer begins behind all that live with it, at a multiple of 128 bytes, and its place is free when it ends.  Scratch
// areas lie behind the buffers: one after the other while they are small, those of neighbouring conversions together.

#own = #nv_tileas.linear<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>
#small = #nv_tileas.linear<register = [], lane = [[1], [2], [4], [8], [16]], warp = []>
#rows = #nv_tileas.linear<register = [[0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0]]>
#turned = #nv_tileas.linear<register = [[0, 1], [0, 2]], lane = [[32, 0], [16, 0], [8, 0], [4, 0], [2, 0]], warp = [[1, 0]]>
!rows = tensor<64x4xi32, #rows>
!turned = tensor<64x4xi32, #turned>
#wide = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0]]>
#wide_turned = #nv_tileas.linear<register = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [0, 64], [0, 128]], lane = [[32, 0], [16, 0], [8, 0], [4, 0], [2, 0]], warp = [[1, 0]]>
module {
  // CHECK: @lifetimes({{.*}} nv_tileas.shared_memory = 1024 : i32
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
    } {nv_tileas.loop_schedule = #nv_tileas.loop_schedule<serial, 1>}
    nv_tileas.dealloc_tensor %a : !nv_tileas.buffer<2, tensor<64xf32, #own>>
    // CHECK: alloc_tensor {offset = 0 : i32}
    %e = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64xf32, #own>>
    nv_tileas.dealloc_tensor %e : !nv_tileas.buffer<1, tensor<64xf32, #own>>
    nv_tileaa.return
  }

  // What only this block sees is in shared memory; what is stored somewhere is on the heap, whose address one
  // thread gets for all.
  // CHECK-LABEL: @allocations
  nv_tileaa.func @allocations(%p: !nv_tileaa.ptr<!nv_tileaa.ptr<i32>>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    // CHECK: nv_tileas.alloca 16 : i64, 4 : i64 {offset = 0 : i32}
    %own = nv_tileas.alloca 16 : i64, 4 : i64 : !nv_tileaa.ptr<i32>
    %x, %u = nv_tileas.load %own token = %t {atom = #nv_tileas.copy_atom<ld_global, 1>} : !nv_tileaa.ptr<i32> -> i32, !nv_tileaa.mem_token
    // CHECK: nv_tileas.alloca 16 : i64, 4 : i64 {nv_tileas.scratch = [#nv_tileas.scratch<offset = 128, bytes = 8>]} :
    %known = nv_tileas.alloca 16 : i64, 4 : i64 : !nv_tileaa.ptr<i32>
    %v = nv_tileas.store %p, %known token = %t {atom = #nv_tileas.copy_atom<st_global, 1>} : !nv_tileaa.ptr<!nv_tileaa.ptr<i32>>, !nv_tileaa.ptr<i32> -> !nv_tileaa.mem_token
    nv_tileas.dealloc %known : !nv_tileaa.ptr<i32>
    nv_tileas.dealloc %own : !nv_tileaa.ptr<i32>
    nv_tileaa.return
  }

  // CHECK: @exchanges({{.*}} nv_tileas.shared_memory = 32772 : i32
  nv_tileaa.func @exchanges(%q: !nv_tileaa.ptr<i32>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<1, tensor<64x1xi8, #nv_tileas.shared<offset = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]]>>>
    // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 128, bytes = 1024>]}
    %y = nv_tileas.convert_layout %x : !rows -> !turned
    // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 1152, bytes = 1024, joins = true>]}
    %z = nv_tileas.convert_layout %x : !rows -> !turned
    // Its operand is there only when the conversions above are over.
    // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 2176, bytes = 1024>]}
    %w = nv_tileas.convert_layout %y : !turned -> !rows
    nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<1, tensor<64x1xi8, #nv_tileas.shared<offset = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]]>>>
    // 64 KB go through half as many, twice.
    // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 0, bytes = 32768, rounds = 2>]}
    %u = arith.constant dense<1> : tensor<64x256xi32> as tensor<64x256xi32, #wide>
    %v = nv_tileas.convert_layout %u : tensor<64x256xi32, #wide> -> tensor<64x256xi32, #wide_turned>
    // The old value of an update is made by one thread and handed to all.
    // CHECK: atomic_rmw {{.*}} nv_tileas.scratch = [#nv_tileas.scratch<offset = 32768, bytes = 4>]
    %one = arith.constant 1 : i32
    %old, %s = nv_tileas.atomic_rmw add %q, %one token = %t {mem_semantic = #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>} : !nv_tileaa.ptr<i32>, i32 -> i32, !nv_tileaa.mem_token
    %again, %r = nv_tileas.atomic_rmw add %q, %old token = %s {mem_semantic = #nv_tileaa.mem_semantic<relaxed>, mem_scope = #nv_tileaa.mem_scope<gpu>} : !nv_tileaa.ptr<i32>, i32 -> i32, !nv_tileaa.mem_token
    nv_tileaa.return
  }

  // Areas beyond the share of a CTA, of as many as the kernel asks for, are used again; they are apart with fewer CTAs.
  // CHECK: @of_five({{.*}} nv_tileas.shared_memory = 40960 : i32
  nv_tileaa.func @of_five(%n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1, occupancy = 5>, target_spec = "sm_90"} {
    %x = arith.constant dense<1> : tensor<64x256xi8> as tensor<64x256xi8, #wide>
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<6, tensor<64x64xi8, #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]]>>>
    // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 24576, bytes = 16384>]}
    %y = nv_tileas.convert_layout %x : tensor<64x256xi8, #wide> -> tensor<64x256xi8, #wide_turned>
    // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 24576, bytes = 16384>]}
    %z = nv_tileas.convert_layout %y : tensor<64x256xi8, #wide_turned> -> tensor<64x256xi8, #wide>
    nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<6, tensor<64x64xi8, #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]]>>>
    nv_tileaa.return
  }

  // CHECK: @of_four({{.*}} nv_tileas.shared_memory = 57344 : i32
  nv_tileaa.func @of_four(%n: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1, occupancy = 4>, target_spec = "sm_90"} {
    %x = arith.constant dense<1> : tensor<64x256xi8> as tensor<64x256xi8, #wide>
    %b = nv_tileas.alloc_tensor : !nv_tileas.buffer<6, tensor<64x64xi8, #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]]>>>
    // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 24576, bytes = 16384>]}
    %y = nv_tileas.convert_layout %x : tensor<64x256xi8, #wide> -> tensor<64x256xi8, #wide_turned>
    // CHECK: convert_layout %{{.*}} {nv_tileas.scratch = [#nv_tileas.scratch<offset = 40960, bytes = 16384>]}
    %z = nv_tileas.convert_layout %y : tensor<64x256xi8, #wide_turned> -> tensor<64x256xi8, #wide>
    nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<6, tensor<64x64xi8, #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0]]>>>
    nv_tileaa.return
  }

  // Nothing leaves a thread, or a warp.
  // CHECK: @alone({{.*}} nv_tileas.shared_memory = 0 : i32
  // CHECK-NOT: scratch
  nv_tileaa.func @alone() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 2, numCtas = 1>, target_spec = "sm_90"} {
    %x = arith.constant dense<1> : tensor<64x4xi32> as !rows
    %y = nv_tileas.convert_layout %x : !rows -> tensor<64x4xi32, #nv_tileas.linear<register = [[0, 2], [0, 1]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0]]>>
    nv_tileaa.return
  }
}
