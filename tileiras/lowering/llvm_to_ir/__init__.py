"""The llvm and nvvm dialects to LLVM IR text, written directly: llvmlite's builder objects would be slower to make and
to print than the text is to parse."""

from tileiras.support.lazy import lazy_names

from .module import translate_module

__all__ = ["translate_module"]


__getattr__ = lazy_names(__name__, globals())
