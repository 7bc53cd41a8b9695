// RUN: tileiras-opt %s --split-input-file --verify-diagnostics

module {
  llvm.func @fragments(%a: vector<2xf16>, %c: f32) {
    // expected-error @below {{'nvgpu.mma.sync' op expects fragments}}
    %0 = nvgpu.mma.sync A[%a, %a] B[%a, %a] C[%c, %c, %c, %c] {aType = "f16", bType = "f16", cType = "f32", mmaShape = [16 : i32, 8 : i32, 16 : i32]} : (vector<2xf16>, vector<2xf16>, vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    llvm.return
  }
}

// -----

module {
  llvm.func @shape(%a: vector<2xf16>, %c: f32) {
    // expected-error @below {{'nvgpu.mma.sync' op has no instruction 'mma.m16n8k4.row.col.f32.f32'}}
    %0 = nvgpu.mma.sync A[%a] B[%a] C[%c, %c, %c, %c] {aType = "f16", bType = "f16", cType = "f32", mmaShape = [16 : i32, 8 : i32, 4 : i32]} : (vector<2xf16>, vector<2xf16>, f32, f32, f32, f32) -> !llvm.struct<(f32, f32, f32, f32)>
    llvm.return
  }
}

// -----

module {
  llvm.func @type(%a: vector<2xf16>, %c: f32) {
    // expected-error @below {{'nvgpu.mma.sync' op 'aType' must be one of}}
    %0 = nvgpu.mma.sync A[%a] B[%a] C[%c] {aType = "f12", bType = "f16", cType = "f32", mmaShape = [16 : i32, 8 : i32, 16 : i32]} : (vector<2xf16>, vector<2xf16>, f32) -> f32
    llvm.return
  }
}

// -----

module {
  llvm.func @matrices(%p: !llvm.ptr<3>) {
    // expected-error @below {{'nvgpu.ldmatrix' op has no instruction}}
    %0 = nvgpu.ldmatrix %p {numTiles = 3 : i32, transpose = false} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32, i32)>
    llvm.return
  }
}

// -----

// Matrices of bytes are transposed.
module {
  llvm.func @matrices(%p: !llvm.ptr<3>) {
    // expected-error @below {{'nvgpu.ldmatrix' op has no instruction}}
    %0 = nvgpu.ldmatrix %p {eltType = #nvvm.ld_st_matrix_elt_type<b8>, numTiles = 1 : i32, transpose = false} : (!llvm.ptr<3>) -> !llvm.struct<(i32, i32)>
    llvm.return
  }
}

// -----

module {
  llvm.func @copies(%p: !llvm.ptr<3>, %g: !llvm.ptr<1>) {
    // expected-error @below {{'nvgpu.device_async_copy' op 'bypassL1' requires a copy of 16 bytes}}
    nvgpu.device_async_copy %p, %g {bypassL1, dstBytes = 8 : i32} : !llvm.ptr<3>, !llvm.ptr<1>
    llvm.return
  }
}

// -----

module {
  llvm.func @spaces(%p: !llvm.ptr<3>, %g: !llvm.ptr<1>) {
    // expected-error @below {{'nvgpu.device_async_copy' op expects a destination in shared and a source in global memory}}
    nvgpu.device_async_copy %g, %p {dstBytes = 8 : i32} : !llvm.ptr<1>, !llvm.ptr<3>
    llvm.return
  }
}

// -----

module {
  llvm.func @series(%d: f32, %w: i32) {
    // expected-error @below {{'nvgpu.warpgroup.mma' op expects descriptors, or four registers of A for each of 2 steps}}
    %0 = nvgpu.warpgroup.mma [%d], [%w], [%w] {atom = "wgmma_m64n8k16_f32_f16_f16_rs", b_high = 0 : i32, b_steps = array<i32: 0, 2>, transposed = array<i32: 0, 0>} : (f32, i32, i32) -> f32
    llvm.return
  }
}
