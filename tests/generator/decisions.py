"""The decisions of TileAS that changed a module, seen between its passes."""

from __future__ import annotations

import re

from tileiras.ir import Operation
from tileiras.ir.pass_instrumentation import PassInstrumentation
from tileiras.stages.tileas import DECISIONS, Decision

_LAST = "convert-tileas-to-llvm"


def label(row: Decision) -> str:
    """The name of a row, with the options that distinguish it from other rows of the same pass."""
    return " ".join([row.name, *row.options.values(), *([f"after {row.after}"] if row.after else [])])


ROWS = tuple(map(label, DECISIONS))


class Watch(PassInstrumentation):
    """Collects the rows that changed the module, in their order, each once."""

    def __init__(self) -> None:
        self.decisions: list[str] = []
        self._at = 0
        """The number of rows up to the last pass."""
        self._before = 0

    def before_pass(self, name: str, op: Operation) -> None:
        if self._row(name) is not None:
            self._before = fingerprint(op)

    def after_pass(self, name: str, op: Operation) -> None:
        row = self._row(name)
        if row is None:
            return
        self._at = row + 1
        if ROWS[row] not in self.decisions and fingerprint(op) != self._before:
            self.decisions.append(ROWS[row])

    def _row(self, name: str) -> int | None:
        """The number of the next row with the name and the options of the pass that runs."""
        if name == _LAST:
            self._at = len(DECISIONS)
        # Passes of the stages before have names of rows as well.
        if self._at == 0 and name in ("cse", "dce"):
            return None
        for number in range(self._at, len(DECISIONS)):
            row = DECISIONS[number]
            if row.name == name and all(self._has(row, key, value) for key, value in row.options.items()):
                return number
        return None

    def _has(self, row: Decision, key: str, value: str) -> bool:
        """Whether the pass that runs has the option; defaults are not spelled."""
        match = re.search(rf"\b{key}=([\w-]+)", self.spelled)
        return value == (getattr(row.pass_class, key.replace("-", "_")) if match is None else match[1])


def fingerprint(op: Operation) -> int:
    """Changes with every operation, operand, attribute and type below `op`."""
    return hash(tuple([
        (id(each), each.name, tuple(map(id, each.operands)), tuple(each.attributes.items()),
         tuple([id(result.type) for result in each.results]))
        for each in op.walk()
    ]))  # fmt: skip
