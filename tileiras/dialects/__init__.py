"""The dialects, one package each; loaded when one of their names is first looked up."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
