"""The order and the scope of a memory access (PTX ISA, "Memory Consistency Model": "Scope", "Operation types")."""

from __future__ import annotations

from typing import NamedTuple

CTA, CLUSTER, GPU, SYSTEM = range(4)
SCOPES = {"cta": CTA, "cluster": CLUSTER, "gpu": GPU, "gl": GPU, "sys": SYSTEM}


class Order(NamedTuple):
    """An access's semantics, `weak`, `nc`, `relaxed`, `acquire`, `release` or `acq_rel`, and its scope (-1: weak)."""

    semantics: str
    scope: int

    @property
    def strong(self) -> bool:
        return self.scope >= 0

    @property
    def acquires(self) -> bool:
        return self.semantics in ("acquire", "acq_rel")

    @property
    def releases(self) -> bool:
        return self.semantics in ("release", "acq_rel")


WEAK = Order("weak", -1)
