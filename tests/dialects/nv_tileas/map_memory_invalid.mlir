// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'nv_tileas.map_memory.reserve' op expects a power of two of slots, got 3}}
%m = nv_tileas.map_memory.reserve {maps = 1 : i32, slots = 3 : i32}

// -----

// expected-error @below {{'nv_tileas.map_memory.reserve' op expects at least one map, got 0}}
%m = nv_tileas.map_memory.reserve {maps = 0 : i32, slots = 4 : i32}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 128>
module {
  nv_tileaa.func @f(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileas.map_memory.reserve {maps = 2 : i32, slots = 4 : i32}
    %s = nv_tileas.map_memory.open %m
    // expected-error @below {{'nv_tileas.map_memory.build' op has map 2 of 2}}
    %d = nv_tileas.map_memory.build %v in %s {number = 2 : i32} : !view -> !desc
    nv_tileaa.return
  }
}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!desc = !nv_tileas.tma_desc<!view, box = [64, 64], order = [1, 0], swizzle = 128>
module {
  nv_tileaa.func @f(%v: !view, %s: i32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    // expected-error @below {{'nv_tileas.map_memory.build' op expects a result of 'nv_tileas.map_memory.open'}}
    %d = nv_tileas.map_memory.build %v in %s {number = 0 : i32} : !view -> !desc
    nv_tileaa.return
  }
}

// -----

!view = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<?x?xf16, strides = [?, 1]>>
!other = !nv_tileaa.tiled_view<[64, 64], !nv_tileaa.memref<64x64xf16, strides = [64, 1]>>
!desc = !nv_tileas.tma_desc<!other, box = [64, 64], order = [1, 0], swizzle = 128>
module {
  nv_tileaa.func @f(%v: !view) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %m = nv_tileas.map_memory.reserve {maps = 2 : i32, slots = 4 : i32}
    %s = nv_tileas.map_memory.open %m
    // expected-error @below {{'nv_tileas.map_memory.build' op expects a descriptor of}}
    %d = nv_tileas.map_memory.build %v in %s {number = 0 : i32} : !view -> !desc
    nv_tileaa.return
  }
}
