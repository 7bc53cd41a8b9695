// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
// expected-error @below {{expected an order of 2 dimensions, got [1, 1]}}
module attributes {type = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 1], swizzle = 128>} {}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
// expected-error @below {{expected dimension 0, the innermost, to have stride 1}}
module attributes {type = !nv_tileas.tma_desc<!view, box = [64, 64], order = [0, 1], swizzle = 128>} {}

// -----

!view = !nv_tileaa.tiled_view<[512, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
// expected-error @below {{expected a box of 1 to 256 elements a dimension, parts of [512, 64], got [512, 64]}}
module attributes {type = !nv_tileas.tma_desc<!view, box = [512, 64], order = [1, 0], swizzle = 128>} {}

// -----

!view = !nv_tileaa.tiled_view<[64, 4], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
// expected-error @below {{expected rows of a multiple of 16 bytes, got 8}}
module attributes {type = !nv_tileas.tma_desc<!view, box = [64, 4], order = [1, 0]>} {}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
// expected-error @below {{expected a swizzle of 0, 32, 64 or 128 bytes, got 16}}
module attributes {type = !nv_tileas.tma_desc<!view, box = [64, 8], order = [1, 0], swizzle = 16>} {}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
// expected-error @below {{expected rows no wider than the swizzle, 64 bytes, got 128}}
module attributes {type = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 64>} {}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
// expected-error @below {{expected an atom of 16 bytes, or of 32 in a swizzle of 128, got 32}}
module attributes {type = !nv_tileas.tma_desc<!view, box = [64, 32], order = [1, 0], swizzle = 64, atom = 32>} {}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xi1, strides = [?, 1]>>
// expected-error @below {{expected elements of 1, 2, 4 or 8 bytes, got i1}}
module attributes {type = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0]>} {}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>, padding = #nv_tileaa.padding_value<neg_inf>>
// expected-error @below {{expected a padding of zeros or NaN, got neg_inf}}
module attributes {type = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 128>} {}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!other = !nv_tileaa.tiled_view<[32, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!other, box = [32, 64], order = [1, 0], swizzle = 128>
module {
  nv_tileaa.func @f(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.make_tma_desc' op expects a descriptor of}}
    %d = nv_tileas.make_tma_desc %v : !view -> !desc
    nv_tileaa.return
  }
}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 128>
module {
  nv_tileaa.func @f(%d: !desc, %p: !nv_tileas.producer_token, %i: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.async.tma_load' op expects 2 coordinates, but got 1}}
    nv_tileas.async.tma_load %d[%i] into %p : !desc, (i32)
    nv_tileaa.return
  }
}
