"""Workers of the generator: all cases are judged, and one that ends its worker is a failure."""

from __future__ import annotations

import os
import signal

from tests.generator import __main__ as command
from tests.generator import workers


def _square(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 5:
        os._exit(7)
    return number * number


def test_a_worker_that_ends_fails_its_case_alone():
    result = list(workers.judged(_square, range(8), 2))
    ended = {each.number: str(each) for each in result if isinstance(each, workers.Ended)}
    assert sorted(each for each in result if isinstance(each, int)) == [0, 1, 4, 16, 36, 49]
    assert ended == {3: "the worker was killed by SIGKILL", 5: "the worker ended with code 7"}


def test_no_number_is_drawn_before_a_worker_is_free():
    drawn = []

    def numbers():
        for number in (0, 1, 2):
            drawn.append(number)
            yield number

    results = workers.judged(_square, numbers(), 1)
    assert next(results) == 0 and len(drawn) <= 2
    results.close()


def test_the_command_reports_the_case(monkeypatch, capfd):
    def kill(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(command, "judge", kill)
    assert command.main(["1", "--seed", "3", "--forms", "places"]) == 1
    assert "internal: the worker was killed by SIGKILL" in capfd.readouterr().out
