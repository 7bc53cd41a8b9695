// A descriptor whose boxes do not lie as the buffer does.
// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --tileir-verify-ops-analysis=compute-capability=sm_90

#shared = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0], [16, 0], [32, 0]]>
!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0]>
!buffer = !nv_tileas.buffer<1, tensor<64x64xf16, #shared>>
module {
  nv_tileaa.func @f(%d: !desc, %i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %b = nv_tileas.alloc_tensor : !buffer
    // expected-error @below {{'nv_tileas.async.tma_store' op expects a descriptor of box = [64, 64], order = [1, 0], swizzle = 128 for tensor<64x64xf16}}
    %t = nv_tileas.async.tma_store %b[%i : i32] to %d[%i, %i] : !buffer, !desc, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileas.dealloc_tensor %b : !buffer
    nv_tileaa.return
  }
}

// -----

// Boxes of 64 bytes by 4 rows mix units by bits 7 and 8 of the address: stages 256 bytes apart begin inside of that.
#scales = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 16]]>
#padded = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 0], [2, 16], [0, 0]]>
!view = !nv_tileaa.tiled_view<[4, 64], !nv_tileaa.memref<?x?xi8, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!view, box = [4, 64], order = [1, 0], swizzle = 64>
!close = !nv_tileas.buffer<3, tensor<4x64xi8, #scales>>
!apart = !nv_tileas.buffer<3, tensor<4x64xi8, #padded>>
module {
  nv_tileaa.func @f(%d: !desc, %i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %a = nv_tileas.alloc_tensor : !close
    // expected-error @below {{'nv_tileas.async.tma_store' op finds stage 1 at byte 256 of its buffer, its boxes begin at multiples of 512}}
    %s = nv_tileas.async.tma_store %a[%i : i32] to %d[%i, %i] : !close, !desc, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileas.dealloc_tensor %a : !close
    %b = nv_tileas.alloc_tensor {offset = 256 : i32} : !apart
    // expected-error @below {{'nv_tileas.async.tma_store' op finds stage 0 at byte 256 of shared memory, its boxes begin at multiples of 512}}
    %t = nv_tileas.async.tma_store %b[%i : i32] to %d[%i, %i] : !apart, !desc, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileas.dealloc_tensor %b : !apart
    %c = nv_tileas.alloc_tensor {offset = 512 : i32} : !apart
    %u = nv_tileas.async.tma_store %c[%i : i32] to %d[%i, %i] : !apart, !desc, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileas.dealloc_tensor %c : !apart
    nv_tileaa.return
  }
}

// -----

// Agents' boxes, and tiles that dots read in place.
#rows = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0], [2, 0], [4, 8], [8, 0]]>
#tile = #nv_tileas.shared<offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], [0, 32], [1, 8], [2, 16], [4, 32], [8, 0]]>
!rows = tensor<16x16xf16, #rows>
!tile = tensor<16x64xf16, #tile>
!view = !nv_tileaa.tiled_view<[16, 16], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!view, box = [16, 16], order = [1, 0], swizzle = 32>
module {
  nv_tileaa.func @g(%d: !desc, %i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %a = nv_tileas.alloc_tensor {offset = 128 : i32} : !nv_tileas.buffer<2, !rows>
    // expected-error @below {{'nv_tileas.copy' op finds stage 0 at byte 128 of shared memory, the swizzle of its layout begins at multiples of 256}}
    %x = nv_tileas.copy %a[%i : i32] : !nv_tileas.buffer<2, !rows> -> !rows
    // expected-error @below {{'nv_tileas.async.tma_store' op finds stage 0 at byte 128 of shared memory, its boxes begin at multiples of 256}}
    %s = nv_tileas.async.tma_store %a[%i : i32] to %d[%i, %i] : !nv_tileas.buffer<2, !rows>, !desc, (i32, i32) -> !nv_tileaa.mem_token
    nv_tileas.dealloc_tensor %a : !nv_tileas.buffer<2, !rows>
    %b = nv_tileas.alloc_tensor {offset = 2560 : i32} : !nv_tileas.buffer<2, !tile>
    // expected-error @below {{'nv_tileas.copy' op finds stage 0 at byte 2560 of shared memory, the swizzle of its layout begins at multiples of 1024}}
    %y = nv_tileas.copy %b[%i : i32] : !nv_tileas.buffer<2, !tile> -> !tile
    nv_tileas.dealloc_tensor %b : !nv_tileas.buffer<2, !tile>
    nv_tileaa.return
  }
}

// -----

// Vectors of 16 bytes in stages of 8.
#two = #nv_tileas.linear<register = [[1]], lane = [[0], [0], [0], [0], [0]], warp = [[0], [0]]>
!pointers = tensor<2x!nv_tileaa.ptr<f32>, #two>
!small = !nv_tileas.buffer<2, tensor<2xf32, #nv_tileas.shared<offset = [[1]]>>>
module {
  nv_tileaa.func @h(%p: !nv_tileaa.ptr<f32>, %i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 1>, target_spec = "sm_90"} {
    %a = nv_tileas.splat %p : !nv_tileaa.ptr<f32> -> !pointers
    %b = nv_tileas.alloc_tensor {offset = 256 : i32} : !small
    // expected-error @below {{'nv_tileas.async.load' op finds stage 1 at byte 264 of shared memory, its vectors begin at multiples of 16}}
    nv_tileas.async.load %a into %b[%i : i32] {atom = #nv_tileas.copy_atom<cp_async, 4>} : !pointers, !small
    nv_tileas.async.load %a into %b[%i : i32] {atom = #nv_tileas.copy_atom<cp_async, 2>} : !pointers, !small
    nv_tileas.dealloc_tensor %b : !small
    nv_tileaa.return
  }
}
