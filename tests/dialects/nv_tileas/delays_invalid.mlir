// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'nv_tileas.delay' op expects 1 to 1000000 nanoseconds, but got 0}}
nv_tileas.delay 0 seed = 1

// -----

// expected-error @below {{'nv_tileas.delay' op expects 1 to 1000000 nanoseconds, but got 1000001}}
nv_tileas.delay 1000001 seed = 1

// -----

// expected-error @below {{'nv_tileas.delay' op expects an odd seed, but got 2}}
nv_tileas.delay 1000 seed = 2
