// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{#nv_tileas.linear has parameter 'warp' twice}}
module attributes {x = #nv_tileas.linear<register = [], lane = [], warp = [], warp = []>} {
}

// -----

// expected-error @below {{#nv_tileas.linear has no parameter 'lanes'}}
module attributes {x = #nv_tileas.linear<register = [], lanes = [], warp = []>} {
}

// -----

// expected-error @below {{!nv_tileaa.tiled_view has parameter 'padding' twice}}
module attributes {x = !nv_tileaa.tiled_view<[8], !nv_tileaa.memref<?xf32, strides = [1]>, padding = #nv_tileaa.padding_value<zero>, padding = #nv_tileaa.padding_value<nan>>} {
}

// -----

// expected-error @below {{!nv_tileaa.tiled_view has no parameter 'pad'}}
module attributes {x = !nv_tileaa.tiled_view<[8], !nv_tileaa.memref<?xf32, strides = [1]>, pad = #nv_tileaa.padding_value<zero>>} {
}
