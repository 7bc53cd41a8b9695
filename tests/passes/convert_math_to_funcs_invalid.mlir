// RUN: tileiras-opt %s --convert-math-to-funcs --verify-diagnostics

// libdevice has scalars of two types.
module {
  llvm.func @vector(%v: vector<2xf32>) {
    // expected-error @below {{'math.tan' op has no function for 'vector<2xf32>'}}
    %0 = math.tan %v : vector<2xf32>
    llvm.return
  }
}
