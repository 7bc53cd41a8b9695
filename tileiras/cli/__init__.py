"""Command-line programs."""

from tileiras.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
