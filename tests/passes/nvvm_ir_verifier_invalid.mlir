// RUN: tileiras-opt %s --split-input-file --verify-diagnostics --nvvm-ir-verifier=compute-capability=sm_90

// By value, the buffer itself is the parameter.
module {
  // expected-error @below {{Formal parameter space overflowed (40016 bytes required, max 32760 bytes allowed) in function buffer}}
  // expected-note @below {{the PTX version has a limit of 32764 bytes, which this kernel exceeds as well}}
  llvm.func @buffer(%n: i32, %data: !llvm.ptr {llvm.byval = !llvm.array<10002 x i32>}, %p: !llvm.ptr<3>) attributes {nvvm.kernel} {
    llvm.return
  }
}

// -----

// As many bytes as there may be; shared pointers have four.
module {
  llvm.func @fits(%data: !llvm.ptr {llvm.byval = !llvm.array<8189 x i32>}, %p: !llvm.ptr<3>) attributes {nvvm.kernel} {
    llvm.return
  }
  // expected-error @below {{Formal parameter space overflowed (32764 bytes required, max 32760 bytes allowed) in function more}}
  // expected-note @below {{the PTX version has a limit of 32764 bytes, which --parameter-ceiling=ptx admits}}
  llvm.func @more(%data: !llvm.ptr {llvm.byval = !llvm.array<8190 x i32>}, %p: !llvm.ptr<3>) attributes {nvvm.kernel} {
    llvm.return
  }
  // Only entries have a parameter space of this size.
  llvm.func @helper(%data: !llvm.ptr {llvm.byval = !llvm.array<10002 x i32>}) {
    llvm.return
  }
}

// -----

