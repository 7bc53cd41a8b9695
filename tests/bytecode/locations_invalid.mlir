// RUN: not tileiras-translate --mlir-to-cudatilebc --split-input-file %s 2>&1 | FileCheck %s

#here = loc("kernel.py":1:2)
#there = loc("kernel.py":3:4)
cuda_tile.module @fused {
  entry @kernel() {
    // CHECK: kernel.py:1:2: error: unsupported location, got FusedLoc, expected DILocAttr or CallSiteLoc
    %0 = iota : tile<8xi32> loc(fused[#here, #there])
  }
}

// -----

#here = loc("kernel.py":5:6)
cuda_tile.module @named {
  entry @kernel() {
    // CHECK: kernel.py:5:6: error: unsupported location, got NameLoc, expected DILocAttr or CallSiteLoc
    %0 = iota : tile<8xi32> loc("x"(#here))
  }
}

// -----

#here = loc("kernel.py":7:8)
cuda_tile.module @called {
  entry @kernel() {
    // CHECK: kernel.py:7:8: error: unsupported location, got NameLoc, expected DILocAttr or CallSiteLoc
    %0 = iota : tile<8xi32> loc(callsite(#here at "x"(#here)))
  }
}
