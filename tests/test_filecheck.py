"""The checker that the text tests rely on must itself reject wrong output."""

from __future__ import annotations

import pytest
from filecheck import CheckError, check

PASSING = [
    ("CHECK: b", "a\nb\n"),
    ("CHECK: a\nCHECK-NEXT: b", "a\nb\n"),
    ("CHECK: a\nCHECK-SAME: c", "a b c\n"),
    ("CHECK: a\nCHECK-NOT: x\nCHECK: c", "a\nb\nc\nx\n"),
    ("CHECK-DAG: b\nCHECK-DAG: a\nCHECK: c", "a\nb\nc\n"),
    ("CHECK: [[X:%[0-9]+]] = f\nCHECK: g [[X]]", "%3 = f\ng %3\n"),
    ("CHECK: [[X:%[0-9]+]] = f [[X]]", "%3 = f %3\n"),
    ("CHECK-LABEL: one\nCHECK: x\nCHECK-LABEL: two\nCHECK: y", "one\nx\ntwo\ny\n"),
    ("CHECK-COUNT-3: x", "x\nx\nx\n"),
    ("CHECK: a{{ +}}b", "a b\n"),
    ("CHECK: a\nCHECK-EMPTY:\nCHECK-NEXT: b", "a\n\nb\n"),
    ("// CHECK: a b", "a    b\n"),
]
FAILING = [
    ("CHECK: c", "a\nb\n"),
    ("CHECK: b\nCHECK: a", "a\nb\n"),
    ("CHECK: a\nCHECK-NEXT: c", "a\nb\nc\n"),
    ("CHECK: a\nCHECK-NEXT: b", "a b\n"),
    ("CHECK: a\nCHECK-SAME: b", "a\nb\n"),
    ("CHECK: a\nCHECK-NOT: b\nCHECK: c", "a\nb\nc\n"),
    ("CHECK: a\nCHECK-NOT: x", "a\nx\n"),
    ("CHECK-DAG: a\nCHECK-DAG: a", "a\n"),
    ("CHECK: [[X:%[0-9]+]] = f\nCHECK: g [[X]]", "%3 = f\ng %4\n"),
    ("CHECK-LABEL: one\nCHECK: y\nCHECK-LABEL: two", "one\nx\ntwo\ny\n"),
    ("CHECK-COUNT-3: x", "x\nx\n"),
    ("CHECK: g [[UNSET]]", "g %4\n"),
    ("CHECK-NEXT: a", "a\n"),
    ("nothing here", "a\n"),
    ("CHECK: a", ""),
]


@pytest.mark.parametrize(("directives", "text"), PASSING)
def test_accepts(directives, text):
    check(directives, text)


@pytest.mark.parametrize(("directives", "text"), FAILING)
def test_refuses(directives, text):
    with pytest.raises(CheckError):
        check(directives, text)


def test_prefixes_select_directives():
    check("CHECK: nothing\nERR: a", "a\n", ["ERR"])
    with pytest.raises(CheckError):
        check("CHECK: a\nERR: b", "a\n", ["CHECK", "ERR"])


def test_implicit_exclusions():
    with pytest.raises(CheckError):
        check("CHECK: a", "a\nerror: x\n", implicit_not=["error:"])
