// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'nv_tileas.tensor_memory.reserve' op expects a power of two of mbarriers as i32, at most 64, got 3}}
%m = nv_tileas.tensor_memory.reserve {commits = 3 : i32}

// -----

// expected-error @below {{'nv_tileas.tensor_memory.reserve' op allocates 32, 64, 128, 256 or 512 columns, not 48}}
%m = nv_tileas.tensor_memory.reserve {columns = 48 : i32, commits = 1 : i32}

// -----

#short = #nv_tileas.tensor<lane = [[1, 0], [2, 0]], column = [[0, 1]]>
%base = arith.constant 0 : i32
// expected-error @below {{tensor memory has 128 lanes of 512 columns, not 4 of 2}}
%t = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<4x2xf32, #short>>

// -----

#twice = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 1]]>
%base = arith.constant 0 : i32
// expected-error @below {{the layout does not hold every element of a tile of shape [128, 4] once}}
%t = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x4xf32, #twice>>

// -----

#acc = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 2]]>
%base = arith.constant 0 : i32
// expected-error @below {{expected elements of 16 or 32 bits, got f64}}
%t = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x4xf64, #acc>>

// -----

%base = arith.constant 0 : i32
// expected-error @below {{expected a tensor with a layout of tensor memory}}
%t = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x4xf32>>

// -----

%m = nv_tileas.tensor_memory.reserve {commits = 1 : i32}
%n = arith.constant 0 : i32
// expected-error @below {{'nv_tileas.tensor_memory.wait' op expects a number of groups as i32, from 0 to 63}}
nv_tileas.tensor_memory.wait %m, %n {pending = 64 : i32}

// -----

#acc = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 2]]>
#half = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1]]>
%base = arith.constant 0 : i32
%t = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x4xf32, #acc>>
// expected-error @below {{expects a coordinate for each dimension and elements like}}
%s = nv_tileas.tensor_memory.slice %t[%base] : !nv_tileas.tensor_buffer<tensor<128x4xf32, #acc>>, (i32) -> !nv_tileas.tensor_buffer<tensor<128x2xf32, #half>>

// -----

#acc = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 2]]>
#wide = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 2], [0, 4]]>
%base = arith.constant 0 : i32
%t = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x4xf32, #acc>>
// expected-error @below {{cannot cut}}
%s = nv_tileas.tensor_memory.slice %t[%base, %base] : !nv_tileas.tensor_buffer<tensor<128x4xf32, #acc>>, (i32, i32) -> !nv_tileas.tensor_buffer<tensor<128x8xf32, #wide>>

// -----

#acc = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 2], [0, 1]]>
#half = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1]]>
%base = arith.constant 0 : i32
%t = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x4xf32, #acc>>
// expected-error @below {{has other lanes or columns than the first part of the buffer}}
%s = nv_tileas.tensor_memory.slice %t[%base, %base] : !nv_tileas.tensor_buffer<tensor<128x4xf32, #acc>>, (i32, i32) -> !nv_tileas.tensor_buffer<tensor<128x2xf32, #half>>

// -----

#acc = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 2]]>
#wide = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 2], [0, 4]]>
%base = arith.constant 0 : i32
%t = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x4xf32, #acc>>
// expected-error @below {{'nv_tileas.tensor_memory.alloc' op has 8 columns, over a buffer of 4}}
%u = nv_tileas.tensor_memory.alloc %base over %t : !nv_tileas.tensor_buffer<tensor<128x8xf32, #wide>>, !nv_tileas.tensor_buffer<tensor<128x4xf32, #acc>>

// -----

#acc = #nv_tileas.tensor<lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0], [32, 0], [64, 0]], column = [[0, 1], [0, 2]]>
%base = arith.constant 0 : i32
%t = nv_tileas.tensor_memory.alloc %base : !nv_tileas.tensor_buffer<tensor<128x4xf32, #acc>>
%u = nv_tileas.tensor_memory.alloc %base over %t : !nv_tileas.tensor_buffer<tensor<128x4xf32, #acc>>, !nv_tileas.tensor_buffer<tensor<128x4xf32, #acc>>
// expected-error @below {{'nv_tileas.tensor_memory.alloc' op expects to be over a buffer that has columns of its own}}
%v = nv_tileas.tensor_memory.alloc %base over %u : !nv_tileas.tensor_buffer<tensor<128x4xf32, #acc>>, !nv_tileas.tensor_buffer<tensor<128x4xf32, #acc>>
