// RUN: tileiras-opt %s --split-input-file --Wunsupported-hints --verify-diagnostics
// RUN: tileiras-opt %s --split-input-file | FileCheck %s --implicit-check-not=warning
// RUN: not tileiras-opt %s --split-input-file --Wunsupported-hints --Werr-hints 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: warning: unknown hint key sm_42
// ERROR: error: 'cuda_tile.entry' op Optimization hints verification failed
// CHECK: entry @architecture() optimization_hints=<sm_42 = {occupancy = 2}>
// expected-warning @below {{unknown hint key sm_42}}
entry @architecture() optimization_hints=<sm_42 = {occupancy = 2}> {}

// -----

// ERROR: warning: latency is not known hint for current Operation
// expected-warning @below {{latency is not known hint for current Operation}}
entry @other_operation() optimization_hints=<sm_90 = {latency = 2}> {}

// -----

// ERROR: error: 'cuda_tile.entry' op Optimization hints verification failed
// expected-warning @below {{integer value in the range [1, 32] is expected for default.occupancy}}
// expected-warning @below {{expected 1 for sm_86.num_cta_in_cga}}
// expected-warning @below {{expected power-of-two ≤ 32 for sm_90.num_worker_warps_per_cta}}
entry @values() optimization_hints=<default = {occupancy = 0}, sm_86 = {num_cta_in_cga = 2}, sm_90 = {num_worker_warps_per_cta = 12}> {}

// -----

entry @accesses(%p: tile<ptr<f32>>, %v: tile<f32>) {
  // ERROR: error: 'cuda_tile.load_ptr_tko' op Optimization hints verification failed
  // expected-warning @below {{integer value expected for sm_90.latency}}
  %0, %1 = load_ptr_tko weak %p optimization_hints = <sm_90 = {latency = "long"}> : tile<ptr<f32>> -> tile<f32>, token
  // expected-warning @below {{allow_tma is not known hint for current Operation}}
  %2 = store_ptr_tko weak %p, %v optimization_hints = <sm_90 = {allow_tma = true}> : tile<ptr<f32>>, tile<f32> -> token
}

// -----

// No complaint: what is said makes sense.
entry @sense() optimization_hints=<default = {occupancy = 32}, sm_100 = {num_cta_in_cga = 16, num_worker_warps_per_cta = 8}> {}
