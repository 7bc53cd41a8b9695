"""Accesses by boxes of tensor maps: descriptors, stores, and loads that reduce."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
