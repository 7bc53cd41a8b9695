"""The stages of the compiler, in order; `tileiras --print-pipeline` prints them (`pipeline_text`).

The order is defined only here.

    export   cuTile Python -> bytecode
    read     bytecode or text -> a verified cuda_tile module
    tileaa   cuda_tile -> nv_tileaa
    tileas   nv_tileaa -> nv_tileas
    llvm     nv_tileas -> llvm and nvvm dialects -> LLVM IR
    ptx      LLVM IR -> PTX
    cubin    PTX -> cubin
    sass     cubin -> machine code as text
    check    cuda_tile and PTX -> a verdict, beside the chain
    fatbin   cubins of several GPUs, PTX and bytecode -> one file, beside the chain

For a CPU, another chain follows `tileaa`:

    cpu-llvm nv_tileaa -> loops over vectors as LLVM IR
    object   LLVM IR -> object code
    shared   object code -> a shared library

From `tileaa` on, a stage works on one entry and the globals that it references, so that an entry added to a file costs
the compilation of that entry only.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras.diagnostics import CompileError, ExitCode, Locatable
from tileiras.options import CPU_NAMES, CompileOptions
from tileiras.stages import StageContext, StageOptions, StageResult, units
from tileiras.support.files import DISK_FULL
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from .dialects import builtin, cuda_tile
    from .ir import Location
    from .processes.programs import WaitingProgram

FILE = "file"
ENTRY = "entry"

DEBUG_OPTIONS = ("lineinfo", "device-debug")


class Stage(NamedTuple):
    """One row of the pipeline.

    `suffix` names the artifact that the next stage reads; `side_suffixes` the other artifacts.  `dialects` are those
    of the input and the output; they are loaded by name when a module is read, and are not imports of the stage.
    `tools` names functions (`module:function`) of the stage's options that return the identity of a program or library
    outside this package; the identity is part of the stage's key.
    """

    name: str
    unit: str
    suffix: str
    side_suffixes: tuple[str, ...]
    options: tuple[str, ...]
    doc: str
    dialects: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    reads_files: bool = False
    """Whether the stage reads files besides its input, which it reports as dependencies."""
    reads_beside: tuple[str, ...] = ()
    """Suffixes of artifacts of earlier stages that the stage reads besides its input."""
    linked: bool = False
    """Whether one process runs the stage once, on the linked products of all kernels of a source."""
    ahead: str = ""
    """A function (`module:function`) that starts the stage's process early, so that both processes load in parallel."""
    loads: str = ""
    """A function that loads the stage's modules, called while an earlier stage waits for another process."""
    starts: str = ""
    """A function of the stage's options that starts its program (`StageContext.program`), called while an earlier
    stage waits for another process."""
    empty: str = ""
    """A function of a GPU's name and a location that returns the product of a source without kernels, as text."""
    module: str = ""
    reads: str = ""
    """The stage whose product this one reads; only for a stage beside the chain."""
    error_code: int = 0
    """Exit code of a stage whose errors are part of its product: the product is kept, and each step that makes it, or
    takes it from the store, fails with this code.  0 for other stages."""

    @property
    def module_name(self) -> str:
        return self.module or f"tileiras.stages.{self.name}"

    @property
    def makes_module(self) -> bool:
        """Whether the output is MLIR, with a location table beside it."""
        return self.suffix.endswith(".mlir")

    @property
    def location_suffix(self) -> str:
        """`.cuda_tile.mlir` -> `.cuda_tile.loc`."""
        return self.suffix.removesuffix(".mlir") + ".loc"

    @property
    def remark_suffix(self) -> str:
        """The suffix of the file of remarks: `.tileas.remarks.json`."""
        return f".{self.name}.remarks.json"

    def says_remarks(self, options: CompileOptions) -> bool:
        """Whether the stage emits remarks on its choices."""
        return "emit-remarks" in self.options and options["emit-remarks"]

    def artifacts(self, options: CompileOptions) -> list[str]:
        """The suffixes of all artifacts of the stage for one unit in a build, its product first."""
        result = [self.suffix, *self.side_suffixes]
        if self.makes_module:
            result.append(self.location_suffix)
        if self.says_remarks(options):
            result.append(self.remark_suffix)
        return result

    def select(self, options: CompileOptions) -> StageOptions:
        return StageOptions(self.name, self.options, options)

    def needs_locations(self, options: CompileOptions) -> bool:
        """Whether artifacts of this stage contain source positions.

        Remarks do; so do outputs of stages on IR with line information, debug information or a sanitizer.
        """
        if self.says_remarks(options):
            return True
        names = (*DEBUG_OPTIONS, "sanitize")
        return bool(self.dialects) and any(name in self.options and options[name] for name in names)


