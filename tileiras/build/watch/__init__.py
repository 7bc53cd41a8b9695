"""Changes of files: events for watch mode, and the files that a build need not look at."""

from __future__ import annotations

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
