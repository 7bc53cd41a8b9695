"""The targets of watch mode, which `TileTree` and `TileKernel` record in every build."""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.options import CompileOptions
from tileiras.support.named_tuple import NamedTuple


class Tree(NamedTuple):
    """A folder of kernels for several targets."""

    directory: str
    prefix: str
    """The prefix of the names of its kernels."""
    variants: Sequence[tuple[CompileOptions, str]]
    """Options and `emit`."""
    build: str
    entries: Sequence[str] | None = None


class Single(NamedTuple):
    """One kernel for one target."""

    path: str
    name: str
    options: CompileOptions
    emit: str
    build: str
    entries: Sequence[str] | None = None
