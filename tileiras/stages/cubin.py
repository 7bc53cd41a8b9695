"""PTX -> cubin through ptxas or nvJitLink, and NAME.resources.json.

In: the bytes of NAME.ptx, and beside it NAME.json, which states the memory that launches add.  Out: the bytes of
NAME.cubin.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tileiras import codegen
from tileiras.codegen import kernel_metadata, ptx, ptxas
from tileiras.codegen.assembler import NVJITLINK
from tileiras.codegen.kernel_resources import kernel_resources, resources_json
from tileiras.codegen.tile_launch import TILE_LANGUAGE
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode
from tileiras.options import SEPARATELY
from tileiras.stages import StageContext, StageOptions, StageResult
from tileiras.targets.sm import target

if TYPE_CHECKING:
    from tileiras.processes import programs


def run(source: bytes, options: StageOptions, context: StageContext) -> StageResult:
    context.engine.remarks = options.emit_remarks
    text = source.decode()
    module = ptx.parse(text, context.location)
    tile_launch = f"\n.language {TILE_LANGUAGE}\n" in text
    host = _host_object(module, options, context) if tile_launch and options.tile_launch else None
    assemble = _by_library if options.assembler == NVJITLINK else _by_program
    code = codegen.device_code.DeviceCode(options.device_libraries)
    libraries = codegen.device_code.linked_later(text, code)
    assembled = assemble(text, module, host, libraries, options, context)
    launches = kernel_metadata.launch_memory(context.beside.get(".json"))
    kernels = kernel_resources(module, text, assembled.resources, launches)
    if context.engine.remarks:
        codegen.kernel_remarks.remark_on_kernels(kernels, context.engine, context.entry_locations, context.location)
    return StageResult(assembled.cubin, {".resources.json": resources_json(kernels).encode()})


def _host_object(module: ptx.PtxModule, options: StageOptions, context: StageContext) -> bytes | None:
    """The object with the host code that the driver calls before tile launches; None for an unsupported host.

    Raises CompileError (2) where kernels take tensor maps that no host code can fill.
    """
    platform = codegen.host_code.platform_of(options.host_arch, options.host_os)
    described = {kernel["name"]: kernel for kernel in kernel_metadata.kernels_of(context.beside.get(".json"))}
    kernels = []
    for entry in module.entries:
        maps = b""
        if any(parameter.hidden for parameter in entry.parameters):
            kernel = described.get(entry.name, {"hidden_parameters": ()})
            if platform is None or not kernel["hidden_parameters"]:
                missing = "no host code for this machine" if platform is None else "NAME.json does not describe them"
                message = f"kernel '{entry.name}' takes tensor maps, which a tile launch does not make: {missing}"
                raise CompileError.at(context.location, message, ExitCode.CONFIGURATION)
            maps = codegen.host_tensor_maps.table(kernel, target(module.target).parameter_bank)
        kernels.append(codegen.host_code.HostKernel(entry.name, maps))
    return None if platform is None else codegen.host_code.host_object(kernels, *platform)


def _is_tile_launch(text: str) -> bool:
    """Whether PTX is for tile launches, whose shared memory is static: assemblers limit it to 48 KB by default."""
    return f"\n.language {TILE_LANGUAGE}\n" in text


def _by_library(
    text: str, module: ptx.PtxModule, host: bytes | None, libraries: Sequence[str], options: StageOptions,
    context: StageContext,
) -> ptxas.Assembled:  # fmt: skip
    codegen.nvjitlink.check(options, context.location)
    if ".extern .func" in text and codegen.device_runtime.is_called(text):
        message = "--assembler=nvjitlink does not link the device runtime: --assembler=ptxas does"
        raise CompileError.at(context.location, message, ExitCode.CONFIGURATION)
    return codegen.nvjitlink.assemble(
        text, module.target,
        opt_level=options.opt_level, line_info=options.lineinfo, extended_shared=_is_tile_launch(text),
        options=options.ptxas_options, host=host, timeout=options.child_timeout or None, engine=context.engine,
        location=context.location, meanwhile=context.meanwhile, libraries=libraries,
    )  # fmt: skip


def _by_program(
    text: str, module: ptx.PtxModule, host: bytes | None, libraries: Sequence[str], options: StageOptions,
    context: StageContext,
) -> ptxas.Assembled:  # fmt: skip
    # Full debug information includes the line tables; ptxas warns if both options are given, and if the debug
    # information is absent.
    full = options.device_debug and "debug" in module.target_options
    flags = ["--device-debug"] if full else ["--generate-line-info"] if options.lineinfo else []
    if options.sanitize is not None:
        flags += ["--sanitize", options.sanitize, "--g-tensor-memory-access-check"]
    tile_launch = _is_tile_launch(text)
    if tile_launch:
        flags += ["--enable-extended-smem", "true"]
    launches = ".extern .func" in text and codegen.device_runtime.is_called(text)
    if launches or libraries:
        flags.append(codegen.device_runtime.LINKED_LATER)
        host = None  # ptxas adds no host code to a module that is linked later
    try:
        assembled = ptxas.assemble(
            text,
            # The requested GPU, with the suffix that the kernel's instructions require.
            module.target,
            # ptxas refuses -g with optimisation.
            opt_level=0 if options.device_debug else options.opt_level,
            options=(*flags, *options.ptxas_options),
            controls=options.apply_controls,
            host=host,
            ptx_path=context.kept_ptx,
            ptxas=options.ptxas,
            waiting=context.program,
            timeout=options.child_timeout or None,
            engine=context.engine,
            location=context.location,
            meanwhile=context.meanwhile,
        )
    except CompileError as error:
        spoke = tile_launch and not error.diagnostics[0].message.startswith("Child timed out")
        if spoke and error.code == ExitCode.COMPILE_FAILURE:
            _blame_release(error, ptxas.version(ptxas.find(options.ptxas)))
        raise
    if not (launches or libraries) or not SEPARATELY.isdisjoint(options.ptxas_options):
        return assembled
    linked = codegen.device_runtime.link(
        assembled.cubin, module.target, libraries, runtime=launches, debug=full, timeout=options.child_timeout or None,
        location=context.location,
    )  # fmt: skip
    return assembled._replace(cubin=linked)


def start(options: StageOptions) -> programs.WaitingProgram | None:
    """Start the assembler early, so that it loads while LLVM works; None if it must not be started in advance.

    With full debug information, ptxas records in the cubin that it has read an options file; its behavior with the
    user's own options is unknown.
    """
    own = options.ptxas_options or options.apply_controls is not None or options.sanitize is not None
    if options.assembler == NVJITLINK or options.ptxas is not None or options.device_debug or own:
        return None
    return ptxas.start()


def load() -> None:
    """Load the assembler while LLVM works."""
    ptxas.prepare()


TILE_PTXAS = (13, 2)
"""The release of ptxas that came with PTX 9.2."""


def _blame_release(error: CompileError, release: str) -> None:
    """Add a note with the remedy to an error of a ptxas that is too old for tile kernels."""
    match = re.match(r"(\d+)\.(\d+)", release)
    if match is not None and tuple(map(int, match.groups())) < TILE_PTXAS:
        message = (
            f"ptxas {release} knows no tile kernels, 13.2 is the first release that does; --tile-launch=false makes "
            "cubins for ordinary launches"
        )
        error.diagnostics[-1].notes.append(Diagnostic.note(None, message))
