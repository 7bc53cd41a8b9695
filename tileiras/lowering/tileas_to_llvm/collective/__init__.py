"""Operations in which threads exchange elements: conversions between layouts, reductions, scans, slices."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
