"""`dce`: removes operations without effects whose results have no uses."""

from __future__ import annotations

from tileiras.ir import Operation, Pass, is_trivially_dead


class DeadCodeElimination(Pass):
    name = "dce"
    optional = True
    adds_operations = False
    needs = "nothing"
    establishes = "no operation without effects and users"
    keeps = "everything else"

    def run(self, op: Operation, context: object) -> None:
        remove_dead_operations(op)


def remove_dead_operations(op: Operation) -> None:
    # Last to first: a user is removed before its operands, so one walk removes whole dead chains.
    for inner in reversed([inner for inner in op.walk() if inner is not op]):
        if is_trivially_dead(inner):
            inner.erase()