_MIDDLE = ("builtin", "arith", "math", "scf", "debuginfo")

STAGES: tuple[Stage, ...] = (
    Stage(
        "export", FILE, ".tileirbc", (".parameters.json",), ("gpu-name", "bytecode-version"),
        "cuTile Python to bytecode, and the names of parameters",
        tools=("tileiras.stages.export:front_end_identity",),
        reads_files=True,
    ),
    Stage(
        "read", FILE, ".cuda_tile.mlir", (), (),
        "bytecode or text to a verified cuda_tile module",
        dialects=("builtin", "cuda_tile"),
    ),
    Stage(
        "tileaa", ENTRY, ".tileaa.mlir", (),
        ("gpu-name", "num-warps", "num-ctas", "legalize-types", "sanitize", "device-libraries", *DEBUG_OPTIONS),
        "views to pointers and masks, alias and divisibility facts",
        tools=("tileiras.codegen.llvm_identity:device_libraries",),
        dialects=(*_MIDDLE, "cuda_tile", "nv_tileaa"),
    ),
    Stage(
        "tileas", ENTRY, ".tileas.mlir", (),
        (
            "gpu-name", "opt-level", "num-warps", "pipeline-strategy", "unspecialized-pipeline-num-stages",
            "v2-opt-level", "max-constraint-iterations", "rrt-size-threshold", "tensor-maps", "emit-remarks",
            "enable-random-delay", "opt-bisect-limit", "deterministic",
        ),
        "layouts, memory, schedule and launch shape",
        dialects=(*_MIDDLE, "nv_tileaa", "nv_tileas"),
    ),
    Stage(
        "llvm", ENTRY, ".ll", (".llvm.mlir",),
        (
            "gpu-name", "opt-level", "index-bitwidth", "ftz", "approx", "parameter-ceiling", "emit-remarks",
            *DEBUG_OPTIONS,
        ),
        "tiles to LLVM vectors of register fragments",
        dialects=(*_MIDDLE, "nv_tileaa", "nv_tileas", "gpu", "llvm", "nvvm"),
    ),
    Stage(
        "ptx", ENTRY, ".ptx", (".json",),
        ("gpu-name", "opt-level", "ptx-version", "tile-launch", "blob-linked-lib", "device-libraries", "libdevice"),
        "libdevice linked, optimised, PTX and kernel metadata",
        tools=("tileiras.codegen.llvm_identity:tool_identity",),
        ahead="tileiras.processes.helper:start",
        # Front ends probe compilers with an empty module.
        empty="tileiras.codegen.ptx:empty_module",
    ),
    Stage(
        "cubin", ENTRY, ".cubin", (".resources.json",),
        (
            "opt-level", "assembler", "ptxas", "ptxas-options", "apply-controls", "sanitize", "emit-remarks",
            "child-timeout", "tile-launch", "host-arch", "host-os", "device-libraries", *DEBUG_OPTIONS,
        ),
        "ptxas, or nvJitLink",
        tools=("tileiras.codegen.assembler:tool_identity",),
        reads_beside=(".json",),
        linked=True,
        starts="tileiras.stages.cubin:start",
        loads="tileiras.stages.cubin:load",
    ),
    Stage(
        "sass", ENTRY, ".sass", (), ("dump-sass-command", "child-timeout"),
        "machine code as text, through nvdisasm",
        tools=("tileiras.codegen.nvdisasm:tool_identity",),
        linked=True,
    ),
)  # fmt: skip

