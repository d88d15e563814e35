"""What is wrong with a file, as values (`Finding`) and as exceptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar


class Finding(NamedTuple):
    """One thing that is wrong with a file, or worth knowing."""

    code: str
    """Stable and lower case: `"hook-mismatch"`. docs/format.md lists the codes."""
    severity: str
    """`"warning"`, `"refusal"` (sound, but not applicable as asked) or `"format"` (not sound)."""
    message: str
    """What to do, in the first sentence; then why. Text from the file is escaped."""
    offset: int | None = None
    """The byte in the file, where there is one."""
    key: str | None = None
    """The metadata key concerned."""
    tensor: str | None = None
    """The tensor concerned."""


class GlpError(Exception):
    """A file that cannot be read as a steering vector, or may not be used as asked.

    Failures of the system are not among these: they are the `OSError` that `open` would raise,
    with `errno` and `filename`, and carry `.code` (`"io"`) and `.findings` too.
    """

    code: str
    """The code of the first finding that is not a warning."""
    findings: list[Finding]
    """Every finding, warnings included, in the order in which they were found."""
    offset: int | None
    """Where in the file the first such finding lies."""

    def __init__(self, message: str, findings: Sequence[Finding] = ()) -> None:
        super().__init__(message)
        self.findings = list(findings)
        first = next((f for f in self.findings if f.severity != "warning"), None)
        self.code = first.code if first else ""
        self.offset = first.offset if first else None

    def __reduce__(self) -> tuple[type[GlpError], tuple[str, list[Finding]]]:
        return type(self), (str(self), self.findings)


_E = TypeVar("_E", bound=GlpError)


class FormatError(GlpError, ValueError):
    """Not a sound file: nothing in it can be trusted."""


class RefusedError(GlpError, ValueError):
    """A sound file that may not be applied as asked; `findings` holds every reason."""


def summary(findings: Sequence[Finding]) -> str:
    """The message of an exception: the first error in full, the codes of the others."""
    errors = [f for f in findings if f.severity != "warning"]
    if not errors:
        return ""
    first = f"{errors[0].message} [{errors[0].code}]"
    others = list(dict.fromkeys(f.code for f in errors[1:] if f.code != errors[0].code))
    return f"{first} Also: {', '.join(others)}." if others else first


def system_error(number: int, findings: Sequence[Finding], filename: object) -> OSError:
    """The `OSError` that the system's `number` stands for (0: what was read is unusable)."""
    import errno
    import os

    if number in (0, errno.EINVAL):  # ours: say what to do, which the system's text would not
        number = errno.EINVAL
        text = findings[0].message.split(". ")[0] if findings else os.strerror(number)
    else:
        text = os.strerror(number)
    error = OSError(number, text) if filename is None else OSError(number, text, filename)
    error.code = "io"  # type: ignore[attr-defined]
    error.findings = list(findings)  # type: ignore[attr-defined]
    error.offset = None  # type: ignore[attr-defined]
    return error


def fault(kind: type[_E], code: str, message: str) -> _E:
    """An exception of `kind` with the one finding that Python code made itself."""
    severity = "format" if issubclass(kind, FormatError) else "refusal"
    findings = [Finding(code, severity, message)]
    return kind(summary(findings), findings)
