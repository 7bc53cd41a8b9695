"""Passes and pipelines.

A pass is a class named as on the command line; its options are annotated class attributes with defaults:

    class FuseFMA(Pass):
        name = "fuse-fma"
        anchor = "cuda_tile.module"
        max_uses: int = 1

        def run(self, op, context): ...

`canonicalize` lives in `tileiras/passes/canonicalize.py`, `fuse-fma` in `fuse_fma.py`: the name leads to the file.

A pass that cannot do its work, without the program being wrong, fails softly: it says why in a remark, sets its bit and
returns (`signal_soft_failure`).  The manager clears the bits before a run and notes them after every pass; a pass added
`after` another is skipped when that one has failed softly.  The exit code knows nothing of it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from tileiras.diagnostics import CompileError, DiagnosticEngine, ExitCode, Locatable

from .attributes import VerifyError
from .operation import Operation
from .pass_instrumentation import PassInstrumentation, VerifyEach, instrumented
from .traits import IsolatedFromAbove

AnalysisT = TypeVar("AnalysisT")


class Pass:
    """One transformation of the operations called `anchor` (of any operation when empty)."""

    name: ClassVar[str] = ""
    anchor: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    """What has to hold before the pass, ..."""
    establishes: ClassVar[str] = ""
    """... what holds after it, ..."""
    keeps: ClassVar[str] = ""
    """... and what it does not change: for `docs/passes.md`."""

    preserves_analyses: ClassVar[bool] = False
    """Whether what was found out about operations and values before the pass holds after it."""

    SOFT_FAILURE = 4
    """Bit of `state`: the pass has left undone what it is for."""

    def __init__(self, **options: Any) -> None:
        self.state = 0
        self._after = ""
        known = self.options()
        for key, value in options.items():
            field = key.replace("-", "_")
            if field not in known:
                raise CompileError.at(None, f"pass '{self.name}' has no option '{key}'", ExitCode.CONFIGURATION)
            setattr(self, field, _fitting(self.name, key, value, known[field]))

    @classmethod
    @functools.cache
    def options(cls) -> Mapping[str, Any]:
        """Option name -> default."""
        annotations = [base.__dict__.get("__annotations__", {}) for base in reversed(cls.__mro__)]
        return {
            name: getattr(cls, name)
            for each in annotations
            for name, type in each.items()
            if not str(type).startswith("ClassVar")
        }

    def spelled(self) -> str:
        """The pass in a textual pipeline, with the options that have not their defaults."""
        items = []
        for name, default in self.options().items():
            value = getattr(self, name)
            if value != default:
                items.append(f"{name.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}")
        return f"{self.name}{{{' '.join(items)}}}" if items else self.name

    def verify_input(self, op: Operation, context: "PassContext") -> None:
        """Checks what `needs` says and the verifier does not; errors go to `context.engine`.

        The manager asks it when it verifies between passes: text that was written by hand may hold anything.
        """

    def run(self, op: Operation, context: "PassContext") -> None:
        """Changes `op` in place; errors go to `context.engine` or are raised as CompileError."""
        raise TypeError(f"pass '{self.name}' does not say what it does")

    def after(self, name: str) -> "Pass":
        """This pass, whose work depends on what the pass `name` has done: not run when that one failed softly."""
        self._after = name
        return self

    def signal_soft_failure(self, context: "PassContext", location: Locatable | None = None, message: str = "") -> None:
        """Says why in a remark, unless that has been said, then sets the bit."""
        if message:
            context.engine.remark(location, message)
        self.state |= self.SOFT_FAILURE


def _fitting(name: str, key: str, value: Any, default: Any) -> Any:
    """A value of the default's type, which text may spell otherwise; raises CompileError (code 2) for another."""
    if isinstance(default, str) and type(value) is int:
        return str(value)
    if type(value) is not type(default):
        kind = {bool: "true or false", int: "an integer", str: "text"}.get(type(default), type(default).__name__)
        message = f"'{value}' value invalid for option '{key}' of pass '{name}'; expected {kind}"
        raise CompileError.at(None, message, ExitCode.CONFIGURATION)
    return value


