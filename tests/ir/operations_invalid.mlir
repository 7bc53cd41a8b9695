// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{custom op 'nosuch' is unknown (tried 'builtin.nosuch' as well)}}
nosuch

// -----

// expected-error @below {{custom op 'toy.nosuch' is unknown}}
toy.nosuch

// -----

// expected-error @below {{operation being parsed with an unregistered dialect. If this is intended, please use -allow-unregistered-dialect with the MLIR tool used}}
"nosuch.op"() : () -> ()

// -----

// expected-error @below {{unregistered operation 'scf.nosuch' found in dialect ('scf') that does not allow unknown operations}}
"scf.nosuch"() : () -> ()

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{use of undeclared SSA value name}}
  %0 = add %a, %b : i32
  // expected-error @below {{use of undeclared SSA value name}}
  %1 = add %c, %b : i32
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-note @below {{previously defined here}}
  %0 = add %a, %a : i32
  // expected-error @below {{redefinition of SSA value '%0'}}
  %0 = add %a, %a : i32
  return
}

// -----

// expected-note @below {{previously defined here}}
toy.func @f(%a: i32) {
  // expected-error @below {{redefinition of SSA value '%a'}}
  %a = make_token : token
  return
}

// -----

// expected-note @below {{prior use here}}
toy.func @f(%a: i32) {
  // expected-error @below {{use of value '%a' expects different type than prior uses: 'i64' vs 'i32'}}
  %0 = add %a, %a : i64
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-note @below {{previously used here with type 'i64'}}
  "toy.plain"(%0) : (i64) -> ()
  // expected-error @below {{definition of SSA value '%0' has type 'i32'}}
  %0 = add %a, %a : i32
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{operation defines 1 results but was provided 2 to bind}}
  %0:2 = add %a, %a : i32
  return
}

// -----

toy.func @f() {
  // expected-error @below {{cannot name an operation with no results}}
  %0 = return
}

// -----

toy.func @f(%a: i32) {
  %0:2 = "toy.plain"() : () -> (i32, i32)
  // expected-error @below {{reference to invalid result number}}
  "toy.plain"(%0#2) : (i32) -> ()
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{expected ','}}
  %0 = add %a %a : i32
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{expected SSA operand}}
  %0 = add %a, i32 : i32
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{expected '='}}
  %0 add %a, %a : i32
  return
}

// -----

toy.func @f(%a: i32) {
  // The missing token belongs at the end of the line.
  // expected-error @below {{expected ':'}}
  %0 = add %a, %a
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{expected toy.mode to be one of: fast, exact}}
  %0 = add %a, %a mode<slow> : i32
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{expected string or keyword containing one of the following enum values for attribute 'kind' [block, device]}}
  scoped system %a : i32
  return
}

// -----

// expected-note @below {{prior use here}}
toy.func @f(%a: i32) {
  // expected-error @below {{use of value '%a' expects different type than prior uses: '!toy.token' vs 'i32'}}
  wait %a
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{duplicate key 'x' in dictionary attribute}}
  %0 = add %a, %a {x, x} : i32
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{attribute 'mode' occurs more than once in the attribute list}}
  %0 = add %a, %a mode<fast> {mode = #toy.mode<fast>} : i32
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{`flush` clause can appear at most once}}
  %0 = clamp %a flush flush : i32
  return
}

// -----

toy.func @f(%a: i32, %t: token) {
  // expected-error @below {{custom op 'toy.load' number of operands and types do not match: got 1 operands and 0 types}}
  %0:2 = load %a, %a : i32 -> i32, token
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{custom op 'toy.load' number of operands and types do not match: got 0 operands and 1 types}}
  %0:2 = load %a : i32, i32 -> i32, token
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{expected 1 operand type but had 2}}
  "toy.plain"(%a) : (i32, i32) -> ()
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{op 'toy.plain' has no custom assembly form}}
  plain %a
  return
}

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{expected '}' to end a region}}
  %0 = add %a, %a : i32

// -----

toy.func @f(%a: i32) {
  // expected-error @below {{reference to an undefined block '^bb1'}}
  br ^bb1
}

// -----

toy.func @f(%a: i32) {
  br ^bb1
// expected-note @below {{previously defined here}}
^bb1:
  br ^bb1
// expected-error @below {{redefinition of block '^bb1'}}
^bb1:
  return
}

// -----

// expected-error @below {{expected valid '@'-identifier for symbol name}}
toy.func f() {
}
