"""Random edits of a project that is built in two ways."""

from __future__ import annotations

import os
import random

from project import Build, Project, axpy, module

OPERATIONS = ("addf", "mulf", "subf", "maxf", "minf")


class Pair:
    """The same project twice: one is built through the manifest, the other always as a whole graph."""

    def __init__(self, folder, seed: int) -> None:
        self.random = random.Random(seed)
        self.gated = Project(folder / "gated")
        self.full = Project(folder / "full")
        self.texts: dict[str, str] = {}
        self.arguments: list[str] = []
        for _ in range(3):
            self.add()

    def write(self, name: str, text: str) -> None:
        self.texts[name] = text
        for project in (self.gated, self.full):
            project.write(f"kernels/{name}.mlir", text)

    def artifact(self, suffix: str) -> str | None:
        names = [name for name in self.full.artifacts() if name.endswith(suffix)] if self.built else []
        return self.random.choice(names) if names else None

    @property
    def built(self) -> bool:
        return os.path.isdir(self.full.path("build"))

    # Edits; each is chosen by name.
    def add(self) -> None:
        name = f"k{self.random.randrange(6)}"
        self.write(name, module(axpy(name, operation=self.random.choice(OPERATIONS))))

    def comment(self) -> None:
        name = self.random.choice(sorted(self.texts))
        self.write(name, f"// {self.random.random()}\n" + self.texts[name])

    def second_entry(self) -> None:
        name = self.random.choice(sorted(self.texts))
        self.write(name, module(axpy(name), axpy(name + "_2", operation=self.random.choice(OPERATIONS))))

    def delete_source(self) -> None:
        if len(self.texts) > 1:
            name = self.random.choice(sorted(self.texts))
            del self.texts[name]
            for project in (self.gated, self.full):
                os.unlink(project.path(f"kernels/{name}.mlir"))

    def break_one(self) -> None:
        name = self.random.choice(sorted(self.texts))
        self.write(name, "cuda_tile.module @k {\n  entry @broken( {\n}\n")

    def touch(self) -> None:
        for project in (self.gated, self.full):
            for name in self.texts:
                os.utime(project.path(f"kernels/{name}.mlir"))

    def delete_artifact(self) -> None:
        name = self.artifact(self.random.choice((".ll", ".tileaa.mlir", ".ptx", ".loc")))
        for project in (self.gated, self.full):
            if name is not None:
                os.unlink(project.path(f"build/{name}"))

    def edit_artifact(self) -> None:
        name = self.artifact(".ll")
        for project in (self.gated, self.full):
            if name is not None:
                with open(project.path(f"build/{name}"), "a", encoding="utf-8") as file:
                    file.write("; by hand\n")

    def option(self) -> None:
        self.arguments = self.random.choice(([], ["ptx-version=8.8"], ["sm=sm_80"]))

    def no_edit(self) -> None:
        pass

    def build(self) -> tuple[Build, Build]:
        expect = 2 if any("@broken" in text for text in self.texts.values()) else 0
        first = self.gated.scons("-k", *self.arguments, expect=expect)
        return first, self.full.scons("-k", "tile_full=1", *self.arguments, expect=expect)
