// RUN: tileiras-opt %s --tileas-materialize-convert-layout | FileCheck %s

// Conversions move down to their first user, so that those of one user stand together, past the load between them.

#a = #nv_tileas.linear<register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = []>
#b = #nv_tileas.linear<register = [[32]], lane = [[1], [2], [4], [8], [16]], warp = []>
module {
  nv_tileaa.func @k(%p: tensor<64x!nv_tileaa.ptr<f32>, #a>) attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 1, numCtas = 1>, target_spec = "sm_90"} {
    %t = nv_tileas.create_mem_token : !nv_tileaa.mem_token
    // CHECK: nv_tileas.load
    // CHECK-NEXT: nv_tileas.load
    // CHECK-NEXT: nv_tileas.convert_layout
    // CHECK-NEXT: nv_tileas.convert_layout
    // CHECK-NEXT: nv_tileas.addf
    %x, %u = nv_tileas.load %p token = %t {atom = #nv_tileas.copy_atom<ld_global, 1>} : tensor<64x!nv_tileaa.ptr<f32>, #a> -> tensor<64xf32, #a>, !nv_tileaa.mem_token
    %c = nv_tileas.convert_layout %x : tensor<64xf32, #a> -> tensor<64xf32, #b>
    %y, %v = nv_tileas.load %p token = %t {atom = #nv_tileas.copy_atom<ld_global, 1>} : tensor<64x!nv_tileaa.ptr<f32>, #a> -> tensor<64xf32, #a>, !nv_tileaa.mem_token
    %d = nv_tileas.convert_layout %y : tensor<64xf32, #a> -> tensor<64xf32, #b>
    %z = nv_tileas.addf %c, %d : tensor<64xf32, #b>
    nv_tileaa.return
  }
}
