"""`tileir{...}`: the documented textual pipeline of the Tile IR compiler, with equivalents of its options and passes.

    tileiras-opt kernel.mlir --pass-pipeline="builtin.module(tileir{opt-level=3 compute-capability=sm_90})"

`OPTIONS` lists every documented option with its type, default, documented consumer and consumer in this compiler.
`ROWS` lists the documented passes by level, in the documented order, each with the equivalent passes of this compiler
or the reason for their absence.  `build` returns the passes that the stages of this compiler run, in their order.

Option values come from three layers; a later layer overrides an earlier one: the table, the braces, the driver's
command line.  Under the command `tileiras` the first layer is the command's own defaults, so that a request for a trace
does not change the code; a remark lists the differences from the table.  An option whose consumer does not run is
ignored silently.  An option without a consumer in this compiler causes a warning if its value is not the default.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import tileiras
from tileiras.diagnostics import CompileError, Diagnostic, ExitCode, Severity
from tileiras.diagnostics.remarks import Remark
from tileiras.passes.synthesize_debug_info_scopes import SynthesizeDebugInfoScopes
from tileiras.reasons import Reason
from tileiras.support.named_tuple import NamedTuple

if TYPE_CHECKING:
    from tileiras.ir import Pass


class PipelineOption(NamedTuple):
    """One option: `consumer` is the documented consumer, `ours` the one in this compiler; `compiler` names the
    compiler's own option that it sets, if any.  With `unset`, the option is passed on only if it is given explicitly:
    the compiler chooses a better value than the documented default."""

    name: str
    kind: str
    default: Any
    consumer: str
    ours: str
    compiler: str = ""
    choices: tuple[str, ...] = ()
    unset: bool = False


_CHOSEN = "`tileaa`, `tileas`; chosen from tile sizes by default"

OPTIONS: dict[str, PipelineOption] = {
    option.name: option
    for option in (
        PipelineOption("num-warps", "int", 4, "convert-cudatile-to-tileaa, tileas-generate-schedule-constraints",
                       _CHOSEN, "num-warps", unset=True),
        PipelineOption("num-ctas", "int", 1, "convert-cudatile-to-tileaa, tileir-gpu-module-prepare",
                       "`tileaa`; the kernel's hint by default", "num-ctas", unset=True),
        PipelineOption("compute-capability", "string", "sm_80", "convert-target-to-nvvm, tileir-post-nvvm-finalize",
                       "all conversions, `convert-target-to-nvvm`", "gpu-name"),
        PipelineOption("opt-level", "int", 2, "pipeline builder", "pipeline builder, `#nvvm.target`", "opt-level"),
        PipelineOption("v2-opt-level", "int", 0, "tileas-generate-schedule-constraints, tileas-materialize-schedule",
                       "`tileas-generate-schedule`: from 1 on operations of several iterations overlap",
                       "v2-opt-level"),
        PipelineOption("pipeline-strategy", "enum", "none", "pipeline builder", "`tileas`", "pipeline-strategy",
                       ("none", "unspecialize", "warp-specialize")),
        PipelineOption("index-bitwidth", "int", 32, "convert-tileas-to-llvm, convert-to-llvm, convert-memref-to-llvm",
                       "`convert-tileas-to-llvm`: bits of the offsets in addresses of a tile; 0: a pointer's",
                       "index-bitwidth"),
        PipelineOption("unspecialized-pipeline-num-stages", "int", 4, "unspecialized-pipeline",
                       "`tileas-generate-schedule`; chosen for each loop by default",
                       "unspecialized-pipeline-num-stages", unset=True),
        PipelineOption("approx", "bool", False, "convert-target-to-nvvm", "`convert-tileas-to-llvm`", "approx"),
        PipelineOption("ftz", "bool", False, "convert-target-to-nvvm", "`convert-tileas-to-llvm`", "ftz"),
        PipelineOption("use-nvgpucomp-libnvvm", "bool", False, "serialisation",
                       "`convert-target-to-nvvm` of `tileiras-opt`: a flag"),
        PipelineOption("emit-line-info", "enum", "none", "snapshot printers", "snapshot printers",
                       choices=("none", "frontend", "tileas")),
        PipelineOption("dynamic-persistent", "bool", False, "tileir-gpu-module-prepare",
                       "nothing: a tile block computes one tile"),
        PipelineOption("schedule-trace-file", "string", "", "trace instrumentation", "trace instrumentation"),
        PipelineOption("enable-random-delay", "bool", False, "tileas-generate-schedule-constraints",
                       "`tileas-insert-delays`: warps sleep before points at which they wait for each other",
                       "enable-random-delay"),
        PipelineOption("rrt-size-threshold", "unsigned", 4096, "pipeline builder, resource constraint builder",
                       "`tileas-generate-schedule`: the heavy variant of warp-specialize places loops with no larger "
                       "reservation table; 0 selects the light one", "rrt-size-threshold"),
        PipelineOption("max-constraint-iterations", "unsigned", 10, "tileas-generate-schedule-constraints",
                       "`tileas-generate-schedule`, with v2-opt-level: placements of a loop that are tried",
                       "max-constraint-iterations"),
        PipelineOption("enable-debug-logging", "bool", False, "tileir-emit-host-wrapper",
                       "`tileir-emit-host-wrapper`: notes with the arguments of kernels"),
        PipelineOption("host-triple", "string", "native", "tileir-emit-host-wrapper", "`tileir-emit-host-wrapper`"),
        PipelineOption("dump-host", "string", "", "tileir-emit-host-wrapper",
                       "`tileir-emit-host-wrapper`: the file of the host's object"),
    )
}  # fmt: skip

DRIVER = {"gpu-name": "compute-capability", "opt-level": "opt-level"}
"""Options of the command line -> those of the pipeline that they override."""


class Row(NamedTuple):
    """A documented row: the lowest level at which it runs, its pass, the equivalent passes of this compiler in the
    order in which they run, and a remark, which is required if that list is empty."""

    level: int
    documented: str
    ours: tuple[str, ...]
    remark: str = ""


ROWS: tuple[Row, ...] = (
    Row(0, "verifier slots", ("verifier",), "every operation is checked when a module is read"),
    Row(1, "convert-cudatile-to-tileaa", ("convert-cudatile-to-tileaa",)),
    Row(1, "snapshot printer", ("snapshot printer",), "with emit-line-info=frontend"),
    Row(1, "tileir-insert-debug-scope", ("tileir-insert-debug-scope",), "in a command, with line or debug information"),
    Row(1, "canonicalize", ("canonicalize", "cse")),
    Row(2, "convert-tileaa-to-tileas", (
        "tileas-pair-tile-blocks", "tileas-cluster-tile-blocks", "tileas-order-tile-blocks", "tileas-plan-cta",
        "tileas-join-mask-bounds", "tileas-flush-exponentials", "tileas-slice-batches", "tileas-fold-unit-batches",
        "tileas-legalize-scaled-dot", "tileas-assign-num-warps",
        "tileas-fit-tensor-memory", "tileas-split-loop-steps", "tileas-slice-dots", "tileas-slicing",
        "convert-tileaa-to-tileas",
        "tileas-round-in-boxes", "tileas-assign-dot-layouts", "tileas-promote-accumulators",
        "tileas-pair-dots", "tileas-assign-load-store-layouts",
        "tileas-remove-layout-conversions", "cse", "dce", "tileas-generate-schedule",
        "tileas-attach-tma-desc-args", "tileas-materialize-convert-layout", "tileas-optimize-alloc-tensor",
        "tileas-split-addresses", "tileas-insert-barriers", "tileas-assign-launch-bounds", "tileas-insert-delays"),
        "the decisions of TileAS are listed in `stages/tileas.py`"),
    Row(2, "tileir-emit-host-wrapper", ("tileir-emit-host-wrapper",),
        "the stage cubin puts such an object into cubins for tile launches"),
    Row(2, "convert-tileas-to-llvm", ("convert-tileas-to-llvm",), "after the passes of its input below"),
    Row(2, "cse", ("cse",)),
    Row(2, "snapshot printer", ("snapshot printer",), "with emit-line-info=tileas: llvm beside nv_tileas"),
    Row(2, "convert-tileas-to-nvgpu", ("convert-tileas-to-nvgpu",)),
    Row(3, "tileir-verify-ops-analysis", ("tileir-verify-ops-analysis",), "before convert-tileas-to-llvm"),
    Row(3, "host-device-assert-enable", ("host-device-assert-enable",)),
    Row(3, "tileir-insert-debug-scope", ("tileir-insert-debug-scope",), "as above, before convert-tileas-to-llvm"),
    Row(3, "tileir-gpu-module-prepare", ("tileir-gpu-module-prepare",)),
    Row(3, "canonicalize", (), "the conversion folds the operations that it emits; measured (docs/reports/costs.md)"),
    Row(3, "cse", (), "the one of level 2 has merged equal operations; measured"),
    Row(3, "unspecialized-pipeline", (
        "tileas-reuse-loads", "tileas-share-divisors", "tileas-lower-occupancy", "tileas-sink-loads",
        "tileas-hoist-loads", "tileas-mark-short-loops", "tileas-smem-operands", "tileas-generate-schedule",
        "tileas-materialize-schedule", "tileas-resolve-agent-boundary", "tileas-unspecialized-pipeline",
        "tileas-spill-loop-carried", "cse", "tileas-interleave-copies", "tileas-roll-mma-dot",
        "tileas-legalize-fma-dot",
        "lower-tma-load-store-to-async", "tileas-materialize-async", "tileas-specialize-mma",
        "tileas-specialize-stores", "tileas-specialize-correction", "tileas-ping-pong", "tileas-rematerialize",
        "tileas-order-warpgroups"),
        "on nv_tileas, from level 2 on; `unspecialized-pipeline` is `tileas-unspecialized-pipeline`"),
    Row(3, "test-convert-to-llvm", ("test-convert-to-llvm",), "arith"),
    Row(3, "tileir-legalize-llvm-kernel", ("tileir-legalize-llvm-kernel",)),
    Row(3, "tileir-finalize-llvm-kernel", ("tileir-finalize-llvm-kernel",)),
    Row(3, "convert-to-llvm", ("convert-to-llvm",), "arith and math; convert-tileas-to-llvm makes blocks of scf"),
    Row(3, "canonicalize", (), "as above; measured"),
    Row(3, "convert-nvgpu-to-nvvm", ("convert-nvgpu-to-nvvm",)),
    Row(3, "convert-vector-to-llvm", ("convert-vector-to-llvm",)),
    Row(3, "convert-math-to-funcs", ("convert-math-to-funcs",)),
    Row(3, "arith-expand", ("arith-expand",)),
    Row(3, "convert-memref-to-llvm", ("convert-memref-to-llvm",),
        "variables of the module; views are pointers, sizes and strides since nv_tileaa"),
    Row(3, "synthesize-debug-info-scopes", ("synthesize-debug-info-scopes",),
        "on cuda_tile, before the first conversion; by the command with line or debug information"),
    Row(3, "convert-target-to-nvvm", ("convert-target-to-nvvm",)),
    Row(3, "canonicalize", (), "LLVM does that to its own IR; measured"),
    Row(3, "cse", (), "as the row before; measured"),
    Row(3, "tileir-post-nvvm-finalize", ("nvptx-peepholes", "tileir-post-nvvm-finalize", "nvvm-ir-verifier"),
        "launch bounds are written with the PTX headers"),
)
"""The documented pass list; each level includes the lower ones."""


class TileIRPipelineOptions(Mapping[str, Any]):
    """Checked values of all options of `tileir{...}`; `given` has those that were set explicitly."""

    __slots__ = ("_values", "given")

    def __init__(self, braces: Mapping[str, Any] | None = None, driver: Mapping[str, Any] | None = None) -> None:
        """`braces` are values of this pipeline's options, `driver` those of the command line, by its names.

        Raises CompileError (code 2) for an unknown option and for an invalid value.
        """
        self.given: dict[str, Any] = {}
        for name, value in (braces or {}).items():
            if name not in OPTIONS:
                import difflib

                near = difflib.get_close_matches(name, OPTIONS, 1)
                hint = f" (did you mean '{near[0]}'?)" if near else ""
                raise _bad(f"'tileir' has no option '{name}'{hint}")
            self.given[name] = _check(OPTIONS[name], value)
        for name, value in (driver or {}).items():
            own = DRIVER.get(name, name)
            if own in OPTIONS:
                self.given[own] = _check(OPTIONS[own], value)
        self._values = {name: option.default for name, option in OPTIONS.items()} | self.given

    @classmethod
    def parse(cls, text: str, driver: Mapping[str, Any] | None = None) -> TileIRPipelineOptions:
        """Parse `tileir`, `tileir{key=value key=value}` or `{key=value ...}`."""
        match = re.fullmatch(r"\s*(?:tileir\s*)?(?:\{([^{}]*)\})?\s*", text)
        if match is None:
            raise _bad(f"expected 'tileir{{key=value ...}}', got '{text}'")
        braces: dict[str, Any] = {}
        for item in re.split(r"[\s,]+", (match.group(1) or "").strip()):
            name, _, value = item.partition("=")
            if name:
                braces[name] = value
            elif item:
                raise _bad(f"expected the name of an option of 'tileir' at '{item}'")
        return cls(braces, driver)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def compiler_options(self) -> dict[str, Any]:
        """The values for the compiler's own options (`tileiras.options`), by name."""
        return {
            option.compiler: self[name]
            for name, option in OPTIONS.items()
            if option.compiler and (name in self.given or not option.unset)
        }

    def given_compiler_options(self) -> dict[str, Any]:
        """As `compiler_options`, but only explicitly set values: the compiler's own defaults hold for the rest."""
        return {OPTIONS[name].compiler: value for name, value in self.given.items() if OPTIONS[name].compiler}

    def without_effect(self) -> list[Diagnostic]:
        """A warning for each option without a consumer that was explicitly set to a value other than its default."""
        return [
            Diagnostic(Severity.WARNING, None, f"option '{name}' of 'tileir' has no effect here: {reason}")
            for name, value in self.given.items()
            if value != OPTIONS[name].default and (reason := OPTIONS[name].ours.partition("nothing: ")[2])
        ]

    def differences(self, values: Mapping[str, Any]) -> Remark | None:
        """A remark with the compiler's options among `values` that differ from documented defaults.

        Explicitly set options are omitted; None without differences.
        """
        different = {}
        for name, option in OPTIONS.items():
            value = values.get(option.compiler, option.default)
            if name not in self.given and value != option.default:
                different[name] = f"{'chosen' if value is None else value} instead of {option.default}"
        return Remark(Reason("options.defaults-differ"), None, arguments=different) if different else None


