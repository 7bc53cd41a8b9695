"""The text tests here use a dialect of their own."""

import toy_dialect  # noqa: F401  (declares the operations)
