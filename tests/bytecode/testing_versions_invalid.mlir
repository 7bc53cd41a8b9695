// RUN: tileiras-translate --mlir-to-cudatilebc --testing-ops --bytecode-version=250.0 --split-input-file --verify-diagnostics %s
// RUN: not tileiras-translate --mlir-to-cudatilebc --testing-ops --bytecode-version=13.3 --split-input-file %s 2>&1 | FileCheck %s
// RUN: not tileiras-translate --mlir-to-cudatilebc --bytecode-version=250.0 %s 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: Invalid argument '250.0': the supported versions are

cuda_tile.module @number {
  entry @kernel() {
    // CHECK: operation 'cuda_tile.testing$bytecode_test_new_attribute' is not available in bytecode version 13.3
    // expected-error @below {{attribute 'new_param' requires bytecode version 250.1+, but targeting 250.0}}
    testing$bytecode_test_new_attribute new_param = 5
  }
}

// -----

cuda_tile.module @flag {
  entry @kernel() {
    // expected-error @below {{optional attribute 'new_flag' is provided but requires bytecode version 250.1, targeting 250.0}}
    testing$bytecode_test_new_attribute new_flag
  }
}

// -----

cuda_tile.module @operand {
  entry @kernel(%x: tile<f32>) {
    %t = make_token : token
    // expected-error @below {{optional operand 'optional_token' is provided but requires bytecode version 250.1, targeting 250.0}}
    %0 = testing$bytecode_test_evolution(%x : !cuda_tile.tile<f32>) token = %t : token -> token
  }
}

// -----

cuda_tile.module @result {
  entry @kernel(%x: tile<f32>) {
    // expected-error @below {{result 'result_token' requires bytecode version 250.1 but is being used and targeting 250.0}}
    %0 = testing$bytecode_test_evolution(%x : !cuda_tile.tile<f32>) -> token
    %1 = join_tokens %0, %0 : token
  }
}

// -----

cuda_tile.module @case {
  entry @kernel(%x: tile<f32>) {
    // expected-error @below {{enum value for attribute 'bytecode_test_priority' is not available in bytecode version 250.0}}
    %0 = testing$bytecode_test_evolution(%x : !cuda_tile.tile<f32>) priority = <high> -> token
  }
}
