"""Dots: matrix instructions of a warp, of warpgroups, and into tensor memory."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
