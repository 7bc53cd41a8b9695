"""Resources that a plan needs and a target provides: registers of a thread, shared memory."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
