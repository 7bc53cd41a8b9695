// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

entry @missing_else(%c: tile<i1>, %i: tile<i32>) {
  // expected-error @below {{has non-empty return type, must define else branch}}
  %0 = if %c -> (tile<i32>) {
    yield %i : tile<i32>
  }
}

// -----

entry @yields_nothing(%c: tile<i1>, %i: tile<i32>) {
  // expected-error @below {{has return type of '!cuda_tile.tile<i32>' but else branch does not yield anything}}
  %0 = if %c -> (tile<i32>) {
    yield %i : tile<i32>
  } else {
    yield
  }
}

// -----

entry @yields_another_type(%c: tile<i1>, %f: tile<f32>) {
  // expected-error @below {{type does not match yield type, then branch yields '!cuda_tile.tile<f32>' but op result type is '!cuda_tile.tile<i32>'}}
  %0 = if %c -> (tile<i32>) {
    yield %f : tile<f32>
  } else {
    yield %f : tile<f32>
  }
}

// -----

entry @view_as_result(%c: tile<i1>, %p: tile<ptr<f32>>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  // expected-error @below {{result type 0 is a tensor_view, which is not supported}}
  %0 = if %c -> (tensor_view<64xf32, strides=[1]>) {
    yield %v : tensor_view<64xf32, strides=[1]>
  } else {
    yield %v : tensor_view<64xf32, strides=[1]>
  }
}

// -----

entry @condition(%i: tile<i32>) {
  // expected-error @below {{operand #0 must be 0D tile of i1 values, but got '!cuda_tile.tile<i32>'}}
  "cuda_tile.if"(%i) ({
    cuda_tile.yield
  }, {}) : (!cuda_tile.tile<i32>) -> ()
}

// -----

entry @break_out_of_a_count(%n: tile<i32>) {
  // expected-error @below {{expects regions to end with 'cuda_tile.continue', found 'cuda_tile.break'}}
  for %i in (%n to %n, step %n) : tile<i32> {
    // expected-note @below {{in custom textual format, the absence of terminator implies 'cuda_tile.continue'}}
    break
  }
}

// -----

entry @break_through_a_count(%c: tile<i1>, %n: tile<i32>) {
  // expected-note @below {{see unexpected ancestor operation}}
  for %i in (%n to %n, step %n) : tile<i32> {
    if %c {
      // expected-error @below {{can only be nested within a ancestor chain of 'cuda_tile.loop', 'cuda_tile.if' operations}}
      break
    }
  }
}

// -----

entry @result_of_break(%i: tile<i32>) {
  %0 = loop : tile<f32> {
    // expected-error @below {{operand types must correspond to the parent loop result types: ('!cuda_tile.tile<i32>') vs ('!cuda_tile.tile<f32>')}}
    break %i : tile<i32>
  }
}

// -----

entry @carried_by_continue(%n: tile<i32>) {
  %0 = for %i in (%n to %n, step %n) : tile<i32> iter_values(%s = %n) -> (tile<i32>) {
    // expected-error @below {{`for` is missing a valid terminator. `continue` op should have operand types that match the parent loop return types: ('!cuda_tile.tile<i32>'), but found: ()}}
    continue
  }
}

// -----

entry @counter(%n: tile<i32>) {
  // expected-error @below {{expected induction variable to be same type as bounds and step: '!cuda_tile.tile<i64>' vs '!cuda_tile.tile<i32>'}}
  "cuda_tile.for"(%n, %n, %n) ({
  ^bb0(%i: !cuda_tile.tile<i64>):
    cuda_tile.continue
  }) : (!cuda_tile.tile<i32>, !cuda_tile.tile<i32>, !cuda_tile.tile<i32>) -> ()
}

// -----

entry @carried_view(%n: tile<i32>, %p: tile<ptr<f32>>) {
  %v = make_tensor_view %p, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  // expected-error @below {{loop-carried value 0 is a tensor_view, which is not supported}}
  %0 = for %i in (%n to %n, step %n) : tile<i32> iter_values(%s = %v) -> (tensor_view<64xf32, strides=[1]>) {
    continue %s : tensor_view<64xf32, strides=[1]>
  }
}

// -----

entry @return_from_a_count(%n: tile<i32>, %c: tile<i1>) {
  for %i in (%n to %n, step %n) : tile<i32> {
    if %c {
      // expected-error @below {{must be used within a cuda_tile.entry, cuda_tile.if, or cuda_tile.loop operation}}
      return
    }
  }
}

// -----

cuda_tile.module @kernels {
  // expected-error @below {{expects parent op to be one of 'cuda_tile.if, cuda_tile.reduce, cuda_tile.scan'}}
  yield
}

// -----

entry @yield_from_a_loop() {
  // expected-error @below {{expects regions to end with 'cuda_tile.continue', found 'cuda_tile.yield'}}
  loop {
    // expected-note @below {{in custom textual format, the absence of terminator implies 'cuda_tile.continue'}}
    yield
  }
}
