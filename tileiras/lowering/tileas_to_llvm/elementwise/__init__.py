"""Operations on each element of a fragment, and the values of fragments that depend on the place alone."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
