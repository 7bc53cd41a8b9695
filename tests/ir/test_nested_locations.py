"""Locations that are nested as deep as the calls that a kernel inlines."""

from tileiras.ir.location import CallSiteLoc, FileLineColLoc, FusedLoc, OpaqueLoc


class _Counted:
    """Counts the calls of its hash."""

    def __init__(self) -> None:
        self.asked = 0

    def __hash__(self) -> int:
        self.asked += 1
        return 1


def _inlined(handle: object, depth: int) -> list[CallSiteLoc]:
    caller, result = OpaqueLoc(handle), []
    for line in range(depth):
        caller = CallSiteLoc(FileLineColLoc("kernel.py", line + 1, 1), caller)
        result.append(caller)
    return result


def test_fusing_does_not_hash_the_callers_of_each_again():
    handle = _Counted()
    locations = _inlined(handle, 200)
    fused = locations[0]
    for location in locations[1:]:
        fused = FusedLoc.of(fused, location)
    assert len(fused.locations) == 16
    assert handle.asked == 1


def test_equal_locations_are_one_of_a_fusion():
    handle = _Counted()
    first, second = _inlined(handle, 50), _inlined(handle, 50)
    assert first == second and hash(first[-1]) == hash(second[-1])
    assert FusedLoc.of(first[-1], second[-1]) == first[-1]
    assert first[-1] != first[-2]
