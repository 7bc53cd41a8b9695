"""`tileiras.support.named_tuple.NamedTuple` has the behavior of `typing.NamedTuple`."""

import copy
import pickle
import typing

import pytest

from tileiras.support import named_tuple


class Ours(named_tuple.NamedTuple):
    """A row."""

    name: str
    size: int = 4
    flags: tuple[str, ...] = ()

    SCALE = 2

    @property
    def scaled(self) -> int:
        return self.size * self.SCALE


class Standard(typing.NamedTuple):
    name: str
    size: int = 4
    flags: tuple[str, ...] = ()


@pytest.mark.parametrize("values, named", [
    (("a",), {}),
    (("a", 1, ("x",)), {}),
    (("a",), {"flags": ("x",)}),
    ((), {"flags": (), "name": "b", "size": 0}),
])  # fmt: skip
def test_values_come_in_order_and_by_name(values, named):
    ours, standard = Ours(*values, **named), Standard(*values, **named)
    assert ours == standard and tuple(ours) == tuple(standard)
    assert (ours.name, ours.size, ours.flags) == (standard.name, standard.size, standard.flags)
    assert repr(ours) == repr(standard).replace("Standard", "Ours")
    assert ours._asdict() == standard._asdict() and hash(ours) == hash(standard)
    assert ours._replace(size=9) == standard._replace(size=9)


@pytest.mark.parametrize("values, named, message", [
    ((), {}, r"Ours\(\) has no value for 'name'"),
    (("a", 1, (), 2), {}, r"Ours\(\) takes 3 values, and 4 were given"),
    (("a",), {"name": "b"}, r"Ours\(\) has two values for 'name'"),
    (("a",), {"colour": 1}, r"Ours\(\) has no field 'colour'"),
])  # fmt: skip
def test_calls_that_do_not_fit_are_refused(values, named, message):
    with pytest.raises(TypeError):
        Standard(*values, **named)
    with pytest.raises(TypeError, match=message):
        Ours(*values, **named)


def test_a_replacement_names_fields():
    with pytest.raises(TypeError, match="Ours has no field 'colour'"):
        Ours("a")._replace(colour=1)


def test_instances_are_immutable_tuples():
    row = Ours("a")
    name, size, flags = row
    assert (name, size, flags) == ("a", 4, ()) and row.scaled == 8
    for attribute in ("name", "colour"):
        with pytest.raises(AttributeError):
            setattr(row, attribute, 1)


def test_classes_list_their_fields():
    assert Ours._fields == Standard._fields
    assert Ours._field_defaults == Standard._field_defaults
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Standard)
    assert Ours._make(("a", 1, ())) == Ours("a", 1)
    match Ours("a", 5):
        case Ours(name, size):
            assert (name, size) == ("a", 5)


def test_copies_and_pickles_are_of_the_class():
    row = Ours("a", flags=("x",))
    for other in (copy.deepcopy(row), pickle.loads(pickle.dumps(row))):
        assert type(other) is Ours and other == row


class Below(Ours):
    """A class below a declared one has its fields, as in `typing`."""

    unit: str = "bytes"


def test_annotations_below_are_no_fields():
    assert Below._fields == Ours._fields and Below("a").size == 4 and Below.unit == "bytes"
