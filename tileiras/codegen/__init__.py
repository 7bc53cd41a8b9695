"""From LLVM IR text to PTX and cubin: target machines, device libraries, LLVM's passes, PTX headers, ptxas."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
