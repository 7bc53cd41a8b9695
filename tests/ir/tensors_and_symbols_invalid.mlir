// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --allow-unregistered-dialect

cuda_tile.module @m {
  entry @k() {
    // expected-error @below {{'cuda_tile.global' op symbol's parent must have the SymbolTable trait}}
    global @g <f32: [1.0]> : tile<1xf32>
    return
  }
}

// -----

builtin.module {
  // expected-error @below {{invalid kind of attribute specified}}
  %x = arith.constant f32
}

// -----

builtin.module {
  // expected-error @below {{lane basis [64] lies outside the tensor}}
  %x = "test.op"() : () -> tensor<32xi32, #nv_tileas.linear<register = [], lane = [[64]], warp = []>>
}

// -----

builtin.module {
  // expected-error @below {{a tensor with a layout has sizes that are powers of two, got 3}}
  %x = "test.op"() : () -> tensor<3xi32, #nv_tileas.linear<register = [], lane = [[1]], warp = []>>
}

// -----

builtin.module {
  %x = "test.op"() : () -> tensor<4x8xi32>
  // expected-error @below {{'nv_tileaa.reduce' op expects a dimension of tensor<4x8xi32>, but got 2}}
  %y = nv_tileaa.reduce %x {dim = 2 : i32, identities = [0 : i32]} : (tensor<4x8xi32>) -> (tensor<4xi32>) {
  ^bb0(%a: i32, %b: i32):
    nv_tileaa.yield %a : i32
  }
}
