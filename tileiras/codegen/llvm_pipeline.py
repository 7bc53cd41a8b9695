"""LLVM IR text to PTX: parse, verify, link, internalise, optimise, emit.

The IR optimisations are LLVM's own pipeline of level 1, or of level 0 on request; for a module with a single function,
LLVM's function pipeline.  Loop unrolling, interleaving and vectorisation are off: loops that this compiler has
scheduled must not be rotated or unrolled again, and fragments are vectors already.

All calls of LLVM run in a helper process (`processes.helper`).  An error or an abort of LLVM becomes a
diagnostic with LLVM's own text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tileiras import codegen
from tileiras.codegen.ir_text import declarations_start, line_of_file, named_metadata, node
from tileiras.codegen.target_machine import (
    Processor,
    PTXRequirement,
    initialize,
    llvm_ptx_feature,
    processor,
    ptx_version,
    target_machine,
)
from tileiras.diagnostics import CompileError, Diagnostic, DiagnosticEngine, ExitCode, Locatable
from tileiras.processes import helper
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.nvptx import MIN_PTX_METADATA, MODULE_HEADER, OPT_LEVEL_METADATA

OPT_LEVELS = (0, 1, 2, 3)

CODE_GENERATION_LEVEL = 2
"""Level 3 numbers values globally once more, where level 2 looks for common ones on its way down.  That is a tenth of
the time of code generation, for as many machine instructions or more in all kernels of `examples/`."""

OPTIMIZATION_LEVEL = 1
"""Levels 2 and 3 simplify a function twice as often, for as many machine instructions (docs/reports/costs.md)."""


class Ptx(NamedTuple):
    """The result of the pipeline: PTX text with LLVM's own header, and the time of each phase."""

    text: str
    version: tuple[int, int]
    milliseconds: dict[str, float]
    warnings: str


_DECLARED = re.compile(r"^declare [^\n]*?@([-a-zA-Z$._0-9]+)\(", re.MULTILINE)


def external_functions(ir: str) -> list[str]:
    """Functions that the module declares and does not define, intrinsics left out, in order of appearance."""
    names = _DECLARED.findall(ir, declarations_start(ir))
    return [name for name in names if not name.startswith("llvm.")]


def opt_level_of(ir: str, level: int) -> int:
    """The level at which a module is compiled: the one asked for, or a lower one that the module says."""
    levels = [re.fullmatch(r"i32 ([0-3])", node(ir, name) or "") for name in named_metadata(ir, OPT_LEVEL_METADATA)]
    return min([level, *(int(level[1]) for level in levels if level is not None)])


def inline_assembly_ptx(ir: str) -> list[PTXRequirement]:
    """The requirements of a module in `!tileiras.min_ptx`: a PTX version, and an instruction that needs it."""
    needs = []
    for name in named_metadata(ir, MIN_PTX_METADATA):
        match = re.fullmatch(r'i32 (\d+), i32 (\d+)(?:, !"([^"]*)")?', node(ir, name) or "")
        if match is not None:
            needs.append(PTXRequirement((int(match[1]), int(match[2])), match[3] or "its inline assembly"))
    return needs


