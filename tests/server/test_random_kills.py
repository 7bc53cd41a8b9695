"""Concurrent commands through a service, while it, its children and the commands are killed at random."""

from bench import service_kills

KILLS = 8
SEED = 3


def test_random_kills(tmp_path):
    source = tmp_path / "k.mlir"
    source.write_text(service_kills.SOURCE)
    kills = service_kills.Kills(str(tmp_path), str(source), SEED)
    kills.run(KILLS)
    assert sum(kills.kills.values()) == KILLS
    assert kills.problems == []
    assert kills.whole > 0
