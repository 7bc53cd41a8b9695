"""LLVM IR text to object code of a CPU; LLVM runs in the helper process (`processes.helper`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tileiras.codegen import llvm_identity
from tileiras.codegen.llvm_pipeline import first_line
from tileiras.codegen.target_machine import initialize
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Locatable
from tileiras.processes import helper
from tileiras.targets.cpu import CpuTarget, cpu_target

if TYPE_CHECKING:
    from tileiras.stages import StageOptions

OPTIMIZATION = {0: 0, 1: 1, 2: 1, 3: 1}
"""Level of the compiler -> LLVM's: vectors are explicit, and LLVM's passes on functions at its level 1 make code as
fast as those on modules at level 2, in half of the time."""
CODE_GENERATION = {0: 0, 1: 2}
"""LLVM's level -> that of code generation."""
LONG = 4000
"""Lines of a module from which on no loop is unrolled.  Unrolled, the loops over the rows of successive tiles are one
block, and code generation takes time with the square of a block's length."""


def tool_identity(options: StageOptions) -> str:
    """LLVM, and the level that `cpu` stands for on this machine."""
    return f"{llvm_identity.llvm_identity()} {level_identity(options)}"


def level_identity(options: StageOptions) -> str:
    target = cpu_target(options.gpu_name)
    return target.name if target is not None else "none"


def require_target(name: str, location: Locatable | None) -> CpuTarget:
    """The row of a target name; raises CompileError (code 2) for `cpu` on a machine without a level."""
    target = cpu_target(name)
    if target is None:
        message = "target cpu needs a machine with AVX2, FMA and F16C (x86-64-v3), or AArch64; name another level"
        raise CompileError.at(location, message, ExitCode.CONFIGURATION)
    return target


def compile_object(
    ir: str, target: CpuTarget, opt_level: int, location: Locatable | None, meanwhile: Callable[[], None] | None
) -> bytes:
    """The object file of a module; raises CompileError if LLVM refuses it."""
    try:
        result, _ = helper.call(
            "object", meanwhile=meanwhile, ir=ir, triple=target.triple, processor=target.processor,
            opt_level=OPTIMIZATION[opt_level],
        )  # fmt: skip
    except helper.HelperDied as death:
        value = first_line(death.text) or death.reason
        notes = [Diagnostic.note(None, f"LLVM ended with {death.reason}")]
        raise CompileError.at(
            location, f"LLVM could not generate code for {target.name}: {value}", notes=notes
        ) from None
    except RuntimeError as error:
        message = f"LLVM refused the module: {first_line(str(error))}"
        raise CompileError.at(location, message, ExitCode.COMPILE_FAILURE) from None
    return result


def emit(ir: str, triple: str, processor: str, opt_level: int) -> bytes:
    """The object file, in the helper process."""
    import llvmlite.binding as llvm
    from llvmlite.binding.newpassmanagers import NewPassManager

    # Options of LLVM hold for the process: the same ones, whether it has compiled for a GPU before or not.
    initialize()
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=processor, opt=CODE_GENERATION[opt_level], reloc="pic", codemodel="default"
    )
    module = llvm.parse_assembly(ir, context=llvm.create_context())
    try:
        module.verify()
        tuning = llvm.create_pipeline_tuning_options(speed_level=opt_level)
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        tuning.loop_unrolling = ir.count("\n") < LONG
        builder = llvm.create_pass_builder(machine, tuning)
        passes = builder.getFunctionPassManager()
        try:
            for function in module.functions:
                if not function.is_declaration:
                    passes.run(function, builder)
        finally:
            # As in `llvm_pipeline`: `close` frees nothing.
            NewPassManager._dispose(passes)
            passes.detach()
        return machine.emit_object(module)
    finally:
        module.close()
