"""Performing steps: here, in worker processes, or on other machines."""

from __future__ import annotations

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
