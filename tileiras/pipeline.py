"""The stages in order.  This is the only place that knows it; `tileiras --print-pipeline` prints it.

    export   cuTile Python -> bytecode
    read     bytecode or text -> a verified cuda_tile module
    tileaa   cuda_tile -> nv_tileaa
    tileas   nv_tileaa -> nv_tileas
    llvm     nv_tileas -> llvm and nvvm dialects -> LLVM IR
    ptx      LLVM IR -> PTX
    cubin    PTX -> cubin
    sass     cubin -> machine code as text
    check    cuda_tile and PTX -> a verdict, beside the chain

From `tileaa` on, a stage works on one entry and the globals that it reaches, so that one more entry in a file costs the
compilation of one entry.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tileiras import units
from tileiras.diagnostics import CompileError, ExitCode, Locatable
from tileiras.files import DISK_FULL
from tileiras.named_tuple import NamedTuple
from tileiras.options import CompileOptions
from tileiras.stages import StageContext, StageOptions, StageResult

if TYPE_CHECKING:
    from .codegen.child_process import WaitingProgram
    from .dialects import builtin, cuda_tile
    from .ir import Location

FILE = "file"
ENTRY = "entry"

DEBUG_OPTIONS = ("lineinfo", "device-debug")


class Stage(NamedTuple):
    """One row of the pipeline.

    `suffix` names the artifact that the next stage reads; `side_suffixes` what else is written.  `dialects` are those
    of the input and the output, loaded by name when a module is read, so that they do not show in the stage's imports.
    `tools` names functions (`module:function`) that tell, given the stage's options, the identity of a program or
    library outside this package; the identity is part of the stage's key.
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
    """Whether the stage reads files besides its input, and reports them."""
    reads_beside: tuple[str, ...] = ()
    """Suffixes of side artifacts of the stage before that the stage is given besides its input."""
    linked: bool = False
    """Whether one process runs the stage once, on what all kernels of a source became, linked."""
    ahead: str = ""
    """A function (`module:function`) that starts the process in which the stage works, to load beside this one."""
    loads: str = ""
    """A function that loads what the stage needs, for a compilation to call while an earlier stage waits."""
    starts: str = ""
    """A function of the stage's options that starts a program for it (`StageContext.program`), for a compilation to
    call while an earlier stage waits."""
    empty: str = ""
    """A function of a GPU's name and a location: what the stage makes of a source without kernels, as text."""
    module: str = ""
    reads: str = ""
    """The stage whose product this one reads, for a stage beside the chain."""
    error_code: int = 0
    """Of a stage whose errors are part of what it makes: the product is kept, and each step that makes it, or takes it
    from the store, fails with this code."""

    @property
    def module_name(self) -> str:
        return self.module or f"tileiras.stages.{self.name}"

    @property
    def makes_module(self) -> bool:
        """Whether the output is MLIR, whose operations have locations beside the artifact."""
        return self.suffix.endswith(".mlir")

    @property
    def location_suffix(self) -> str:
        """`.cuda_tile.mlir` -> `.cuda_tile.loc`."""
        return self.suffix.removesuffix(".mlir") + ".loc"

    @property
    def remark_suffix(self) -> str:
        """What remarks are kept under: `.tileas.remarks.json`."""
        return f".{self.name}.remarks.json"

    def says_remarks(self, options: CompileOptions) -> bool:
        """Whether the stage says what it chose, and why."""
        return "emit-remarks" in self.options and options["emit-remarks"]

    def artifacts(self, options: CompileOptions) -> list[str]:
        """The suffixes of all that a build has of the stage for one unit, its product first."""
        found = [self.suffix, *self.side_suffixes]
        if self.makes_module:
            found.append(self.location_suffix)
        if self.says_remarks(options):
            found.append(self.remark_suffix)
        return found

    def select(self, options: CompileOptions) -> StageOptions:
        return StageOptions(self.name, self.options, options)

    def needs_locations(self, options: CompileOptions) -> bool:
        """Whether source positions reach what this stage makes: remarks, and with line or debug information, while
        there is IR, and in what a sanitizer says, its output."""
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
        ("gpu-name", "num-warps", "num-ctas", "legalize-types", "sanitize", *DEBUG_OPTIONS),
        "views to pointers and masks, alias and divisibility facts",
        dialects=(*_MIDDLE, "cuda_tile", "nv_tileaa"),
    ),
    Stage(
        "tileas", ENTRY, ".tileas.mlir", (),
        (
            "gpu-name", "opt-level", "num-warps", "pipeline-strategy", "unspecialized-pipeline-num-stages",
            "v2-opt-level", "max-constraint-iterations", "rrt-size-threshold", "tensor-maps", "emit-remarks",
            "enable-random-delay", "deterministic",
        ),
        "layouts, memory, schedule and launch shape",
        dialects=(*_MIDDLE, "nv_tileaa", "nv_tileas"),
    ),
    Stage(
        "llvm", ENTRY, ".ll", (".llvm.mlir",),
        ("gpu-name", "opt-level", "ftz", "approx", "emit-remarks", *DEBUG_OPTIONS),
        "tiles to LLVM vectors of register fragments",
        dialects=(*_MIDDLE, "nv_tileaa", "nv_tileas", "gpu", "llvm", "nvvm"),
    ),
    Stage(
        "ptx", ENTRY, ".ptx", (".json",),
        ("gpu-name", "opt-level", "ptx-version", "tile-launch", "blob-linked-lib", "libdevice"),
        "libdevice linked, optimised, PTX and kernel metadata",
        tools=("tileiras.codegen.llvm_identity:tool_identity",),
        ahead="tileiras.codegen.isolation:start",
        # A module of nothing is what front ends try compilers with.
        empty="tileiras.codegen.ptx:empty_module",
    ),
    Stage(
        "cubin", ENTRY, ".cubin", (".resources.json",),
        (
            "opt-level", "assembler", "ptxas", "ptxas-options", "apply-controls", "sanitize", "emit-remarks",
            "child-timeout", "tile-launch", "host-arch", "host-os", *DEBUG_OPTIONS,
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

CHECK = Stage(
    "check", ENTRY, ".check.json", (".checked.json",), ("gpu-name", "ftz", "approx"),
    "a verdict: launches, the interpreter beside the emulator",
    dialects=("builtin", "cuda_tile"),
    reads_beside=(".ptx", ".json"),
    # The judge executes PTX, and stands above the library that compiles it.
    module="tileiras.check.stage",
    reads="read",
    error_code=7,
)  # fmt: skip

BESIDE: tuple[Stage, ...] = (CHECK,)
"""Stages that no product follows from."""

BY_NAME: dict[str, Stage] = {stage.name: stage for stage in (*STAGES, *BESIDE)}

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
"""`emit=` -> the stage it ends with and the artifact it asks for."""

SOURCES: dict[str, str] = {
    units.PYTHON: "export",
    units.BYTECODE: "read",
    units.TEXT: "read",
    units.MODULE: "tileaa",
    **units.ARTIFACTS,
}
"""What a source is -> the stage that it is given to."""

TIERS = {0: "cuda_tile", 1: "tileaa", 2: "llvm", 3: "ptx"}
"""The product of a build at each optimisation level when it does not name one."""


def stage(name: str) -> Stage:
    return BY_NAME[name]


def emit_stage(emit: str) -> tuple[Stage, str]:
    """The last stage for `emit=`, and the suffix of the product; raises CompileError (code 2) for other words."""
    found = EMIT.get(emit)
    if found is None:
        raise CompileError.at(
            None, f"invalid value for emit: {emit}; accepted: {', '.join(EMIT)}", ExitCode.CONFIGURATION
        )
    return BY_NAME[found[0]], found[1]


def stages_between(first: str, last: str) -> tuple[Stage, ...]:
    """The stages from `first` to `last`, both included; none when `last` comes before `first`."""
    names = [s.name for s in STAGES]
    return STAGES[names.index(first) : names.index(last) + 1]


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
        """Whether the product is one of the whole source, before there are kernels."""
        return self.product.unit == FILE

    @property
    def is_bytecode(self) -> bool:
        """Whether the product is bytecode, which is written of the module where the source was none."""
        return self.ends_with_file and not self.product.makes_module

    def loads(self) -> list[Callable[[], None]]:
        """What later stages need loaded, to be called while an earlier one waits for another process."""
        reached = stages_between(STAGES[0].name, self.product.name)
        return [functools.partial(_call, row.loads) for row in reached if row.loads]

    def waits_after(self, row: Stage) -> bool:
        """Whether another process works on the kernel next: checks of what `row` made can be done meanwhile."""
        following = self.kernel[self.kernel.index(row) + 1 :] if row in self.kernel else ()
        return bool(following and following[0].ahead)


def plan(kind: str, last: Stage) -> Plan:
    """The steps from a source of this kind (`units`) to what `last` makes; empty where the source is past that, or is
    that already."""
    rows = stages_between(SOURCES[kind], last.name)
    if kind == units.TEXT and last.unit == FILE:
        # Text is read for bytecode as well, though reading comes after bytecode.
        rows = (BY_NAME[SOURCES[kind]],)
    return Plan(
        last,
        tuple(row for row in rows if row.unit == FILE),
        tuple(row for row in rows if row.unit == ENTRY and not row.linked),
        tuple(row for row in rows if row.linked),
    )


def start_ahead(*lasts: Stage) -> None:
    """Starts the processes that the stages up to these work in, to load beside this one."""
    for name in {row.ahead: None for last in lasts for row in stages_between(STAGES[0].name, last.name) if row.ahead}:
        _call(name)


def empty_product(stage: Stage, gpu_name: str, location: Locatable | None) -> bytes | None:
    """What a stage makes of a source without kernels, None where that is an error."""
    return _call(stage.empty, gpu_name, location).encode() if stage.empty else None


def start_program(stage: Stage, options: CompileOptions) -> WaitingProgram | None:
    """What the function `starts` of a stage starts."""
    return _call(stage.starts, stage.select(options))


def _call(name: str, *arguments: Location | StageOptions | str) -> Any:
    """Loads and calls `module:function`."""
    import importlib

    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)(*arguments)


def before(stage: Stage) -> Stage:
    """The stage whose product this one reads; not for the first."""
    return BY_NAME[stage.reads] if stage.reads else STAGES[STAGES.index(stage) - 1]


def up_to(stage: Stage) -> tuple[Stage, ...]:
    """The stages that decide about what one makes: those of the chain that lead to it, and itself."""
    if stage not in BESIDE:
        return STAGES[: STAGES.index(stage) + 1]
    given = [row for row in STAGES if not set(stage.reads_beside).isdisjoint((row.suffix, *row.side_suffixes))]
    return (*STAGES[: STAGES.index(given[-1]) + 1], stage)


def takes_module(stage: Stage) -> bool:
    """Whether the stage works on a module; the others are given bytes."""
    return stage.unit == ENTRY and before(stage).makes_module


def run_stage(
    stage: Stage, source: builtin.ModuleOp | cuda_tile.ModuleOp | bytes, options: CompileOptions, context: StageContext
) -> StageResult:
    """Runs one stage.  Whatever goes wrong comes out as a CompileError with a place in the user's source."""
    import importlib

    context.ptx_version = options["ptx-version"] or ""
    with reported(stage, context):
        result = importlib.import_module(stage.module_name).run(source, stage.select(options), context)
    if context.engine.has_errors and not stage.error_code:
        raise CompileError(context.engine.diagnostics)
    if takes_module(stage) and stage.says_remarks(options):
        from tileiras.remarks import attribute_to_kernel

        kernels = [op for op in source.regions[0].blocks[0].operations if op.name == "nv_tileaa.func"]
        attribute_to_kernel(context.engine.diagnostics, kernels[0].attributes["sym_name"].value if kernels else "")
    return result


@contextlib.contextmanager
def reported(stage: Stage, context: StageContext) -> Iterator[None]:
    """Makes a CompileError with a place of whatever is raised inside."""
    try:
        yield
    except CompileError as error:
        raise _located(error, context) from None
    # A mistake in the compiler must reach the user as a message about their kernel, not as a traceback; the traceback
    # is there for whoever looks for the mistake.
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
    """A full disk, which is not the kernel's fault: the files of stages are those that they hand to programs."""
    import tempfile

    message = f"unable to write '{error.filename or tempfile.gettempdir()}': {error.strerror}"
    return CompileError.at(None, message, ExitCode.USAGE)


def _located(error: CompileError, context: StageContext) -> CompileError:
    """Gives diagnostics that have no place of their own the unit's, unless they are not about it but about a file that
    cannot be read or written."""
    for diagnostic in error.diagnostics if error.code != ExitCode.USAGE else ():
        if diagnostic.location is None:
            diagnostic.location = context.location
    return error


def _passes(row: Stage) -> list[tuple[str, str]]:
    """The passes of a stage as they run for sm_90 without options, and why they stand there."""
    import importlib

    module = importlib.import_module(row.module_name)
    options = row.select(CompileOptions({"gpu-name": "sm_90"}))
    if hasattr(module, "explained"):
        return module.explained(options)
    return [(item.name, "") for item in module.passes(options)] if hasattr(module, "passes") else []


def describe() -> str:
    """The pipeline as `--print-pipeline` shows it: the stages, what they make and read, and their passes."""
    lines = []
    for number, row in enumerate(STAGES, 1):
        made = ", ".join("NAME" + suffix for suffix in (row.suffix, *row.side_suffixes))
        lines.append(f"{number}. {row.name:<7} {row.doc}")
        lines.append(f"           one {row.unit} -> {made}")
        if row.options:
            lines.append(f"           reads {', '.join(row.options)}")
        lines += [f"           {name:<50} {why}".rstrip() for name, why in _passes(row)]
    for row in BESIDE:
        lines.append(f"   {row.name:<7} {row.doc}")
        beside = ", ".join("NAME" + suffix for suffix in row.reads_beside)
        made = ", ".join("NAME" + suffix for suffix in (row.suffix, *row.side_suffixes))
        lines.append(f"           one {row.unit}, {beside} -> {made}")
    return "\n".join(lines) + "\n"
