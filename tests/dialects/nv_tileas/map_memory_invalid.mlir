// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'nv_tileas.map_memory.reserve' op expects a power of two of slots, got 3}}
%m = nv_tileas.map_memory.reserve {maps = 1 : i32, slots = 3 : i32}

// -----

// expected-error @below {{'nv_tileas.map_memory.reserve' op expects at least one map, got 0}}
%m = nv_tileas.map_memory.reserve {maps = 0 : i32, slots = 4 : i32}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 128>
!image = !nv_tileas.map_image<!desc>
module {
  nv_tileaa.func @f(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileas.map_memory.reserve {maps = 2 : i32, slots = 4 : i32}
    %i = nv_tileas.map_memory.assemble %v : !view -> !image
    %s = nv_tileas.map_memory.open %m
    // expected-error @below {{'nv_tileas.map_memory.build' op has map 2 of 2}}
    %d = nv_tileas.map_memory.build %i in %s {number = 2 : i32} : !image -> !desc
    nv_tileaa.return
  }
}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 128>
!image = !nv_tileas.map_image<!desc>
module {
  nv_tileaa.func @f(%v: !view, %s: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %i = nv_tileas.map_memory.assemble %v : !view -> !image
    // expected-error @below {{'nv_tileas.map_memory.build' op expects a result of 'nv_tileas.map_memory.open'}}
    %d = nv_tileas.map_memory.build %i in %s {number = 0 : i32} : !image -> !desc
    nv_tileaa.return
  }
}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!other = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<64x64xf16, strides = [64, 1]>>
!desc = !nv_tileas.tma_desc<!other, box = [64, 64], order = [1, 0], swizzle = 128>
module {
  nv_tileaa.func @f(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.map_memory.assemble' op expects a descriptor of}}
    %i = nv_tileas.map_memory.assemble %v : !view -> !nv_tileas.map_image<!desc>
    nv_tileaa.return
  }
}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 128>
!narrow = !nv_tileas.tma_desc<!view, box = [64, 32], order = [1, 0], swizzle = 64>
!image = !nv_tileas.map_image<!desc>
module {
  nv_tileaa.func @f(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileas.map_memory.reserve {maps = 2 : i32, slots = 4 : i32}
    %i = nv_tileas.map_memory.assemble %v : !view -> !image
    %s = nv_tileas.map_memory.open %m
    // expected-error @below {{'nv_tileas.map_memory.build' op expects a result of}}
    %d = nv_tileas.map_memory.build %i in %s {number = 0 : i32} : !image -> !narrow
    nv_tileaa.return
  }
}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!image = !nv_tileas.map_image<!nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 128>>
module {
  nv_tileaa.func @f(%i: !image) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileas.map_memory.reserve {maps = 2 : i32, slots = 4 : i32}
    %s = nv_tileas.map_memory.open %m
    // expected-error @below {{'nv_tileas.map_memory.build' op expects a result of 'nv_tileas.map_memory.assemble'}}
    %d = nv_tileas.map_memory.build %i in %s {number = 0 : i32} : !image -> !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 128>
    nv_tileaa.return
  }
}
