"""Analyses: facts about values, computed once for a function and queried by lowerings and passes."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
