"""Attributes of the nvvm dialect."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tileiras.ir import Attribute, DictAttr, EnumAttr, IntegerAttr, UnitAttr, VerifyError, i1

if TYPE_CHECKING:
    from tileiras.ir import Parser, Printer

TRIPLE = "nvptx64-nvidia-cuda"
UNROLL_THRESHOLD = 9900000
"""Larger than any loop, so that only the scheduler decides which loops stay rolled."""

NVGPUCOMP_FLAG = "libNVVMUseNVGpuComp"

_FEATURE = r"\+(?:ptx\d{2,3}|sm_\d{2,3}[af]?)"


class NVVMTargetAttr(Attribute, name="nvvm.target", parameters=("O", "triple", "chip", "features", "flags", "link")):
    """The target of a gpu.module: `#nvvm.target<O = 3, chip = "sm_90", flags = {"-fma=0", ...}>`.

    `O` is the optimization level, 2 if the text omits it.  `features` are LLVM's, with commas: the least PTX version
    (`+ptx86`), and the chip's own (`+sm_90`).  `link` states whether the code will be linked with that of other
    modules, `flags` are libNVVM's.  Defaults are not printed.
    """

    def __new__(
        cls, O: int = 2, triple: str = TRIPLE, chip: str = "sm_75", features: str = "", flags: DictAttr | None = None,  # noqa: E741
        link: bool = False,
    ) -> NVVMTargetAttr:  # fmt: skip
        return cls.intern((O, triple, chip, features, flags if flags is not None else DictAttr(), link))  # type: ignore[return-value]

    @classmethod
    def of(cls, chip: str, opt_level: int, *, debug: bool = False, nvgpucomp: bool = False) -> NVVMTargetAttr:
        """The target of a chip with the flags that go with it."""
        words = ["-Xopt", f"-pragma-unroll-threshold={UNROLL_THRESHOLD}", "-fma=0"] + (["-g"] if debug else [])
        flags: dict[str, Attribute] = {word: UnitAttr() for word in words}
        if nvgpucomp:
            flags[NVGPUCOMP_FLAG] = IntegerAttr(1, i1)
        return cls(opt_level, TRIPLE, chip, "", DictAttr(flags))

    @property
    def ptx_version(self) -> tuple[int, int]:
        """The PTX version that the features request, (0, 0) if they do not."""
        versions = [word[4:] for word in self.features.split(",") if word.startswith("+ptx")]
        return max(((int(digits[:-1]), int(digits[-1])) for digits in versions), default=(0, 0))

    def verify(self) -> None:
        """Verify the form; the triple, chip and features are checked by their readers."""
        if not 0 <= self.O <= 3:
            raise VerifyError("optimization level must be a number between 0 and 3", prefix=False)
        if not self.triple:
            raise VerifyError("target triple cannot be empty", prefix=False)
        if not self.chip:
            raise VerifyError("target chip cannot be empty", prefix=False)
        if not isinstance(self.flags, DictAttr):
            raise VerifyError(f"target flags must be a dictionary, got {self.flags}", prefix=False)
        for word in self.features.split(",") if self.features else ():
            if re.fullmatch(_FEATURE, word) is None:
                raise VerifyError(f"target has no feature '{word}'", prefix=False)

    def print_parameters(self, printer: Printer) -> None:
        parts = [] if self.O == 2 else [f"O = {self.O}"]
        parts += [] if self.triple == TRIPLE else [f'triple = "{self.triple}"']
        parts.append(f'chip = "{self.chip}"')
        parts += [f'features = "{self.features}"'] if self.features else []
        printer.write(f"<{', '.join(parts)}")
        if self.flags.items:
            printer.write(", flags = ")
            printer.print_attribute(self.flags)
        printer.write(f"{', link = true' if self.link else ''}>")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> NVVMTargetAttr:
        def boolean() -> bool:
            start = parser.offset
            word = parser.parse_any_keyword()
            if word not in ("true", "false"):
                parser.fail(start, f"expected true or false, got {word}")
            return word == "true"

        text = parser.parse_string
        fields = {
            "O": parser.parse_integer, "triple": text, "chip": text, "features": text, "flags": parser.parse_attribute,
            "link": boolean,
        }  # fmt: skip
        return cls(**parser.parse_struct("#nvvm.target", fields))


class FPRoundingModeAttr(EnumAttr, name="nvvm.fp_rnd_mode"):
    """PTX rounding modifiers; `approx` and `full` are the approximations of division, square root and reciprocal."""

    keyword_only = True
    cases = {"rn": 1, "rm": 2, "rp": 3, "rz": 4, "approx": 5, "full": 6}


class ShflKindAttr(EnumAttr, name="nvvm.shfl_kind", cases={"bfly": 0, "up": 1, "down": 2, "idx": 3}):
    keyword_only = True


class VoteSyncKindAttr(EnumAttr, name="nvvm.vote_sync_kind", cases={"any": 0, "all": 1, "ballot": 2, "uni": 3}):
    keyword_only = True


class ReductionKindAttr(EnumAttr, name="nvvm.redux_kind"):
    keyword_only = True
    cases = {"add": 0, "min": 1, "max": 2, "umin": 3, "umax": 4, "and": 5, "or": 6, "xor": 7, "fmin": 8, "fmax": 9}


class SetMaxRegisterActionAttr(EnumAttr, name="nvvm.set_max_register_action", cases={"decrease": 1, "increase": 0}):
    keyword_only = True


class MMATypeAttr(EnumAttr, name="nvvm.mma_type"):
    """Element types of mma fragments (PTX ISA, "mma")."""

    keyword_only = True
    cases = {"f16": 0, "f32": 1, "tf32": 2, "bf16": 9, "s8": 6, "u8": 5, "s32": 8, "f64": 10, "e4m3": 11, "e5m2": 12,
             "e2m1": 15, "s4": 4, "u4": 3}  # fmt: skip


class MMAIntOverflowAttr(EnumAttr, name="nvvm.mma_int_overflow", cases={"wrapped": 0, "satfinite": 1}):
    """The treatment of sums that do not fit 32 bits (PTX ISA, mma: `.satfinite`)."""

    keyword_only = True


class MMABlockScaleKindAttr(EnumAttr, name="nvvm.block_scale_kind", cases={"mxf8f6f4": 0, "mxf4": 1, "mxf4nvf4": 2}):
    keyword_only = True


class ScaleVecSizeAttr(EnumAttr, name="nvvm.scale_vec_size", cases={"x1": 0, "x2": 1, "x4": 2}, keyword_only=True):
    """How many scales a row of A, or a column of B, has in one instruction."""


class BlockScaleFormatAttr(EnumAttr, name="nvvm.block_scale_format", cases={"ue8m0": 0, "ue4m3": 1}):
    keyword_only = True


class MMALayoutAttr(EnumAttr, name="nvvm.mma_layout", cases={"row": 0, "col": 1}, keyword_only=True): ...


class LdStMatrixEltTypeAttr(EnumAttr, name="nvvm.ld_st_matrix_elt_type", cases={"b16": 0, "b8": 1}, keyword_only=True):
    """The elements of matrices that a warp loads."""


class LoadCacheModifierAttr(EnumAttr, name="nvvm.load_cache_modifier", cases={"ca": 0, "cg": 1}, keyword_only=True):
    """Where an asynchronous copy caches: all levels, or L2 only."""


class MemOrderAttr(EnumAttr, name="nvvm.mem_order", cases={"relaxed": 0, "acquire": 1, "release": 2, "acq_rel": 3}):
    keyword_only = True


class MemScopeAttr(EnumAttr, name="nvvm.mem_scope", cases={"cta": 0, "cluster": 1, "gpu": 2, "sys": 3}):
    keyword_only = True


class AtomicOpAttr(EnumAttr, name="nvvm.atomic_op"):
    """PTX atomic operations; signedness is part of the operation, as in `atomicrmw`."""

    keyword_only = True
    cases = {"add": 0, "exch": 1, "and": 2, "or": 3, "xor": 4, "min": 5, "max": 6, "umin": 7, "umax": 8, "fadd": 9,
             "cas": 10}  # fmt: skip