def _check(option: PipelineOption, value: Any) -> Any:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if option.kind == "bool":
        if text in ("", "true", "True", "TRUE", "1"):
            return True
        if text in ("false", "False", "FALSE", "0"):
            return False
    elif option.kind in ("int", "unsigned"):
        if re.fullmatch(r"-?\d+" if option.kind == "int" else r"\d+", text):
            return int(text)
    elif option.kind == "enum":
        if text in option.choices:
            return text
    else:
        return text
    accepted = {"bool": "true, false", "int": "an integer", "unsigned": "an integer that is not negative"}
    raise _bad(
        f"'{text}' value invalid for option '{option.name}' of 'tileir'; accepted: "
        + accepted.get(option.kind, ", ".join(option.choices))
    )


def _bad(message: str) -> CompileError:
    return CompileError.at(None, message, ExitCode.CONFIGURATION)


def build(options: TileIRPipelineOptions) -> list[Pass]:
    """The passes of this compiler at the requested level; raises CompileError (code 2) for values out of range.

    Scopes of debug information are always inserted; at level 3, kernels without any get one, for line tables.
    """
    level = options["opt-level"]
    result = {**options.compiler_options(), "opt-level": max(0, min(level, 3)), "lineinfo": True}
    values = tileiras.options.CompileOptions(result)
    if level not in (0, 1, 2, 3):
        raise _bad(f"invalid optimization level: {level}")
    passes: list[Pass] = []
    if level >= 1:
        scopes = SynthesizeDebugInfoScopes.name
        front = tileiras.stages.tileaa.passes(tileiras.pipeline.stage("tileaa").select(values))
        passes += [item for item in front if level >= 3 or item.name != scopes]
    if level >= 2:
        passes += tileiras.stages.tileas.passes(tileiras.pipeline.stage("tileas").select(values))
        passes.append(tileiras.passes.tileir_emit_host_wrapper.EmitHostWrapper(
            compute_capability=values["gpu-name"], dump_host=options["dump-host"],
            host_triple=options["host-triple"], enable_debug_logging=options["enable-debug-logging"],
        ))  # fmt: skip
        lowering = tileiras.stages.llvm.passes(
            tileiras.pipeline.stage("llvm").select(values), options["use-nvgpucomp-libnvvm"], ceiling="documented"
        )
        passes += lowering if level >= 3 else tileiras.stages.llvm.to_nvgpu(lowering)
    return passes


