"""Passes and pipelines.

A pass is a class named as on the command line; its options are annotated class attributes with defaults:

    class FuseFMA(Pass):
        name = "fuse-fma"
        anchor = "cuda_tile.module"
        max_uses: int = 1

        def run(self, op, context): ...

`canonicalize` lives in `tileiras/passes/canonicalize.py`, `fuse-fma` in `fuse_fma.py`: the name leads to the file.
"""

from __future__ import annotations

import re
import time
from typing import Any, Callable, ClassVar, Iterable, Sequence

from tileiras.diagnostics import CompileError, DiagnosticEngine, ExitCode

from .core import Operation
from .traits import IsolatedFromAbove
from .verifier import verify


class Pass:
    """One transformation of the operations called `anchor` (of any operation when empty)."""

    name: ClassVar[str] = ""
    anchor: ClassVar[str] = ""

    def __init__(self, **options: Any) -> None:
        known = self.options()
        for key, value in options.items():
            field = key.replace("-", "_")
            if field not in known:
                raise CompileError.at(None, f"pass '{self.name}' has no option '{key}'", ExitCode.CONFIGURATION)
            setattr(self, field, value)

    @classmethod
    def options(cls) -> dict[str, Any]:
        """Option name -> default."""
        names = [n for base in reversed(cls.__mro__) for n in base.__dict__.get("__annotations__", ())]
        return {n: getattr(cls, n) for n in names if n not in ("name", "anchor")}

    def run(self, op: Operation, context: "PassContext") -> None:
        """Changes `op` in place; errors go to `context.engine` or are raised as CompileError."""
        raise TypeError(f"pass '{self.name}' does not say what it does")


class PassContext:
    """What passes share: diagnostics, and whatever the pipeline's owner hands through (target, options)."""

    __slots__ = ("engine", "data")

    def __init__(self, engine: DiagnosticEngine | None = None, data: Any = None) -> None:
        self.engine = engine if engine is not None else DiagnosticEngine()
        self.data = data


class PassManager:
    """Runs passes in order on an operation.

    `verify_each` checks the IR after every pass; `print_after` is called with a banner and the operation; `timing`
    collects (pass name, seconds).
    """

    def __init__(
        self,
        passes: Sequence[Pass],
        *,
        verify_each: bool = True,
        print_after: Callable[[str, Operation], None] | None = None,
        timing: list[tuple[str, float]] | None = None,
    ) -> None:
        self.passes = list(passes)
        self.verify_each = verify_each
        self.print_after = print_after
        self.timing = timing

    def run(self, op: Operation, context: PassContext | None = None) -> None:
        """Raises CompileError (code 5) when a pass fails or leaves invalid IR behind."""
        context = context if context is not None else PassContext()
        for item in self.passes:
            started = time.perf_counter()
            for target in _anchored(item, op):
                item.run(target, context)
            if self.timing is not None:
                self.timing.append((item.name, time.perf_counter() - started))
            context.engine.raise_if_errors(ExitCode.COMPILE_FAILURE)
            # The snapshot comes before the check, so that it can be read when the check fails.
            if self.print_after is not None:
                self.print_after(f"*** IR Dump After {item.name} ***", op)
            if self.verify_each:
                self._verify(op, item)

    @staticmethod
    def _verify(op: Operation, item: Pass) -> None:
        engine = DiagnosticEngine()
        verify(op, engine)
        if engine.has_errors:
            engine.error(op.location, f"between-pass verifier rejected IR after '{item.name}'")
            raise CompileError(engine.diagnostics, ExitCode.COMPILE_FAILURE)


def _anchored(item: Pass, op: Operation) -> Iterable[Operation]:
    if not item.anchor or op.name == item.anchor:
        return [op]
    return [inner for inner in op.walk() if inner.name == item.anchor]


_ELEMENT = re.compile(r"\s*([\w.$-]+)\s*(\{[^}]*\})?\s*(\()?")


def parse_pipeline(text: str, lookup: Callable[[str], type[Pass]]) -> list[Pass]:
    """The passes of a textual pipeline, `anchor(pass{key=value ...},other)`.

    Raises CompileError (code 2) for an unknown pass or option or a mistake in the text.
    """
    passes: list[Pass] = []
    end = _parse_list(text, 0, "", lookup, passes)
    if text[end:].strip():
        raise CompileError.at(None, f"expected end of pipeline, got '{text[end:]}'", ExitCode.CONFIGURATION)
    return passes


def _parse_list(text: str, at: int, anchor: str, lookup: Callable[[str], type[Pass]], passes: list[Pass]) -> int:
    while True:
        match = _ELEMENT.match(text, at)
        if match is None:
            raise CompileError.at(None, f"expected a pass name at '{text[at:]}'", ExitCode.CONFIGURATION)
        name, options, opened = match.groups()
        at = match.end()
        if opened:
            _check_anchor(name)
            at = _parse_list(text, at, name, lookup, passes)
            if text[at : at + 1] != ")":
                raise CompileError.at(None, f"expected ')' after the passes of '{name}'", ExitCode.CONFIGURATION)
            at += 1
        else:
            item = lookup(name)(**_parse_options(options))
            if anchor and item.anchor and item.anchor != anchor and anchor != "builtin.module":
                raise CompileError.at(
                    None,
                    f"pass '{name}' anchored on '{item.anchor}' added to pipeline anchored on '{anchor}'",
                    ExitCode.CONFIGURATION,
                )
            passes.append(item)
        match_comma = re.compile(r"\s*,").match(text, at)
        if match_comma is None:
            return at
        at = match_comma.end()


def _check_anchor(name: str) -> None:
    from .registry import lookup_operation

    op_class = lookup_operation(name)
    if op_class is None:
        raise CompileError.at(None, f"unknown pipeline anchor '{name}'", ExitCode.CONFIGURATION)
    if not op_class.has_trait(IsolatedFromAbove):
        raise CompileError.at(None, "nested pipeline anchor must be IsolatedFromAbove", ExitCode.CONFIGURATION)


def _parse_options(text: str | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for item in (text or "{}")[1:-1].split():
        key, _, value = item.partition("=")
        if value in ("true", "false", ""):
            options[key] = value != "false"
        else:
            options[key] = int(value) if re.fullmatch(r"-?\d+", value) else value
    return options