// A struct takes its members at their alignments.
module {
  // expected-error @below {{Formal parameter space overflowed (32776 bytes required, max 32760 bytes allowed) in function struct}}
  // expected-note @below {{the PTX version has a limit of 32764 bytes, which this kernel exceeds as well}}
  llvm.func @struct(%data: !llvm.ptr {llvm.byval = !llvm.struct<(i8, i64, !llvm.array<4094 x f64>, i16)>}) attributes {nvvm.kernel} {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'nvvm.reqntid' attribute must be integer array with maximum 3 index}}
  llvm.func @four() attributes {nvvm.kernel, nvvm.reqntid = array<i32: 1, 1, 1, 1>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.maxntid' attribute must be integer array with maximum 3 index}}
  llvm.func @none() attributes {nvvm.kernel, nvvm.maxntid = array<i32>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.minctasm' attribute must be integer constant}}
  llvm.func @word() attributes {nvvm.kernel, nvvm.minctasm = "one"} {
    llvm.return
  }
  // expected-error @below {{'nvvm.reqntid' attribute asks for 2048 threads; a CTA has 1 to 1024}}
  llvm.func @wide() attributes {nvvm.kernel, nvvm.reqntid = array<i32: 2048>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.maxntid' attribute cannot be used along with 'nvvm.reqntid'}}
  llvm.func @both() attributes {nvvm.kernel, nvvm.maxntid = array<i32: 64>, nvvm.reqntid = array<i32: 64>} {
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{'nvvm.cluster_dim' attribute must be powers of two with a product of at most 16}}
  llvm.func @three() attributes {nvvm.kernel, nvvm.cluster_dim = array<i32: 3, 1, 1>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.cluster_dim' attribute must be powers of two with a product of at most 16}}
  llvm.func @large() attributes {nvvm.kernel, nvvm.cluster_dim = array<i32: 8, 4, 1>} {
    llvm.return
  }
  // expected-error @below {{'nvvm.blocksareclusters' attribute must be used along with 'nvvm.reqntid' and 'nvvm.cluster_dim'}}
  llvm.func @alone() attributes {nvvm.kernel, nvvm.blocksareclusters, nvvm.reqntid = array<i32: 32>} {
    llvm.return
  }
  llvm.func @right() attributes {nvvm.kernel, nvvm.blocksareclusters, nvvm.cluster_dim = array<i32: 4, 4, 1>, nvvm.reqntid = array<i32: 32>} {
    llvm.return
  }
}

// -----

// A module with a target of its own is checked for that.
module {
  gpu.module @old [#nvvm.target<O = 3, chip = "sm_80">] {
    // expected-error @below {{'nvvm.cluster_dim' attribute needs sm_90 or newer, not sm_80}}
    llvm.func @k() attributes {nvvm.kernel, nvvm.cluster_dim = array<i32: 2, 1, 1>} {
      llvm.return
    }
  }
  gpu.module @new [#nvvm.target<O = 3, chip = "sm_100">] {
    llvm.func @k() attributes {nvvm.kernel, nvvm.cluster_dim = array<i32: 2, 1, 1>} {
      llvm.return
    }
  }
}

// -----

module {
  llvm.func @k(%p: !llvm.ptr) attributes {nvvm.kernel} {
    %n = llvm.mlir.constant(32 : i32) : i32
    // expected-error @below {{'nvvm.mbarrier.init.shared' op mbarrier requires shared-memory operand}}
    nvvm.mbarrier.init.shared %p, %n : !llvm.ptr, i32
    llvm.return
  }
}

// -----

module {
  llvm.func @vprintf(!llvm.ptr, !llvm.ptr) -> i32
  llvm.mlir.global internal constant @good("text\00") : !llvm.array<5 x i8>
  llvm.mlir.global internal @changing("text\00") : !llvm.array<5 x i8>
  llvm.func @k(%p: !llvm.ptr) attributes {nvvm.kernel} {
    %null = llvm.mlir.zero : !llvm.ptr
    %good = llvm.mlir.addressof @good : !llvm.ptr
    %0 = llvm.call @vprintf(%good, %null) : (!llvm.ptr, !llvm.ptr) -> i32
    %changing = llvm.mlir.addressof @changing : !llvm.ptr
    // expected-error @below {{printf format string must be a constant address space pointer}}
    %1 = llvm.call @vprintf(%changing, %null) : (!llvm.ptr, !llvm.ptr) -> i32
    // expected-error @below {{printf format string must be a constant address space pointer}}
    %2 = llvm.call @vprintf(%p, %null) : (!llvm.ptr, !llvm.ptr) -> i32
    llvm.return
  }
}

// -----

// The kernel is operand 0 of cudaGetParameterBufferV2; cudaLaunchDeviceV2 takes the buffer and a stream.
module {
  llvm.func @cudaGetParameterBufferV2(!llvm.ptr, !llvm.struct<(i32, i32, i32)>, !llvm.struct<(i32, i32, i32)>, i32) -> !llvm.ptr
  llvm.func @cudaLaunchDeviceV2(!llvm.ptr, !llvm.ptr) -> i32
  llvm.mlir.global internal @data(0 : i32) : i32
  llvm.func @helper() {
    llvm.return
  }
  llvm.func @child(%p: !llvm.ptr, %q: !llvm.ptr) attributes {nvvm.kernel} {
    llvm.return
  }
  llvm.func @parent(%data: !llvm.ptr<1>, %stream: !llvm.ptr) attributes {nvvm.kernel} {
    %global = llvm.addrspacecast %data : !llvm.ptr<1> to !llvm.ptr
    %n = llvm.mlir.constant(4 : i32) : i32
    %one = llvm.mlir.undef : !llvm.struct<(i32, i32, i32)>
    %helper = llvm.mlir.addressof @helper : !llvm.ptr
    // expected-error @below {{a function that is not __global__ cannot be launched}}
    %0 = llvm.call @cudaGetParameterBufferV2(%helper, %one, %one, %n) : (!llvm.ptr, !llvm.struct<(i32, i32, i32)>, !llvm.struct<(i32, i32, i32)>, i32) -> !llvm.ptr
    %variable = llvm.mlir.addressof @data : !llvm.ptr
    // expected-error @below {{a function that is not __global__ cannot be launched}}
    %1 = llvm.call @cudaGetParameterBufferV2(%variable, %one, %one, %n) : (!llvm.ptr, !llvm.struct<(i32, i32, i32)>, !llvm.struct<(i32, i32, i32)>, i32) -> !llvm.ptr
    %child = llvm.mlir.addressof @child : !llvm.ptr
    %buffer = llvm.call @cudaGetParameterBufferV2(%child, %one, %one, %n) : (!llvm.ptr, !llvm.struct<(i32, i32, i32)>, !llvm.struct<(i32, i32, i32)>, i32) -> !llvm.ptr
    llvm.store %global, %buffer : !llvm.ptr, !llvm.ptr
    %second = llvm.getelementptr %buffer[8] : (!llvm.ptr) -> !llvm.ptr, i8
    %local = llvm.alloca %n x i32 : (i32) -> !llvm.ptr
    // expected-warning @below {{A pointer to local memory or memory in 'addrspace(0)' has been used as a launch argument. Dereferencing this within the launch is undefined}}
    llvm.store %local, %second : !llvm.ptr, !llvm.ptr
    %2 = llvm.call @cudaLaunchDeviceV2(%buffer, %stream) : (!llvm.ptr, !llvm.ptr) -> i32
    llvm.return
  }
}

// -----

// Before the second version, the launch takes the kernel, and the buffer behind it.
module {
  llvm.func @cudaGetParameterBuffer(i64, i64) -> !llvm.ptr
  llvm.func @cudaLaunchDevice(!llvm.ptr, !llvm.ptr, !llvm.struct<(i32, i32, i32)>, !llvm.struct<(i32, i32, i32)>, i32, !llvm.ptr) -> i32
  llvm.func @helper() {
    llvm.return
  }
  llvm.func @parent(%stream: !llvm.ptr) attributes {nvvm.kernel} {
    %size = llvm.mlir.constant(8 : i64) : i64
    %n = llvm.mlir.constant(4 : i32) : i32
    %one = llvm.mlir.undef : !llvm.struct<(i32, i32, i32)>
    %buffer = llvm.call @cudaGetParameterBuffer(%size, %size) : (i64, i64) -> !llvm.ptr
    // expected-warning @below {{A pointer to local memory or memory in 'addrspace(0)' has been used as a launch argument. Dereferencing this within the launch is undefined}}
    llvm.store %stream, %buffer : !llvm.ptr, !llvm.ptr
    %helper = llvm.mlir.addressof @helper : !llvm.ptr
    // expected-error @below {{a function that is not __global__ cannot be launched}}
    %0 = llvm.call @cudaLaunchDevice(%helper, %buffer, %one, %one, %n, %stream) : (!llvm.ptr, !llvm.ptr, !llvm.struct<(i32, i32, i32)>, !llvm.struct<(i32, i32, i32)>, i32, !llvm.ptr) -> i32
    llvm.return
  }
}

// -----

module {
  // expected-error @below {{failed to get compute capability.}}
  gpu.module @unknown [#nvvm.target<O = 3, chip = "sm_42">] {
  }
}
