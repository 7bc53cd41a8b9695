"""One file for each kind of agent: which operations it executes, and the reasons against it."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
