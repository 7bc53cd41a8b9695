"""Properties of every declaration of cuda_tile."""

import re
from pathlib import Path

import pytest

from tileiras.cli.tileiras_opt import split_input
from tileiras.diagnostics import CompileError, DiagnosticEngine
from tileiras.dialects import cuda_tile
from tileiras.dialects.cuda_tile import testing
from tileiras.dialects.cuda_tile.traits import ParentOneOf
from tileiras.ir import EnumAttr, lookup_operation, parse_module, registry, verify

registry.load_dialect("cuda_tile")
HERE = Path(__file__).parent
VERSIONS = ("13.1", "13.2", "13.3", "13.4", "13.5")
OPERATIONS = sorted(
    {cls for name, cls in registry.OPERATIONS.items() if name.startswith("cuda_tile.")},
    key=lambda cls: cls.name,
)
ENUMS = [c for n, c in registry.ATTRIBUTES.items() if n.startswith("cuda_tile.") and issubclass(c, EnumAttr)]


def _version(text):
    return tuple(map(int, text.split(".")))


def test_opcodes_are_distinct():
    opcodes = [op.opcode for op in OPERATIONS]
    assert None not in opcodes
    assert len(set(opcodes)) == len(opcodes)


@pytest.mark.parametrize("op", OPERATIONS, ids=lambda op: op.name)
def test_operation_has_version_and_words(op):
    assert op.since in VERSIONS
    assert op.__doc__
    for field in op.fields:
        assert field.doc, field.name
        if field.since is not None:
            assert _version(field.since) >= _version(op.since), field.name


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.name)
def test_enum_numbers_are_distinct_and_newer_cases_are_declared(enum):
    assert len(set(enum.cases.values())) == len(enum.cases)
    assert set(enum.case_since) <= set(enum.cases)
    for number in enum.cases.values():
        assert enum.from_number(number).number == number


def _parts(invalid):
    for path in sorted(HERE.glob("*.mlir")):
        if path.stem.endswith("_invalid") == invalid:
            for part in split_input(path.read_text(encoding="utf-8")):
                yield path.name, part


def _used():
    with testing.loaded():
        return {op.name for name, part in _parts(invalid=False) for op in parse_module(part, name).walk()}


def _refused():
    """Names of the operations that the messages of the text tests point at."""
    result = set()
    for name, part in _parts(invalid=True):
        engine = DiagnosticEngine()
        with testing.loaded():
            try:
                verify(parse_module(part, name), engine)
                diagnostics = engine.diagnostics
            except CompileError as error:
                diagnostics = error.diagnostics
        lines = part.split("\n")
        for diagnostic in diagnostics:
            line = lines[diagnostic.location.resolve().line - 1]
            stated = re.match(r'\s*(?:%[^=]*=\s*)?"?(?:cuda_tile\.)?([\w.$]+)', line)
            result |= {f"cuda_tile.{stated[1]}"} if stated else set()
    return result


def test_operations_for_tests_are_known_only_while_asked_for():
    assert lookup_operation(testing.TestFuncOp.name) is None
    with testing.loaded(), testing.loaded():
        assert lookup_operation(testing.TestFuncOp.name) is testing.TestFuncOp
    assert lookup_operation(testing.TestFuncOp.name) is None
    assert "cuda_tile.testing$func" not in cuda_tile.ReturnOp.get_trait(ParentOneOf).names


@pytest.mark.parametrize("used", [_used, _refused], ids=["accepted", "refused"])
def test_every_operation_has_a_text_test(used):
    assert sorted({op.name for op in OPERATIONS} - used()) == []