def compile_to_ptx(
    ir: str,
    row: Processor,
    *,
    opt_level: int = 3,
    requested_ptx: tuple[int, int] | None = None,
    required_ptx: Iterable[PTXRequirement] = (),
    libraries: Sequence[str] = (),
    bitcode: Sequence[bytes] = (),
    engine: DiagnosticEngine | None = None,
    location: Locatable | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> Ptx:
    """Compile one module to PTX for one processor.

    `libraries` are LLVM IR texts and `bitcode` are bitcode files linked in and made internal; the module's own
    external definitions (its kernels) stay visible.  Intrinsics must have been admitted before
    (`admission.check`).  Raises CompileError when LLVM refuses the module.
    """
    if opt_level not in OPT_LEVELS:
        raise CompileError.at(location, f"invalid LLVM optimization level: {opt_level}", ExitCode.CONFIGURATION)
    version = ptx_version(row, [*required_ptx, *inline_assembly_ptx(ir)], requested_ptx, location)
    try:
        result, stderr = helper.call(
            "compile",
            meanwhile=meanwhile,
            ir=ir,
            chip=row.chip,
            features=llvm_ptx_feature(version),
            opt_level=opt_level,
            libraries=tuple(libraries),
            bitcode=tuple(bitcode),
        )
    except helper.HelperDied as death:
        raise CompileError.at(
            location,
            f"LLVM could not generate code for {row.chip}: {first_line(death.text) or death.reason}",
            notes=[Diagnostic.note(None, f"LLVM ended with {death.reason}"), *_quoted(death.text)],
        ) from None
    except RuntimeError as error:
        text = str(error)
        place, value = _place(first_line(text), location)
        raise CompileError.at(place, f"LLVM refused the module: {value}", _refusal(location), _quoted(text)) from None
    ptx, milliseconds = result
    if stderr and engine is not None:
        engine.warning(location, f"LLVM: {stderr}")
    return Ptx(ptx, version, milliseconds, stderr)


def verify_module(ir: str, location: Locatable | None = None) -> None:
    """Parse and verify LLVM IR text; raises CompileError with LLVM's words when it is not well formed."""
    try:
        helper.call("verify", ir=ir)
    except helper.HelperDied as death:
        raise CompileError.at(
            location, f"LLVM ended on the module: {first_line(death.text) or death.reason}", notes=_quoted(death.text)
        ) from None
    except RuntimeError as error:
        raise CompileError.at(
            location, f"LLVM refused the module: {first_line(str(error))}", _refusal(location), _quoted(str(error))
        ) from None


def _refusal(location: Locatable | None) -> ExitCode:
    """Exit code for a module that LLVM rejects: invalid input for a file of LLVM IR, else a compile failure."""
    return ExitCode.COMPILE_FAILURE if line_of_file(location, 1, 1) is None else ExitCode.INVALID_INPUT


# LLVM's assertion failures come with a stack dump; the line with the error starts with one of these.
_TELLING = r"^(LLVM ERROR:|error:|fatal error:|.*Assertion .* failed|PTX version)"
_PARSE_ERROR = r"<string>:(\d+):(\d+): error: (.*)"
_NOISE = ("LLVM IR parsing error", "PLEASE submit a bug report", "Stack dump:")


# Where LLVM itself was built; the same failure must read the same everywhere.
_BUILD_FOLDER = r"/\S*?/(?=llvm/(?:lib|include)/)"


def first_line(text: str) -> str:
    """The line of LLVM's output that states the error."""
    lines = [line.strip() for line in re.sub(_BUILD_FOLDER, "", text).split("\n") if line.strip()]
    for line in lines:
        parse_error = re.match(_PARSE_ERROR, line)
        if parse_error is not None:
            return "line {}, column {}: {}".format(*parse_error.groups())
        if re.match(_TELLING, line):
            # An assertion starts with the name of the program.
            return re.sub(r"^[^\s:]+: (?=llvm/)", "", line)
    for line in lines:
        if not line.startswith(_NOISE):
            return line
    return lines[0] if lines else ""


def _place(text: str, location: Locatable | None) -> tuple[Locatable | None, str]:
    """Location and text of a parse error: LLVM's own line in a file of LLVM IR, else the kernel's location."""
    match = re.fullmatch(r"line (\d+), column (\d+): (.*)", text)
    place = line_of_file(location, int(match[1]), int(match[2])) if match is not None else None
    return (place, match[3]) if match is not None and place is not None else (location, text)


def _quoted(text: str) -> list[Diagnostic]:
    text = text.strip()
    if "\n" not in text:
        return []
    # The stack dump holds addresses, which differ from run to run.
    lines = re.sub(_BUILD_FOLDER, "", text).split("\n")
    result = [line for line in lines if not re.match(r"\s*#\d+ 0x|.*\(\+0x[0-9a-f]+\)|Stack dump", line)]
    return [Diagnostic.note(None, "LLVM said:\n" + "\n".join(result))]


# The functions below run in the helper process.


def _compile(
    ir: str, chip: str, features: str, opt_level: int, libraries: Sequence[str], bitcode: Sequence[bytes]
) -> tuple[str, dict[str, float]]:
    import time

    import llvmlite.binding as llvm
    from llvmlite.binding.newpassmanagers import NewPassManager

    clock = time.process_time
    phases: dict[str, float] = {}
    start = clock()

    def lap(phase: str) -> None:
        nonlocal start
        now = clock()
        phases[phase] = round((now - start) * 1000, 3)
        start = now

    machine = target_machine(processor(chip), features, min(opt_level, CODE_GENERATION_LEVEL)).llvm
    # A fresh context: type names in a shared one would get suffixes that depend on earlier compilations.
    context = llvm.create_context()
    module = llvm.parse_assembly(ir, context=context)
    lap("parse")
    module.verify()
    lap("verify")
    if libraries or bitcode:
        visible = {value.name for value in _definitions(module)}
        linked = [llvm.parse_assembly(text, context=context) for text in libraries]
        for data in bitcode:
            linked.append(llvm.parse_bitcode(data, context=context))
        for library in linked:
            library.triple = module.triple
            library.data_layout = module.data_layout
            module.link_in(library)
        local = (llvm.Linkage.internal, llvm.Linkage.private)
        for value in _definitions(module):
            found_by_host = not value.is_function and " externally_initialized " in str(value)
            if value.name not in visible and value.linkage not in local and not found_by_host:
                value.linkage = llvm.Linkage.internal
        module.verify()
        lap("link")
    tuning = llvm.create_pipeline_tuning_options(speed_level=min(opt_level, OPTIMIZATION_LEVEL))
    tuning.loop_unrolling = False
    tuning.loop_interleaving = False
    tuning.loop_vectorization = False
    tuning.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, tuning)
    alone = _single_function(module) if opt_level else None
    passes = builder.getModulePassManager() if alone is None else builder.getFunctionPassManager()
    try:
        if alone is None and (libraries or bitcode):
            # At level 0 the pipeline inlines the library but leaves its bodies behind.
            passes.add_global_dead_code_eliminate_pass()
        passes.run(module if alone is None else alone, builder)
    finally:
        # In llvmlite 0.50, `close` of a pass manager frees nothing: of its two base classes' `_dispose` it finds the
        # other one's, which is empty.  Passes keep their tables, up to 70 KB for a small function.
        NewPassManager._dispose(passes)
        passes.detach()
    if "sitofp" in ir and "bfloat" in ir:
        module = _with_signed_bits(module, context)
    lap("optimize")
    text = _calls_from_zero(machine.emit_assembly(module))
    lap("emit")
    module.close()
    return text, phases


