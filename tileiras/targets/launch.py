"""Launch attributes of kernels: their syntax, their valid values, their names in LLVM.

The rules are PTX ISA's ("Performance-Tuning Directives", "Cluster Dimension Directives"); values that ptxas 13.5
ignores silently are rejected as well.  `check_launch_attributes` checks attributes of `llvm.func` and of LLVM IR.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tileiras.support.named_tuple import NamedTuple
from tileiras.targets.sm import MAX_THREADS_PER_CTA

DIMENSIONS, NUMBER, FLAG = "dimensions", "number", "flag"

LaunchValue = tuple[int, ...] | int | bool | None
"""A tuple for dimensions, an integer for a number, True for a flag, None for an invalid value."""


class LaunchAttribute(NamedTuple):
    name: str
    kind: str
    llvm: str = ""
    """Its name in LLVM IR if that differs."""

    @property
    def llvm_name(self) -> str:
        return self.llvm or self.name


LAUNCH_ATTRIBUTES: dict[str, LaunchAttribute] = {
    attribute.name: attribute
    for attribute in (
        LaunchAttribute("nvvm.maxntid", DIMENSIONS),
        LaunchAttribute("nvvm.reqntid", DIMENSIONS),
        LaunchAttribute("nvvm.cluster_dim", DIMENSIONS),
        LaunchAttribute("nvvm.minctasm", NUMBER),
        LaunchAttribute("nvvm.maxnreg", NUMBER),
        LaunchAttribute("nvvm.maxclusterrank", NUMBER),
        LaunchAttribute("nvvm.cluster_max_blocks", NUMBER, "nvvm.maxclusterrank"),  # MLIR's name for it
        LaunchAttribute("nvvm.blocksareclusters", FLAG),
    )
}
"""By name, in the order in which LLVM IR lists them (LLVM NVPTX usage guide, "Kernel attributes")."""

MAX_CLUSTER = 16
"""CTAs of a cluster that is not portable (CUDA C++ Programming Guide, "Thread Block Clusters")."""

MAX_NUMBER = (1 << 31) - 1
"""ptxas reads 32 bits."""

_FORMS: dict[str, tuple[type, str]] = {
    DIMENSIONS: (tuple, "must be integer array with maximum 3 index"),
    NUMBER: (int, "must be integer constant"),
    FLAG: (bool, "must be a unit attribute"),
}

_ALONE = (
    ("nvvm.maxntid", "nvvm.reqntid"),
    ("nvvm.maxclusterrank", "nvvm.cluster_dim"),
    ("nvvm.cluster_max_blocks", "nvvm.cluster_dim"),
    ("nvvm.cluster_max_blocks", "nvvm.maxclusterrank"),
)
"""Pairs of mutually exclusive attributes."""


def check_launch_attributes(values: Mapping[str, LaunchValue], sm: int) -> list[tuple[str, str]]:
    """Errors of a kernel's launch attributes on `sm_<sm>`: pairs of a name and a message."""
    wrong = [
        (name, result)
        for name, attribute in LAUNCH_ATTRIBUTES.items()
        if name in values and (result := _wrong(attribute, values[name]))
    ]
    if wrong:
        return wrong
    wrong += [(name, f"cannot be used along with '{other}'") for name, other in _ALONE if {name, other} <= set(values)]
    cluster = [name for name in values if name in LAUNCH_ATTRIBUTES and "cluster" in name]
    if cluster and sm < 90:
        wrong.append((cluster[0], f"needs sm_90 or newer, not sm_{sm}"))
    if "nvvm.blocksareclusters" in values and not {"nvvm.reqntid", "nvvm.cluster_dim"} <= set(values):
        wrong.append(("nvvm.blocksareclusters", "must be used along with 'nvvm.reqntid' and 'nvvm.cluster_dim'"))
    return wrong


def _wrong(attribute: LaunchAttribute, value: LaunchValue) -> str:
    """The error message for a value by itself; empty if it is valid."""
    form, text = _FORMS[attribute.kind]
    numbers = value if isinstance(value, tuple) else (value,)
    if type(value) is not form or not 1 <= len(numbers) <= 3:
        return text
    if attribute.kind == FLAG:
        return ""
    if any(number < 1 for number in numbers):
        return f"must be positive, got {', '.join(map(str, numbers))}"
    if attribute.name == "nvvm.cluster_dim":
        if any(number & number - 1 for number in numbers) or prod(numbers) > MAX_CLUSTER:
            return f"must be powers of two with a product of at most {MAX_CLUSTER}"
    elif attribute.kind == DIMENSIONS and prod(numbers) > MAX_THREADS_PER_CTA:
        return f"asks for {prod(numbers)} threads; a CTA has 1 to {MAX_THREADS_PER_CTA}"
    most = MAX_CLUSTER if attribute.llvm_name == "nvvm.maxclusterrank" else MAX_NUMBER
    if attribute.kind == NUMBER and numbers[0] > most:
        return f"must be at most {most}, got {numbers[0]}"
    return ""
