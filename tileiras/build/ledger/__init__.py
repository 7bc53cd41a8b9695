"""The record of a build directory: the steps that it has run, and whether their artifacts may be kept."""

from __future__ import annotations

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
