"""The report on launches of another repository's tests."""

from bench import suite

ROWS = [
    {"test": "tests/ops/test_a.py::test_a", "kernel": "a", "gpu": "H200", "grid": [4, 1, 1],
     "ours": {"microseconds": 3.0}, "theirs": {"microseconds": 6.0}},
    {"test": "tests/ops/test_b.py::test_b", "kernel": "b", "gpu": "H200", "grid": [1, 1, 1],
     "ours": {"microseconds": 8.0}, "theirs": {"microseconds": 4.0}},
    {"test": "tests/ops/test_c.py::test_c", "kernel": "c", "gpu": "H200", "grid": [1, 1, 1],
     "ours": {"microseconds": 8.0}, "theirs": {"microseconds": None, "refusal": "a race"}},
    {"test": "tests/ops/test_d.py::test_d", "kernel": "d", "gpu": "H200", "grid": [1, 1, 1], "refusal": "takes longer"},
]  # fmt: skip


def test_the_worst_launch_comes_first_and_reasons_last():
    _, _, *lines = suite.report(ROWS)
    assert [line.split(" | ")[1] for line in lines[:2]] == ["b", "a"]
    assert lines[0].endswith("| 2.00 (2.00 to 2.00) |") and "4x1x1" in lines[1]
    assert lines[2] == "2 launches: 1.00 of the reference's time, 1 slower for all parameters"
    assert [line.rsplit(": ", 1)[1] for line in lines[3:]] == ["a race", "takes longer"]


def test_launches_without_estimates_have_no_mean():
    assert not any("launches" in line for line in suite.report(ROWS[2:]))
