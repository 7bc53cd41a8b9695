"""Declares the kernels that an SConstruct names one by one.

The stages of a clean kernel are declared when the list of its products is read, when a path of its artifacts is looked
up in SCons' graph (a target, a dependency, `Glob`, the scan of a folder), and when the build makes a file that it
reads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

import SCons.Node.FS
import SCons.Util

from tileiras import pipeline
from tileiras.build import plan
from tileiras.build.ledger.manifest import Row
from tileiras.build.run.execute import Session
from tileiras.build.scons import arguments, gating, patches, pruning
from tileiras.build.scons.action import checked_options, construction_variable
from tileiras.build.scons.declare import declare, entries_of, prune
from tileiras.build.scons.places import absolute_path, source_name, variant_folder
from tileiras.build.scons.products import Settled
from tileiras.build.scons.sessions import session
from tileiras.build.scons.variables import BadVariable, words
from tileiras.build.tuned import tuned
from tileiras.options import CPU_NAMES, GPU_NAMES, CompileOptions
from tileiras.support.named_tuple import NamedTuple


class Variant(NamedTuple):
    """One target with options and a product, for which kernels are declared."""

    options: CompileOptions
    emit: str
    only: list[str] | None
    """The names of the requested entries; None for all."""
    folder: str
    """The folder of its artifacts, relative to the top or absolute."""
    absolute: str
    gate: gating.Gate | None


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
    if "$" in text:
        return _new_variants(env, here, sm, opt, emit, entries, options)
    if (here, text) not in _variants:
        _variants[here, text] = _new_variants(env, here, sm, opt, emit, entries, options)
    return _variants[here, text]


def _new_variants(
    env: Any, here: Session, sm: Any, opt: int | str | None, emit: Any, entries: Any, options: dict[str, Any]
) -> list[Variant]:
    requested = requested_options(env, sm, opt, emit, options)
    only = arguments.entry_names(entries)
    result = []
    for values, product in requested:
        folder = variant_folder(env, values)
        absolute = absolute_path(env, folder)
        tree = gating.Tree(None, absolute, product, only)
        result.append(Variant(values, product, only, folder, absolute, gating.Gate.of(env, here, tree)))
    return result


def requested_options(
    env: Any, sm: Any, opt: int | str | None, emit: Any, options: dict[str, Any]
) -> list[tuple[CompileOptions, str]]:
    """The options and the product's name for every target and product; raises BadVariable and CompileError."""
    level = env["TILE_OPT"] if opt is None else opt
    emit = emit or construction_variable(env, "TILE_EMIT")
    emits = words("emit", emit, {**pipeline.EMIT, **pipeline.EMIT_CPU}) if emit else []
    result = []
    for target in words("sm", construction_variable(env, "TILE_SM") if sm is None else sm, (*GPU_NAMES, *CPU_NAMES)):
        values = checked_options(env, target, level, options)
        result += [(values, product) for product in emits or [pipeline.tier(values)]]
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


def _check_entries(node: Any, wanted: Sequence[str]) -> None:
    """Raise BadVariable for a kernel that is not in a source; a source whose entries cannot be read is not checked."""
    path = node.srcnode().abspath
    known = entries_of(path, source_name(node)) if os.path.isfile(path) else []
    missing = [name for name in wanted if name not in known] if known else []
    if missing:
        raise BadVariable(f"entries: {source_name(node)} has no kernel {missing[0]}; it has {', '.join(known)}")


_clean: dict[str, list[Settled]] = {}
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


def kernel(env: Any, node: Any, variant: Variant, noted: Callable[[list[Any]], None]) -> list[Any]:
    """Declare a kernel, or leave it as a `Settled`; `noted` is called with the products that get nodes."""
    gate = variant.gate
    path, name = node.srcnode().abspath, source_name(node)
    stem = plan.stem(variant.folder, path, name)
    absolute = variant.absolute + stem[len(variant.folder) :]
    asked = gate.kernel(path, stem, tuned(variant.options, path)) if gate is not None else None
    row = gate.clean(asked) if gate is not None and asked is not None and _is_plain(node) else None

    def declared() -> list[Any]:
        if variant.only is not None and not node.has_builder():
            _check_entries(node, variant.only)
        before = gate.observe(asked) if gate is not None and asked is not None else None
        done = declare(env, node, variant.options, variant.emit, variant.only)
        listing = pruning.Listing(None, variant.absolute, variant.options)
        listing.add(path, absolute, done.entries if variant.only is None else None, done.products, done.nodes)
        prune(session(env), listing)
        if gate is not None and asked is not None:
            gate.add(asked, before, done, row is not None)
        noted(done.products)
        return done.products

    if gate is None or row is None or gate.is_declared(asked) or _has_nodes(env, gate, row):
        return declared()
    return [_settled(gate, row, absolute, declared)]


def _is_plain(node: Any) -> bool:
    """Whether a source is a file that no other node has to precede."""
    return node.srcnode() is node and not patches.is_made(node) and os.sep == "/"


def _has_nodes(env: Any, gate: gating.Gate, row: Row) -> bool:
    known = patches.known_nodes(env.Dir("#"))
    return any(gate.manifest.absolute(name) in known for name in row.files if name not in row.inputs)


def _settled(gate: gating.Gate, row: Row, absolute: str, declared: Callable[[], list[Any]]) -> Settled:
    """The products of a clean kernel whose stages `declared` declares."""

    def make() -> list[Any]:
        parts = _clean.get(absolute, [])
        if part in parts:
            parts.remove(part)
        part.declared = declared()
        return part.declared

    def signature() -> str:
        if part.made is not None:
            return "".join(node.get_csig() for node in part.made)
        return "".join(product[1] for product in row.products)

    def open_readers(files: Set[str]) -> None:
        if part.made is None and gating.reads_any(gate.manifest, row, files):
            part.nodes()

    part = Settled("kernels as they were", make, signature, open_readers)
    _clean.setdefault(absolute, []).append(part)
    return part


def nodes_of(parts: Iterable[Any]) -> list[Any]:
    """The nodes among parts."""
    return [part for part in parts if not isinstance(part, Settled)]
