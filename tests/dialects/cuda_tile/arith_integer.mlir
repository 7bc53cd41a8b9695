// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: entry @arithmetic
entry @arithmetic(%a: tile<i32>) {
  // CHECK: addi %arg0, %arg0 : tile<i32>
  %0 = addi %a, %a overflow<none> : tile<i32>
  // CHECK: addi %arg0, %arg0 overflow<no_signed_wrap> : tile<i32>
  %1 = addi %a, %a overflow<no_signed_wrap> : tile<i32>
  // CHECK: subi %{{.*}}, %{{.*}} overflow<no_unsigned_wrap> : tile<i32>
  %2 = subi %0, %1 overflow<no_unsigned_wrap> : tile<i32>
  // CHECK: muli %{{.*}}, %{{.*}} overflow<no_wrap> : tile<i32>
  %3 = muli %1, %2 overflow<no_wrap> : tile<i32>
  // CHECK: mulhii %{{.*}}, %{{.*}} : tile<i32>
  %4 = mulhii %2, %3 : tile<i32>
  // CHECK: divi %{{.*}}, %{{.*}} signed : tile<i32>
  %5 = divi %3, %4 signed : tile<i32>
  // CHECK: divi %{{.*}}, %{{.*}} signed rounding<negative_inf> : tile<i32>
  %6 = divi %3, %4 signed rounding<negative_inf> : tile<i32>
  // CHECK: divi %{{.*}}, %{{.*}} unsigned rounding<positive_inf> : tile<i32>
  %7 = divi %3, %4 unsigned rounding<positive_inf> : tile<i32>
  // CHECK: remi %{{.*}}, %{{.*}} unsigned : tile<i32>
  %8 = remi %6, %7 unsigned : tile<i32>
  // CHECK: maxi %{{.*}}, %{{.*}} signed : tile<i32>
  %9 = maxi %7, %8 signed : tile<i32>
  // CHECK: mini %{{.*}}, %{{.*}} unsigned : tile<i32>
  %10 = mini %8, %9 unsigned : tile<i32>
  // CHECK: absi %{{.*}} : tile<i32>
  %11 = absi %10 : tile<i32>
  // CHECK: negi %{{.*}} overflow<no_signed_wrap> : tile<i32>
  %12 = negi %11 overflow<no_signed_wrap> : tile<i32>
}

// CHECK-LABEL: entry @bits
entry @bits(%a: tile<i8>) {
  // CHECK: andi %arg0, %arg0 : tile<i8>
  %0 = andi %a, %a : tile<i8>
  // CHECK: ori %{{.*}}, %arg0 : tile<i8>
  %1 = ori %0, %a : tile<i8>
  // CHECK: xori %{{.*}}, %{{.*}} : tile<i8>
  %2 = xori %0, %1 : tile<i8>
  // CHECK: shli %{{.*}}, %{{.*}} overflow<no_wrap> : tile<i8>
  %3 = shli %1, %2 overflow<no_wrap> : tile<i8>
  // CHECK: shri %{{.*}}, %{{.*}} unsigned : tile<i8>
  %4 = shri %2, %3 unsigned : tile<i8>
}

// CHECK-LABEL: entry @comparison
entry @comparison(%a: tile<i64>) {
  // CHECK: cmpi greater_than_or_equal %arg0, %arg0, unsigned : tile<i64> -> tile<i1>
  %0 = cmpi greater_than_or_equal %a, %a, unsigned : tile<i64> -> tile<i1>
}
