"""Fewer live registers: sinking, spilling, rematerialization, reuse of loaded elements, occupancy."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
