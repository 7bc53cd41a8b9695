"""The text of IR: lexer, parser and printer, and the assembly formats of operations."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
