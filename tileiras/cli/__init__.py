"""Command-line programs."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
