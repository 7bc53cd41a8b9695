"""Rewrites against a shortage of registers or shared memory: sinking, spilling, shared-memory operands, loops over
K."""

from tileiras.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
