"""`dce`: removes operations without effects whose results have no uses."""

from __future__ import annotations

from tileiras.ir import Operation, Pass, remove_dead_operations


class DeadCodeElimination(Pass):
    name = "dce"
    optional = True
    adds_operations = False
    needs = "nothing"
    establishes = "no operation without effects and users"
    keeps = "everything else"

    def run(self, op: Operation, context: object) -> None:
        remove_dead_operations(op)
