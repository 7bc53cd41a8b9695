"""Attributes of the nvvm dialect."""

from __future__ import annotations

from tileiras.ir import EnumAttr


class FPRoundingModeAttr(EnumAttr):
    """PTX rounding modifiers; `approx` and `full` are the approximations of division, square root and reciprocal."""

    name = "nvvm.fp_rnd_mode"
    keyword_only = True
    cases = {"rn": 1, "rm": 2, "rp": 3, "rz": 4, "approx": 5, "full": 6}


class ShflKindAttr(EnumAttr):
    name = "nvvm.shfl_kind"
    keyword_only = True
    cases = {"bfly": 0, "up": 1, "down": 2, "idx": 3}


class VoteSyncKindAttr(EnumAttr):
    name = "nvvm.vote_sync_kind"
    keyword_only = True
    cases = {"any": 0, "all": 1, "ballot": 2, "uni": 3}


class ReductionKindAttr(EnumAttr):
    name = "nvvm.redux_kind"
    keyword_only = True
    cases = {"add": 0, "min": 1, "max": 2, "umin": 3, "umax": 4, "and": 5, "or": 6, "xor": 7, "fmin": 8, "fmax": 9}


class MMATypeAttr(EnumAttr):
    """Element types of mma fragments (PTX ISA, "mma")."""

    name = "nvvm.mma_type"
    keyword_only = True
    cases = {"f16": 0, "f32": 1, "tf32": 2, "bf16": 9, "s8": 6, "u8": 5, "s32": 8, "f64": 10, "e4m3": 11, "e5m2": 12,
             "e2m1": 15, "s4": 4, "u4": 3}  # fmt: skip


class MMABlockScaleKindAttr(EnumAttr):
    name = "nvvm.block_scale_kind"
    keyword_only = True
    cases = {"mxf8f6f4": 0, "mxf4": 1, "mxf4nvf4": 2}


class ScaleVecSizeAttr(EnumAttr):
    """How many scales a row of A, or a column of B, has in one instruction."""

    name = "nvvm.scale_vec_size"
    keyword_only = True
    cases = {"1x": 0, "2x": 1, "4x": 2}


class BlockScaleFormatAttr(EnumAttr):
    name = "nvvm.block_scale_format"
    keyword_only = True
    cases = {"ue8m0": 0, "ue4m3": 1}


class MMALayoutAttr(EnumAttr):
    name = "nvvm.mma_layout"
    keyword_only = True
    cases = {"row": 0, "col": 1}


class LoadCacheModifierAttr(EnumAttr):
    """Where an asynchronous copy caches: all levels, or L2 only."""

    name = "nvvm.load_cache_modifier"
    keyword_only = True
    cases = {"ca": 0, "cg": 1}


class MemOrderAttr(EnumAttr):
    name = "nvvm.mem_order"
    keyword_only = True
    cases = {"relaxed": 0, "acquire": 1, "release": 2, "acq_rel": 3}


class MemScopeAttr(EnumAttr):
    name = "nvvm.mem_scope"
    keyword_only = True
    cases = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 3}


class AtomicOpAttr(EnumAttr):
    """PTX atomic operations; signedness is part of the operation, as in `atomicrmw`."""

    name = "nvvm.atomic_op"
    keyword_only = True
    cases = {"add": 0, "exch": 1, "and": 2, "or": 3, "xor": 4, "min": 5, "max": 6, "umin": 7, "umax": 8, "fadd": 9,
             "cas": 10}  # fmt: skip