STAGE_KEYS = {"compute-capability": "gpu-name", "num-stages": "unspecialized-pipeline-num-stages"}


def tileas_passes(braces: str) -> list[Pass]:
    """The passes of `tileas{key=value ...}`: the rows of the stage `tileas` (`stage_passes`)."""
    return stage_passes("tileas", braces)


def llvm_passes(braces: str) -> list[Pass]:
    """The passes of `llvm{key=value ...}`: the rows of the stage `llvm` (`stage_passes`)."""
    return stage_passes("llvm", braces)


def stage_passes(stage: str, braces: str) -> list[Pass]:
    """The rows of a stage from `from` to `to`, both included.

    The defaults are the first and the last row; other keys are options of the stage.  Raises CompileError (code 2) for
    an unknown option or row.
    """
    row = tileiras.pipeline.stage(stage)
    entry = dict(item.partition("=")[::2] for item in re.split(r"[\s,]+", braces.strip()) if item)
    first_name, last_name = entry.pop("from", ""), entry.pop("to", "")
    values: dict[str, Any] = {"gpu-name": "sm_90"}
    for key, text in entry.items():
        name = STAGE_KEYS.get(key, key)
        if name not in row.options:
            raise _bad(f"'{stage}' has no option '{key}'")
        values[name] = tileiras.options.parse_value(tileiras.options.lookup(name), text)
    rows = tileiras.stages.llvm.passes if stage == "llvm" else tileiras.stages.tileas.passes
    result = rows(row.select(tileiras.options.CompileOptions(values)))
    for name in (first_name, last_name):
        if name and all(item.name != name for item in result):
            raise _bad(f"'{stage}' has no row '{name}'; it has: {', '.join(dict.fromkeys(p.name for p in result))}")
    first = next(number for number, item in enumerate(result) if first_name in ("", item.name))
    last = next(
        (number for number, item in enumerate(result) if number >= first and item.name == last_name), len(result)
    )
    return result[first : last + 1]


