"""Constraints on the schedule of a loop's operations, given in the text as attributes under their documented names.

    tileas.schedule.constraint.force_serial_execution     of the loop or an operation of it: iterations do not overlap
    tileas.schedule.constraint.max_depth : i32            the latest stage of an operation
    tileas.schedule.constraint.gid : i32                  operations of one group are in one stage ...
    tileas.schedule.constraint.leader_gid : i32           ... and so are those of groups that have one leader
"""

from __future__ import annotations

from collections.abc import Sequence

from tileiras.diagnostics import CompileError, ExitCode
from tileiras.dialects import scf
from tileiras.ir import IntegerAttr, Operation, UnitAttr, i32
from tileiras.support.named_tuple import NamedTuple

PREFIX = "tileas.schedule.constraint."
GROUP, LEADER, MOST_DEPTH, SERIAL = (
    f"{PREFIX}{name}" for name in ("gid", "leader_gid", "max_depth", "force_serial_execution")
)


class Constraints(NamedTuple):
    """`deepest`: the latest stage by number of an operation; `groups`: numbers of operations that are in one stage."""

    serial: bool
    deepest: dict[int, int]
    groups: tuple[tuple[int, ...], ...]

    def keeps(self, slots: Sequence[tuple[int, int]]) -> bool:
        """Whether a schedule, the stage and order of each operation, satisfies the constraints."""
        if any(slots[number][0] > stage for number, stage in self.deepest.items()):
            return False
        return all(len({slots[number][0] for number in group}) == 1 for group in self.groups)


def constraints_of(loop: scf.ForOp) -> Constraints:
    """The constraints of a loop.

    Raises CompileError (located, code 3) for an attribute of another type than the documented one.
    """
    operations = list(loop.body.block.operations)[:-1]
    deepest, gids, leaders = {}, {}, {}
    serial = _is_set(loop)
    for number, op in enumerate(operations):
        serial = _is_set(op) or serial
        for name, result in ((MOST_DEPTH, deepest), (GROUP, gids), (LEADER, leaders)):
            value = op.attributes.get(name)
            if value is None:
                continue
            if not isinstance(value, IntegerAttr) or value.type is not i32:
                raise _wrong(op, f"expects '{name}' to be a 32-bit integer")
            result[number] = value.value
    leader_of: dict[int, int] = {}
    for number, gid in gids.items():
        leader = leaders.get(number, gid)
        if leader_of.setdefault(gid, leader) != leader:
            raise _wrong(operations[number], f"has another leader than the group {gid} before")
    groups: dict[int, list[int]] = {}
    for number, gid in gids.items():
        groups.setdefault(_last_leader(gid, leader_of), []).append(number)
    return Constraints(serial, deepest, tuple(tuple(group) for group in groups.values()))


def _last_leader(gid: int, leader_of: dict[int, int]) -> int:
    seen = {gid}
    while (leader := leader_of.get(gid, gid)) not in seen:
        seen.add(leader)
        gid = leader
    return min(seen) if leader != gid else gid


def _is_set(op: Operation) -> bool:
    value = op.attributes.get(SERIAL)
    if value is not None and not isinstance(value, UnitAttr):
        raise _wrong(op, f"expects '{SERIAL}' to have no value")
    return value is not None


def _wrong(op: Operation, message: str) -> CompileError:
    return CompileError.at_operation(op, message, ExitCode.INVALID_INPUT)
