"""The passes by name, each with the module that declares it and the operations that trigger it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping

from tileiras.diagnostics import CompileError, ExitCode
from tileiras.ir import Pass
from tileiras.support.lazy import lazy_names
from tileiras.support.named_tuple import NamedTuple


class Place(NamedTuple):
    """The module and the triggers of a pass, readable without loading its code."""

    module: str
    """Module of the package `tileiras`; must be a literal: `build/store/fingerprint.py` reads it from the source."""
    triggers: tuple[str, ...] = ()
    """Names of operations and attributes, or of a dialect with a point at the end; the pass has no effect on a module
    without any of them, and a stage does not load it.  Empty: the pass always runs."""


LOOPS = ("scf.for",)
TILEAA_DOTS = ("nv_tileaa.dot", "nv_tileaa.block_scaled_mma")
DOTS = ("nv_tileas.dot", "nv_tileas.block_scaled_mma")
LOOP_SCHEDULES, SHORT_LOOPS = ("nv_tileas.loop_schedule", "nv_tileas.runs_ahead"), ("nv_tileas.short_of_registers",)
AGENTS = ("nv_tileas.async.pipeline.agent_switch",)
EXPANDED = (
    "arith.ceildivsi", "arith.ceildivui", "arith.floordivsi", "arith.mulsi_extended", "arith.mului_extended",
    "arith.extsi", "arith.extui", "arith.trunci",
)  # fmt: skip
LONG_COMPUTATIONS = (
    "nv_tileas.reduce", "nv_tileas.scan", "nv_tileas.convert_layout", "nv_tileas.divf", "nv_tileas.sqrt", "arith.remf",
    "math.sin", "math.cos", "math.tan", "math.powf", "math.sinh", "math.cosh",
)  # fmt: skip
LOWERED_KERNEL = ("nv_tileas.kernel_spec",)

PASSES: Mapping[str, Place] = {
    "arith-expand": Place("passes.arith_expand", EXPANDED),
    "canonicalize": Place("passes.canonicalize"),
    "convert-cudatile-to-tileaa": Place("passes.convert_cudatile_to_tileaa"),
    "convert-debuginfo-to-llvm": Place("passes.convert_debuginfo_to_llvm"),
    "convert-math-to-funcs": Place("passes.convert_math_to_funcs", ("math.", "arith.remf")),
    "convert-memref-to-llvm": Place("passes.convert_memref_to_llvm", ("memref.",)),
    "convert-nvgpu-to-nvvm": Place("passes.convert_nvgpu_to_nvvm", ("nvgpu.",)),
    "convert-target-to-nvvm": Place("passes.convert_target_to_nvvm"),
    "convert-tileaa-to-tileas": Place("passes.convert_tileaa_to_tileas"),
    "convert-tileas-to-llvm": Place("passes.convert_tileas_to_llvm"),
    "convert-tileas-to-nvgpu": Place("passes.convert_tileas_to_nvgpu", ("nv_tileas.thread.",)),
    "convert-to-llvm": Place("passes.convert_to_llvm", ("arith.", "math.")),
    "convert-vector-to-llvm": Place("passes.convert_vector_to_llvm", ("vector.",)),
    "cse": Place("passes.cse"),
    "dce": Place("passes.dce"),
    "debuginfo-describe-parameters": Place("passes.debuginfo_describe_parameters"),
    "debuginfo-update-symbol-name": Place("passes.debuginfo_update_symbol_name"),
    "fuse-fma": Place("passes.fuse_fma"),
    "host-device-assert-enable": Place("passes.host_device_assert_enable", ("cf.assert",)),
    "instrument-memcheck": Place("passes.instrument_memcheck"),
    "loop-split": Place("passes.loop_split"),
    "lower-tma-load-store-to-async": Place("tensor_maps.stores", ("nv_tileas.ahead_atom",)),
    "nvptx-peepholes": Place("passes.nvptx_peepholes", ("llvm.br",)),
    "nvvm-ir-verifier": Place("passes.nvvm_ir_verifier"),
    "synthesize-debug-info-scopes": Place("passes.synthesize_debug_info_scopes"),
    "test-convert-to-llvm": Place("passes.convert_to_llvm", ("arith.",)),
    "tileaa-agent-verifier": Place(
        "passes.tileaa_agent_verifier", (*AGENTS, "nv_tileas.async.pipeline.create_pipeline")
    ),  # fmt: skip
    "tileas-assign-dot-layouts": Place("assignment.dots", DOTS),
    "tileas-assign-launch-bounds": Place("resources.launch_bounds"),
    "tileas-assign-load-store-layouts": Place("assignment.accesses"),
    "tileas-assign-num-warps": Place("assignment.num_warps"),
    "tileas-attach-tma-desc-args": Place("tensor_maps.arguments", ("nv_tileas.make_tma_desc",)),
    "tileas-cluster-tile-blocks": Place("tile_blocks.clusters", TILEAA_DOTS),
    "tileas-fit-tensor-memory": Place("assignment.tensor_columns", TILEAA_DOTS),
    "tileas-flush-exponentials": Place("registers.flush_exponentials", ("math.exp2",)),
    "tileas-fold-unit-batches": Place("operands.unit_batches", TILEAA_DOTS),
    "tileas-generate-schedule": Place("schedule.generate_schedule", LOOPS),
    "tileas-hoist-loads": Place("registers.hoist_loads", LONG_COMPUTATIONS),
    "tileas-insert-barriers": Place("synchronization.barriers"),
    "tileas-insert-delays": Place("synchronization.delays"),
    "tileas-interleave-copies": Place("operands.interleaved_copies", DOTS),
    "tileas-join-mask-bounds": Place("registers.mask_bounds", ("arith.andi",)),
    "tileas-legalize-fma-dot": Place("operands.fma_dots", DOTS),
    "tileas-legalize-scaled-dot": Place("operands.scaled_dot", ("nv_tileaa.block_scaled_mma",)),
    "tileas-lower-occupancy": Place("registers.occupancy"),
    "tileas-mark-short-loops": Place("resources.registers", LOOPS),
    "tileas-materialize-async": Place("operands.in_place", DOTS),
    "tileas-materialize-convert-layout": Place(
        "registers.sink_conversions", ("nv_tileas.convert_layout",),
    ),  # fmt: skip
    "tileas-materialize-schedule": Place("schedule.agents.load_agent", ("nv_tile.aws.partition",)),
    "tileas-optimize-alloc-tensor": Place("resources.arena"),
    "tileas-order-tile-blocks": Place("tile_blocks.order", LOOPS),
    "tileas-order-warpgroups": Place("schedule.agents.rules.warpgroup_turns", AGENTS),
    "tileas-pair-dots": Place("assignment.cta_pairs", DOTS),
    "tileas-pair-tile-blocks": Place("tile_blocks.pairs", TILEAA_DOTS),
    "tileas-ping-pong": Place("schedule.agents.alternate_agents", AGENTS),
    "tileas-plan-cta": Place("slicing.decisions"),
    "tileas-rematerialize": Place("registers.rematerialize", SHORT_LOOPS),
    "tileas-remove-layout-conversions": Place("assignment.rewrite"),
    "tileas-resolve-agent-boundary": Place("schedule.agents.budget", AGENTS),
    "tileas-promote-accumulators": Place("assignment.promoted_dots", DOTS),
    "tileas-reuse-loads": Place("registers.reuse_loads", ("nv_tileas.tiled_load", "nv_tileas.load")),
    "tileas-roll-mma-dot": Place("operands.mma_dots", DOTS),
    "tileas-round-in-boxes": Place("schedule.rounded_loads", ("nv_tileas.fp_to_fp",)),
    "tileas-share-divisors": Place("registers.shared_divisors", ("nv_tileas.divf",)),
    "tileas-sink-loads": Place("registers.sink_loads"),
    "tileas-slice-batches": Place("slicing.decisions", TILEAA_DOTS),
    "tileas-slice-dots": Place("slicing.decisions", TILEAA_DOTS),
    "tileas-slicing": Place("slicing.decisions"),
    "tileas-smem-operands": Place("operands.smem", (*LOOPS, *DOTS)),
    "tileas-specialize-correction": Place("schedule.agents.further", AGENTS),
    "tileas-specialize-mma": Place("schedule.agents.further", AGENTS),
    "tileas-specialize-stores": Place("schedule.agents.further", AGENTS),
    "tileas-spill-loop-carried": Place("registers.spill_loop_carried", SHORT_LOOPS),
    "tileas-split-addresses": Place("registers.split_addresses", ("nv_tileas.load", "nv_tileas.store")),
    "tileas-split-loop-steps": Place("slicing.decisions", TILEAA_DOTS),
    "tileas-unspecialized-pipeline": Place("schedule.materialize.loops", LOOP_SCHEDULES),
    "tileir-emit-host-wrapper": Place("passes.tileir_emit_host_wrapper"),
    "tileir-finalize-llvm-kernel": Place("passes.tileir_finalize_llvm_kernel", LOWERED_KERNEL),
    "tileir-gpu-module-prepare": Place("passes.tileir_gpu_module_prepare", ("llvm.func",)),
    "tileir-insert-debug-scope": Place("passes.tileir_insert_debug_scope"),
    "tileir-legalize-llvm-kernel": Place("passes.tileir_legalize_llvm_kernel", LOWERED_KERNEL),
    "tileir-post-nvvm-finalize": Place("passes.tileir_post_nvvm_finalize", ("llvm.func",)),
    "tileir-verify-ops-analysis": Place("passes.tileir_verify_ops_analysis"),
    "unspecialized-pipeline": Place("passes.unspecialized_pipeline", LOOP_SCHEDULES),
    "verify-deterministic": Place("order.verify_deterministic"),
}


@functools.cache
def lookup_pass(name: str) -> type[Pass]:
    """The class of a pass, whose module is loaded; raises CompileError (code 2) for an unknown name."""
    place = PASSES.get(name)
    if place is None:
        text = f"'{name}' does not refer to a registered pass; known: {', '.join(names())}"
        raise CompileError.at(None, text, ExitCode.CONFIGURATION)
    for value in vars(importlib.import_module(f"tileiras.{place.module}")).values():
        if isinstance(value, type) and issubclass(value, Pass) and value.name == name:
            return value
    raise TypeError(f"'tileiras.{place.module}' declares no pass '{name}'")


def names() -> list[str]:
    """All passes, by their command-line names."""
    return sorted(PASSES)


__getattr__ = lazy_names(__name__, globals())
