"""From a request to stages: the inputs of a compilation, its steps and products; the program handle."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