_SIGNED_BIT = re.compile(r"= sitofp (<\d+ x i1>|i1) (\S+) to (<\d+ x bfloat>|bfloat)")


def _with_signed_bits(module: Any, context: Any) -> Any:
    """The module with conversions of signed i1 to bf16 as selections.

    LLVM's pattern for them on sm_90 and newer selects 1 where the integer is -1 (`selp.b32 1, 0` before
    `cvt.rn.bf16.s32`); those of the other formats select -1.  The optimisations merge other conversions into this one,
    such as i1 to f32 to bf16, so that it is avoided behind them.
    """
    import llvmlite.binding as llvm

    def selection(match: re.Match[str]) -> str:
        condition, value, result = match.groups()
        minus = "splat (bfloat 0xRBF80)" if result.startswith("<") else "0xRBF80"
        return f"= select {condition} {value}, {result} {minus}, {result} zeroinitializer"

    text, count = _SIGNED_BIT.subn(selection, str(module))
    if not count:
        return module
    module.close()
    return llvm.parse_assembly(text, context=context)


def _calls_from_zero(ptx: str) -> str:
    """The text with its calls numbered from 0: LLVM numbers them in comments, over the whole life of the process."""
    if "// callseq " not in ptx:
        return ptx
    numbers: dict[str, int] = {}
    return re.sub(r"(?<=// callseq )\d+", lambda match: str(numbers.setdefault(match[0], len(numbers))), ptx)


def _definitions(module: Any) -> list[Any]:
    return [v for v in (*module.functions, *module.global_variables) if not v.is_declaration]


def _single_function(module: Any) -> Any:
    """The only function that a module defines: nothing is there to be inlined, and no question that a module pass
    answers.  Shared memory may be defined beside it, which passes leave as it is.

    The passes of a level on a function are two thirds of the work of those on its module, which go over it again when
    calls are gone.
    """
    defined = [function for function in module.functions if not function.is_declaration]
    asks = any(function.name == "__nvvm_reflect" for function in module.functions)
    return defined[0] if len(defined) == 1 and not asks else None


def _disassemble(bitcode: bytes) -> str:
    import llvmlite.binding as llvm

    module = llvm.parse_bitcode(bitcode, context=llvm.create_context())
    try:
        return str(module)
    finally:
        module.close()


def _verify(ir: str) -> None:
    import llvmlite.binding as llvm

    initialize()
    module = llvm.parse_assembly(ir, context=llvm.create_context())
    try:
        module.verify()
    finally:
        module.close()


_WARM_UP = (
    MODULE_HEADER + "define ptx_kernel void @k(ptr addrspace(1) %p) {\n"
    "  store float 1.0, ptr addrspace(1) %p\n  ret void\n}\n"
)


def _warm_up() -> None:
    """Run LLVM's one-time initialisation (20 ms) before the first request arrives; load it in the fast way."""
    codegen.llvmlite_import.load()
    _compile(_WARM_UP, "sm_90", llvm_ptx_feature((7, 8)), 3, (), ())


def _nvjitlink(**arguments: Any) -> tuple[bytes, str, str]:
    return codegen.nvjitlink_library.link(**arguments)


def _nvjitlink_version(library: str) -> tuple[int, int]:
    return codegen.nvjitlink_library.version(library)


def _object(**arguments: Any) -> bytes:
    return codegen.cpu_object.emit(**arguments)


REQUESTS: dict[str, Any] = {
    "compile": _compile,
    "disassemble": _disassemble,
    "nvjitlink": _nvjitlink,
    "nvjitlink_version": _nvjitlink_version,
    "object": _object,
    "verify": _verify,
    "warm_up": _warm_up,
}
