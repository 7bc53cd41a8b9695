"""Commands as a user starts them, with or without the compile service, instead of calls in this process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from serving import Service

from tileiras.processes.service import protocol

REPLACED = {name: f"tileiras.cli.{name.replace('-', '_')}" for name in protocol.PROGRAMS}
"""Commands that the service answers, and their modules."""

started = 0
"""Commands that were started since the test began."""

others = 0
"""Calls of commands that the service does not answer."""


def command(program: str) -> list[str]:
    """The words that start an installed command; TILEIRAS_SERVER in the environment selects the use of the service.
    """
    global started
    started += 1
    code = f"import sys; from tileiras.processes.service import client; sys.exit(client.run({program!r}))"
    return [sys.executable, "-c", code]


def served(service: Service, program: str) -> Callable[[Sequence[str]], int]:
    """A stand-in for `main` of a command: runs it through the service, and prints its output in this process."""

    def main(arguments: Sequence[str]) -> int:
        done = subprocess.run(
            [*command(program), *arguments], env=environment(service), stdin=subprocess.DEVNULL,
            capture_output=True, check=False,
        )  # fmt: skip
        for stream, result in ((sys.stdout, done.stdout), (sys.stderr, done.stderr)):
            stream.write(result.decode("utf-8", "surrogateescape"))
            stream.flush()
        return done.returncode

    return main


def environment(service: Service) -> dict[str, str]:
    """The environment of this process, with that service."""
    return service.environment("auto", TILEIRAS_CACHE_DIR=os.environ["TILEIRAS_CACHE_DIR"])


def not_served(main: Callable[[Sequence[str]], int]) -> Callable[[Sequence[str]], int]:
    """`main` of a command that the service does not answer."""

    def counted(arguments: Sequence[str]) -> int:
        global others
        others += 1
        return main(arguments)

    return counted


def begin() -> None:
    global started, others
    started = others = 0
