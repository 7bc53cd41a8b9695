"""Prose of docstrings, comments and pages: idiom that only its authors read fluently, counted by folder."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.prose import ROOT, passages, unquoted

IDIOM = re.compile(
    r"\b(?i:what(?:ever)?)\b(?![^.!?\n]{0,80}\?)"
    r"|\b(?i:nobody|somebody|whoever|nothing that|everything that|anything that)\b"
    r"|\b(?i:who) (?:asks|wants|needs|only|reads|writes|looks|has)\b"
    r"|\b(?:is|are|was|were|has|have|with) none\b|\bnone of (?:it|them|that)\b"
    r"|\bthat there (?:is|are|was|were)\b"
    r"|\b(?:of|without|behind) which\b"
    r"|\b(?:is|are|was|were) told\b|\bsaid of\b|\bit is said\b"
)
"""Relatives without an antecedent, persons for components, and clauses turned around (CONTRIBUTING.md)."""

CEILINGS = {
    "analysis": 0.0, "assignment": 0.7, "build": 0.0, "bytecode": 0.0, "check": 0.2, "cli": 2.0, "codegen": 0.2,
    "diagnostics": 0.0, "dialects": 0.1, "driver": 0.0, "processes": 0.0, "support": 0.0,
    "docs": 0.7, "inputs": 0.0, "ir": 0.0, "layout": 0.2, "lowering": 0.2, "mlir": 0.0,
    "operands": 0.0, "operators": 0.0, "order": 0.0, "passes": 0.5, "reasons": 0.0, "registers": 0.0, "report": 0.0,
    "resources": 0.2, "runtime": 0.0, "schedule": 0.1, "sim": 0.1, "slicing": 0.0, "stages": 0.5,
    "synchronization": 0.0, "targets": 0.2, "tensor_maps": 0.0, "tile_blocks": 0.0, "tileiras": 0.0,
}  # fmt: skip
"""Folder -> occurrences in a thousand words; they may only fall."""

SLACK = 0.5
"""By which a ceiling may lie above the count, so that a mended folder does not fall back."""


TESTS = 2.0
"""The ceiling of each folder of tests, benches and examples."""


def folder_of(path: Path) -> str:
    """A folder of the compiler by its name, `docs`, or a folder of tests by its path."""
    parts = path.relative_to(ROOT).parts
    if parts[0] in ("tileiras", "tests") and len(parts) > 2:
        return parts[1] if parts[0] == "tileiras" else f"tests/{parts[1]}"
    return parts[0] if len(parts) > 1 else "docs"


def rates() -> dict[str, float]:
    """Folder -> occurrences in a thousand words."""
    words: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    sources = [path for name in ("tileiras", "tests", "bench", "examples") for path in ROOT.glob(f"{name}/**/*.py")]
    for path in [*sources, *ROOT.glob("docs/*.md"), *ROOT.glob("docs/reports/*.md"), ROOT / "README.md"]:
        folder = folder_of(path)
        for passage in passages(path):
            words[folder] += len(passage.split())
            hits[folder] += len(IDIOM.findall(passage))
    return {folder: round(1000 * hits[folder] / count, 1) for folder, count in words.items() if count > 200}


def is_of_tests(folder: str) -> bool:
    return folder.partition("/")[0] in ("tests", "bench", "examples")


@pytest.fixture(scope="module")
def counted():
    return rates()


def test_every_folder_has_a_ceiling(counted):
    assert sorted(folder for folder in counted if not is_of_tests(folder)) == sorted(CEILINGS)


def test_idiom_is_rare_in_tests(counted):
    assert {folder: rate for folder, rate in counted.items() if is_of_tests(folder) and rate > TESTS} == {}


def texts(path: Path) -> Iterator[str]:
    """Literals of three words and more, which no docstring is; values in f-strings are braces."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree))
    others = {node.value for node in nodes if isinstance(node, ast.Expr)}
    others |= {part for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            text = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in others:
            text = node.value
        else:
            continue
        if len(text.split()) >= 3:
            yield unquoted(text)


def test_printed_texts_have_no_idiom():
    """Help, messages, reasons, labels of reports, and the documentation in declarations of operations and passes."""
    paths = (ROOT / "tileiras").glob("**/*.py")
    result = [(str(path.relative_to(ROOT)), text) for path in paths for text in texts(path)]
    assert len(result) > 5000
    assert [each for each in result if IDIOM.search(each[1])] == []


OTHER_LANGUAGES = ("*.c", "*.h", "*.hpp", "*.js", "*.cmake")
"""Installed sources other than Python; headers are documentation of their interface."""


@pytest.mark.parametrize("pattern", OTHER_LANGUAGES)
def test_sources_in_other_languages_have_no_idiom(pattern):
    paths = list((ROOT / "tileiras").rglob(pattern))
    lines = [(path.name, line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    assert lines
    assert [each for each in lines if IDIOM.search(each[1])] == []


LONGEST_NAME = 60


def names_of_tests() -> Iterator[str]:
    for path in ROOT.glob("tests/**/*.py"):
        for match in re.finditer(r"^ *def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            yield match[1]


def test_names_of_tests_are_short():
    assert [name for name in names_of_tests() if len(name) > LONGEST_NAME] == []


def test_names_of_tests_have_no_idiom():
    assert [name for name in names_of_tests() if IDIOM.search(name.replace("_", " "))] == []


@pytest.mark.parametrize("folder", CEILINGS)
def test_idiom_does_not_spread(counted, folder):
    assert counted[folder] <= CEILINGS[folder], "see CONTRIBUTING.md, How we write"


@pytest.mark.parametrize("folder", CEILINGS)
def test_ceilings_follow(counted, folder):
    assert CEILINGS[folder] <= counted[folder] + SLACK, f"lower the ceiling of {folder} to {counted[folder]}"


PARTICIPLES = frozenset(
    "asked begun built chosen claimed counted declared done drawn dropped expected found given gone grown held kept"
    " known left lost made meant met missed moved named needed noted passed placed planned put read said sent settled"
    " shown started stored taken told tried unused used wanted worn written".split()
)
"""Words that do not state which thing a name stands for.  `seen` is the set of visited nodes of a walk."""

IMPERATIVES = frozenset({"put", "read"})
"""Verbs of functions in their base form."""

NAME_CEILINGS = {"build": 1, "dialects": 5, "ir": 1, "lowering": 3, "report": 1, "schedule": 3, "stages": 1}
"""Folder -> names of arguments, variables, fields and functions that are participles; they may only fall."""

NAME_SLACK = 1
"""By which a ceiling of names may lie above the count."""


def definitions(tree: ast.Module) -> Iterator[str]:
    """Names of functions, arguments, variables and fields, without leading underscores; not imperatives, nor `left`
    beside `right`."""
    nodes = list(ast.walk(tree))
    stores = [node.id.strip("_") for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    variables = [*stores, *(node.arg.strip("_") for node in nodes if isinstance(node, ast.arg))]
    has_sides = "right" in variables
    yield from (name for name in variables if not (has_sides and name == "left"))
    functions = (node.name.strip("_") for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    yield from (name for name in functions if name not in IMPERATIVES)


def count_names(words: frozenset[str]) -> dict[str, int]:
    """Folder -> names that are one of some words."""
    counts: Counter[str] = Counter()
    for path in ROOT.glob("tileiras/**/*.py"):
        names = definitions(ast.parse(path.read_text(encoding="utf-8")))
        counts[folder_of(path)] += sum(name in words for name in names)
    return {folder: count for folder, count in counts.items() if count}


@pytest.fixture(scope="module")
def participles():
    return count_names(PARTICIPLES)


def test_participles_as_names_do_not_spread(participles):
    above = {folder: count for folder, count in participles.items() if count > NAME_CEILINGS.get(folder, 0)}
    assert above == {}, "see CONTRIBUTING.md, How we write"


def test_ceilings_of_names_follow(participles):
    counts = {folder: participles.get(folder, 0) for folder in NAME_CEILINGS}
    assert {folder: count for folder, count in counts.items() if NAME_CEILINGS[folder] > count + NAME_SLACK} == {}


FUNCTION_CEILING = 299
"""Functions whose name is one word in -ed, of the package; they may only fall.  Functions are named by imperatives."""

ENDS_IN_ED = frozenset({"feed", "heed", "need", "proceed", "seed", "shared", "speed"})
"""Imperatives and nouns."""


def named_by_participles(tree: ast.Module) -> list[str]:
    """Names of functions that are one word in -ed, without underscores around them."""
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    names = (node.name.strip("_") for node in functions)
    return [name for name in names if name.endswith("ed") and "_" not in name and name not in ENDS_IN_ED]


def test_functions_named_by_participles_do_not_spread():
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in ROOT.glob("tileiras/**/*.py"))
    count = sum(len(named_by_participles(tree)) for tree in trees)
    assert FUNCTION_CEILING - 5 <= count <= FUNCTION_CEILING, "see CONTRIBUTING.md, How we write"


@pytest.mark.parametrize("text, names", [("def _packed(): pass", ["packed"]), ("def pack(): pass", []),
                                         ("def need(): pass", []), ("def packed_words(): pass", [])])  # fmt: skip
def test_the_measure_of_functions(text, names):
    assert named_by_participles(ast.parse(text)) == names


def test_no_name_is_a_pronoun():
    """Nouns name labels, subjects and kinds; fields that are keys of JSON keep their names."""
    assert count_names(frozenset({"what", "which"})) == {"report": 4, "sim": 1}


@pytest.mark.parametrize(
    "text, count",
    [("known = 1", 1), ("def f(_made): pass", 1), ("def read(self): pass", 0), ("left, right = 1, 2", 0),
     ("left = 1", 1), ("class A:\n    chosen: int", 1), ("seen = set()", 0), ("for kept in a: pass", 1)],
)  # fmt: skip
def test_the_measure_of_names(text, count):
    assert sum(name in PARTICIPLES for name in definitions(ast.parse(text))) == count


@pytest.mark.parametrize(
    "text, count",
    [("What is read here.", 1), ("What is it?", 0), ("The operand is None.", 0), ("It has none of them", 1),
     ("Threads of which one stores.", 1), ("Dot layouts are anchors; others are propagated from them.", 0)],
)  # fmt: skip
def test_the_measure(text, count):
    assert len(IDIOM.findall(text)) == count
