"""Runs text tests: every file with `// RUN:` lines is a test, its commands run in this process.

    // RUN: tileiras-opt %s --canonicalize | FileCheck %s
    // RUN: not tileiras-opt %s 2>&1 | FileCheck %s --check-prefix=ERR

`%s` is the file, `%S` its folder, `%t` a temporary name.  `// REQUIRES: ptxas` skips where a feature is missing.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import itertools
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

from tests.pairwise import pairwise, sample

# Tests compile without the artifact store: its own tests name a store.
os.environ["TILEIRAS_CACHE_DIR"] = "off"
# Without it, commands that tests run start no service by default.
os.environ.pop("XDG_RUNTIME_DIR", None)
os.environ.pop("TILEIRAS_REMOTE_CACHE", None)
# Under nohup a hangup is ignored, also by children, to which tests send one.
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

TESTS = Path(__file__).parent
SUFFIXES = (".mlir", ".test")
_RUN = re.compile(r"^\s*(?://|#|;)\s*RUN:\s*(.*?)\s*$", re.MULTILINE)
_REQUIRES = re.compile(r"^\s*(?://|#|;)\s*REQUIRES:\s*(.*?)\s*$", re.MULTILINE)
TOOLS = ("tileiras", "tileiras-opt", "tileiras-translate", "tileiras-run", "tileiras-cache")


def pytest_addoption(parser: pytest.Parser) -> None:
    help_text = "run what is marked pairwise with every combination of its values"
    parser.addoption("--every-combination", action="store_true", help=help_text)


def pytest_configure(config: pytest.Config) -> None:
    line = "pairwise(NAME=VALUES, ...): parameters of which every two values meet; see --every-combination"
    config.addinivalue_line("markers", line)
    line = "sampled(N): cases of which N are not slow: evenly spaced, with every value of parameters"
    config.addinivalue_line("markers", line)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow the cases of a `sampled` test but for N of them; they run in `scons conformance`."""
    cases: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("slow"):
            cases.setdefault((item.path, item.originalname), []).append(item)
    for group in cases.values():
        chosen = sample(*group[0].get_closest_marker("sampled").args, [item.callspec.indices for item in group])
        for position, item in enumerate(group):
            if position not in chosen:
                item.add_marker(pytest.mark.slow)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for marker in metafunc.definition.iter_markers("pairwise"):
        every = metafunc.config.getoption("every_combination")
        values = (itertools.product if every else lambda *axes: pairwise(axes))(*marker.kwargs.values())
        metafunc.parametrize(list(marker.kwargs), list(values))


def pytest_collection_finish(session: pytest.Session) -> None:
    """The tests themselves and their imports are never garbage: a tenth of the time went to scanning them."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix not in SUFFIXES or TESTS not in file_path.parents:
        return None
    if _RUN.search(file_path.read_text(encoding="utf-8", errors="surrogateescape")) is None:
        return None
    return TextTestFile.from_parent(parent, path=file_path)


class TextTestFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        yield TextTest.from_parent(self, name=self.path.stem)


class TextTest(pytest.Item):
    def runtest(self) -> None:
        text = self.path.read_text(encoding="utf-8", errors="surrogateescape")
        for requirement in _REQUIRES.findall(text):
            for feature in re.split(r"[,\s]+", requirement):
                if not has_feature(feature):
                    pytest.skip(f"needs {feature}")
        commands: list[str] = []
        for line in _RUN.findall(text):
            if commands and commands[-1].endswith("\\"):
                commands[-1] = commands[-1][:-1] + line
            else:
                commands.append(line)
        folder = self.config._tmp_path_factory.mktemp(self.path.stem)  # type: ignore[attr-defined]
        for command in commands:
            run_command(command, {"%s": str(self.path), "%S": str(self.path.parent), "%t": str(folder / "t")})

    def repr_failure(self, excinfo: pytest.ExceptionInfo, style: Any = None) -> Any:
        if isinstance(excinfo.value, CommandFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, str(self.path)


class CommandFailed(Exception):
    """A RUN line that does not hold."""


def has_feature(name: str) -> bool:
    """A program or optional package that a test may need."""
    if name == "cutile":
        return importlib.util.find_spec("cuda.tile") is not None if importlib.util.find_spec("cuda") else False
    from tileiras.codegen import libdevice, toolkit

    if name == "libdevice":
        return libdevice.find() is not None
    return toolkit.find_program(name) is not None


@pytest.fixture
def ptxas() -> str:
    from tileiras.codegen import toolkit

    path = toolkit.find_program("ptxas")
    if path is None:
        pytest.skip("no ptxas")
    return path


def run_command(command: str, substitutions: dict[str, str]) -> None:
    """Run one RUN line, a pipeline of our tools.  Raises CommandFailed."""
    for name in sorted(substitutions, key=len, reverse=True):
        command = command.replace(name, substitutions[name])
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    stages: list[list[str]] = [[]]
    for word in lexer:
        if word == "|":
            stages.append([])
        else:
            stages[-1].append(word)
    data = b""
    for words in stages:
        data, errors, code, negated = run_stage(words, data)
        if (code != 0) is not negated:
            outcome = "succeeded, which was not expected" if negated else f"exited with {code}"
            raise CommandFailed(f"RUN: {command}\n'{words[0]}' {outcome}\n{errors}")


def run_stage(words: list[str], data: bytes) -> tuple[bytes, str, int, bool]:
    """(output, standard error, exit status, whether failure is expected) of one command of a pipeline."""
    negated = words[0] == "not"
    arguments = words[1:] if negated else words
    merge = "2>&1" in arguments
    arguments = [word for word in arguments if word != "2>&1"]
    output_file = None
    if ">" in arguments:
        at = arguments.index(">")
        output_file = arguments[at + 1]
        del arguments[at : at + 2]
    tool, *arguments = arguments
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape", write_through=True)
    err = out if merge else io.StringIO()
    source = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="surrogateescape")
    old_stdin = sys.stdin
    sys.stdin = source
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = int(tool_main(tool)(arguments) or 0)
            except SystemExit as stop:
                code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        sys.stdin = old_stdin
    out.flush()
    produced = out.buffer.getvalue()  # type: ignore[attr-defined]
    if output_file is not None:
        Path(output_file).write_bytes(produced)
        produced = b""
    return produced, "" if merge else err.getvalue(), code, negated  # type: ignore[union-attr]


def tool_main(name: str) -> Any:
    if name in ("FileCheck", "filecheck"):
        sys.path.insert(0, str(TESTS))
        try:
            return importlib.import_module("filecheck").main
        finally:
            sys.path.remove(str(TESTS))
    if name in TOOLS:
        return importlib.import_module(f"tileiras.cli.{name.replace('-', '_')}").main
    if name == "cat":
        return lambda files: sys.stdout.write("".join(Path(f).read_text(encoding="utf-8") for f in files)) and 0
    raise CommandFailed(f"RUN lines may use {', '.join(TOOLS)}, FileCheck and cat, not '{name}'")
