"""Agents: rules mark the operations of each, one split clones their programs, and pipes join them (docs/agents.md)."""

from tileiras.support.lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
