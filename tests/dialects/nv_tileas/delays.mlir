// RUN: tileiras-opt %s --verify-roundtrip | FileCheck %s

// CHECK: nv_tileas.delay 1000 seed = -1640531527
nv_tileas.delay 1000 seed = -1640531527
