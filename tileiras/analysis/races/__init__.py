"""Order of memory accesses: which barriers and fences it needs, and whether the program has them."""

from tileiras.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
