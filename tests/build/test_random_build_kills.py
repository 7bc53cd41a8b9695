"""Builds with the service and the monitor, while the processes of all three are killed at random."""

from __future__ import annotations

import sys

import pytest

from bench import build_kills

KILLS = 6
SEED = 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the service needs Linux")
def test_random_kills_of_builds(ptxas, tmp_path):
    kills = build_kills.BuildKills(str(tmp_path), SEED)
    kills.run(KILLS)
    assert sum(kills.kills.values()) == KILLS
    assert kills.problems == []
    assert kills.builds > 2
