"""`tileir-emit-host-wrapper`: the object with the host's part of launches, from the kernels of a module.

The stage `cubin` puts such an object into cubins for tile launches (`codegen/host_code.py`); this pass makes it for
readers of the textual pipeline.  `dump-host` names the file that it is written to, `host-triple` the host;
`enable-debug-logging` reports the arguments of each kernel, in the words of the driver's callbacks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tileiras import codegen
from tileiras.analysis.function_pass import functions_of, gpu_of
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects import nv_tileas as tileas
from tileiras.ir import Operation, Pass, Type
from tileiras.ir.pass_manager import PassContext
from tileiras.targets import Target

NATIVE = "native"

POINTER_BYTES = 8


class EmitHostWrapper(Pass):
    name = "tileir-emit-host-wrapper"
    anchor = "builtin.module"
    needs = "`nv_tileas`, with tensor maps among the arguments"
    establishes = "the host's object in the file `dump-host`, if that is given"
    keeps = "the module"
    adds_operations = False
    preserves_analyses = True

    compute_capability: str = "sm_90"
    dump_host: str = ""
    host_triple: str = NATIVE
    enable_debug_logging: bool = False

    def run(self, op: Operation, context: PassContext) -> None:
        platform = self._platform()
        functions = list(functions_of(op))
        if self.enable_debug_logging:
            for func in functions:
                _report(func, context)
        if not self.dump_host:
            return
        if platform is None:
            raise CompileError.at(op.location, "no host code for this machine", ExitCode.CONFIGURATION)
        gpu = gpu_of(self.compute_capability)
        data = codegen.host_code.host_object([_host_kernel(func, gpu) for func in functions], *platform)
        try:
            with open(self.dump_host, "wb") as file:
                file.write(data)
        except OSError as error:
            message = f"unable to write host wrapper '{self.dump_host}': {error.strerror}"
            raise CompileError.at(None, message, ExitCode.USAGE) from None

    def _platform(self) -> tuple[str, str] | None:
        """Architecture and system of the host; None for a machine without code, if it is this one.

        Raises CompileError (code 2) for a triple of another host without code.
        """
        if self.host_triple == NATIVE:
            return codegen.host_code.platform_of(None, None)
        architecture, *rest = self.host_triple.split("-")
        system = next((name for name in ("linux", "windows") if any(part.startswith(name) for part in rest)), "")
        platform = codegen.host_code.platform_of(architecture, system)
        if platform is None:
            message = f"unsupported host triple: '{self.host_triple}'"
            raise CompileError.at(None, message, ExitCode.CONFIGURATION)
        return platform


def _arguments(func: aa.FuncOp) -> Iterator[tuple[int, int]]:
    """Offset and size in bytes of each argument but the tensor maps, at its natural alignment."""
    offset = 0
    for type in func.function_type.inputs[: len(func.function_type.inputs) - len(_maps(func))]:
        size = _bytes(type)
        offset += -offset % size
        yield offset, size
        offset += size


def _bytes(type: Type) -> int:
    if isinstance(type, aa.PtrType):
        return POINTER_BYTES
    return max(1, math.ceil(type.width / 8))  # type: ignore[attr-defined]


def _maps(func: aa.FuncOp) -> list[Any]:
    return list(func.attributes.get(tileas.TENSOR_MAPS, ()))  # type: ignore[call-overload]


def _host_kernel(func: aa.FuncOp, gpu: Target) -> codegen.host_code.HostKernel:
    described = {
        "parameters": [{"offset": offset, "size": size} for offset, size in _arguments(func)],
        "hidden_parameters": [{"fill": each.value} for each in _maps(func)],
    }
    try:
        maps = codegen.host_tensor_maps.table(described, gpu.parameter_bank)
    except ValueError as error:
        raise CompileError.at(func.location, f"kernel '{func.sym_name.value}': {error}") from None
    return codegen.host_code.HostKernel(func.sym_name.value, maps)


def _report(func: aa.FuncOp, context: PassContext) -> None:
    for number, (offset, size) in enumerate(_arguments(func)):
        text = f"[TileIR Callback] Argument {number}: offset = {offset}, size = {size}"
        context.engine.emit(Diagnostic(Severity.NOTE, func.location, text))
