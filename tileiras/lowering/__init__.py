"""Lowerings between dialects, one package each, by operation family."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
