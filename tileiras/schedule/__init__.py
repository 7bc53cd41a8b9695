"""Schedules of loops: which loads run ahead of their uses, through how many stages, and which agents issue them."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
