// RUN: tileiras-opt %s | FileCheck %s

module {
  // The CTAs of a tile block lie along x: the documented form of two of them is ours.
  // CHECK: kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 2>
  nv_tileaa.func @documented() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps=4, clusterDim=[2,1,1]>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
  // CHECK: kernel_spec = #nv_tileaa.kernel_spec<numCtas = 4, occupancy = 2>
  nv_tileaa.func @both() attributes {kernel_spec = #nv_tileaa.kernel_spec<occupancy = 2, numCtas = 4, clusterDim = [4, 1, 1]>, target_spec = "sm_90"} {
    nv_tileaa.return
  }
}
