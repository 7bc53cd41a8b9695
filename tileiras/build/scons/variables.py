"""The variables of `scons NAME=VALUE`: sm, opt, emit and every option of the compiler.

An unknown name or a wrong value is an error that lists the accepted ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from tileiras.diagnostics import CompileError
from tileiras.options import CPU_NAMES, GPU_NAMES, OPTIONS, CompileOptions, Option, accepted, checked_value, parse_value
from tileiras.pipeline import EMIT, TIERS

DEFAULT_SM = "sm_90"
DEFAULT_OPT = 3

FULL = "tile_full"
"""`tile_full=1` declares the stages of every kernel, including those that are clean according to the manifest."""

EXECUTOR = "executor"
"""`executor=dask://HOST:PORT` runs stages on other machines (see `tileiras.build.run.cluster`)."""

OVERRIDES = "overrides"
"""`overrides=FOLDER` holds artifacts that replace the products of stages (see `tileiras.build.overrides`)."""

CHECK = "check"
"""`check=1` checks every kernel and fails the build if a verdict is negative (`env.TileCheck`)."""

OWN_NAMES = {"gpu-name": "sm", "opt-level": "opt"}
"""Options with shorter names on SCons command lines and in builders."""


class BadVariable(Exception):
    """A variable, or an argument in an SConstruct, that is unknown or not accepted; the message lists alternatives."""


def construction_variables(arguments: Mapping[str, str], further: Iterable[str] = ()) -> dict[str, Any]:
    """TILE_SM, TILE_OPT, TILE_EMIT, TILE_CHECK, TILE_EXECUTOR, TILE_OVERRIDES and TILE_OPTIONS of `NAME=VALUE` words.

    `further` are variables of the project itself, which are ignored.  Raises BadVariable.
    """
    own = set(further)
    options: dict[str, Any] = {}
    result: dict[str, Any] = {
        "TILE_SM": DEFAULT_SM, "TILE_OPT": DEFAULT_OPT, "TILE_EMIT": "", "TILE_OPTIONS": options, "TILE_EXECUTOR": "",
        "TILE_OVERRIDES": "", "TILE_CHECK": False,
    }  # fmt: skip
    for name, value in arguments.items():
        if name in own:
            continue
        if name == FULL:
            flag(name, value)
        elif name == CHECK:
            result["TILE_CHECK"] = flag(name, value)
        elif name == "sm":
            result["TILE_SM"] = ",".join(words(name, value, (*GPU_NAMES, *CPU_NAMES)))
        elif name == "opt":
            if value not in map(str, TIERS):
                raise BadVariable(f"opt={value}: accepted are {_listed(TIERS)}")
            result["TILE_OPT"] = int(value)
        elif name == "emit":
            result["TILE_EMIT"] = ",".join(words(name, value, EMIT))
        elif name == OVERRIDES:
            if not os.path.isdir(value):
                raise BadVariable(f"overrides={value}: there is no such folder")
            result["TILE_OVERRIDES"] = value
        elif name == EXECUTOR:
            try:
                scheduler_address(value)
            except ValueError as error:
                raise BadVariable(str(error)) from None
            result["TILE_EXECUTOR"] = value
        else:
            option = OPTIONS.get(name.replace("_", "-"))
            if option is None or option.name in OWN_NAMES:
                raise BadVariable(f"unknown variable {name}: accepted are {_listed([*names(), *sorted(own)])}")
            options[option.name] = _value(option, name, value)
    return result


def scheduler_address(executor: str) -> str:
    """The address for distributed in `dask://HOST:PORT`; raises ValueError if malformed."""
    from urllib.parse import urlsplit

    parts = urlsplit(executor)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "dask" or not parts.hostname or port is None or parts.path or parts.query:
        raise ValueError(f"executor={executor}: accepted is dask://HOST:PORT")
    return parts.netloc  # the protocol is that of the user's Dask settings


def names() -> list[str]:
    """The variables in the order of the help text."""
    return ["sm", "opt", "emit", CHECK, EXECUTOR, OVERRIDES, *(option for option in OPTIONS if option not in OWN_NAMES)]


def help_text() -> str:
    lines = [
        "Builds every kernel below examples/, one node per stage, under build/<sm>/O<opt>/.",
        "",
        "  scons sm=sm_90,sm_100 opt=3    scons watch    scons test    scons bench    scons bench-build",
        "  scons conformance lit=FOLDER    scons conformance fuzz=SECONDS seed=N    scons docs    scons -c",
        "",
        _row("sm", "one or several targets, comma separated", DEFAULT_SM, ", ".join((*GPU_NAMES, *CPU_NAMES))),
        _row("opt", "optimization level; without emit= its product is " + _tiers(), DEFAULT_OPT, _listed(TIERS)),
        _row("emit", "the artifacts to build, one or several, comma separated", None, _listed(EMIT)),
        _row(CHECK, "check every kernel on generated launches", None, "true, false"),
        _row(EXECUTOR, "a scheduler of dask.distributed whose workers run the stages", None, "dask://HOST:PORT"),
        _row(OVERRIDES, "folder of edited artifacts that replace those of stages", None, "a folder"),
        _row(FULL, "declare every stage, instead of stages of changed kernels only", None, "true, false"),
    ]
    for option in OPTIONS.values():
        if option.name not in OWN_NAMES:
            lines.append(_row(option.name, option.doc, option.default, accepted(option)))
    return "\n".join(lines) + "\n"


def _tiers() -> str:
    return ", ".join(f"{level}: {emit}" for level, emit in TIERS.items())


def _row(name: str, doc: str, default: Any, values: str) -> str:
    suffix = "" if default in (None, (), False) else f", default {default}"
    return f"  {name}={'...':<4}{doc}{suffix}\n          accepted: {values}"


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values))


def words(name: str, value: Any, accepted: Iterable[str]) -> list[str]:
    """`ptx,cubin` or `["ptx", "cubin"]`: each word once and in order; raises BadVariable for other words."""
    items = [value] if isinstance(value, str) else list(value) if isinstance(value, Iterable) else [value]
    choices = list(accepted)
    if all(isinstance(item, str) for item in items):
        result = [word.strip() for item in items for word in item.split(",") if word.strip()]
        if result and all(word in choices for word in result):
            return list(dict.fromkeys(result))
    text = value if isinstance(value, str) else repr(value)
    raise BadVariable(f"{name}={text}: accepted are {_listed(choices)}, one or several with commas or in a list")


def flag(name: str, value: Any) -> bool:
    """The value of a boolean: `true`, `1`, `True` and the like; raises BadVariable."""
    try:
        return checked_value(Option(name, bool, False, ""), value)
    except CompileError:
        raise BadVariable(f"{name}={value}: accepted are true, false") from None


def _value(option: Option, name: str, text: str) -> Any:
    try:
        value = parse_value(option, text)
        CompileOptions({option.name: value, "opt-level": 0})
    except CompileError as error:
        raise BadVariable(f"{name}={text}: {error.diagnostics[0].message}") from None
    return value
