// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

cuda_tile.module @m {
  entry @k() {
    %a = constant <f32: 0.0> : tile<8xf32>
    // expected-error @below {{expects a non-empty block}}
    %0 = "cuda_tile.reduce"(%a) ({
      ^bb0(%x: !cuda_tile.tile<f32>, %y: !cuda_tile.tile<f32>):
    }) {dim = 0 : i32, identities = [0.0 : f32]} : (!cuda_tile.tile<8xf32>) -> !cuda_tile.tile<f32>
    return
  }
}

// -----

cuda_tile.module @m {
  entry @k() {
    %a = constant <f32: 0.0> : tile<8xf32>
    %t = make_token : token
    // expected-error @below {{expected TileType for operand and terminator types but got: '!cuda_tile.tile<8xf32>' and '!cuda_tile.token'}}
    %0 = "cuda_tile.reduce"(%a) ({
      ^bb0(%x: !cuda_tile.tile<f32>, %y: !cuda_tile.tile<f32>):
        "cuda_tile.yield"(%t) : (!cuda_tile.token) -> ()
    }) {dim = 0 : i32, identities = [0.0 : f32]} : (!cuda_tile.tile<8xf32>) -> !cuda_tile.tile<f32>
    return
  }
}

// -----

cuda_tile.module @m {
  // expected-error @below {{all dimensions must be positive constants, got 0}}
  entry @k(%a: tile<0xf32>) {
    return
  }
}

// -----

cuda_tile.module @m {
  entry @k(%p: tile<ptr<f32>>) {
    %v = make_tensor_view %p, shape = [8], strides = [1] : tensor_view<8xf32, strides=[1]>
    // expected-error @below {{'every'/'along' cannot be used if the constrained value is a tensor_view}}
    %0 = assume #cuda_tile.div_by<4, every 2 along 0>, %v : tensor_view<8xf32, strides=[1]>
    return
  }
}
