"""Which warps, atoms and layouts: at dots and accesses first, and from there everywhere."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
