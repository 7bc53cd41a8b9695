"""The codes of remarks, as tests compare them."""

from __future__ import annotations

from collections.abc import Iterable

from tileiras.diagnostics import Diagnostic
from tileiras.diagnostics.remarks import Remark


def stated(diagnostics: Iterable[Diagnostic], subject: str = "") -> list[str]:
    """The spelled reasons of remarks, `agents.loads-stay variant=auto; agents.few-iterations iterations=2`, of those
    whose code begins with `subject`."""
    result = (each.said for each in diagnostics if isinstance(each, Remark))
    return [item.spelled() for item in result if item.code.startswith(subject)]


def causes(diagnostics: Iterable[Diagnostic], subject: str = "") -> list[str]:
    """The spelled causes of such remarks."""
    result = (each.said for each in diagnostics if isinstance(each, Remark))
    return [item.cause.spelled() for item in result if item.cause is not None and item.code.startswith(subject)]
