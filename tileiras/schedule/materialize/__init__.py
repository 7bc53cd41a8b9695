"""Rewrites loops as their schedules say: rings of buffers with asynchronous copies, prefetch in registers."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
