"""Declaring the kernels of a folder: stages for those that need one, and one list of the products of all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tileiras import extras
from tileiras.build import discover, gating, plan, tidying
from tileiras.build.declare import declare, tidy
from tileiras.build.manifest import Row
from tileiras.build.places import absolute_path, named_from_top, variant_folder
from tileiras.build.products import Products, Settled
from tileiras.build.sessions import session
from tileiras.build.tuned import tuned
from tileiras.options import CompileOptions
from tileiras.targets import target as find_target


@contextlib.contextmanager
def collector_off() -> Iterator[None]:
    """Nodes stay until the end; looking for garbage among them, then and later, takes a third of a null build."""
    import gc

    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


class LeftOut:
    """The kernel sources of a tree that are not compiled: a line for those that need what is not installed, and one for
    each target that others are not for."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.sources = self.python = 0
        self.too_old: dict[str, list[str]] = {}
        """Target -> files, and the targets that they need."""

    def say(self) -> None:
        if self.python:
            hint = extras.install("cuda-tile")
            print(
                f"tileiras: {self.python} of {self.sources} kernel sources in {self.folder} are cuTile Python, "
                f"which is not installed, and are left out; to build them, {hint}"
            )
        for target, files in self.too_old.items():
            print(f"tileiras: left out for {target}, as they need a newer one: {', '.join(files)}")


class _Variant:
    """What a folder is declared for: a target with options, and a product."""

    def __init__(self, env: Any, base: Any, options: CompileOptions, emit: str, entries: Sequence[str] | None) -> None:
        self.options = options
        self.emit = emit
        self.folder = variant_folder(env, options)
        self.listing = tidying.Listing(base.abspath, absolute_path(env, self.folder), options)
        # Whether an override is new, changed or gone is seen by kernels that are declared.
        tree = gating.Tree(base.abspath, self.listing.variant_folder, emit, entries)
        self.gate = gating.Gate.of(env, session(env), tree) if not env["TILE_OVERRIDES"] else None


class TreeDeclaration:
    """One call of `TileTree`; `top` is the node of its folder."""

    def __init__(
        self, env: Any, top: Any, variants: Sequence[tuple[CompileOptions, str]], entries: Sequence[str] | None
    ) -> None:
        self._env = env
        self._top = top
        self._entries = entries
        self._base = top.srcnode()
        self._root = env.Dir("#")
        self._variants = [_Variant(env, self._base, values, product, entries) for values, product in variants]
        self._left_out = LeftOut(str(top))
        self._parts: list[Any] = []
        self._clean: list[Row] = []
        """Clean kernels that are no part yet."""

    def products(self, noted: Callable[[list[Any]], None]) -> Products:
        """Declares what needs a stage; the products of all kernels in alphabetical order.

        `noted` is told of nodes that are made of them later.
        """
        for path in discover.kernel_files(self._base.abspath):
            full = os.path.join(self._base.abspath, path)
            self._left_out.sources += 1
            if path.endswith(".py") and not discover.has_front_end():
                self._left_out.python += 1
                for variant in self._variants:
                    variant.listing.add(full, "", None)
                continue
            for variant in self._variants:
                self._kernel(variant, path, full)
        self._settle()
        for variant in self._variants:
            tidy(session(self._env), variant.listing)
        self._left_out.say()
        return Products(self._parts, noted)

    def _kernel(self, variant: _Variant, path: str, full: str) -> None:
        name = named_from_top(os.path.join(self._base.path, path))
        stem = plan.stem(variant.folder, full, name)
        listing, gate = variant.listing, variant.gate
        absolute = os.path.join(listing.variant_folder, stem[len(variant.folder) + 1 :])
        target = variant.options["gpu-name"]
        least = discover.required_target(full) if path.endswith(".py") else None
        if least is not None and not find_target(target).meets(str(least)):
            self._left_out.too_old.setdefault(target, []).append(f"{self._top.File(path)} (sm_{least})")
            listing.add(full, absolute, None)
            return
        options = tuned(variant.options, full)
        kernel = gating.Kernel(full, stem, options, variant.emit, self._entries)
        row = gate.clean(kernel) if gate is not None else None
        if gate is not None and row is not None:
            if not gate.is_declared(kernel):
                self._clean.append(row)
                listing.add(full, absolute, row.entries if self._entries is None else None)
                return
            gate.know(row)
        self._settle()
        before = gate.observe(kernel) if gate is not None else None
        node = self._top.File(path)
        declared = declare(self._env, node, options, variant.emit, self._entries, settled=row is not None)
        self._parts += declared.products
        if gate is not None:
            listing.has_new_entries |= gate.entries(kernel) != declared.entries
            gate.declared(kernel, before, declared.products, declared.nodes, declared.entries)
        known = declared.entries if self._entries is None else None
        listing.add(full, absolute, known, declared.products, declared.nodes)

    def _settle(self) -> None:
        """Makes a part of the clean kernels since the last one."""
        rows, self._clean = self._clean, []
        if not rows:
            return
        root = self._root
        part = Settled(
            f"{self._top} ({len(rows)} as they were)",
            lambda: gating.settled(root, [product for row in rows for product in row.stated()]),
            lambda: "".join(product[1] for row in rows for product in row.products),
        )
        self._parts.append(part)
        for variant in self._variants:
            variant.listing.settled.append(part)
