"""Modules that all parts of the package use: files, named tuples, lazy packages, progress."""

from .lazy import lazy_names

__getattr__ = lazy_names(__name__, globals())
