"""JSON that somebody else wrote: a sidecar, a model's config.json."""

from __future__ import annotations

import os
import stat

from ._errors import FormatError, fault

MAX_DIMENSION = 1 << 31

_MAX_BYTES = 16 << 20


def read_object(path: str | os.PathLike[str], what: str) -> dict[str, object]:
    """The JSON object in the regular file at `path`, which messages call `what`.

    OSError when it cannot be read; FormatError (code `json`) when it is not one object, is larger
    than 16 MiB, or says a thing twice.
    """
    import json

    require_regular(path)
    with open(path, "rb") as stream:
        data = stream.read(_MAX_BYTES + 1)
    try:
        if len(data) > _MAX_BYTES:
            raise ValueError(f"It is larger than {_MAX_BYTES >> 20} MiB")
        # NaN and Infinity are no JSON, but they occur in published configs, in keys that do not
        # matter here.
        value = json.loads(data, object_pairs_hook=_without_duplicates)
        if not isinstance(value, dict):
            raise ValueError("It is not an object")
    except RecursionError:
        raise fault(FormatError, "json", f"Pass {what} as JSON. It nests too deep.") from None
    except ValueError as error:  # malformed, not UTF-8, or a number of absurd length
        raise fault(FormatError, "json", f"Pass {what} as a JSON object. {error}.") from None
    return value


def require_regular(path: str | os.PathLike[str]) -> None:
    """OSError unless `path` is a regular file: opening a pipe would wait for its writer."""
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        import errno

        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        import errno

        raise OSError(errno.EINVAL, "Not a regular file", os.fspath(path))


def whole_number(value: object) -> int | None:
    """A positive integer, or None for anything else (booleans included)."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    return None


def dimension(value: object) -> int | None:
    """A width or a number of layers: a positive integer below 2**31, as `open` takes them."""
    number = whole_number(value)
    return number if number is not None and number < MAX_DIMENSION else None


def not_a_name(text: str) -> bool:
    """Whether it holds what a JSON escape can say and no name can: a NUL, half a pair."""
    return "\0" in text or any("\ud800" <= c <= "\udfff" for c in text)


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("An object has the same key twice")
    return table
