"""Tile libraries that are damaged in any place; `invocations.py` has the answers of the vendor's tool to others."""

import pytest
from invocations import object_file

import tileiras
from tileiras.cli import tile_libraries
from tileiras.diagnostics import CompileError


@pytest.fixture(scope="module")
def image() -> bytes:
    text = "cuda_tile.module @m {\n}\n"
    empty = tileiras.compile(text, gpu_name="sm_90", emit="bytecode", bytecode_version="13.4").data
    return object_file({".nvtlifc": empty, ".nvtl.0": empty})


@pytest.mark.parametrize("value", [0x00, 0x01, 0x7F, 0xFF])
def test_damage_is_refused_or_does_not_matter(image, tmp_path, value):
    path = tmp_path / "library.o"
    refused = 0
    for at in range(len(image)):
        path.write_bytes(image[:at] + bytes([value]) + image[at + 1 :])
        try:
            tile_libraries.check([str(path)], ["simt"])
        except CompileError as error:
            assert error.code == 5 and error.diagnostics[-1].message
            refused += 1
    assert 0 < refused < len(image)


def test_an_interface_with_previews_has_whole_sections(image, tmp_path):
    plain = image[image.index(b"\x7fTileIR") : image.index(b"\x7fTileIR", image.index(b"\x7fTileIR") + 1)]
    data = plain[:9] + b"\5\1" + plain[11:]  # 13.5, with previews
    path = tmp_path / "library.o"
    path.write_bytes(object_file({".nvtlifc": data, ".nvtl.0": data}))
    tile_libraries.check([str(path)], ["simt"])
    path.write_bytes(object_file({".nvtlifc": data[:-1], ".nvtl.0": data}))
    with pytest.raises(CompileError) as error:
        tile_libraries.check([str(path)], ["simt"])
    result = [diagnostic.message for diagnostic in error.value.diagnostics]
    assert "unexpected end of data while reading section header" in result[0]
    assert result[1:] == ["failed to read interface and splice it into the module"]


def test_a_library_that_ends_early_is_refused(image, tmp_path):
    path = tmp_path / "library.o"
    for end in range(len(image)):
        path.write_bytes(image[:end])
        with pytest.raises(CompileError) as error:
            tile_libraries.check([str(path)], ["simt"])
        assert error.value.code == 5
