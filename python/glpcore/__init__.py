"""Read GLP steering vectors strictly, and project them out of hidden states.

    vec = glpcore.load("v.gguf", hook="ffn_out_pre_residual", n_embd=4096, n_layers=43)
    vec.project(x, layer=10)         # in place; x: (..., 4096) float32, float16 or bfloat16

`open` gives a `File`, which can be described and judged but not applied; `load` gives a `Vector`,
which has been accepted for a stated use. Arrays come in by the buffer protocol or DLPack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._core import File, PreparedLayer, Vector, add_rows, project_rows
from ._core import version as _version
from ._errors import Finding, FormatError, GlpError, RefusedError
from ._open import load, open
from ._records import Info

if TYPE_CHECKING:
    from ._pack import pack
    from ._sample import sample_path

__all__ = [
    "File",
    "Finding",
    "FormatError",
    "GlpError",
    "Info",
    "PreparedLayer",
    "RefusedError",
    "Vector",
    "__version__",
    "add_rows",
    "load",
    "open",
    "pack",
    "project_rows",
    "sample_path",
]

__version__: str = _version()


# What is rarer than reading, and needs more of the standard library, is imported when asked for.
_LATER = {"pack": "_pack", "sample_path": "_sample"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
