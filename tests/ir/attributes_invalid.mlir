// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{expected attribute value}}
"toy.plain"() {a = } : () -> ()

// -----

// expected-error @below {{undefined symbol alias id 'nosuch'}}
"toy.plain"() {a = #nosuch} : () -> ()

// -----

// expected-error @below {{undefined symbol alias id 'nosuch'}}
"toy.plain"() : () -> !nosuch

// -----

// expected-error @below {{unknown attribute `nosuch` in dialect `scf`}}
"toy.plain"() {a = #scf.nosuch<1>} : () -> ()

// -----

// expected-error @below {{dialect 'nosuch' is not known}}
"toy.plain"() : () -> !nosuch.type

// -----

// expected-error @below {{unknown type: nosuch}}
toy.func @f(%a: nosuch) { return }

// -----

// expected-error @below {{integer constant out of range for attribute}}
"toy.plain"() {a = 256 : i8} : () -> ()

// -----

// expected-error @below {{integer literal not valid for specified type}}
"toy.plain"() {a = 1 : none} : () -> ()

// -----

// expected-error @below {{floating point value not valid for specified type}}
"toy.plain"() {a = 1.0 : i32} : () -> ()

// -----

// expected-error @below {{unexpected decimal integer literal for a floating point value}}
// expected-note @+1 {{add a trailing dot to make the literal a float}}
"toy.plain"() {a = 1 : f32} : () -> ()

// -----

// expected-error @below {{hexadecimal float constant out of range for type}}
"toy.plain"() {a = 0x1FFFFFFFF : f32} : () -> ()

// -----

// expected-error @below {{tensor literal is invalid; ranks are not consistent between elements}}
"toy.plain"() {a = dense<[[1, 2], [3]]> : tensor<2x2xi32>} : () -> ()

// -----

// expected-error @below {{inferred shape of elements literal ([2]) does not match type ([3])}}
"toy.plain"() {a = dense<[1, 2]> : tensor<3xi32>} : () -> ()

// -----

// expected-error @below {{expected integer elements, but parsed floating-point}}
"toy.plain"() {a = dense<[1.0, 2.0]> : tensor<2xi32>} : () -> ()

// -----

// expected-error @below {{expected floating-point or integer element type, got !llvm.ptr}}
"toy.plain"() {a = dense<1> : tensor<2x!llvm.ptr>} : () -> ()

// -----

// expected-error @below {{elements hex data size is invalid for provided type}}
"toy.plain"() {a = dense<"0x0102"> : tensor<3xi8>} : () -> ()

// -----

// expected-error @below {{integer bitwidth is limited to 16777215 bits}}
"toy.plain"() : () -> i16777216

// -----

#a = 1 : i32
// expected-error @below {{redefinition of attribute alias id 'a'}}
#a = 2 : i32

// -----

#a = [#b]
// expected-error @below {{alias '#a' refers to itself}}
#b = [#a]

// -----

// expected-error @below {{attribute names with a '.' are reserved for dialect-defined names}}
#a.b = 1

// -----

// expected-error @below {{expected '"' in string literal}}
"toy.plain"() {a = "text} : () -> ()

// -----

// expected-error @below {{unknown escape in string literal}}
"toy.plain"() {a = "te\qxt"} : () -> ()

// -----

// expected-error @below {{expected location, but found '1 : i32'}}
"toy.plain"() : () -> () loc(#a)
#a = 1 : i32

// -----

// expected-error @below {{expected location instance}}
"toy.plain"() : () -> () loc(nosuch)

// -----

// expected-error @below {{expected ')'}}
"toy.plain"() : () -> () loc("f":1:2