CPU: tuple[Stage, ...] = (
    Stage(
        "cpu-llvm", ENTRY, ".cpu.ll", (), ("gpu-name", "deterministic"),
        "tiles to loops over LLVM vectors",
        dialects=(*_MIDDLE, "nv_tileaa"),
        tools=("tileiras.codegen.cpu_object:level_identity",),
        module="tileiras.stages.cpu_llvm",
        reads="tileaa",
    ),
    Stage(
        "object", ENTRY, ".cpu.o", (".json", ".h"), ("gpu-name", "opt-level"),
        "object code of a CPU, kernel metadata and a C header",
        tools=("tileiras.codegen.cpu_object:tool_identity",),
        ahead="tileiras.processes.helper:start",
        reads="cpu-llvm",
    ),
    Stage(
        "shared", ENTRY, ".cpu.so", (), ("gpu-name",),
        "a shared library, through the system's linker",
        tools=("tileiras.codegen.shared_library:tool_identity",),
        linked=True,
        reads="object",
    ),
)  # fmt: skip
"""The stages of a CPU in place of those behind `tileaa`."""

CHECK = Stage(
    "check", ENTRY, ".check.json", (".checked.json",), ("gpu-name", "ftz", "approx"),
    "a verdict: launches, the interpreter beside the emulator",
    dialects=("builtin", "cuda_tile"),
    reads_beside=(".ptx", ".json"),
    # Outside of `tileiras.stages`: the check executes PTX, and depends on the library that compiles it.
    module="tileiras.check.stage",
    reads="read",
    error_code=7,
)  # fmt: skip

FATBIN = Stage(
    "fatbin", FILE, ".fatbin", (".fatbin.json",), ("gpu-name", "tile-launch", "device-debug"),
    "cubins of several GPUs, PTX and bytecode in one file",
    reads_beside=(".cubin", ".ptx", ".json"),
    reads="read",
)  # fmt: skip
"""One for all targets of a source: `build/fat_binary.py` and `env.TileFatbin` collect the images."""

BESIDE: tuple[Stage, ...] = (CHECK, FATBIN)
"""Stages outside the chain: no other stage reads their products."""

BY_NAME: dict[str, Stage] = {stage.name: stage for stage in (*STAGES, *CPU, *BESIDE)}

EMIT: dict[str, tuple[str, str]] = {
    "bytecode": ("export", ".tileirbc"),
    "cuda_tile": ("read", ".cuda_tile.mlir"),
    "tileaa": ("tileaa", ".tileaa.mlir"),
    "tileas": ("tileas", ".tileas.mlir"),
    "llvm": ("llvm", ".ll"),
    "ptx": ("ptx", ".ptx"),
    "cubin": ("cubin", ".cubin"),
    "sass": ("sass", ".sass"),
}
"""`emit=` -> the last stage and the suffix of the requested artifact."""

EMIT_CPU: dict[str, tuple[str, str]] = {
    **{name: EMIT[name] for name in ("bytecode", "cuda_tile", "tileaa")},
    "llvm": ("cpu-llvm", ".cpu.ll"),
    "obj": ("object", ".cpu.o"),
    "so": ("shared", ".cpu.so"),
}
"""`emit=` for a CPU."""

SOURCES: dict[str, str] = {
    units.PYTHON: "export",
    units.BYTECODE: "read",
    units.TEXT: "read",
    units.MODULE: "tileaa",
    **units.ARTIFACTS,
}
"""Kind of a source -> the stage that reads it."""

TIERS = {0: "cuda_tile", 1: "tileaa", 2: "llvm", 3: "ptx"}
"""Optimisation level -> the default product of a build."""

TIERS_CPU = {0: "cuda_tile", 1: "tileaa", 2: "llvm", 3: "obj"}
"""`TIERS` for a CPU."""


def stage(name: str) -> Stage:
    return BY_NAME[name]


