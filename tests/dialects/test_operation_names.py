"""The names by which code tests for operations and types without loading the files that declare them."""

import importlib
import pkgutil

import pytest

from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileas import names
from tileiras.ir import Operation, Type


def declared(kind: type) -> set[str]:
    """The names of all subclasses of a class."""
    result, open_ = set(), [kind]
    while open_:
        each = open_.pop()
        open_ += each.__subclasses__()
        result.add(vars(each).get("name"))
    return result


@pytest.fixture(scope="module")
def all_names() -> set[str]:
    for file in pkgutil.iter_modules(nv_tileas.__path__):
        importlib.import_module(f"{nv_tileas.__name__}.{file.name}")
    return declared(Operation) | declared(Type)


@pytest.mark.parametrize("constant", sorted(name for name in vars(names) if name.isupper()))
def test_a_constant_has_the_name_of_the_declaration(constant: str, all_names: set[str]) -> None:
    name = getattr(names, constant)
    if name.endswith("."):
        assert sum(isinstance(each, str) and each.startswith(name) for each in all_names) > 1
    else:
        assert name in all_names
