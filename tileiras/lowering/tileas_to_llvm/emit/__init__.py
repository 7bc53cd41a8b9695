"""The frame of a lowered function: its builder, types, signature, control flow and variables."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
