"""Shared by tests of reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tileiras.options import CompileOptions

EXAMPLES = Path(__file__).parents[2] / "examples"


def options(**given: Any) -> CompileOptions:
    return CompileOptions({"gpu-name": "sm_90", "opt-level": 3, **given})
