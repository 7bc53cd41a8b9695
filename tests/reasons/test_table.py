"""The tables of reasons are those that the compiler states, and their page is written from them."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
import reasons_table

from tileiras.diagnostics.remarks import KINDS, NAMES
from tileiras.reasons import Reason
from tileiras.reasons.table import ROWS

ROOT = Path(__file__).parents[2]

EMITTERS = {"Reason": 0, "CannotSpecialize": 1, "Indivisible": 1, "_Refusal": 0, "refused": 1, "NoDescriptor": 0}
"""Function or class -> the position of a code among its arguments; keywords are the arguments of the code."""

FORWARDING = {
    "cta_pairs.py", "copied_loads.py", "matrix_descriptor.py", "plan_cta.py", "remarks.py", "slice.py"
}  # fmt: skip
"""Files whose emitters pass a code on."""

POSITIONAL = {"NoDescriptor": {"rows", "columns"}}

WITHOUT_CODE = 23
"""Places that give up slicing without a reason; the number may only fall."""


@functools.cache
def trees() -> dict[Path, ast.Module]:
    files = (path for path in (ROOT / "tileiras").rglob("*.py") if "reasons" not in path.parts)
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}


def nodes(kind: type) -> Iterator[tuple[Path, ast.AST]]:
    for path, tree in trees().items():
        yield from ((path, node) for node in ast.walk(tree) if isinstance(node, kind))


def name_of(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def codes_of(node: ast.expr) -> list[str] | None:
    """The codes that an expression may have; None if one is not written there."""
    if isinstance(node, ast.IfExp):
        items = [codes_of(node.body), codes_of(node.orelse)]
        return None if None in items else [code for codes in items for code in codes]
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


@functools.cache
def emitted() -> list[tuple[str, str, frozenset[str]]]:
    """Place, code and names of arguments of each code in the compiler."""
    result = []
    for path, call in nodes(ast.Call):
        name = name_of(call)
        position = EMITTERS.get(name)
        if position is None or isinstance(call.func, ast.Attribute):
            continue
        codes = codes_of(call.args[position]) if len(call.args) > position else None
        place = f"{path.relative_to(ROOT)}:{call.lineno}"
        if codes is None:
            assert path.name in FORWARDING, f"{place}: no code is written here"
            continue
        names = {each.arg for each in call.keywords} - {"cause"} | POSITIONAL.get(name, set())
        assert None not in names, f"{place}: the arguments of a code are written out"
        result += [(place, code, frozenset(names)) for code in codes]
    return result


def test_each_code_of_the_compiler_has_a_row():
    assert [(place, code) for place, code, _ in emitted() if code not in ROWS] == []


def test_each_row_is_stated_somewhere():
    assert set(ROWS) - {code for _, code, _ in emitted()} == set()


def test_arguments_are_those_of_the_text():
    wrong = [(place, code) for place, code, names in emitted() if names != frozenset(ROWS[code].arguments)]
    assert wrong == []


def test_remedies_have_no_other_arguments():
    for code, row in ROWS.items():
        fromkeys = dict.fromkeys(row.arguments, 2)
        assert Reason(code, **fromkeys).text and "{" not in Reason(code, **fromkeys).remedy


def test_remarks_are_stated_by_code_only():
    """No text reaches a remark; the one in an error of the writer is documented."""
    places = [
        path.name for path, node in nodes(ast.Attribute)
        if node.attr == "REMARK" and getattr(node.value, "id", "") == "Severity"
    ]  # fmt: skip
    modules = [
        "__init__.py", "language_server.py", "produce.py", "program.py", "remarks.py", "tileiras_package.py",
        "writer.py",
    ]  # fmt: skip
    assert sorted(set(places)) == modules
    texts = [
        f"{path}:{call.lineno}" for path, call in nodes(ast.Call)
        if ast.unparse(call.func) == "why.append" and isinstance(call.args[0], (ast.Constant, ast.JoinedStr))
    ]  # fmt: skip
    assert texts == []


def test_refusals_without_a_code_become_fewer():
    count = sum(getattr(node.exc, "id", "") == "Unsliceable" for _, node in nodes(ast.Raise))
    assert count <= WITHOUT_CODE


def test_statements_have_a_documented_name_and_a_kind():
    for code, row in ROWS.items():
        assert (row.name in NAMES and row.kind in KINDS) if row.is_choice else row.kind == "analysis", code
    assert {row.name for row in ROWS.values() if row.name} == set(NAMES)
    assert all(not row.remedy for row in ROWS.values() if row.is_choice), "a cause has the remedy"


@pytest.mark.parametrize("reason", [
    Reason("agents.no-registers-by-agent", target="sm_80"),
    Reason("agents.loads-stay", variant="auto", cause=Reason("agents.few-iterations", iterations=2)),
    Reason("dots.target-lacks", target="sm_80", a="8", b='x"; y', c="-1", needs="sm_90 or newer"),
])  # fmt: skip
def test_spelling_and_plain_values_are_inverted(reason):
    assert Reason.parse(reason.spelled()) == Reason.restored(reason.as_values()) == reason


@pytest.mark.parametrize("text", [
    "", "agents", "agents.no-such-code", "agents.few-iterations", "agents.few-iterations iterations=2 more=1",
    "agents.map-in-agent;", "agents.map-in-agent x", "a=1 agents.map-in-agent",
])  # fmt: skip
def test_malformed_spellings_are_refused(text):
    with pytest.raises(ValueError):
        Reason.parse(text)


def test_the_page_is_written_from_the_tables():
    page = Path(reasons_table.__file__).with_name("reasons.md")
    assert page.read_text(encoding="utf-8") == reasons_table.page(), "run: python docs/reasons_table.py"
    assert {code.partition(".")[0] for code in ROWS} == set(reasons_table.SUBJECTS)
