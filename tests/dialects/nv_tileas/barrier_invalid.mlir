// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'nv_tileas.barrier' op expects one of barriers 0 to 15, but got 16}}
nv_tileas.barrier id = 16 threads = 128

// -----

// expected-error @below {{'nv_tileas.barrier' op expects one of barriers 0 to 15, but got -1}}
nv_tileas.barrier id = -1

// -----

// expected-error @below {{'nv_tileas.barrier' op is relaxed for the threads of the CTA, which have to see each other's writes}}
nv_tileas.barrier id = 0 {relaxed}

// -----

// expected-error @below {{'nv_tileas.barrier' op expects all threads of the CTA at barrier 0, not a number of them}}
nv_tileas.barrier id = 0 threads = 128

// -----

// expected-error @below {{'nv_tileas.barrier' op expects a number of threads for barrier 3}}
nv_tileas.barrier id = 3

// -----

// expected-error @below {{'nv_tileas.barrier' op expects a multiple of 32 threads up to 1024, but got 48}}
nv_tileas.barrier id = 3 threads = 48

// -----

// expected-error @below {{'nv_tileas.barrier' op expects a multiple of 32 threads up to 1024, but got 0}}
nv_tileas.barrier id = 3 threads = 0

// -----

// expected-error @below {{'nv_tileas.barrier' op expects a multiple of 32 threads up to 1024, but got 1056}}
nv_tileas.barrier id = 3 threads = 1056

// -----

// expected-error @below {{'nv_tileas.barrier' op attribute 'id' failed to satisfy constraint: 32-bit signless integer attribute}}
"nv_tileas.barrier"() {id = 3 : i64, threads = 64 : i32} : () -> ()
