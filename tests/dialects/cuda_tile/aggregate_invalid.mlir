// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

entry @dimension() {
  %a = iota : tile<8xi32>
  // expected-error @below {{dimension (1) is out of bound [0, 1)}}
  %0 = scan %a dim=1 reverse=false identities=[0 : i32] : tile<8xi32> -> tile<8xi32>
  (%x: tile<i32>, %y: tile<i32>) {
    yield %x : tile<i32>
  }
}

// -----

entry @identities() {
  %a = iota : tile<8xi32>
  // expected-error @below {{expect identities to match the number of operands but got: 1 operands and 2 identities}}
  %0 = reduce %a dim=0 identities=[0 : i32, 0 : i32] : tile<8xi32> -> tile<i32>
  (%x: tile<i32>, %y: tile<i32>) {
    yield %x : tile<i32>
  }
}

// -----

entry @type_of_identity() {
  %a = iota : tile<8xi32>
  // expected-error @below {{expect same type for operand at index: 0 and identity at index: 0 but got: 'i32' and 'f32'}}
  %0 = reduce %a dim=0 identities=[0.0 : f32] : tile<8xi32> -> tile<i32>
  (%x: tile<i32>, %y: tile<i32>) {
    yield %x : tile<i32>
  }
}

// -----

entry @result_shape() {
  %a = iota : tile<8xi32>
  // expected-error @below {{inferred type(s) '!cuda_tile.tile<i32>' are incompatible with return type(s) of operation '!cuda_tile.tile<1xi32>'}}
  // expected-error @below {{'cuda_tile.reduce' op failed to infer returned types}}
  %0 = reduce %a dim=0 identities=[0 : i32] : tile<8xi32> -> tile<1xi32>
  (%x: tile<i32>, %y: tile<i32>) {
    yield %x : tile<i32>
  }
}

// -----

entry @arguments() {
  %a = iota : tile<8xi32>
  // expected-error @below {{expect 2 block arguments but got: 1}}
  %0 = reduce %a dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32>
  (%x: tile<i32>) {
    yield %x : tile<i32>
  }
}

// -----

entry @vector_arguments() {
  %a = iota : tile<8xi32>
  // expected-error @below {{expect 0-rank tile type at index: 0 but got: '!cuda_tile.tile<2xi32>'}}
  %0 = reduce %a dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32>
  (%x: tile<2xi32>, %y: tile<2xi32>) {
    yield %x : tile<2xi32>
  }
}

// -----

entry @yielded_values() {
  %a = iota : tile<8xi32>
  // expected-error @below {{expect number of terminators operands (2) to match number of operands (1)}}
  %0 = reduce %a dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32>
  (%x: tile<i32>, %y: tile<i32>) {
    yield %x, %y : tile<i32>, tile<i32>
  }
}

// -----

entry @yielded_rank() {
  %a = iota : tile<8xi32>
  %w = constant <i32: 0> : tile<4x1xi32>
  // expected-error @below {{expect 0-rank tile type for terminator argument at index: 0 but got: '!cuda_tile.tile<4x1xi32>'}}
  %0 = reduce %a dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32>
  (%x: tile<i32>, %y: tile<i32>) {
    yield %w : tile<4x1xi32>
  }
}

// -----

entry @second_yielded_rank() {
  %a = iota : tile<8xi32>
  // expected-error @below {{expect 0-rank tile type for terminator argument at index: 1 but got: '!cuda_tile.tile<2xi32>'}}
  %0, %1 = scan %a, %a dim=0 reverse=false identities=[0 : i32, 0 : i32] : tile<8xi32>, tile<8xi32> -> tile<8xi32>, tile<8xi32>
  (%x: tile<i32>, %y: tile<i32>, %z: tile<i32>, %u: tile<i32>) {
    %w = constant <i32: 0> : tile<2xi32>
    yield %x, %w : tile<i32>, tile<2xi32>
  }
}

// -----

entry @effects() {
  %a = iota : tile<8xi32>
  %0 = reduce %a dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32>
  (%x: tile<i32>, %y: tile<i32>) {
    %c = cmpi equal %x, %y, signed : tile<i32> -> tile<i1>
    // expected-error @below {{'cuda_tile.assert' op only pure operations are allowed inside 'cuda_tile.reduce'}}
    assert %c, "never" : tile<i1>
    yield %x : tile<i32>
  }
}

// -----

entry @no_body() {
  %a = iota : tile<8xi32>
  // expected-error @below {{region #0 ('body') failed to verify constraint: region with 1 blocks}}
  %0 = "cuda_tile.reduce"(%a) ({}) {dim = 0 : i32, identities = [0 : i32]} : (!cuda_tile.tile<8xi32>) -> !cuda_tile.tile<i32>
}

// -----

entry @inserted_rank(%b: tile<f32>, %i: tile<i32>) {
  %a = constant <f32: 0.0> : tile<8xf32>
  // expected-error @below {{'cuda_tile.insert' op source and result must have the same rank}}
  %0 = insert %b, %a[%i] : tile<f32>, tile<8xf32>
}

// -----

entry @unpacked_words() {
  %a = constant <i32: 0> : tile<4xi32>
  // expected-error @below {{'cuda_tile.unpack' op operand #0 must be tile of i8 values, but got '!cuda_tile.tile<4xi32>'}}
  %0 = unpack %a : tile<4xi32> -> tile<8xi16>
}
