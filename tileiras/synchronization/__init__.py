"""Barriers between threads: those that a function needs, their placement, and delays that test them."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
