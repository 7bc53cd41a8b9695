"""Registers of agents: the agents that release registers, and those that receive them."""

from __future__ import annotations

import pytest

from tileiras.resources.agent_registers import POINTER_COPIES, TILED_COPIES, register_shares
from tileiras.targets.sm import SETMAXNREG, register_pool

COMPUTE, OTHERS, EQUAL = 8, 4, 168
"""Warps, and registers of a thread of 384."""


@pytest.mark.parametrize(("tiles", "expected"), [(80, 140), (112, 0), (0, 149)])
def test_equal_shares_where_they_suffice(tiles, expected):
    shares = register_shares(tiles, expected, COMPUTE, OTHERS, TILED_COPIES)
    assert (shares.warps, shares.entry, shares.compute, shares.service) == (12, EQUAL, 0, 0)
    assert shares.most == EQUAL


@pytest.mark.parametrize(("tiles", "expected"), [(80, 153), (113, 0), (200, 255)])
def test_compute_threads_get_the_registers_left_by_copies(tiles, expected):
    """By their tiles, or by the expected number and an eighth more."""
    shares = register_shares(tiles, expected, COMPUTE, OTHERS, TILED_COPIES)
    assert shares.service == TILED_COPIES and shares.compute > EQUAL and shares.most == shares.compute
    assert shares.compute in SETMAXNREG
    taken = 32 * (COMPUTE * shares.compute + OTHERS * shares.service)
    assert taken <= register_pool(32 * (COMPUTE + OTHERS), 1)


def test_copies_through_pointers_yield_nothing_on_estimates():
    assert register_shares(80, 153, COMPUTE, OTHERS, POINTER_COPIES).compute == 0
    assert register_shares(120, 153, COMPUTE, OTHERS, POINTER_COPIES).compute > EQUAL


def test_warps_of_no_whole_warpgroup_have_equal_shares():
    assert register_shares(200, 255, 2, 2, TILED_COPIES).compute == 0
