"""The key of a step: the digest of all inputs of its artifacts, equal on every machine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tileiras import inputs, pipeline
from tileiras.build import overrides
from tileiras.build.step import Step
from tileiras.build.store.fingerprint import CodeBase
from tileiras.build.store.local import ArtifactStore
from tileiras.build.store.schema import INPUTS, OWN_INPUTS
from tileiras.inputs import UNSEEN, Input
from tileiras.options import CompileOptions
from tileiras.pipeline import Stage
from tileiras.stages import StageOptions
from tileiras.support.files import read_if_there

KEY_FORMAT = 3

METADATA = ".json"
"""Suffix of the artifact with the launch parameters and the stages replaced by overrides."""


def key_of(stage: str, parts: Mapping[str, Any]) -> str:
    """Return the key of a stage's row; equal parts give equal keys on every machine."""
    import xxhash

    text = f"tileiras action {KEY_FORMAT}\n{json.dumps(parts, sort_keys=True)}"
    return f"{stage}:{xxhash.xxh3_128_hexdigest(text.encode())}"


class Keys:
    """Makes the keys of steps, with the code, the options and the tools of this process."""

    def __init__(self, store: ArtifactStore, code: CodeBase) -> None:
        self.store = store
        self.code = code
        self._tools: dict[tuple, str] = {}
        self._variants: dict[tuple[str, int], tuple[str, CompileOptions]] = {}

    def signature(self, stage: Stage, options: CompileOptions) -> bytes:
        """Return the dependencies of a stage's result besides its input: its code, its options and its tools."""
        return b"\n".join(
            (
                f"tileiras:{stage.name}:{self.code.fingerprint(stage)}".encode(),
                options.canonical(stage.options),
                *(self.tool(name, stage.select(options)).encode() for name in stage.tools),
            )
        )

    def tool(self, name: str, options: StageOptions) -> str:
        key = (name, repr(options))
        result = self._tools.get(key)
        if result is None:
            import importlib

            module, _, function = name.partition(":")
            result = self._tools[key] = getattr(importlib.import_module(module), function)(options)
        return result

    def variant(self, stage: Stage, options: CompileOptions) -> str:
        """Return a digest of the options that affect a stage's artifacts: its own and those of the stages before it."""
        result = self._variants.get((stage.name, id(options)))
        if result is None:
            import xxhash

            names = {name for row in pipeline.up_to(stage) for name in row.options}
            digest = xxhash.xxh3_64_hexdigest(options.canonical(names))
            # Keep a reference to the options, so that their id is not reused.
            result = self._variants[stage.name, id(options)] = (digest, options)
        return result[0]

    def parts(
        self, step: Step, data: bytes, beside: Mapping[str, bytes],
        read_file: Callable[[str], bytes | None] = read_if_there,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the dependencies of a step's result by name; `beside` is the result of `read_beside` for the step.

        `read_file` returns the content of a location file, None if it is absent.  Inputs that the stage reads itself
        are added later.
        """
        import xxhash

        stage = step.stage
        options = step.options.canonical(stage.options).decode()
        parts: dict[str, Any] = {
            "stage": stage.name,
            "code": self.code.fingerprint(stage),
            "options": dict(line.split("=", 1) for line in options.splitlines()),
            "tools": {name: self.tool(name, stage.select(step.options)) for name in stage.tools},
            "input": xxhash.xxh3_128_hexdigest(data),
        }
        if stage.reads_beside:
            own = {suffix: content for suffix, content in beside.items() if suffix != overrides.BESIDE}
            digests = {suffix: xxhash.xxh3_128_hexdigest(content) for suffix, content in own.items()}
            parts["artifacts beside the input"] = digests
        if step.override is not None:
            parts["override"] = xxhash.xxh3_128_hexdigest(beside.get(overrides.BESIDE, b""))
        if step.overridden and METADATA in step.suffixes:
            parts["overridden"] = list(step.overridden)
        if stage.reads_files:
            # The front end writes the file's name into the bytecode.
            parts["source name"] = step.source_name
        if stage.needs_locations(step.options):
            parts["source name"] = step.source_name
            digest = xxhash.xxh3_128()
            for path in step.locations:
                digest.update(read_file(path) or b"")
            parts["locations"] = digest.hexdigest()
        return parts

    def with_inputs(
        self, step: Step, key: str, parts: dict[str, Any], states: tuple[Input, ...] | None = None, ask: bool = True
    ) -> str | None:
        """Return the key including the states of the stage's further inputs: `states`, or the current ones.

        None if those inputs are unknown, or if one is of kind UNSEEN and cannot be compared.
        """
        if not step.stage.reads_files:
            return key
        if states is None:
            rows = stored_inputs(self.store, step, key, ask)
            if rows is None:
                return None
            states = states_now(step, rows)
        parts["inputs"] = inputs.states(states)
        if any(row.kind == UNSEEN for row in states):
            return None
        return key_of(step.stage.name, parts)


# ---- inputs that a stage reads besides its input file ----------------------------------------------------------------


def inputs_key(key: str) -> str:
    """Return the key of the rows of inputs that a step read besides its input file."""
    return key + INPUTS


def stored_inputs(store: ArtifactStore, step: Step, key: str, ask: bool) -> tuple[Input, ...] | None:
    """Return the stored rows of a key's inputs; None if they are absent or must not be looked up."""
    own = store.get(key + OWN_INPUTS)
    row = own if own is not None else store.fetch(inputs_key(key), ask)
    try:
        rows = inputs.parse(row) if row is not None else None
    except ValueError:
        return None  # written by another program
    if rows is None or own is not None:
        return rows
    source = read_if_there(step.source_path)
    return rows if source is not None and inputs.confinement.admits(rows, _folder(step), source) else None


def states_now(step: Step, rows: Iterable[Input]) -> tuple[Input, ...]:
    """Return the rows of a stage's further inputs with their current states."""
    return tuple(inputs.kinds.now(rows, _folder(step)))


def _folder(step: Step) -> str:
    """Return the folder to which file names in rows of inputs are relative."""
    return os.path.dirname(os.path.realpath(step.source_path))
