"""From whatever names or holds a file to a `File`, and on to a `Vector`."""

from __future__ import annotations

import os
from operator import index
from typing import TYPE_CHECKING, Any

from ._core import open_buffer, open_path
from ._errors import FormatError
from ._json import MAX_DIMENSION

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol, TypeAlias

    from typing_extensions import Buffer

    from ._core import File, Vector
    from ._model import ModelFacts

    class _Readable(Protocol):
        def read(self, size: int, /) -> bytes | None: ...

    _Path: TypeAlias = str | bytes | os.PathLike[Any]
    _Source: TypeAlias = _Path | Buffer | _Readable

_DEFAULT_MAX_BYTES = 1 << 30
_NO_LIMIT = (1 << 64) - 1


def open(
    source: _Source,
    *,
    n_embd: int | None = None,
    n_layers: int | None = None,
    max_bytes: int | None = None,
    mmap: bool = True,
) -> File:
    """Opens a GGUF file, or a headerless `.f32` whose shape is stated, without judging it.

    source: a path (`bytes` too), a binary file object, or the bytes themselves as a buffer:
        `memoryview(b"...")`, an mmap, an array. A read-only buffer is used in place and must not
        change; a writable one is copied.
    n_embd, n_layers: the shape of a headerless `.f32`, float32 rows with row = layer from 0;
        n_layers defaults to what the size gives. They change nothing for a GGUF file.
    max_bytes: refuse larger files; 1 GiB by default.
    mmap: map a path (a file that is truncated while mapped kills the process) rather than read it.

    `OSError` with errno and filename when the system cannot; `FormatError` when the file is not
    sound. Close the result, use it as a context manager, or let it go.
    """
    limit = _limit(max_bytes)
    shape = _shape(n_embd, n_layers)
    if isinstance(source, (str, bytes, os.PathLike)):
        given = os.fspath(source)
        path = os.fsencode(given)
        if b"\0" in path:
            raise ValueError(
                "a path cannot hold a NUL; bytes are a path: wrap the contents of a file in "
                "memoryview()"
            )

        def attempt(n_layers: int, n_embd: int) -> File:
            return open_path(path, given, n_layers, n_embd, limit, not mmap)

        def size() -> int:
            return os.stat(path).st_size

    else:
        data, name = _contents(source, limit)

        def attempt(n_layers: int, n_embd: int) -> File:
            return open_buffer(data, name, n_layers, n_embd, limit)

        def size() -> int:
            return memoryview(data).nbytes

    try:
        return attempt(0, 0)
    except FormatError as error:
        if error.code != "not-gguf" or shape is None:
            raise
    # Not GGUF by its magic, so it is what was stated. The size is checked against the shape.
    rows, width = shape
    return attempt(rows or max(1, size() // (4 * width)), width)


def load(
    source: _Source,
    *,
    mode: str = "project",
    hook: str | None = None,
    n_embd: int | None = None,
    n_layers: int | None = None,
    base: str | Sequence[str] | None = None,
    base_revision: str | None = None,
    model: _Path | ModelFacts | None = None,
    structure: str | None = None,
    allow_hook_mismatch: bool = False,
    allow_base_mismatch: bool = False,
    renormalise: bool = False,
    verify_hash: bool = True,
    max_bytes: int | None = None,
    mmap: bool = True,
) -> Vector:
    """Opens a file and accepts it for a stated use: the `Vector` that can be applied.

    What is not stated is not checked.

    source, max_bytes, mmap: as for `open`.
    mode: `"project"` or `"add"`.
    hook: the site it is to be applied at, such as `"ffn_out_pre_residual"`. Without one it is the
        file's own, which must be known, and then the file's default strength is never adopted.
    n_embd: width of the stream that is steered. With n_layers also the shape of a `.f32`.
    n_layers: the model's layers; its steps with structure `"per-execution-step"`.
    base: a name, or the names, that the model goes by. base_revision: its commit.
    model: path of the model (GGUF) or of its config.json, for what is not stated of n_embd,
        n_layers, base and base_revision, and for its architecture.
    structure: `"per-layer"` (the default) or `"per-execution-step"`.
    allow_hook_mismatch: another or no hook in the file is a warning.
    allow_base_mismatch: another base or architecture is a warning.
    renormalise: scale directions that are not of norm 1, in a private copy.
    verify_hash: check the content hash.

    `RefusedError`, whose findings are every reason, when the file may not be used so; `FormatError`
    and `OSError` as for `open`. Warnings are in the vector's `findings`.
    """
    facts = None if model is None else facts_of(model)
    width = n_embd if n_embd is not None or facts is None else facts.n_embd
    depth = n_layers if n_layers is not None or facts is None else facts.n_layers
    file = open(source, n_embd=width, n_layers=depth, max_bytes=max_bytes, mmap=mmap)
    return file.accept(
        mode=mode,
        hook=hook,
        n_embd=n_embd,
        n_layers=n_layers,
        base=base,
        base_revision=base_revision,
        model=facts,
        structure=structure,
        allow_hook_mismatch=allow_hook_mismatch,
        allow_base_mismatch=allow_base_mismatch,
        renormalise=renormalise,
        verify_hash=verify_hash,
    )


def facts_of(model: _Path | ModelFacts) -> ModelFacts:
    """What a model's file says; facts that were read before are returned as they are."""
    from ._model import ModelFacts, read_model

    if isinstance(model, ModelFacts):
        return model
    return read_model(os.fsdecode(model))


def _limit(max_bytes: int | None) -> int:
    if max_bytes is None:
        return _DEFAULT_MAX_BYTES
    limit = index(max_bytes)
    if limit <= 0:
        raise ValueError(f"max_bytes must be a positive number, not {limit}")
    return min(limit, _NO_LIMIT)


def _shape(n_embd: int | None, n_layers: int | None) -> tuple[int, int] | None:
    """(rows or 0 for unknown, width), where the width is stated."""
    for name, value in (("n_embd", n_embd), ("n_layers", n_layers)):
        if value is not None and not 0 < index(value) < MAX_DIMENSION:
            raise ValueError(f"{name} must be a positive number below 2**31, not {value}")
    return None if n_embd is None else (index(n_layers or 0), index(n_embd))


def _contents(source: Any, limit: int) -> tuple[Any, str | None]:
    """The bytes of a buffer or of a binary file object, and a name where there is one."""
    try:
        memoryview(source)
    except TypeError:
        pass
    else:
        return source, None
    if not hasattr(source, "read"):
        raise TypeError(
            "pass a path, a binary file object, or bytes in a memoryview, not "
            f"{type(source).__name__}"
        )
    name = getattr(source, "name", None)
    chunks = []
    left = limit + 1  # one more than allowed is enough to be refused
    while left > 0 and (chunk := source.read(min(left, 1 << 24))):
        if isinstance(chunk, str):
            raise TypeError("pass a file object that was opened in binary mode")
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks), name if isinstance(name, str) else None
