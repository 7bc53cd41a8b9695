"""Operands of dots: places in shared memory, loops over K, and forms that the target multiplies."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
