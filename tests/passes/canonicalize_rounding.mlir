// RUN: tileiras-opt %s --canonicalize --split-input-file | FileCheck %s

// Halves away from zero: the conversion truncates, so that neither ceil nor floor is needed, and one sum suffices.

// CHECK-LABEL: @away
// CHECK-SAME: (%[[X:.*]]: f32)
// CHECK: %[[C:.*]] = arith.constant -5.0
// CHECK: %[[D:.*]] = arith.constant 2.5
// CHECK: %[[N:.*]] = arith.cmpf olt, %[[X]]
// CHECK: %[[H:.*]] = arith.select %[[N]], %[[C]], %[[D]] : i1, f32
// CHECK: %[[A:.*]] = nv_tileaa.addf %[[X]], %[[H]] : f32
// CHECK: arith.fptosi %[[A]] : f32 to i8
module {
  nv_tileaa.func @away(%x: f32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0.0 : f32
    %c = arith.constant 0.5 : f32
    %d = arith.constant 0.25 : f32
    %n = arith.cmpf olt, %x, %zero : f32
    %a = nv_tileaa.subf %x, %c : f32
    %b = nv_tileaa.addf %d, %x : f32
    %up = math.ceil %a : f32
    %down = math.floor %b : f32
    %s = arith.select %n, %up, %down : i1, f32
    %i = arith.fptosi %s : f32 to i8
    %t = nv_tileaa.print "%d", %i : i8 -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}

// -----

// A sum on the wrong side of zero is not truncated by floor, nor a number that another comparison is of.

// CHECK-LABEL: @other
// CHECK: math.ceil
// CHECK: math.floor
// CHECK: math.ceil
// CHECK: math.floor
module {
  nv_tileaa.func @other(%x: f32, %y: f32) attributes {kernel_spec = #nv_tileaa.kernel_spec<numCtas = 1>, target_spec = "sm_90"} {
    %zero = arith.constant 0.0 : f32
    %c = arith.constant 0.5 : f32
    %n = arith.cmpf oge, %x, %zero : f32
    %a = nv_tileaa.subf %x, %c : f32
    %up = math.ceil %x : f32
    %down = math.floor %a : f32
    %s = arith.select %n, %down, %up : i1, f32
    %i = arith.fptosi %s : f32 to i8
    %m = arith.cmpf oge, %y, %zero : f32
    %p = math.ceil %x : f32
    %q = math.floor %x : f32
    %r = arith.select %m, %q, %p : i1, f32
    %j = arith.fptosi %r : f32 to i8
    %t = nv_tileaa.print "%d %d", %i, %j : i8, i8 -> !nv_tileaa.mem_token
    nv_tileaa.return
  }
}
