"""Agents, barriers and mbarriers, asynchronous copies by threads and by the tensor memory accelerator, clusters."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
