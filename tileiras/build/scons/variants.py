"""A variant, one target with options and a product, and the declaration of its kernels.

`trees` declares the kernels of a folder, `kernels` those that an SConstruct names one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tileiras import pipeline
from tileiras.build.ledger.manifest import Row
from tileiras.build.scons import gating
from tileiras.build.scons.action import checked_options, construction_variable
from tileiras.build.scons.declare import declare
from tileiras.build.scons.places import absolute_path, variant_folder
from tileiras.build.scons.pruning import Listing
from tileiras.build.scons.sessions import session
from tileiras.build.scons.variables import words
from tileiras.options import CPU_NAMES, GPU_NAMES, CompileOptions


class Variant:
    """A variant for which the kernels of the folder `tree` are declared, or with None some kernels."""

    def __init__(
        self, env: Any, options: CompileOptions, emit: str, entries: Sequence[str] | None, tree: str | None
    ) -> None:
        self.options = options
        self.emit = emit
        self.entries = entries
        """The names of the requested entries; None for all."""
        self.folder = variant_folder(env, options)
        """The folder of its artifacts, relative to the top or absolute."""
        self.absolute = absolute_path(env, self.folder)
        self.gate = gating.Gate.of(env, session(env), gating.Tree(tree, self.absolute, emit, entries))

    def known_entries(self, entries: Sequence[str]) -> Sequence[str] | None:
        """The entries of a kernel; None if only some are requested, so that others may have artifacts."""
        return entries if self.entries is None else None

    def absolute_stem(self, stem: str) -> str:
        return self.absolute + stem[len(self.folder) :]

    def declare(
        self, env: Any, node: Any, kernel: gating.Kernel, listing: Listing, row: Row | None, is_clean: bool = False
    ) -> list[Any]:
        """Declare the stages of a kernel, and note it in the listing and for the manifest; return its products.

        `row` is that of a kernel which was clean, `is_clean` whether it is known to be so still.
        """
        before = self.gate.observe(kernel)
        declaration = declare(env, node, kernel.options, self.emit, self.entries, is_clean)
        listing.has_new_entries |= self.gate.is_used and self.gate.entries(kernel) != declaration.entries
        self.gate.add(kernel, before, declaration, row is not None)
        entries = self.known_entries(declaration.entries)
        listing.add(kernel.path, self.absolute_stem(kernel.stem), entries, declaration.products, declaration.nodes)
        return declaration.products


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
