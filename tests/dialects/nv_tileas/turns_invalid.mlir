// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'nv_tileas.async.wait_turn' op expects one of barriers 1 to 15, but got 0}}
nv_tileas.async.wait_turn id = 0

// -----

// expected-error @below {{'nv_tileas.async.end_turn' op expects one of barriers 1 to 15, but got 16}}
nv_tileas.async.end_turn id = 16 {first}

// -----

// expected-error @below {{'nv_tileas.async.wait_turn' op attribute 'id' failed to satisfy constraint: 32-bit signless integer attribute}}
"nv_tileas.async.wait_turn"() {id = 3 : i64} : () -> ()
