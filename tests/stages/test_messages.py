"""The output of kernels that print, byte by byte."""

import tileiras


def test_bytes_that_are_no_characters_are_printed_as_they_are():
    text = 'cuda_tile.module @m {\n  entry @k() {\n    %t = print_tko "\\92\\C3\\A9" -> token\n    return\n  }\n}\n'
    ptx = tileiras.compile(text, gpu_name="sm_90").text
    assert "{146, 195, 169" in ptx
