; What the machine code in tileiras/codegen/host_code.py was compiled from, for x86-64 in the large code model, position
; independent, at level 2.
%callbacks = type { i64, i64, i64, i64, i64, ptr, i64, i64, ptr }

@__CUDA_TILEIR_CALLBACKS = constant %callbacks {
  i64 2, i64 0, i64 0, i64 0, i64 64, ptr @__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_0, i64 1, i64 2,
  ptr @__CUDA_TILEIR_ON_PRE_LOAD
}, align 16
@__CUDA_TILEIR_CALLBACKS_ON_PRE_LOAD = internal global %callbacks zeroinitializer, align 16

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

; Of a kernel without tensor maps.
define internal i32 @__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_0() nounwind {
  ret i32 0
}

%row = type { i64, [10 x i64], i64, i64, i64 }  ; place, operands, bytes of an element, flags, box

; Of a kernel with tensor maps: behind an instruction that puts the address of the kernel's table where the first
; argument is, which is not used (tileiras/codegen/host_tensor_maps.py).
define internal i32 @__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_1(ptr %table, ptr %memory, ptr %unknown, ptr %parameters)
    nounwind {
entry:
  %count = load i64, ptr %table
  %rows = getelementptr i8, ptr %table, i64 8
  br label %map

map:
  %number = phi i64 [ 0, %entry ], [ %following, %filled ]
  %row = getelementptr %row, ptr %rows, i64 %number
  %place = load i64, ptr %row
  %made = getelementptr i8, ptr %parameters, i64 %place
  %unit.at = getelementptr %row, ptr %row, i64 0, i32 2
  %unit = load i64, ptr %unit.at
  br label %operand

; A parameter of 1, 2, 4 or 8 bytes, or a constant.
operand:
  %index = phi i64 [ 0, %map ], [ %next, %stored ]
  %word.at = getelementptr %row, ptr %row, i64 0, i32 1, i64 %index
  %word = load i64, ptr %word.at
  %bytes = and i64 %word, 255
  %said = ashr i64 %word, 8
  %constant = icmp eq i64 %bytes, 0
  %offset = select i1 %constant, i64 0, i64 %said
  %parameter = getelementptr i8, ptr %parameters, i64 %offset
  %raw = load i64, ptr %parameter, align 1
  %bits = shl i64 %bytes, 3
  %unused = sub i64 64, %bits
  %shift = and i64 %unused, 63
  %high = shl i64 %raw, %shift
  %signed = ashr i64 %high, %shift
  %value = select i1 %constant, i64 %said, i64 %signed
  %of.address = icmp eq i64 %index, 0
  br i1 %of.address, label %address, label %numbers

address:
  store i64 %value, ptr %made
  br label %stored

numbers:
  %at = shl i64 %index, 2
  %of.stride = icmp ult i64 %index, 5
  br i1 %of.stride, label %stride, label %size

stride:
  %stride.bytes = mul i64 %value, %unit
  %units = lshr i64 %stride.bytes, 4
  %stride.word = trunc i64 %units to i32
  %stride.offset = add i64 %at, 8
  %stride.at = getelementptr i8, ptr %made, i64 %stride.offset
  store i32 %stride.word, ptr %stride.at
  br label %stored

; There is no map of no elements.
size:
  %some = icmp sgt i64 %value, 1
  %least = select i1 %some, i64 %value, i64 1
  %size.word = trunc i64 %least to i32
  %size.less = sub i32 %size.word, 1
  %size.offset = add i64 %at, 12
  %size.at = getelementptr i8, ptr %made, i64 %size.offset
  store i32 %size.less, ptr %size.at
  br label %stored

stored:
  %next = add i64 %index, 1
  %more = icmp ult i64 %next, 10
  br i1 %more, label %operand, label %filled

filled:
  %flags.at = getelementptr %row, ptr %row, i64 0, i32 3
  %flags = load i64, ptr %flags.at
  %flags.word = trunc i64 %flags to i32
  %flags.to = getelementptr i8, ptr %made, i64 8
  store i32 %flags.word, ptr %flags.to
  %zero.at = getelementptr i8, ptr %made, i64 28
  store i32 0, ptr %zero.at
  %box.at = getelementptr %row, ptr %row, i64 0, i32 4
  %box = load i64, ptr %box.at
  %box.word = trunc i64 %box to i32
  %box.first = shl i32 %box.word, 24
  %box.first.at = getelementptr i8, ptr %made, i64 52
  store i32 %box.first, ptr %box.first.at
  %box.others = lshr i64 %box, 8
  %box.others.at = getelementptr i8, ptr %made, i64 56
  store i64 %box.others, ptr %box.others.at
  %following = add i64 %number, 1
  %again = icmp ult i64 %following, %count
  br i1 %again, label %map, label %end

end:
  ret i32 0
}

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
