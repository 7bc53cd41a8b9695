"""The forms of kernels that are drawn, with their weights."""

from __future__ import annotations

from collections.abc import Callable

from tests.generator import attention, products, rows, scaled
from tests.generator.choices import Choices
from tests.generator.kernel import Generated

FORMS: dict[str, tuple[int, Callable[[Choices], Generated]]] = {
    "product": (10, products.product),
    "scaled": (4, scaled.scaled_product),
    "attention": (5, attention.forward),
    "decode": (3, attention.decode),
    "dq": (2, attention.query_gradient),
    "dkdv": (3, attention.key_gradient),
    "along": (4, rows.along),
    "rows": (2, rows.normalised),
    "gather": (1, rows.gathered),
}
"""Weight and generator of each form."""
