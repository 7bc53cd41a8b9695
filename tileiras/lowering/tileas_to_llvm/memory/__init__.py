"""Loads, stores and atomic updates of global memory; allocations, printing and assertions."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
