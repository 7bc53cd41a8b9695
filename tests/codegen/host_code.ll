; What the machine code in tileiras/codegen/host_code.py was compiled from, for x86-64 in the large code model, position
; independent, at level 2.
%callbacks = type { i64, i64, i64, i64, i64, ptr, i64, i64, ptr }

@__CUDA_TILEIR_CALLBACKS = constant %callbacks {
  i64 2, i64 0, i64 0, i64 0, i64 64, ptr @__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE, i64 1, i64 2,
  ptr @__CUDA_TILEIR_ON_PRE_LOAD
}, align 16
@__CUDA_TILEIR_CALLBACKS_ON_PRE_LOAD = internal global %callbacks zeroinitializer, align 16

define internal i32 @__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE() nounwind {
  ret i32 0
}

define i32 @__CUDA_TILEIR_ON_PRE_LOAD(ptr %functions, ptr %device, i32 %version, ptr %result) nounwind {
  %none = icmp eq i32 %version, 0
  br i1 %none, label %refused, label %load
refused:
  ret i32 1
load:
  call void @llvm.memcpy.p0.p0.i64(ptr align 16 @__CUDA_TILEIR_CALLBACKS_ON_PRE_LOAD,
                                   ptr align 16 @__CUDA_TILEIR_CALLBACKS, i64 72, i1 false)
  store ptr @__CUDA_TILEIR_CALLBACKS_ON_PRE_LOAD, ptr %result
  ret i32 0
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
