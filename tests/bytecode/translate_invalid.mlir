// RUN: tileiras-translate --mlir-to-cudatilebc --split-input-file --verify-diagnostics --allow-unregistered-dialect %s
// RUN: not tileiras-translate --mlir-to-cudatilebc --bytecode-version=12.9 %s 2>&1 | FileCheck %s --check-prefix=VERSION
// RUN: not tileiras-translate --mlir-to-cudatilebc --bytecode-version=13.x %s 2>&1 | FileCheck %s --check-prefix=NUMBER

// VERSION: Invalid argument '12.9': the supported versions are [13.1 -
// NUMBER: Invalid argument '13.x'

// expected-error @below {{'cuda_tile.module' op only ops from the 'cuda_tile' dialect are allowed}}
cuda_tile.module @foreign {
  entry @kernel() {
    // expected-remark @below {{invalid op: other.op}}
    "other.op"() : () -> ()
  }
}

// -----

// expected-error @below {{'cuda_tile.module' op only function and global ops are allowed in the body}}
cuda_tile.module @loose {
  // expected-remark @below {{invalid op: cuda_tile.iota}}
  %0 = iota : tile<8xi32>
}

// -----

cuda_tile.module @types {
  // expected-error @below {{unsupported type in bytecode writer: 'tensor<4xi32>'}}
  entry @kernel(%a: tensor<4xi32>) {}
}

// -----

#here = loc("kernel.py":1:2)
cuda_tile.module @nothing_kept {
  entry @kernel() {
    %0 = iota : tile<8xi32> loc(#here)
  }
}
