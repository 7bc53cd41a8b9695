"""torch without a GPU: "cuda" devices are the CPU, streams and events do nothing."""

from __future__ import annotations

import contextlib
import types
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only


class Stream:
    """Work on it is complete when the call returns."""

    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    wait_stream = wait_event = record_event = lambda self, *_: None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    __hash__ = None

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


class Event:
    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    record = synchronize = wait = lambda self, *_: None

    def elapsed_time(self, _: Event) -> float:
        return 1.0


class NoResults(Exception):
    """A function needs numbers in a compile-only run."""


# Functions that take long at the sizes of benchmarks.  In a compile-only run their numbers are not read: fillings leave
# memory unchanged, and computations return the shape and type of their result only.
_FILLINGS = {"rand": torch.empty, "randn": torch.empty, "rand_like": torch.empty_like, "randn_like": torch.empty_like}
_LARGE = 1 << 18
"""Number of elements above which a computation is skipped."""


# torch's f32 functions on the CPU are some units off, square roots included.
_ROUNDED_ONCE = {"sqrt", "rsqrt", "log", "log2", "exp", "exp2", "sin", "cos", "tan", "sinh", "cosh", "tanh"}


def _without_computing(function: Any, args: tuple, kwargs: dict) -> Any:
    """An uninitialized array of the result's shape and type.  Functions that return views are called."""
    with torch.no_grad():
        inputs = tree_map_only(torch.Tensor, lambda value: value.to("meta"), (args, kwargs))
        known = {value.untyped_storage()._cdata for value in tree_leaves(inputs) if isinstance(value, torch.Tensor)}
        try:
            result = function(*inputs[0], **inputs[1])
        except (RuntimeError, NotImplementedError):  # the result's shape depends on values
            result = None
        if isinstance(result, torch.Tensor) and result.untyped_storage()._cdata not in known:
            return torch.empty_strided(result.shape, result.stride(), dtype=result.dtype)
    return function(*args, **kwargs)


class _OnHost(TorchFunctionMode):
    """Replaces cuda devices among the arguments of every call."""

    def __init__(self, results: bool) -> None:
        super().__init__()
        self.results = results

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = {key: _host(value) for key, value in (kwargs or {}).items()}
        args = tuple(map(_host, args))
        name = getattr(function, "__name__", "")
        if name == "cuda":
            return args[0]
        if not self.results:
            if name == "assert_close":
                raise NoResults(name)
            if name == "normal_":
                return args[0]
            function = _FILLINGS.get(name, function)
            if any(isinstance(arg, torch.Tensor) and arg.numel() > _LARGE for arg in tree_leaves((args, kwargs))):
                return _without_computing(function, args, kwargs)
        if name in ("mm", "bmm") and "out_dtype" in kwargs:
            # Only CUDA multiplies matrices of narrow types with a wide result.
            wide = kwargs.pop("out_dtype")
            return function(*(matrix.to(wide) for matrix in args), **kwargs)
        if name in _ROUNDED_ONCE and len(args) == 1 and not kwargs and not args[0].is_complex():
            result = args[0].dtype if args[0].dtype.is_floating_point else torch.get_default_dtype()
            return function(args[0].to(torch.float64)).to(result)
        if name == "fft_fft" and args[0].dtype == torch.complex32:
            return function(args[0].to(torch.complex64), *args[1:], **kwargs).to(torch.complex32)
        return function(*args, **kwargs)


def _host(value: Any) -> Any:
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return value


def install(capability: tuple[int, int], results: bool = True) -> None:
    """Replace torch's functions for the rest of the process.  Without ``results``, computations are skipped, and checks
    raise NoResults."""
    stream = Stream()
    properties = types.SimpleNamespace(
        multi_processor_count=4, L2_cache_size=1 << 20, major=capability[0], minor=capability[1], name="host",
        total_memory=1 << 34, max_threads_per_multi_processor=2048, shared_memory_per_block_optin=232448,
    )  # fmt: skip
    replacements = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "current_stream": lambda *_, **__: stream,
        "default_stream": lambda *_, **__: stream,
        "stream": lambda *_: contextlib.nullcontext(),
        "device": lambda *_: contextlib.nullcontext(),
        "synchronize": lambda *_: None,
        "empty_cache": lambda: None,
        "get_device_capability": lambda *_: capability,
        "get_device_properties": lambda *_: properties,
        "get_device_name": lambda *_: "host",
        "Stream": Stream,
        "Event": Event,
    }
    for name, value in replacements.items():
        setattr(torch.cuda, name, value)
    torch.Tensor.is_cuda = property(lambda _: True)
    _OnHost(results).__enter__()
