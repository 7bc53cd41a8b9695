"""`nvvm-ir-verifier`: checks rules for kernels that LLVM leaves to ptxas or does not check, with located diagnostics.

It checks the size of the parameter space, launch attributes, clusters from sm_90 on (PTX ISA, "Cluster Dimension
Directives"), format strings of printf, and launches from the device.

A module in a gpu.module is checked for its own target when it has one, otherwise for the option's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tileiras.analysis.function_pass import gpu_of
from tileiras.diagnostics import (
    OPERATION_ERROR,
    CompileError,
    Diagnostic,
    DiagnosticEngine,
    ExitCode,
    Locatable,
    Severity,
)
from tileiras.dialects import llvm
from tileiras.dialects.gpu import GPUModuleOp
from tileiras.dialects.llvm.layout import parameter_space_bytes
from tileiras.dialects.nvvm import NVVMTargetAttr
from tileiras.dialects.nvvm.attributes import NVGPUCOMP_FLAG, UNROLL_THRESHOLD
from tileiras.ir import (
    Attribute,
    BlockArgument,
    DenseArrayAttr,
    IntegerAttr,
    IntegerType,
    Operation,
    Pass,
    StringAttr,
    UnitAttr,
    Value,
    i1,
)
from tileiras.ir.pass_manager import PassContext
from tileiras.targets import TARGETS, Target
from tileiras.targets.launch import LAUNCH_ATTRIBUTES, MAX_NUMBER, LaunchValue, check_launch_attributes
from tileiras.targets.nvptx import LLVM_PTX_VERSIONS, triple_error
from tileiras.targets.sm import (
    CEILINGS,
    MORE_PARAMETERS_PTX,
    documented_parameter_bytes,
    parameter_bytes,
    parameter_overflow,
)

LAUNCHED_BY = {"cudaGetParameterBufferV2": 0, "cudaLaunchDevice": 0, "cudaLaunchDevice_ptsz": 0}
"""Functions of the device runtime that take the launched kernel -> its operand (cuda_device_runtime_api.h).
`cudaLaunchDeviceV2` takes the buffer that `cudaGetParameterBufferV2` has made for the kernel, and a stream."""

BUFFERS = ("cudaGetParameterBuffer", "cudaGetParameterBufferV2")
"""Functions that return the memory to which the launching kernel writes the arguments of the launch."""

PRINT_FUNCTION = "vprintf"
"""The driver's print function; the first operand is the format."""

LOCAL = 5
"""Address space of a thread's own memory."""


