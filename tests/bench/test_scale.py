"""The simulated day of a team: its parts by hand, one seed in every process, and the gain from a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench import scale, scale_world
from bench.scale import BEFORE, NOW, Connection, Day, Machine
from bench.scale_world import PIECE, Calendar, Cluster, Kernels, Server, Version

ALL_DAY = [(0.0, 24 * scale.HOUR, "gone")]


@pytest.fixture
def small(monkeypatch):
    """A team of six with 60 kernels."""
    monkeypatch.setattr(scale, "DEVELOPERS", 6)
    monkeypatch.setattr(scale, "KERNELS", 60)
    monkeypatch.setattr(scale, "WORKERS", 8)


# ---- the world -------------------------------------------------------------------------------------------------------


def test_chains_go_to_the_worker_that_is_free_first():
    cluster = Cluster(2, 0.5)
    assert cluster.work(10.0, [3.0, 1.0, 1.0, 4.0]) == 17.5
    assert cluster.waits == [0.0, 0.0, 1.5, 3.0] and cluster.busy == 11.0
    assert cluster.work(12.0, [1.0]) == 15.0, "one worker is free at 13.5, the other at 17.5"


def test_a_server_works_on_one_request_after_the_other():
    server = Server(0.25, 100.0, [(50.0, 60.0, "slow")])
    assert server.serve(1.0, 2, 100) == 2.5
    assert server.serve(2.0, 1, 0) == 2.75, "it waits for the one before"
    assert server.serve(9.0, 1, 0) == 9.25 and server.busy == 2.0
    assert [server.state(at) for at in (49.9, 50.0, 60.0)] == ["well", "slow", "well"]
    pieces = server.pieces(7, 3 * PIECE)
    assert len(pieces) == 3 and [sum(column) for column in zip(*pieces)] == [7, 3 * PIECE]


def test_events_have_their_order():
    calendar, seen = Calendar(), []

    def process(name, *times):
        for at in times:
            yield at
            seen.append((name, calendar.now))

    calendar.start(0.0, process("a", 3.0, 1.0))
    calendar.start(0.0, process("b", 2.0, 3.0))
    calendar.run()
    assert seen == [("b", 2.0), ("a", 3.0), ("b", 3.0), ("a", 3.0)], "what is past happens now"


def test_keys_are_those_of_a_cut_off():
    """A comment reaches one stage, an edit all; the code of a stage changes its own key and may change those behind."""
    kernels = Kernels(50)
    code = (0,) * 5
    before, comment, edit = (kernels.keys(0, version, code) for version in (Version(), Version(1, 0), Version(2, 2)))
    assert [a == b for a, b in zip(before, comment)] == [False, True, True, True, True]
    assert not set(before) & set(edit)
    changed = [kernels.keys(number, Version(), (0, 0, 1, 0, 0)) for number in range(50)]
    for number, keys in enumerate(changed):
        same = [a == b for a, b in zip(kernels.keys(number, Version(), code), keys)]
        assert same[:3] == [True, True, False] and same[3] == same[4]
    reached = sum(keys[3] != kernels.keys(number, Version(), code)[3] for number, keys in enumerate(changed))
    assert 5 <= reached <= 25, "about three of ten"


# ---- one build and the server ----------------------------------------------------------------------------------------


def asked(policy, state: str, slowness: float, count: int = 40) -> tuple[float, bool]:
    """Seconds that a build from home waits for one stage of 40 kernels, and whether it has given the server up."""
    day = Day(policy, 1, [(0.0, 24 * scale.HOUR, state)] if state else [], slowness)
    connection = Connection(day, Machine(*scale.HOME))
    keys = [(number, 0) for number in range(count)]
    day.server.rows.update(dict.fromkeys(keys, 0.0))
    process, answer = connection.ask(keys, [0] * count, 0.0, scale.JOBS), (0.0, set())
    try:
        while True:
            next(process)
    except StopIteration as stopped:
        answer = stopped.value
    assert len(answer[1]) == (count if state != "gone" and slowness <= policy.answer else 0)
    return answer[0], connection.off


def test_a_wave_takes_one_round_trip(small):
    trip, _ = scale.HOME
    waves, _ = asked(NOW, "", 0.0)
    singly, _ = asked(BEFORE, "", 0.0)
    assert waves == pytest.approx(trip + 40 * scale.PER_REQUEST)
    assert singly == pytest.approx(2 * 40 / scale.JOBS * (trip + scale.PER_REQUEST)), "a message, and then its bytes"


@pytest.mark.parametrize("state, slowness, seconds", [("gone", 0.0, NOW.connect), ("slow", 9.0, NOW.answer)])
def test_a_server_that_says_nothing_is_given_up(small, state, slowness, seconds):
    assert asked(NOW, state, slowness) == (seconds, True)


def test_a_slow_server_is_given_up_after_three_waves(small):
    day = Day(NOW, 1, [(0.0, 24 * scale.HOUR, "slow")], 2.5)
    connection = Connection(day, Machine(*scale.HOME))
    given_up = []
    for _ in range(4):
        list(connection.ask([("k", 0)], [0], 0.0, 1))
        given_up.append(connection.off)
    assert given_up == [False, False, True, True]
    later = Connection(day, connection.machine)
    assert later.off, "the next build of the machine need not find out"


HIT, SIZE = 0.005, 10_000


def pulled(policy, seconds: float, monkeypatch, tmp_path) -> float:
    """Seconds of a pull from home in which all keys change, of 60 kernels whose stages take `seconds` each."""
    stages = {name: [seconds, SIZE] for name in ("read", "tileaa", "tileas", "llvm", "ptx")}
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"hit": HIT, "kernels": {"k": stages}}))
    monkeypatch.setattr(scale_world, "FIGURES", str(path))
    day = Day(policy, 1, [], 0.0)
    machine = Machine(*scale.HOME)
    machine.versions = day.main
    day.calendar.start(0.0, day._build(machine, range(scale.KERNELS), day.sum.pulls))
    day.calendar.run()
    return day.sum.pulls[0]


@pytest.mark.parametrize("seconds", [0.0005, 0.005, 0.01, 0.1])
def test_a_pull_is_shorter_where_stages_take_longer_than_waves(small, monkeypatch, tmp_path, seconds):
    """It takes the look-ups instead of the stages, however long these take."""
    alone, served = (
        pulled(policy, seconds, monkeypatch, tmp_path) for policy in (NOW._replace(server=False), NOW)
    )  # fmt: skip
    rows = 5 * scale.KERNELS
    waves = 5 * scale.HOME[0] + rows * (scale.PER_REQUEST + SIZE / scale.SERVER_LINE)
    stages = rows * seconds / scale.JOBS
    assert alone == pytest.approx(rows * HIT + stages)
    assert rows * HIT < served <= rows * HIT + waves + rows * SIZE / scale.HOME[1]
    assert (served < alone) == (seconds > 0.01)
    assert pulled(BEFORE, seconds, monkeypatch, tmp_path) > 4 * waves


# ---- days ------------------------------------------------------------------------------------------------------------


def test_a_day_is_that_of_its_seed_in_every_process(tmp_path):
    code = (
        "from bench import scale\nscale.DEVELOPERS, scale.KERNELS, scale.WORKERS = 3, 30, 4\n"
        "scale.ROWS = scale.ROWS[4:5] + scale.ROWS[11:12]\nscale.main(['SEED'])\n"
    )
    items = []
    for seed, hashes in (("1", "0"), ("1", "77"), ("2", "0")):
        environment = {**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(
            [sys.executable, "-c", code.replace("SEED", seed)], env=environment, capture_output=True, text=True,
            check=True,
        )  # fmt: skip
        items.append(done.stdout.partition("\n")[2])
    assert items[0] == items[1] != items[2]
    assert len(items[0].splitlines()) == 3


def test_the_same_work_is_done_with_a_server(small):
    alone = Day(NOW._replace(server=False), 3, [], 0.0)
    without = alone.run()
    assert without.asked == without.found == alone.server.sent == alone.server.received == 0
    day = Day(NOW, 3, [], 0.0)
    done = day.run()
    assert 0 < done.found <= done.asked and day.server.sent > 0
    assert day.server.received == sum(size_of(day, key) for key, at in day.server.rows.items() if at > 0.0)
    # The same people make the same edits, however long they wait.
    assert abs(len(done.edits) - len(without.edits)) <= len(without.edits) // 10
    assert len(done.pulls) == len(without.pulls)


def size_of(day: Day, key) -> int:
    return day.kernels.sizes[key[0]][key[1]]


def test_writers_besides_ci_load_the_server_more(small):
    received = []
    for everybody in (False, True):
        day = Day(NOW._replace(everybody_writes=everybody), 3, [], 0.0)
        day.run()
        received.append(day.server.received)
    assert received[0] < received[1]


def test_a_server_that_is_gone_costs_less_with_a_rest(small):
    hours = []
    for policy in (BEFORE, NOW._replace(rest=0.0), NOW, NOW._replace(server=False)):
        done = Day(policy, 3, ALL_DAY, 0.0).run()
        assert done.found == 0
        hours.append(sum(done.edits) + sum(done.pulls))
    assert hours[0] > hours[1] > hours[2] > hours[3]
