"""The GPUs: limits and features of each SM.

Sources: CUDA C++ Programming Guide, "Compute Capabilities" (shared memory, threads, CTAs, registers, clusters); PTX
ISA, "Release Notes" (lowest PTX version whose `.target` accepts the chip) and "Target ISA Notes" of the instruction
behind each feature; ptxas 13.5, which rejects or ignores values beyond a limit, for every number it checks and for
the chips that the guide has no column for (sm_88, sm_107).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tileiras.reasons import Reason
from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.requirements import admits, split

if TYPE_CHECKING:
    from tileiras.ir import FloatType, Type

# Feature -> its requirement (`requirements.py`); the comment names the instruction that it stands for.
FEATURES: dict[str, str] = {
    "bf16": "80",  # cvt.rn.bf16.f32, fma.rn.bf16
    "bf16_arithmetic": "90",  # add.bf16, mul.bf16, atom.add.bf16
    "cp_async": "80",  # cp.async
    "ldmatrix": "75",
    "stmatrix": "90",
    "redux": "80",  # redux.sync on integers
    "redux_float": "=100f",  # redux.sync.{min,max}.f32
    "mbarrier": "80",
    "mbarrier_try_wait": "90",
    "cluster": "90",
    "tma": "90",  # cp.async.bulk.tensor
    "tensormap_replace": "=90a,100f,110f,120f",
    "wgmma": "=90a",
    "tcgen05": "=100f,110f",
    "tcgen05_load_reduction": "=103f,110f",  # tcgen05.ld.red
    "tf32": "80",
    "tf32_nearest_even": "90",  # cvt.rn.tf32.f32
    "fp8_conversion": "89",  # cvt to and from e4m3x2, e5m2x2
    "fp8_products": "=89,120,121",  # mma.sync on e4m3 and e5m2 is one instruction of the machine
    "narrow_f8_sums": "=89,90a",  # the machine's f8 products are aligned to 13 fraction bits, and sums have as many
    "fp4_conversion": "=100f,110f,120f",  # cvt to and from e2m1x2, ue8m0x2
    "packed_f32": "100",  # add.rn.f32x2
    "max_of_three": "100",  # min.f32 and max.f32 with three operands, which ptxas makes of two with two
    "nan_min_max": "80",  # min.NaN, max.NaN
    "wide_global_access": "100",  # ld.global and st.global of 256 bits
    "dependent_launch": "90",  # griddepcontrol
    "multicast_memory": "90",  # multimem
    "setmaxnreg": "=90a,100f,110f,120f",
}


# Element type -> its requirement, if some chip of the table does not meet it: the chips for which the reference
# compiler (13.5) accepts values of the type.
TYPES: dict[str, str] = {
    "f8E4M3FN": "89",
    "f8E5M2": "89",
    "f8E8M0FNU": "100",
    "f4E2M1FN": "100",
    "fnv8E5M3FNU": "=107",
}


_PARAMETER_BANKS = ((100, 0x380), (90, 0x210), (75, 0x160))
"""Lowest chip -> the offset that ptxas records in cubins (EIATTR_PARAM_CBANK)."""


class Target(NamedTuple):
    """One GPU code.  Sizes are in bytes, counts per SM unless they say otherwise."""

    name: str
    ptx: tuple[int, int]
    """Lowest PTX version whose `.target` accepts the chip."""
    shared_per_cta: int
    """Maximum shared memory of one CTA, with opt-in above `STATIC_SHARED_LIMIT`."""
    shared_per_sm: int
    shared_reserved: int
    """Shared memory that the system reserves per CTA."""
    threads: int
    ctas: int
    max_cluster: int
    """CTAs of a portable cluster; 1 without clusters."""

    @property
    def number(self) -> int:
        """`sm_90a` -> 90."""
        return split(self.name)[0]

    @property
    def parameter_bank(self) -> int:
        """Offset of kernel parameters in the constant bank; their alignment is relative to the start of the bank."""
        return next(start for code, start in _PARAMETER_BANKS if self.number >= code)

    @property
    def suffix(self) -> str:
        """`a`: this chip only, `f`: its family, empty: forward compatible."""
        return split(self.name)[1]

    def meets(self, requirement: str) -> bool:
        """Whether the target, in whichever form it needs, meets a requirement such as `80` or `=90a,100f`."""
        return admits(requirement, self.name)

    def has(self, feature: str) -> bool:
        """Whether the target has a feature of `FEATURES`; KeyError for an unknown name."""
        return self.meets(FEATURES[feature])

    def unsupported(self, type: Type) -> FloatType | None:
        """The first element type inside `type` that the target does not support; None if it supports all."""
        # Looked up by the name of the type: stages without IR use this table as well.
        for part in type.walk():
            if not self.meets(TYPES.get(getattr(part, "keyword", ""), "0")):
                return part  # type: ignore[return-value]
        return None


class Occupancy(NamedTuple):
    """How many CTAs of a kernel an SM holds at once, and the resource that limits their number."""

    ctas: int
    reason: Reason

    @property
    def limit(self) -> str:
        return str(self.reason)


def occupancy(on: Target, threads: int, registers: int, shared: int) -> Occupancy:
    """The occupancy of a kernel with so many threads in a CTA, registers a thread, and bytes of shared memory a CTA.

    Registers are allocated to warps in units of 256, to four warps at a time, shared memory in units of 128 bytes
    (CUDA Occupancy Calculator, "GPU Data").
    """
    warps = -(-threads // WARP_SIZE)
    per_warp = -(-registers * WARP_SIZE // REGISTER_UNIT) * REGISTER_UNIT
    bounds = [
        (on.threads // (warps * WARP_SIZE), Reason("kernel.limited-by-threads", threads=on.threads)),
        (on.ctas, Reason("kernel.limited-by-ctas", ctas=on.ctas)),
    ]
    if per_warp:
        warps_by_registers = REGISTERS_PER_SM // per_warp // WARP_UNIT * WARP_UNIT
        bounds.append((warps_by_registers // warps, Reason("kernel.limited-by-registers", registers=registers)))
    bytes = -(-(shared + on.shared_reserved) // SHARED_UNIT) * SHARED_UNIT
    if bytes:
        bounds.append((on.shared_per_sm // bytes, Reason("kernel.limited-by-shared", bytes=shared)))
    return Occupancy(*min(bounds, key=lambda bound: bound[0]))


# Equal on every SM of this table.
WARP_SIZE = 32
REGISTERS_PER_SM = 64 * 1024
PARTITIONS = 4
"""Partitions of an SM, each with a scheduler and a quarter of the registers."""
REGISTERS_PER_THREAD = 255
REGISTER_UNIT = 256
WARP_UNIT = 4
SHARED_UNIT = 128
MAX_THREADS_PER_CTA = 1024
NAMED_BARRIERS = 16  # of a CTA (PTX ISA, "bar{.cta}")
STATIC_SHARED_LIMIT = 48 * 1024  # of a statically sized array; ptxas refuses more on every target
PARAMETER_BYTES = 4352  # of a kernel's parameters that ptxas takes below PTX 8.1; the guide promises 4096
PARAMETER_BYTES_PTX81 = 32764
MORE_PARAMETERS_PTX = (8, 1)

DOCUMENTED_PARAMETER_BYTES = ((80, 32760), (0, 1024))
"""Lowest chip -> the documented limit on the bytes of kernel parameters, which is below the one of PTX 8.1."""

CEILINGS = ("documented", "ptx")
"""Values of `parameter-ceiling`: the documented limit, or the one of the PTX version, which ptxas enforces."""

_KB = 1024


def _rows() -> list[Target]:
    # (codes with their lowest PTX version), shared per CTA, per SM, reserved, threads, CTAs, cluster
    families = (
        ((("75", (6, 3)),), 64, 64, 0, 1024, 16, 1),
        ((("80", (7, 0)),), 163, 164, 1, 2048, 32, 1),
        ((("86", (7, 1)),), 99, 100, 1, 1536, 16, 1),
        ((("87", (7, 4)),), 163, 164, 1, 1536, 16, 1),
        ((("88", (9, 0)),), 99, 100, 1, 1536, 16, 1),
        ((("89", (7, 8)),), 99, 100, 1, 1536, 24, 1),
        ((("90", (7, 8)), ("90a", (8, 0))), 227, 228, 1, 2048, 32, 8),
        ((("100", (8, 6)), ("100a", (8, 6)), ("100f", (8, 8))), 227, 228, 1, 2048, 32, 8),
        ((("103", (8, 8)), ("103a", (8, 8)), ("103f", (8, 8))), 227, 228, 1, 2048, 32, 8),
        ((("107", (9, 4)), ("107a", (9, 4)), ("107f", (9, 4))), 327, 328, 1, 1024, 16, 8),
        ((("110", (9, 0)), ("110a", (9, 0)), ("110f", (9, 0))), 227, 228, 1, 1536, 24, 8),
        ((("120", (8, 7)), ("120a", (8, 7)), ("120f", (8, 8))), 99, 100, 1, 1536, 24, 8),
        ((("121", (8, 8)), ("121a", (8, 8)), ("121f", (8, 8))), 99, 100, 1, 1536, 24, 8),
    )
    return [
        Target(f"sm_{code}", ptx, cta * _KB, sm * _KB, reserved * _KB, threads, ctas, cluster)
        for codes, cta, sm, reserved, threads, ctas, cluster in families
        for code, ptx in codes
    ]


TARGETS: dict[str, Target] = {row.name: row for row in _rows()}


def registers_per_thread(threads: int, ctas: int = 1) -> int:
    """Registers that each of a CTA's threads can have when an SM is to hold so many of these CTAs.

    Warps are spread over the four partitions of an SM, each with its own register file, and get registers in units of
    `REGISTER_UNIT`: ten CTAs of five warps put 13 warps into one partition, which leaves a thread 32 registers, where
    the sum would leave 40.  If `.minnctapersm` requests so many CTAs, ptxas 13.5 keeps to this number from 1 to 12
    warps and 2 to 10 CTAs.
    """
    warps = -(-threads * max(1, ctas) // (WARP_SIZE * PARTITIONS))
    unit = REGISTER_UNIT // WARP_SIZE
    return min(REGISTERS_PER_THREAD, REGISTERS_PER_SM // (PARTITIONS * warps * WARP_SIZE) // unit * unit)


SETMAXNREG = range(24, 257, 8)
"""Registers of a thread that `setmaxnreg` takes (PTX ISA, "setmaxnreg")."""

SETMAXNREG_STEP = 8

WARPGROUP = 4
"""Warps of a warpgroup, the unit of `setmaxnreg`; the number of its first warp is a multiple of it."""


def entry_registers(threads: int, ctas: int = 1) -> int:
    """Registers that each thread starts with in a kernel that uses `setmaxnreg` and has so many threads in a CTA: the
    number that ptxas 13.5 allocates for `.reqntid` and `.minnctapersm`, 255 where threads could have 256."""
    most = registers_per_thread(threads, ctas)
    return most if most == REGISTERS_PER_THREAD else most // SETMAXNREG_STEP * SETMAXNREG_STEP


def register_pool(threads: int, ctas: int = 1) -> int:
    """Registers of a CTA that its warpgroups redistribute by `setmaxnreg`, in units of eight per thread."""
    return -(-entry_registers(threads, ctas) // SETMAXNREG_STEP) * SETMAXNREG_STEP * threads


def parameter_bytes(ptx: tuple[int, int]) -> int:
    """Limit on the bytes of kernel parameters in a version of PTX."""
    return PARAMETER_BYTES_PTX81 if ptx >= MORE_PARAMETERS_PTX else PARAMETER_BYTES


def documented_parameter_bytes(gpu: str) -> int:
    """The documented limit on the bytes of kernel parameters of a GPU code."""
    return next(limit for code, limit in DOCUMENTED_PARAMETER_BYTES if TARGETS[gpu].number >= code)


def parameter_overflow(
    size: int, ptx: int, function: str, documented: int | None = None, ceiling: str = "ptx"
) -> tuple[str, str] | None:
    """The reference compiler's message for a kernel whose parameters exceed the limit, and a note; None if they fit.

    `ptx` is the limit of the PTX version, `documented` that of the documentation, and `ceiling` decides which one a
    kernel must not exceed.  The message of a kernel above both has the documented one, the note the other.
    """
    above = documented is not None and size > documented
    if size <= ptx and not (above and ceiling == "documented"):
        return None
    limit = documented if above else ptx
    message = (
        f"Formal parameter space overflowed ({size} bytes required, max {limit} bytes allowed) in function {function}"
    )
    if not above:
        return message, ""
    admits = "which --parameter-ceiling=ptx admits" if size <= ptx else "which this kernel exceeds as well"
    return message, f"the PTX version has a limit of {ptx} bytes, {admits}"


def target(name: str) -> Target:
    """The row of a GPU code such as `sm_90`; KeyError for one that is not in the table."""
    return TARGETS[name]
