"""The passes by name, each with the module that declares it and the operations that trigger it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping

from tileiras.diagnostics import CompileError, ExitCode
from tileiras.ir import Pass
from tileiras.lazy import lazy_names
from tileiras.named_tuple import NamedTuple


class Place(NamedTuple):
    """The module and the triggers of a pass, readable without loading its code."""

    module: str
    """Module of the package `tileiras`; must be a literal: `build/fingerprint.py` reads it from the source."""
    triggers: tuple[str, ...] = ()
    """Names of operations and attributes; the pass has no effect on a module without any of them, and a stage does not
    load it.  Empty: the pass always runs."""


LOOPS = ("scf.for",)
TILEAA_DOTS = ("nv_tileaa.dot", "nv_tileaa.block_scaled_mma")
DOTS = ("nv_tileas.dot", "nv_tileas.block_scaled_mma")
LOOP_SCHEDULES, SHORT_LOOPS = ("nv_tileas.loop_schedule", "nv_tileas.runs_ahead"), ("nv_tileas.short_of_registers",)
AGENTS = ("nv_tileas.async.pipeline.agent_switch",)

PASSES: Mapping[str, Place] = {
    "canonicalize": Place("passes.canonicalize"),
    "convert-cudatile-to-tileaa": Place("passes.convert_cudatile_to_tileaa"),
    "convert-debuginfo-to-llvm": Place("passes.convert_debuginfo_to_llvm"),
    "convert-target-to-nvvm": Place("passes.convert_target_to_nvvm"),
    "convert-tileaa-to-tileas": Place("passes.convert_tileaa_to_tileas"),
    "convert-tileas-to-llvm": Place("passes.convert_tileas_to_llvm"),
    "cse": Place("passes.cse"),
    "dce": Place("passes.dce"),
    "debuginfo-describe-parameters": Place("passes.debuginfo_describe_parameters"),
    "debuginfo-update-symbol-name": Place("passes.debuginfo_update_symbol_name"),
    "fuse-fma": Place("passes.fuse_fma"),
    "instrument-memcheck": Place("passes.instrument_memcheck"),
    "loop-split": Place("passes.loop_split"),
    "lower-tma-load-store-to-async": Place("passes.lower_tma_load_store_to_async", ("nv_tileas.ahead_atom",)),
    "nvvm-ir-verifier": Place("passes.nvvm_ir_verifier"),
    "synthesize-debug-info-scopes": Place("passes.synthesize_debug_info_scopes"),
    "tileaa-agent-verifier": Place(
        "passes.tileaa_agent_verifier", (*AGENTS, "nv_tileas.async.pipeline.create_pipeline")
    ),  # fmt: skip
    "tileas-assign-dot-layouts": Place("passes.tileas_assign_dot_layouts", DOTS),
    "tileas-assign-launch-bounds": Place("passes.tileas_assign_launch_bounds"),
    "tileas-assign-load-store-layouts": Place("passes.tileas_assign_load_store_layouts"),
    "tileas-assign-num-warps": Place("passes.tileas_assign_num_warps"),
    "tileas-attach-tma-desc-args": Place("passes.tileas_attach_tma_desc_args", ("nv_tileas.make_tma_desc",)),
    "tileas-cluster-tile-blocks": Place("passes.tileas_cluster_tile_blocks", TILEAA_DOTS),
    "tileas-fit-tensor-memory": Place("passes.tileas_fit_tensor_memory", TILEAA_DOTS),
    "tileas-fold-unit-batches": Place("passes.tileas_fold_unit_batches", TILEAA_DOTS),
    "tileas-generate-schedule": Place("passes.tileas_generate_schedule", LOOPS),
    "tileas-insert-barriers": Place("passes.tileas_insert_barriers"),
    "tileas-insert-delays": Place("passes.tileas_insert_delays"),
    "tileas-join-mask-bounds": Place("passes.tileas_join_mask_bounds"),
    "tileas-legalize-fma-dot": Place("passes.tileas_legalize_fma_dot", DOTS),
    "tileas-legalize-scaled-dot": Place("passes.tileas_legalize_scaled_dot", TILEAA_DOTS),
    "tileas-lower-occupancy": Place("passes.tileas_lower_occupancy"),
    "tileas-mark-short-loops": Place("passes.tileas_mark_short_loops", LOOPS),
    "tileas-materialize-async": Place("passes.tileas_materialize_async", DOTS),
    "tileas-materialize-convert-layout": Place(
        "passes.tileas_materialize_convert_layout", ("nv_tileas.convert_layout",),
    ),  # fmt: skip
    "tileas-materialize-schedule": Place("passes.tileas_materialize_schedule", LOOP_SCHEDULES),
    "tileas-optimize-alloc-tensor": Place("passes.tileas_optimize_alloc_tensor"),
    "tileas-order-tile-blocks": Place("passes.tileas_order_tile_blocks", LOOPS),
    "tileas-order-warpgroups": Place("passes.tileas_order_warpgroups", AGENTS),
    "tileas-pair-dots": Place("passes.tileas_pair_dots", DOTS),
    "tileas-pair-tile-blocks": Place("passes.tileas_pair_tile_blocks", TILEAA_DOTS),
    "tileas-ping-pong": Place("passes.tileas_ping_pong", AGENTS),
    "tileas-plan-cta": Place("passes.tileas_plan_cta"),
    "tileas-rematerialize": Place("passes.tileas_rematerialize", SHORT_LOOPS),
    "tileas-remove-layout-conversions": Place("passes.tileas_remove_layout_conversions"),
    "tileas-resolve-agent-boundary": Place("passes.tileas_resolve_agent_boundary", AGENTS),
    "tileas-reuse-loads": Place("passes.tileas_reuse_loads", ("nv_tileas.tiled_load", "nv_tileas.load")),
    "tileas-roll-mma-dot": Place("passes.tileas_roll_mma_dot", DOTS),
    "tileas-round-in-boxes": Place("passes.tileas_round_in_boxes", ("nv_tileas.fp_to_fp",)),
    "tileas-sink-loads": Place("passes.tileas_sink_loads"),
    "tileas-slice-batches": Place("passes.tileas_slice_batches", TILEAA_DOTS),
    "tileas-slice-dots": Place("passes.tileas_slice_dots", TILEAA_DOTS),
    "tileas-slicing": Place("passes.tileas_slicing"),
    "tileas-smem-operands": Place("passes.tileas_smem_operands", (*LOOPS, *DOTS)),
    "tileas-specialize-mma": Place("passes.tileas_specialize_mma", AGENTS),
    "tileas-specialize-stores": Place("passes.tileas_specialize_stores", AGENTS),
    "tileas-spill-loop-carried": Place("passes.tileas_spill_loop_carried", SHORT_LOOPS),
    "tileas-split-addresses": Place("passes.tileas_split_addresses", ("nv_tileas.load", "nv_tileas.store")),
    "tileas-split-loop-steps": Place("passes.tileas_split_loop_steps", TILEAA_DOTS),
    "tileas-unspecialized-pipeline": Place("passes.tileas_unspecialized_pipeline", LOOP_SCHEDULES),
    "tileir-insert-debug-scope": Place("passes.tileir_insert_debug_scope"),
    "tileir-verify-ops-analysis": Place("passes.tileir_verify_ops_analysis"),
    "verify-deterministic": Place("passes.verify_deterministic"),
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
