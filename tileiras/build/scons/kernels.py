"""Declares the kernels that an SConstruct names one by one.

The stages of a clean kernel are declared when the list of its products is read, when a path of its artifacts is looked
up in SCons' graph (a target, a dependency, `Glob`, the scan of a folder), and when the build makes a file that it
reads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence, Set
from typing import Any

import SCons.Node.FS
import SCons.Util

from tileiras.build import plan
from tileiras.build.ledger.manifest import Row
from tileiras.build.run.execute import Session
from tileiras.build.scons import arguments, gating, patches, pruning
from tileiras.build.scons.declare import entries_of, prune
from tileiras.build.scons.places import source_name
from tileiras.build.scons.products import CleanProducts
from tileiras.build.scons.sessions import session
from tileiras.build.scons.variables import BadVariable
from tileiras.build.scons.variants import Variant, requested_options
from tileiras.build.tuned import tuned

_variants: dict[tuple[Session, str], list[Variant]] = {}
"""The variants of earlier calls, by the text of their arguments: a signature is computed once for one object."""


def variants(
    env: Any, sm: Any, opt: int | str | None, emit: Any, entries: Any, options: dict[str, Any]
) -> list[Variant]:  # fmt: skip
    """The variants of one call of `TileKernel`; raises BadVariable and CompileError."""
    here = session(env)
    names = ("TILE_SM", "TILE_OPT", "TILE_EMIT", "TILE_OPTIONS", "TILE_OVERRIDES", "TILE_BUILDDIR")
    try:
        text = json.dumps([*map(env.get, names), sm, opt, emit, entries, options])
    except TypeError:  # a generator, for example
        text = "$"
    result = _variants.get((here, text))
    if result is None:
        only = arguments.entry_names(entries)
        result = [Variant(env, *each, only, None) for each in requested_options(env, sm, opt, emit, options)]
        if "$" not in text:
            _variants[here, text] = result
    return result


def sources(env: Any, source: Any) -> list[Any]:
    """The nodes of files; raises BadVariable for anything else."""
    result: list[Any] = []
    for item in SCons.Util.flatten([source]):
        try:
            nodes = env.arg2nodes(arguments.path_or_node("source", item), env.File)
        except TypeError:  # of SCons, which looks at the disk
            nodes = [None]
        if any(node is None or isinstance(node, SCons.Node.FS.Dir) for node in nodes):
            raise BadVariable(f"{item} is a folder; env.TileTree builds the kernels in it")
        result += nodes
    return result


def _check_entries(node: Any, names: Sequence[str]) -> None:
    """Raise BadVariable for a kernel that is not in a source; a source whose entries cannot be read is not checked."""
    path = node.srcnode().abspath
    entries = entries_of(path, source_name(node)) if os.path.isfile(path) else []
    missing = [name for name in names if name not in entries] if entries else []
    if missing:
        raise BadVariable(f"entries: {source_name(node)} has no kernel {missing[0]}; it has {', '.join(entries)}")


_clean: dict[str, list[CleanProducts]] = {}
"""Clean kernels without nodes, by the absolute stem of their artifacts."""


def open_path(path: str) -> None:
    """Declare the stages of the clean kernels that have artifacts at a path, as far as its name tells."""
    if not _clean:
        return
    folder, _, name = path.rpartition("/")
    stems = [folder]
    at = name.find(".")
    while at >= 0:
        stems.append(f"{folder}/{name[:at]}")
        at = name.find(".", at + 1)
    for stem in stems:
        for part in _clean.pop(stem, ()):
            part.nodes()


def kernel(env: Any, node: Any, variant: Variant, on_nodes: Callable[[list[Any]], None]) -> list[Any]:
    """Declare a kernel, or leave it as `CleanProducts`; `on_nodes` is called with the products that get nodes."""
    gate = variant.gate
    path, name = node.srcnode().abspath, source_name(node)
    kernel = gate.kernel(path, plan.stem(variant.folder, path, name), tuned(variant.options, path))
    row = gate.clean(kernel) if _is_plain(node) else None

    def declare() -> list[Any]:
        if variant.entries is not None and not node.has_builder():
            _check_entries(node, variant.entries)
        listing = pruning.Listing(None, variant.absolute, variant.options)
        products = variant.declare(env, node, kernel, listing, row)
        prune(session(env), listing)
        on_nodes(products)
        return products

    if row is None or gate.is_declared(kernel) or _has_nodes(env, gate, row):
        return declare()
    return [_clean_products(gate, row, variant.absolute_stem(kernel.stem), declare)]


def _is_plain(node: Any) -> bool:
    """Whether a source is a file that no other node has to precede."""
    return node.srcnode() is node and not patches.is_made(node) and os.sep == "/"


def _has_nodes(env: Any, gate: gating.Gate, row: Row) -> bool:
    nodes = patches.known_nodes(env.Dir("#"))
    return any(gate.manifest.absolute(name) in nodes for name in row.files if name not in row.inputs)


def _clean_products(gate: gating.Gate, row: Row, absolute: str, declare: Callable[[], list[Any]]) -> CleanProducts:
    """The products of a clean kernel whose stages `declare` declares."""

    def make() -> list[Any]:
        parts = _clean.get(absolute, [])
        if part in parts:
            parts.remove(part)
        part.late_products = declare()
        return part.late_products

    def signature() -> str:
        if part.existing is not None:
            return "".join(node.get_csig() for node in part.existing)
        return "".join(product[1] for product in row.products)

    def open_readers(files: Set[str]) -> None:
        if part.existing is None and gating.reads_any(gate.manifest, row, files):
            part.nodes()

    part = CleanProducts("kernels as they were", make, signature, open_readers)
    _clean.setdefault(absolute, []).append(part)
    return part