class NVVMIRVerifier(Pass):
    name = "nvvm-ir-verifier"
    anchor = "builtin.module"
    needs = "kernels in `llvm`"
    establishes = "that parameters fit and launch attributes, formats and launches obey their rules"
    keeps = "the module"
    introduces = ()

    compute_capability: str = "sm_90"
    ptx_version: str = ""
    """Version of the PTX that will be written; empty for the version that the parameters need."""
    parameter_ceiling: str = CEILINGS[0]
    """The limit on the bytes of parameters: `documented`, or `ptx` for that of the PTX version."""

    def run(self, op: Operation, context: PassContext) -> None:
        for inner in op.regions[0].operations:
            if isinstance(inner, GPUModuleOp):
                own = [t for t in inner.targets or () if isinstance(t, NVVMTargetAttr)]
                chip = own[0].chip if own else self.compute_capability
                for target in own:
                    for target_error in _target_errors(target):
                        context.engine.error(inner.location, target_error)
                    if target.flags.get(NVGPUCOMP_FLAG) == IntegerAttr(1, i1):
                        context.engine.warning(inner.location, f"target flag '{NVGPUCOMP_FLAG}': {NO_COMPRESSION}")
                if chip in TARGETS:
                    self._verify(inner, TARGETS[chip], context.engine)
                else:
                    context.engine.error(inner.location, "failed to get compute capability.")
        self._verify(op, gpu_of(self.compute_capability), context.engine)

    def _verify(self, module: Operation, gpu: Target, engine: DiagnosticEngine) -> None:
        symbols = {op.sym_name.value: op for op in module.regions[0].operations if isinstance(op, _SYMBOLS)}
        calls = any(name in symbols for name in (PRINT_FUNCTION, *LAUNCHED_BY, *BUFFERS))
        for function in symbols.values():
            if not isinstance(function, llvm.LLVMFuncOp) or function.is_declaration:
                continue
            if function.is_kernel:
                self._check_parameters(function, gpu, engine)
                _check_launch_attributes(function, gpu.number, engine)
            for op in function.walk() if calls else ():
                if isinstance(op, llvm.CallOp):
                    _check_call(op, symbols, engine)

    def _check_parameters(self, function: llvm.LLVMFuncOp, gpu: Target, engine: DiagnosticEngine) -> None:
        if self.parameter_ceiling not in CEILINGS:
            message = f"'{self.parameter_ceiling}' value invalid for option 'parameter-ceiling' of pass '{self.name}'"
            raise CompileError.at(None, f"{message}; expected {' or '.join(CEILINGS)}", ExitCode.CONFIGURATION)
        attributes = map(function.argument_attributes, range(len(function.function_type.inputs)))
        size = parameter_space_bytes(function.function_type.inputs, [a.get("llvm.byval") for a in attributes])
        limits = _ceiling(self.ptx_version), documented_parameter_bytes(gpu.name)
        result = parameter_overflow(size, limits[0], function.sym_name.value, limits[1], self.parameter_ceiling)
        if result is not None:
            notes = [Diagnostic.note(function.location, result[1])] if result[1] else []
            engine.emit(Diagnostic(Severity.ERROR, function.location, result[0], notes, OPERATION_ERROR))


_SYMBOLS = (llvm.LLVMFuncOp, llvm.GlobalOp)


def _target_errors(target: NVVMTargetAttr) -> Iterator[str]:
    """Invalid fields of a target; its chip is checked elsewhere."""
    wrong = triple_error(target.triple)
    if wrong:
        yield wrong
    for feature in target.features.split(",") if target.features else ():
        if feature.startswith("+sm_") and feature != f"+{target.chip}":
            yield f"target feature '{feature}' is not that of chip '{target.chip}'"
    if target.ptx_version != (0, 0) and target.ptx_version not in LLVM_PTX_VERSIONS:
        yield "target has no feature '+ptx{}{}'".format(*target.ptx_version)
    for name, _ in target.flags.items:
        wrong = _flag_error(name)
        if wrong:
            yield f"target flag '{name}' {wrong}"
    if target.link:
        yield "target asks for a module that is linked later, which nothing here does; blobLinkedLib names libraries"


NO_COMPRESSION = "it has no effect, code is not made by libNVVM and not compressed"


def _flag_error(name: str) -> str:
    """The error of a flag for libNVVM that asks for other code than is made here; empty for one that holds."""
    flag, _, number = name.partition("=")
    if flag == "-pragma-unroll-threshold":
        # The schedule has unrolled loops; LLVM unrolls none, as under a threshold above the size of each.
        is_implied = number.isdecimal() and int(number) >= UNROLL_THRESHOLD
        return "" if is_implied else f"asks for unrolling, which is the schedule's: expected {UNROLL_THRESHOLD} or more"
    if flag == "-fma":
        return "" if number == "0" else "asks for contraction, which is part of an operation here: expected 0"
    return "" if name in ("-Xopt", "-g", NVGPUCOMP_FLAG) else "is not known"


def _ceiling(version: str) -> int:
    """Limit on bytes of parameters in a version of PTX; raises CompileError (code 2) for text that is not a version."""
    if not version:
        return parameter_bytes(MORE_PARAMETERS_PTX)
    major, _, minor = version.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        message = f"'{version}' value invalid for option 'ptx-version' of pass 'nvvm-ir-verifier'"
        raise CompileError.at(None, f"{message}; expected a version such as 8.7", ExitCode.CONFIGURATION)
    return parameter_bytes((int(major), int(minor)))


