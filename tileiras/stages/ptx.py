"""LLVM IR -> PTX, and NAME.json.

In: the bytes of NAME.ll.  Out: the bytes of NAME.ptx, whose bodies are LLVM's and whose headers are ours.

Order: intrinsics are admitted for the GPU from our own tables before LLVM sees the module (it would end its process),
which also decides whether the target is `sm_90` or, if an instruction requires it, `sm_90a`.  External functions are
resolved in the blobs of the module and in the user's bitcode, then in libdevice, which is searched for only if needed,
and never with `libdevice=explicit`.  LLVM links, optimises and emits in a helper process.  Functions of the user's PTX
are then copied into the module; those of cubins stay declared for the cubin stage.
"""

from __future__ import annotations

from tileiras import codegen
from tileiras.codegen import (
    admission,
    bitcode_library,
    blobs,
    device_code,
    kernel_metadata,
    libdevice,
    llvm_pipeline,
    tile_launch,
)
from tileiras.codegen.llvm_identity import EXPLICIT
from tileiras.codegen.target_machine import PTXRequirement, processor
from tileiras.diagnostics import CompileError, Diagnostic
from tileiras.stages import StageContext, StageOptions, StageResult
from tileiras.targets.sm import MORE_PARAMETERS_PTX, PARAMETER_BYTES

RUNTIME_FUNCTIONS = ("vprintf", "__assertfail", "malloc", "free", "__nvvm_reflect")
"""External functions that need no library: functions of the driver (CUDA programming guide, "Formatted Output",
"Assertion"), and `__nvvm_reflect`, which LLVM evaluates.  The cubin stage links the device runtime."""


def run(source: bytes, options: StageOptions, context: StageContext) -> StageResult:
    ir = source.decode()
    kernels = kernel_metadata.from_ir(ir)
    if options.tile_launch:
        shared_memory = max((kernel.shared_memory for kernel in kernels.values()), default=0)
        ir = tile_launch.prepare(ir, shared_memory, processor(options.gpu_name, context.location).number)
    needs = admission.check(ir, processor(options.gpu_name, context.location), context.location)
    row = processor(options.gpu_name + needs.letter, context.location)
    externals = _without_library(llvm_pipeline.external_functions(ir))
    code = device_code.DeviceCode(options.device_libraries, context.store)
    brought = blobs.libraries(ir, options.blob_linked_lib, context.store, context.location)
    brought += [each.bitcode for each in code.of_kind(device_code.BITCODE) if each.bitcode is not None]
    reflection = bitcode_library.reflection(ir)
    libraries, externals = blobs.closures(brought, externals, context.location, reflection)
    externals = _without_library(externals)
    explicit = options.libdevice == EXPLICIT
    functions = list(dict.fromkeys(name for name in externals if name.startswith(libdevice.PREFIX) and not explicit))
    unknown = [name for name in externals if name not in functions and code.find(name, context.location) is None]
    if unknown:
        raise _unresolved(unknown[0], explicit, context)
    if functions:
        result = libdevice.find(options.libdevice, context.store)
        if result is None:
            raise libdevice.missing(functions, context.location)
        libraries.append(result.closure(functions, context.location, reflection))
    # Metadata stands at the end; only a module with debug information has this node.
    debug = ir.rfind("\n!llvm.dbg.cu = ")
    required = list(needs.ptx)
    if options.tile_launch:
        remedy = "--tile-launch=false makes kernels that are launched as ordinary ones"
        required.append(PTXRequirement(tile_launch.LANGUAGE_PTX, "the tile launch", remedy))
    if debug >= 0 and "emissionKind: FullDebug" in ir[debug:]:
        remedy = "--lineinfo says which line an instruction is from, in any version"
        required.append(PTXRequirement(codegen.ptx.debug.DEBUG_SECTIONS_PTX, "full debug information", remedy))
    compiled = llvm_pipeline.compile_to_ptx(
        ir,
        row,
        opt_level=llvm_pipeline.opt_level_of(ir, options.opt_level),
        requested_ptx=_version(options.ptx_version),
        required_ptx=required,
        libraries=libraries,
        engine=context.engine,
        location=context.location,
        meanwhile=context.meanwhile,
    )
    module = codegen.ptx.parse(compiled.text, context.location)
    module.version = compiled.version
    widest = max((entry.parameter_bytes for entry in module.entries), default=0)
    if options.ptx_version is None and widest > PARAMETER_BYTES:
        module.version = max(module.version, MORE_PARAMETERS_PTX)
    module.target = row.chip
    device_code.copy_ptx(module, code, _version(options.ptx_version))
    if debug >= 0:
        # A requested older version cannot express inlined locations.
        inlining = options.ptx_version is None or module.version >= codegen.ptx.debug.INLINED_PTX
        codegen.ptx.debug.finish(module, ir[debug:], inlining=inlining)
    if options.tile_launch:
        tile_launch.mark(module, kernels)
    document = kernel_metadata.describe(module, kernels, context.location)
    return StageResult(str(module).encode(), {".json": kernel_metadata.to_json(document).encode()})


def _without_library(names: list[str]) -> list[str]:
    """The functions that a library linked here defines: all but those of the driver and of the device runtime."""
    sources = (RUNTIME_FUNCTIONS, codegen.device_runtime.FUNCTIONS) if any(n.startswith("cuda") for n in names) else ()
    return [name for name in names if not any(name in each for each in sources or (RUNTIME_FUNCTIONS,))]


def _unresolved(name: str, explicit: bool, context: StageContext) -> CompileError:
    notes = []
    if explicit and name.startswith(libdevice.PREFIX):
        notes.append(Diagnostic.note(None, f"with libdevice={EXPLICIT}, blobs alone are linked, and none defines it"))
    return CompileError.at(context.location, f"Unresolved extern function '{name}'", notes=notes)


def _version(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    major, _, minor = text.partition(".")
    return (int(major), int(minor))
