"""The forms of kernels that are drawn, with their weights."""

from __future__ import annotations

from collections.abc import Callable

from tests.generator import (
    atomics,
    attention,
    chains,
    control,
    convolution,
    dequantised,
    functions,
    lookups,
    modules,
    products,
    programs,
    rows,
    scaled,
    scans,
    shared_work,
    views,
)  # fmt: skip
from tests.generator.choices import Choices
from tests.generator.kernel import Generated

FORMS: dict[str, tuple[int, Callable[[Choices], Generated | modules.Module]]] = {
    "product": (10, products.product),
    "large": (4, products.large_product),
    "one step": (1, products.product_in_one_step),
    "persistent": (3, products.persistent_product),
    "scaled": (4, scaled.scaled_product),
    "attention": (5, attention.forward),
    "decode": (3, attention.decode),
    "dq": (2, attention.query_gradient),
    "dkdv": (3, attention.key_gradient),
    "along": (4, rows.along),
    "rows": (2, rows.normalised),
    "combined": (2, rows.combined),
    "gather": (1, rows.gathered),
    "scans": (2, scans.carried),
    "places": (1, lookups.places),
    "bags": (1, lookups.bag),
    "scatter": (1, lookups.scattered),
    "divided": (2, lookups.divided),
    "dequantised": (3, dequantised.dequantised),
    "split K": (2, shared_work.split_k),
    "grouped": (2, shared_work.grouped),
    "batched": (2, shared_work.batched),
    "convolution": (2, convolution.patches),
    "stencil": (1, convolution.shifted),
    "nested": (3, control.nested),
    "gated": (3, chains.gated),
    "low rank": (2, chains.low_rank),
    "chained": (3, chains.chained),
    "recurrent": (3, chains.recurrent),
    "transformed": (2, chains.transformed),
    "experts": (3, chains.experts),
    "copied": (5, views.copied),
    "updated": (3, atomics.updated),
    "through views": (2, atomics.through_views),
    "shared": (2, atomics.shared),
    "activated": (2, functions.activated),
    "rotated": (1, functions.rotated),
    "constant": (1, products.product_with_constants),
    "program": (8, programs.program),
    "module": (8, modules.module),
}
"""Weight and generator of each form."""
