"""A file's key-values as a mapping."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._core import File

# GGUF's value types, by number. A bool is a byte that any value may be in.
_SCALARS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_BOOL, _STRING, _ARRAY = 7, 8, 9


class Metadata(Mapping[str, Any]):
    """The key-values of a file, read-only, in the file's order.

    A value is decoded each time it is asked for: int, float, bool, str (bytes that are not UTF-8
    become `\\xhh`), or a list of these. Nothing here is judged, and text is not escaped: it may
    hold anything, terminal controls included. Reading after the file is closed is a ValueError.
    """

    __slots__ = ("_file",)

    def __init__(self, file: File) -> None:
        self._file = file

    def __getitem__(self, key: str) -> Any:
        found = self._file._kv_find(key) if isinstance(key, str) else None
        if found is None:
            raise KeyError(key)
        kind, data = found
        return _decode(kind, data, 0)[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._file._kv_keys())

    def __len__(self) -> int:
        return self._file._kv_count()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} keys>"


def _decode(kind: int, data: bytes, at: int) -> tuple[Any, int]:
    """The value of type `kind` that begins at `at`, and where it ends.

    The container's reader has checked every length, count and depth.
    """
    if kind == _STRING:
        (size,) = struct.unpack_from("<Q", data, at)
        end = at + 8 + size
        return data[at + 8 : end].decode("utf-8", "backslashreplace"), end
    if kind != _ARRAY:
        code = _SCALARS[kind]
        (value,) = struct.unpack_from("<" + code, data, at)
        return (value != 0 if kind == _BOOL else value), at + struct.calcsize("<" + code)
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner in _SCALARS:
        form = f"<{count}{_SCALARS[inner]}"
        values = list(struct.unpack_from(form, data, at))
        end = at + struct.calcsize(form)
        return ([value != 0 for value in values] if inner == _BOOL else values), end
    items = []
    for _ in range(count):
        item, at = _decode(inner, data, at)
        items.append(item)
    return items, at
