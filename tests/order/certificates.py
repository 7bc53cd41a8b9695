"""Certificates of order for tests: of a kernel's text as NAME.json has them."""

from __future__ import annotations

import functools

import tileiras
from tileiras.order.certificate import Certificate, Output


@functools.cache
def built(text: str, gpu_name: str = "sm_90", **options) -> tileiras.Artifact:
    return tileiras.compile(text, gpu_name=gpu_name, **options)


def certificate(text: str, gpu_name: str = "sm_90", **options) -> Certificate:
    return Certificate.from_json(built(text, gpu_name, **options).kernels[0].metadata["order"])


def output(text: str, argument: int, gpu_name: str = "sm_90", **options) -> Output:
    """The statement on the memory of an argument."""
    return next(out for out in certificate(text, gpu_name, **options).outputs if out.argument == argument)
