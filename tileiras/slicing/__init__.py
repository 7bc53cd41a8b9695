"""Cutting tiles and dots: over the CTAs of a cluster, into slices, into loops over K."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