OURS_WIDTH = 66
"""Width of the column of this compiler's passes, in characters; their names are wrapped."""


def describe(level: int = 3, runs: Collection[str] | None = None) -> str:
    """The documented pass list up to a level and this compiler's passes, as `--print-pipeline` prints them; with
    `runs`, only passes of these names."""
    import textwrap

    rows = [row for row in ROWS if row.level <= level]
    width = max(len(row.documented) for row in rows)
    lines = [f"tileir{{opt-level={level}}}: the documented passes, ours, and remarks", ""]
    for row in rows:
        names = [name for name in row.ours if runs is None or name in runs]
        ours = textwrap.wrap(", ".join(names) or "-", OURS_WIDTH, break_on_hyphens=False)
        lines.append(f"O{row.level}  {row.documented:<{width}}  {ours[0]:<{OURS_WIDTH}}  {row.remark}".rstrip())
        lines += [f"{'':<{width + 6}}{more}" for more in ours[1:]]
    return "\n".join(lines) + "\n"


def option_rows() -> Iterable[tuple[str, str, str, str, str]]:
    """(name, type, default, documented consumer, consumer in this compiler) of every option, for the documentation."""
    for option in OPTIONS.values():
        kind = option.kind if option.kind != "enum" else ", ".join(option.choices)
        default = str(option.default).lower() if isinstance(option.default, bool) else str(option.default)
        yield option.name, kind, default or "empty", option.consumer, option.ours
