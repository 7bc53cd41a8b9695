"""Artifacts by key: the store of this machine, a team's server, and the keys themselves."""

from __future__ import annotations

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
