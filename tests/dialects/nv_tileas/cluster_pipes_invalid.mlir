// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --pass-pipeline="builtin.module(tileaa-agent-verifier{compute-capability=sm_100})"
#shared = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 4>, target_spec = "sm_100"} {
    %ring = nv_tileas.alloc_tensor : !nv_tileas.buffer<2, tensor<32xf32, #shared>>
    // expected-error @below {{'nv_tileas.async.pipeline.create_pipeline' op expects 2, 4, 8 or 16 CTAs, and bulk copies, where CTAs fill each other's stages}}
    %p, %c = nv_tileas.async.pipeline.create_pipeline %ring stages 2 producer = bulk_load consumer = ld_shared ctas = 3 : !nv_tileas.buffer<2, tensor<32xf32, #shared>>
    nv_tileaa.return
  }
}

// -----

#shared = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 4>, target_spec = "sm_100"} {
    %ring = nv_tileas.alloc_tensor : !nv_tileas.buffer<2, tensor<32xf32, #shared>>
    // expected-error @below {{'nv_tileas.async.pipeline.create_pipeline' op has stages that a pair of CTAs multiplies, which no other CTA fills}}
    %p, %c = nv_tileas.async.pipeline.create_pipeline %ring stages 2 producer = bulk_load consumer = tcgen05_pair ctas = 4 : !nv_tileas.buffer<2, tensor<32xf32, #shared>>
    nv_tileaa.return
  }
}

// -----

#shared = #nv_tileas.shared<offset = [[1], [2], [4], [8], [16]]>
module {
  nv_tileaa.func @f() attributes {kernel_spec = #nv_tileaa.kernel_spec<numWarps = 4, numCtas = 4>, target_spec = "sm_100"} {
    %ring = nv_tileas.alloc_tensor : !nv_tileas.buffer<2, tensor<32xf32, #shared>>
    // expected-error @below {{'nv_tileas.async.pipeline.create_pipeline' op is of one CTA, which always fills its stages alone}}
    %p, %c = nv_tileas.async.pipeline.create_pipeline %ring stages 2 producer = bulk_load consumer = ld_shared {alone} : !nv_tileas.buffer<2, tensor<32xf32, #shared>>
    nv_tileaa.return
  }
}
