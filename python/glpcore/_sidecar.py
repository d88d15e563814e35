"""A headerless `.f32` to be packed, and the JSON file that deriving tools write beside it."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ._errors import FormatError, fault
from ._json import dimension, not_a_name, read_object, require_regular

if TYPE_CHECKING:
    from numpy.typing import NDArray

HOOKS = ("residual_stream_post_layer", "ffn_out_pre_residual", "attn_out_pre_residual")

# Those that numpy writes have some 100 bytes; it reads none longer than this.
_MAX_HEADER = 10_000

_FORMAT = "ds4-directional-steering-v1"
_HOOK_OF_COMPONENT = {"ffn_out": HOOKS[1], "attn_out": HOOKS[2]}


class Sidecar(NamedTuple):
    """What a sidecar states; None where it does not."""

    n_layers: int | None
    n_embd: int | None
    hook: str | None
    contrast: str | None


def read_sidecar(path: str | os.PathLike[str]) -> Sidecar:
    """Reads `format`, `shape`, `component`, `good_file` and `bad_file`; other keys are remarks.

    OSError when the file cannot be read; FormatError (`json`, `sidecar`) when a key makes no sense.
    """
    table = read_object(path, "the sidecar")
    if table.get("format", _FORMAT) != _FORMAT:
        raise _senseless("format", _FORMAT, table["format"])
    component = table.get("component")
    if component is not None and component not in list(_HOOK_OF_COMPONENT):
        raise _senseless("component", " or ".join(_HOOK_OF_COMPONENT), component)
    n_layers, n_embd = _shape(table.get("shape"))
    return Sidecar(
        n_layers=n_layers,
        n_embd=n_embd,
        hook=None if component is None else _HOOK_OF_COMPONENT[str(component)],
        contrast=_contrast(*(_file_name(table, key) for key in ("good_file", "bad_file"))),
    )


def _senseless(key: str, wanted: str, found: object) -> FormatError:
    message = f"Correct the sidecar's {key}: {wanted}. It is {found!a:.60}."
    return fault(FormatError, "sidecar", message)


def _shape(shape: object) -> tuple[int | None, int | None]:
    if shape is None:
        return None, None
    if isinstance(shape, list) and len(shape) == 2:
        n_layers, n_embd = map(dimension, shape)
        if n_layers is not None and n_embd is not None:
            return n_layers, n_embd
    raise _senseless("shape", "[n_layers, n_embd], each below 2**31", shape)


def _file_name(table: dict[str, object], key: str) -> str:
    """The name in a path, without folder and ending; empty for anything but a path."""
    path = table.get(key)
    if not isinstance(path, str):
        return ""
    if not_a_name(path):
        raise _senseless(key, "a path, without a NUL or a lone surrogate", path)
    return os.path.splitext(path.replace("\\", "/").rpartition("/")[2])[0]


def _contrast(good: str, bad: str) -> str | None:
    """ "succinct_vs_verbose" from the names of the two prompt files."""
    return f"{good}_vs_{bad}" if good and bad else None


def read_rows(source: str | bytes, n_embd: int | None, n_layers: int | None) -> NDArray[Any]:
    """The rows in a headerless `.f32` or a `.npy`, told apart by the magic: (n_layers, n_embd).

    source: a path, whose file the array maps, or the bytes themselves.
    n_embd, n_layers: the shape, where it is stated; a `.npy` has its own, which it must then be.
    OSError when it cannot be read; FormatError when it is something else or not of the shape
    stated; ValueError when nobody states the n_embd of a `.f32`.
    """
    import numpy as np

    if isinstance(source, bytes):
        magic, size = source[:6], len(source)
    else:
        require_regular(source)
        with open(source, "rb") as stream:
            magic, size = stream.read(6), os.path.getsize(source)
    if magic.startswith(b"GGUF"):
        raise fault(FormatError, "raw-shape", "Pass raw rows to pack. This is a GGUF file already.")
    if magic == b"\x93NUMPY":
        rows = _read_npy(source)
        if n_embd not in (None, rows.shape[1]):
            raise _misshapen(rows, n_layers, n_embd)
    elif n_embd is None:
        raise ValueError("state n_embd, or pass the sidecar: a .f32 does not say its shape")
    else:
        width = 4 * n_embd
        if size == 0 or size % width:
            message = f"Correct n_embd or the file. {size} bytes are not rows of {n_embd} float32."
            raise fault(FormatError, "raw-size", message)
        if isinstance(source, bytes):
            rows = np.frombuffer(source, "<f4").reshape(-1, n_embd)
        else:
            rows = np.memmap(source, "<f4", "r", shape=(size // width, n_embd))
    if n_layers not in (None, rows.shape[0]):
        raise _misshapen(rows, n_layers, n_embd)
    return rows


def _read_npy(source: str | bytes) -> NDArray[Any]:
    """The array of a `.npy`, in place.

    Not numpy.load, which fails in a dozen ways on a damaged header, and makes room for whatever a
    header claims before it looks at what is there.
    """
    import numpy as np

    if isinstance(source, bytes):
        size, head = len(source), source[: _MAX_HEADER + 12]
    else:
        with open(source, "rb") as stream:
            size, head = os.path.getsize(source), stream.read(_MAX_HEADER + 12)
    descr, columns_first, shape, start = _npy_header(head)
    dtype = None
    if isinstance(descr, str) and re.fullmatch("[<>=|]?f(loat)?[0-9]{1,3}", descr):
        with suppress(TypeError):
            dtype = np.dtype(descr)
    if dtype is None or len(shape) != 2 or 0 in shape:
        message = (
            "Save floats of shape (n_layers, n_embd). "
            f"The file holds {descr!a:.40} of shape {shape!a:.60}."
        )
        raise fault(FormatError, "raw-shape", message)
    count = shape[0] * shape[1]
    if count > (size - start) // dtype.itemsize:
        raise _damaged(f"Its header says {shape!a:.60}, for which it is too short")
    order: Literal["C", "F"] = "F" if columns_first else "C"
    if isinstance(source, bytes):
        return np.frombuffer(source, dtype, count, start).reshape(shape, order=order)
    return np.memmap(source, dtype, "r", start, shape, order)


def _npy_header(head: bytes) -> tuple[object, bool, tuple[int, ...], int]:
    """(descr, fortran_order, shape) of a `.npy` that begins with `head`, and where the data is."""
    import ast
    import warnings

    # One length in two bytes, or since version 2 in four; the text is UTF-8 since version 3.
    length_size = {b"\1\0": 2, b"\2\0": 4, b"\3\0": 4}.get(head[6:8])
    if length_size is None:
        raise _damaged("Its version is not 1, 2 or 3")
    start = 8 + length_size
    end = start + int.from_bytes(head[8:start], "little")
    if end > start + _MAX_HEADER or end > len(head) or len(head) < start:
        raise _damaged("Its header is cut short, or longer than any")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd literals
            header = ast.literal_eval(head[start:end].decode("utf-8").strip())
        # No other types: True is an integer too, and a float can be equal to one.
        if set(header) != {"descr", "fortran_order", "shape"} or type(header) is not dict:
            raise ValueError("it does not say descr, fortran_order and shape")
        shape = header["shape"]
        if type(header["fortran_order"]) is not bool or type(shape) is not tuple:
            raise ValueError("fortran_order or shape is of another type")
        if not all(type(n) is int and 0 <= n < 1 << 63 for n in shape):
            raise ValueError("its shape is no shape")
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        text = str(error) or type(error).__name__
        raise _damaged(f"Its header makes no sense: {ascii(text)[1:-1]:.100}") from None
    return header["descr"], header["fortran_order"], shape, end


def _damaged(why: str) -> FormatError:
    return fault(FormatError, "raw-shape", f"Save the array again with numpy.save. {why}.")


def _misshapen(rows: NDArray[Any], n_layers: int | None, n_embd: int | None) -> FormatError:
    stated = f"{n_layers or 'any'} x {n_embd or 'any'}"
    message = (
        f"Correct the shape or the file. It holds {rows.shape[0]} x {rows.shape[1]} "
        f"(n_layers x n_embd) and {stated} was stated."
    )
    return fault(FormatError, "raw-size", message)
