"""Operators of other libraries that launch a kernel: generated source of PyTorch and JAX, from a declaration.

Neither library is needed here, nor in order to compile.
"""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
