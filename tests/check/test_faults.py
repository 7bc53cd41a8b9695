"""Planted faults are of every kind that the code of a kernel has room for."""

from __future__ import annotations

import pytest

from tests.check.faults import ALL_KINDS, faults
from tests.check.specimens import kernels

TRIPS = """
{
	mov.b32 	%r1, 0;
$L__BB0_1:
	add.s32 	%r1, %r1, 1;
	setp.ne.b32 	%p1, %r1, END;
	@%p1 bra 	$L__BB0_1;
	ret;

}
"""


def test_a_kernel_with_maps_of_its_own_has_faults_of_every_kind():
    (kernel,) = kernels("matmul_f16.py/agents-device-boxes", "sm_90")
    for kind in ALL_KINDS:
        every = faults(kernel.ptx, kind)
        assert every or kind == "rounding", kind
        assert all(each.kind == kind and each.ptx != kernel.ptx for each in every)


def test_fences_and_waits_inside_of_a_line_are_deleted():
    (kernel,) = kernels("matmul_f16.py", "sm_100")
    assert any(each.line.startswith("tcgen05.wait::ld") for each in faults(kernel.ptx, "order deleted"))


@pytest.mark.parametrize(("end", "changed"), [("8", "9"), ("%r2", "%fault")])
def test_a_loop_ends_a_trip_earlier_or_later(end, changed):
    (fault,) = faults(TRIPS.replace("END", end), "trip count")
    assert fault.changed.endswith(f"%r1, {changed}") and f"setp.ne.b32 	%p1, %r1, {changed};" in fault.ptx


@pytest.mark.parametrize(("code", "changed"), [
    ("cp.async.bulk.wait_group.read 	0", None),
    ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%rd1+16]", "[%rd1+32]"),
    ("mbarrier.init.shared.b64 	[smem+8], %r1", "[smem+16]"),
])  # fmt: skip
def test_every_access_has_another_place(code, changed):
    every = faults(TRIPS.replace("ret;", f"{code};\n	ret;"), "offset")
    assert [changed in each.changed for each in every] == ([] if changed is None else [True])
