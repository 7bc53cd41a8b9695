"""Figures of GPUs that were measured by `python -m bench calibrate` on the GPU, instead of those of `rate_tables`.

A row is a GPU's name, and its figures by their places in `rates.Gpu.sources`. The command proposes changes of this file
as a diff.
"""

from __future__ import annotations

from collections.abc import Mapping

from tileiras.targets.rate_tables import Figure

MEASURED: dict[str, Mapping[str, Figure]] = {
}  # fmt: skip