class PassContext:
    """What passes share: diagnostics, analyses, and whatever the pipeline's owner hands through (target, options)."""

    __slots__ = ("engine", "data", "soft_failures", "_analyses")

    def __init__(self, engine: DiagnosticEngine | None = None, data: Any = None) -> None:
        self.engine = engine if engine is not None else DiagnosticEngine()
        self.data = data
        self.soft_failures: set[str] = set()
        """Passes of this run that failed softly."""
        self._analyses: dict[tuple[type, Operation], Any] = {}

    def analysis(self, kind: type[AnalysisT], op: Operation, make: Callable[[], AnalysisT]) -> AnalysisT:
        """The analysis of this kind of `op`, made unless an earlier pass made it and it still holds."""
        found = self._analyses.get((kind, op))
        if found is None:
            found = self._analyses[kind, op] = make()
        return found

    def forget_analyses(self) -> None:
        """The IR has changed."""
        self._analyses.clear()


class PassManager:
    """Runs passes in order on an operation.

    `verify_each` checks the IR after every pass; `instrumentation` watches.
    """

    def __init__(
        self, passes: Sequence[Pass], *, verify_each: bool = True, instrumentation: Sequence[PassInstrumentation] = ()
    ) -> None:
        self.passes = list(passes)
        self.verify_each = verify_each
        self.instrumentation = [VerifyEach(), *instrumentation] if verify_each else list(instrumentation)

    def run(self, op: Operation, context: PassContext | None = None) -> None:
        """Raises CompileError (code 5) when a pass fails or leaves invalid IR behind."""
        context = context if context is not None else PassContext()
        context.soft_failures.clear()
        context.forget_analyses()
        for item in self.passes:
            item.state = 0
        for item in self.passes:
            if item._after in context.soft_failures:
                continue
            with instrumented(item.name, op, self.instrumentation, item.spelled() if self.instrumentation else ""):
                for target in _anchored(item, op):
                    if self.verify_each:
                        item.verify_input(target, context)
                        context.engine.raise_if_errors(ExitCode.COMPILE_FAILURE)
                    try:
                        item.run(target, context)
                    except VerifyError as error:
                        context.engine.error(error.location or target.location, error.message)
                        text = f"'{item.name}' pass failed; per-op verifier may have fired"
                        context.engine.error(target.location, text)
                    except CompileError:
                        raise
                    except Exception as error:
                        # Whoever shows it can say which pass it was; Python prints it below the traceback.
                        error.add_note(f"in pass '{item.name}'")
                        raise
                context.engine.raise_if_errors(ExitCode.COMPILE_FAILURE)
            if not item.preserves_analyses:
                context.forget_analyses()
            if item.state & Pass.SOFT_FAILURE:
                context.soft_failures.add(item.name)


def _anchored(item: Pass, op: Operation) -> Iterable[Operation]:
    if not item.anchor or op.name == item.anchor:
        return [op]
    return [inner for inner in op.walk() if inner.name == item.anchor]


# Compiled when a pipeline is read: stages do without text.
_ELEMENT = r"\s*([\w.$-]+)\s*(\{[^}]*\})?\s*(\()?"


Pipelines = Mapping[str, Callable[[str], list[Pass]]]
"""Name of a pipeline -> what makes its passes from the text between its braces."""


def parse_pipeline(text: str, lookup: Callable[[str], type[Pass]], pipelines: Pipelines | None = None) -> list[Pass]:
    """The passes of a textual pipeline, `anchor(pass{key=value ...},pipeline{key=value ...})`.

    Raises CompileError (code 2) for an unknown pass or option or a mistake in the text.
    """
    passes: list[Pass] = []
    end = _parse_list(text, 0, "", lookup, passes, pipelines or {})
    if text[end:].strip():
        raise CompileError.at(None, f"expected end of pipeline, got '{text[end:]}'", ExitCode.CONFIGURATION)
    return passes


def _parse_list(
    text: str, at: int, anchor: str, lookup: Callable[[str], type[Pass]], passes: list[Pass], pipelines: Pipelines
) -> int:
    while True:
        match = re.compile(_ELEMENT).match(text, at)
        if match is None:
            raise CompileError.at(None, f"expected a pass name at '{text[at:]}'", ExitCode.CONFIGURATION)
        name, options, opened = match.groups()
        at = match.end()
        if opened:
            _check_anchor(name)
            at = _parse_list(text, at, name, lookup, passes, pipelines)
            if text[at : at + 1] != ")":
                raise CompileError.at(None, f"expected ')' after the passes of '{name}'", ExitCode.CONFIGURATION)
            at += 1
        elif name in pipelines:
            passes += pipelines[name]((options or "{}")[1:-1])
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
        key, given, value = item.partition("=")
        if value in ("true", "True", "TRUE", "false", "False", "FALSE") or not given:
            options[key] = value.lower() != "false"
        else:
            options[key] = int(value) if re.fullmatch(r"-?\d+", value) else value
    return options
