"""The launches that a check chooses for a kernel."""

from __future__ import annotations

import tileiras
from tileiras.check import launches
from tileiras.check.facts import Facts, facts
from tileiras.check.fitting import Fitted, Unfit, fit
from tileiras.stages.units import entries_of


def launches_of(text: str) -> tuple[Facts, list[Fitted]]:
    parsed = tileiras.parse(text)
    (entry,) = entries_of(parsed)
    described = facts(entry)
    fitted = []
    for plan in launches.plans(described):
        try:
            fitted.append(fit(entry, parsed, described, plan))
        except Unfit:
            continue
    return described, fitted
