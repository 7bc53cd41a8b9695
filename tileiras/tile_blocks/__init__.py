"""Tile blocks of a grid: the order in which they start, and neighbours that share copies or multiply in pairs."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
