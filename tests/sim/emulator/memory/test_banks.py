"""Bank conflicts, counted access by access."""

import numpy as np
import pytest

from tileiras.sim import emulate
from tileiras.sim.emulator.memory.banks import wavefronts

LANES = np.arange(32)


@pytest.mark.parametrize(
    ("offsets", "size", "expected"),
    [
        (LANES * 4, 4, (1, 1)),
        (LANES * 8, 4, (2, 1)),
        (LANES * 128, 4, (32, 1)),
        (LANES * 132, 4, (1, 1)),
        (LANES * 0, 4, (1, 1)),  # one word for all
        (LANES * 2, 2, (1, 1)),  # two lanes to a word
        (LANES * 64, 2, (16, 1)),
        (LANES * 8, 8, (2, 2)),
        (LANES * 16, 16, (4, 4)),
        (LANES * 128, 16, (32, 4)),
        (LANES * 144, 16, (4, 4)),  # rows padded by 16 bytes
        ((LANES * 128) ^ (LANES % 8 * 16), 16, (4, 4)),  # the 128-byte swizzle
    ],
)
def test_wavefronts(offsets, size, expected):
    assert wavefronts(offsets, LANES, size) == expected


def test_inactive_lanes_do_not_count():
    assert wavefronts(LANES[:3] * 128, LANES[:3], 4) == (3, 1)


def test_counts_by_line(kernel):
    body = """
        .shared .align 16 .b8 tile[8192];
        mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mad.lo.u32 %r3, %r1, 4, %r2; mad.lo.u32 %r4, %r1, 128, %r2;
        st.shared.u32 [%r4], %r1;
        st.shared.u32 [%r3], %r1;
    """
    ptx = kernel(body, threads=64)
    lines = {text.strip(): number for number, text in enumerate(ptx.splitlines(), 1)}
    result = emulate(ptx, "k", 3, [np.zeros(1)], count_bank_conflicts=True, check_races=False)
    scattered, straight = lines["st.shared.u32 [%r4], %r1;"], lines["st.shared.u32 [%r3], %r1;"]
    assert result.bank_wavefronts == {scattered: (3 * 2 * 32, 3 * 2), straight: (3 * 2, 3 * 2)}
    assert emulate(ptx, "k", 1, [np.zeros(1)], check_races=False).bank_wavefronts == {}