def _check_launch_attributes(function: llvm.LLVMFuncOp, sm: int, engine: DiagnosticEngine) -> None:
    values = {name: _plain(value) for name, value in function.attributes.items() if name in LAUNCH_ATTRIBUTES}
    for name, result in check_launch_attributes(values, sm):
        engine.error(function.location, f"'{name}' attribute {result}")
    for name in function.attributes:
        if name.startswith("nvvm.") and name not in LAUNCH_ATTRIBUTES and name != llvm.KERNEL:
            engine.error(function.location, f"'{name}' attribute of a kernel is not known")
    if not isinstance(function.attributes[llvm.KERNEL], UnitAttr):
        engine.error(function.location, f"'{llvm.KERNEL}' attribute must be a unit attribute")
    shared = function.attributes.get(llvm.SHARED_MEMORY)
    if shared is not None and not (_is_integer(shared) and 0 <= shared.value <= MAX_NUMBER):
        engine.error(function.location, f"'{llvm.SHARED_MEMORY}' attribute must be a number of bytes, got {shared}")


def _plain(value: Attribute) -> LaunchValue:
    """The value of a launch attribute; None if it is invalid."""
    if isinstance(value, UnitAttr):
        return True
    if isinstance(value, DenseArrayAttr):
        integers = isinstance(value.element_type, IntegerType) and value.element_type is not i1
        return tuple(value.elements) if integers else None
    return value.value if isinstance(value, IntegerAttr) and _is_integer(value) else None


def _is_integer(value: IntegerAttr | StringAttr) -> bool:
    return isinstance(value, IntegerAttr) and value.type is not i1


def _check_call(op: llvm.CallOp, symbols: dict[str, Any], engine: DiagnosticEngine) -> None:
    callee = op.callee.root
    if callee == PRINT_FUNCTION and op.operands:
        _check_format(_origin(op.operands[0]), symbols, op.location, engine)
    elif (position := LAUNCHED_BY.get(callee)) is not None and position < len(op.operands):
        launched = symbols.get(_symbol(_origin(op.operands[position])))
        if launched is not None and not (isinstance(launched, llvm.LLVMFuncOp) and launched.is_kernel):
            engine.error(op.location, "a function that is not __global__ cannot be launched")
    if callee in BUFFERS:
        for store, value in _stored_arguments(op.results[0]) if op.results else ():
            if _is_local(value):
                engine.warning(store.location, LOCAL_LAUNCH_ARGUMENT)


def _stored_arguments(buffer: Value) -> Iterator[tuple[Operation, Value]]:
    """The stores to a buffer of arguments, through casts and offsets, and their values."""
    for user in buffer.users:
        if isinstance(user, llvm.StoreOp):
            if user.operands[1] is buffer:
                yield user, user.operands[0]
        elif isinstance(user, (llvm.AddrSpaceCastOp, llvm.GEPOp)):
            yield from _stored_arguments(user.results[0])


LOCAL_LAUNCH_ARGUMENT = (
    "A pointer to local memory or memory in 'addrspace(0)' has been used as a launch argument. "
    "Dereferencing this within the launch is undefined"
)


def _check_format(origin: Value, symbols: dict[str, Any], location: Locatable, engine: DiagnosticEngine) -> None:
    symbol = symbols.get(_symbol(origin))
    if not isinstance(symbol, llvm.GlobalOp) or symbol.constant is None:
        engine.error(location, "printf format string must be a constant address space pointer")


def _origin(value: Value) -> Value:
    """The base of a pointer, through casts and offsets."""
    while isinstance(value.defining_op, (llvm.AddrSpaceCastOp, llvm.GEPOp)):
        value = value.defining_op.operands[0]
    return value


def _symbol(value: Value) -> str:
    op = value.defining_op
    return op.global_name.root if isinstance(op, llvm.AddressOfOp) else ""


def _is_local(value: Value) -> bool:
    """Whether a value points to the launching thread's local memory, or is a generic pointer from a block argument."""
    if not isinstance(value.type, llvm.LLVMPointerType):
        return False
    origin = _origin(value)
    if isinstance(origin.defining_op, llvm.AllocaOp):
        return True
    space = origin.type.address_space
    return space == LOCAL or space == 0 and isinstance(origin, BlockArgument)