def emit_stage(emit: str, gpu_name: str | None = None) -> tuple[Stage, str]:
    """The last stage for `emit=` on a target, and the suffix of the product.

    Raises CompileError (code 2) for an unknown value, and for one that the target does not have.
    """
    is_cpu = gpu_name in CPU_NAMES
    table = EMIT_CPU if is_cpu else EMIT
    entry = table.get(emit)
    if entry is None:
        where = f" on target {gpu_name}" if is_cpu else ""
        raise CompileError.at(
            None, f"invalid value for emit: {emit}; accepted{where}: {', '.join(table)}", ExitCode.CONFIGURATION
        )
    return BY_NAME[entry[0]], entry[1]


def default_emit(gpu_name: str | None, gpu_default: str = "ptx") -> str:
    """The product of a compilation that names none."""
    return "obj" if gpu_name in CPU_NAMES else gpu_default


def tier(options: CompileOptions) -> str:
    """The default product of a build."""
    return (TIERS_CPU if options["gpu-name"] in CPU_NAMES else TIERS)[options["opt-level"]]


def chain(last: str) -> tuple[Stage, ...]:
    """All stages of the chain that the stage `last` is a part of."""
    if last in {row.name for row in CPU}:
        return (*STAGES[: STAGES.index(BY_NAME[CPU[0].reads]) + 1], *CPU)
    return STAGES


def stages_between(first: str, last: str) -> tuple[Stage, ...]:
    """The stages from `first` to `last`, both included; empty if `last` does not follow from `first`."""
    rows = chain(last)
    names = [row.name for row in rows]
    return rows[names.index(first) : names.index(last) + 1] if first in names else ()


class Plan(NamedTuple):
    """The steps from one source to one product in one process, in order."""

    product: Stage
    """The stage that makes the product."""
    file: tuple[Stage, ...]
    """Run on the source as a whole."""
    kernel: tuple[Stage, ...]
    """Run on each kernel alone."""
    linked: tuple[Stage, ...]
    """Run on all kernels together."""

    @property
    def is_empty(self) -> bool:
        return not (self.file or self.kernel or self.linked)

    @property
    def ends_with_file(self) -> bool:
        """Whether the product covers the whole source, before it is split into kernels."""
        return self.product.unit == FILE

    @property
    def is_bytecode(self) -> bool:
        """Whether the product is bytecode, which is written from the module if the source is in another form."""
        return self.ends_with_file and not self.product.makes_module

    def loads(self) -> list[Callable[[], None]]:
        """Functions that load later stages' modules, to be called while an earlier one waits for another process."""
        reached = stages_between(STAGES[0].name, self.product.name)
        return [functools.partial(_call, row.loads) for row in reached if row.loads]

    def waits_after(self, row: Stage) -> bool:
        """Whether another process works on the kernel next; checks of the output of `row` can wait until then."""
        following = self.kernel[self.kernel.index(row) + 1 :] if row in self.kernel else ()
        return bool(following and following[0].ahead)


def plan(kind: str, last: Stage) -> Plan:
    """The steps from a source of this kind (`units`) to the product of `last`; empty if the source is that product or
    a later one."""
    rows = stages_between(SOURCES[kind], last.name)
    if kind == units.TEXT and last.unit == FILE:
        # Bytecode of text is written from the module, so `read` runs although it follows `export`.
        rows = (BY_NAME[SOURCES[kind]],)
    return Plan(
        last,
        tuple(row for row in rows if row.unit == FILE),
        tuple(row for row in rows if row.unit == ENTRY and not row.linked),
        tuple(row for row in rows if row.linked),
    )


def require_certificate(options: CompileOptions, file: str) -> None:
    """Raise CompileError for a file of `units.DECIDED` if `deterministic=require` needs its certificate of order."""
    if options["deterministic"] == "require":
        from tileiras.ir import FileLineColLoc

        message = (
            "deterministic=require: the file may have been edited after the decisions of TileAS, so that it has no "
            "certificate of order; compile its source"
        )
        raise CompileError.at(FileLineColLoc(file, 1, 1), message)


