"""The CPUs: triple, processor and features of each target name, and the properties that the lowering reads.

Sources: x86-64 psABI, "Micro-Architecture Levels" (x86-64-v3: AVX2, FMA, F16C; x86-64-v4: AVX-512 F, BW, CD, DQ, VL),
under which names LLVM has them as processors; Arm Architecture Reference Manual (32 vector registers of 128 bits, FMA).
`cpu` is the highest level that this machine has: two machines of one level compile the same bytes.
"""

from __future__ import annotations

import functools

from tileiras.options import CPU_NAMES
from tileiras.support.named_tuple import NamedTuple

HOST = "cpu"


class CpuTarget(NamedTuple):
    """One target name."""

    name: str
    machine: str
    """The value of `platform.machine()` on which its code runs."""
    triple: str
    processor: str
    """LLVM's name."""
    lanes: int
    """f32 elements of a vector register."""
    registers: int
    """Vector registers."""
    long_double: str
    """LLVM's type of C's long double."""


TARGETS: dict[str, CpuTarget] = {
    row.name: row
    for row in (
        CpuTarget("cpu-x86-64-v3", "x86_64", "x86_64-unknown-linux-gnu", "x86-64-v3", 8, 16, "x86_fp80"),
        CpuTarget("cpu-x86-64-v4", "x86_64", "x86_64-unknown-linux-gnu", "x86-64-v4", 16, 32, "x86_fp80"),
        CpuTarget("cpu-aarch64", "aarch64", "aarch64-unknown-linux-gnu", "generic", 4, 32, "fp128"),
    )
}

V3 = ("avx2", "bmi1", "bmi2", "f16c", "fma", "movbe")
V4 = (*V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
"""Features of /proc/cpuinfo that a level requires, those of lower levels among them."""


def is_cpu(name: str | None) -> bool:
    """Whether a target is a CPU's."""
    return name in CPU_NAMES


def cpu_target(name: str) -> CpuTarget | None:
    """The row of a target name; None for `cpu` on a machine of no level."""
    return TARGETS[name] if name != HOST else host()


@functools.cache
def host() -> CpuTarget | None:
    """The highest level that this machine has; None without any."""
    machine = _machine()
    if machine == "aarch64":
        return TARGETS["cpu-aarch64"]
    if machine != "x86_64":
        return None
    flags = _flags()
    levels = (("cpu-x86-64-v4", V4), ("cpu-x86-64-v3", V3))
    return next((TARGETS[name] for name, needs in levels if flags.issuperset(needs)), None)


def _machine() -> str:
    import platform  # compilations for a GPU do not load it

    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


def _flags() -> frozenset[str]:
    """The features of the processor, in the kernel's spelling; those that LLVM finds where there is no such file."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            line = next((line for line in file if line.startswith("flags")), "")
        return frozenset(line.partition(":")[2].split())
    except OSError:
        import llvmlite.binding as llvm

        spelled = {"bmi": "bmi1"}
        return frozenset(spelled.get(name, name) for name, has in llvm.get_host_cpu_features().items() if has)


def is_machine(target: CpuTarget) -> bool:
    """Whether this machine has the instruction set of a target, at any level."""
    return _machine() == target.machine


def refusal(name: str) -> str:
    """The reason why this machine cannot execute code of a target name, or nothing."""
    target = TARGETS.get(name)
    return f"this machine lacks instructions of {name}" if target is not None and not runs_here(target) else ""


def runs_here(target: CpuTarget) -> bool:
    """Whether this machine can execute code of a target."""
    here = host()
    return here is not None and here.machine == target.machine and here.lanes >= target.lanes