def start_ahead(*lasts: Stage) -> None:
    """Start the processes of the stages up to these, so that they load in parallel with this one."""
    for name in {row.ahead: None for last in lasts for row in stages_between(STAGES[0].name, last.name) if row.ahead}:
        _call(name)


def empty_product(stage: Stage, gpu_name: str, location: Locatable | None) -> bytes | None:
    """The product of a stage for a source without kernels; None if such a source is an error."""
    return _call(stage.empty, gpu_name, location).encode() if stage.empty else None


def start_program(stage: Stage, options: CompileOptions) -> WaitingProgram | None:
    """Start the program of a stage by its function `starts`."""
    return _call(stage.starts, stage.select(options))


def _call(name: str, *arguments: Location | StageOptions | str) -> Any:
    """Import and call `module:function`."""
    import importlib

    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)(*arguments)


def before(stage: Stage) -> Stage:
    """The stage whose product this one reads; undefined for the first."""
    return BY_NAME[stage.reads] if stage.reads else STAGES[STAGES.index(stage) - 1]


def up_to(stage: Stage) -> tuple[Stage, ...]:
    """The stages on which a stage's product depends, in order, ending with the stage itself."""
    if stage not in BESIDE:
        rows = chain(stage.name)
        return rows[: rows.index(stage) + 1]
    result = [row for row in STAGES if not set(stage.reads_beside).isdisjoint((row.suffix, *row.side_suffixes))]
    return (*STAGES[: STAGES.index(result[-1]) + 1], stage)


def takes_module(stage: Stage) -> bool:
    """Whether the input of the stage is a module; other stages take bytes."""
    return stage.unit == ENTRY and before(stage).makes_module


def run_stage(
    stage: Stage, source: builtin.ModuleOp | cuda_tile.ModuleOp | bytes, options: CompileOptions, context: StageContext
) -> StageResult:
    """Run one stage; every failure is raised as a CompileError with a location in the user's source."""
    import importlib

    context.ptx_version = options["ptx-version"] or ""
    with reported(stage, context):
        result = importlib.import_module(stage.module_name).run(source, stage.select(options), context)
    if context.engine.has_errors and not stage.error_code:
        raise CompileError(context.engine.diagnostics)
    if takes_module(stage) and stage.says_remarks(options):
        kernels = [op for op in source.regions[0].blocks[0].operations if op.name == "nv_tileaa.func"]
        tileiras.diagnostics.remarks.attribute_to_kernel(
            context.engine.diagnostics, kernels[0].attributes["sym_name"].value if kernels else ""
        )
    return result


@contextlib.contextmanager
def reported(stage: Stage, context: StageContext) -> Iterator[None]:
    """Convert every exception of the block to a CompileError with a location."""
    try:
        yield
    except CompileError as error:
        raise _locate(error, context) from None
    # A bug of the compiler is reported to the user as a message about their kernel; TILEIRAS_TRACEBACK keeps the
    # traceback, for developers.
    except Exception as error:
        if isinstance(error, OSError) and error.errno in DISK_FULL:
            raise _unwritten(error) from None
        import os

        if os.environ.get("TILEIRAS_TRACEBACK"):
            raise
        raise CompileError.at(
            context.location,
            f"internal error in stage '{stage.name}': {type(error).__name__}: {error} "
            "(set TILEIRAS_TRACEBACK=1 to see where)",
        ) from error


def _unwritten(error: OSError) -> CompileError:
    """The error for a full disk, without a location in the kernel.  Stages write only files for external programs."""
    import tempfile

    message = f"unable to write '{error.filename or tempfile.gettempdir()}': {error.strerror}"
    return CompileError.at(None, message, ExitCode.USAGE)


def _locate(error: CompileError, context: StageContext) -> CompileError:
    """Set the location of diagnostics without one to the unit's, except in errors about unreadable or unwritable
    files (code 1)."""
    for diagnostic in error.diagnostics if error.code != ExitCode.USAGE else ():
        if diagnostic.location is None:
            diagnostic.location = context.location
    return error
