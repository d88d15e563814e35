"""Writing a GLP file: GGUF v3, unit directions, read back before it appears under its name."""

from __future__ import annotations

import errno
import hashlib
import math
import os
import stat
import struct
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ._core import open_buffer, version
from ._errors import Finding, RefusedError, fault, summary
from ._sidecar import HOOKS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

# By (layer, j), in the order of the content hash.
Payloads: TypeAlias = dict[tuple[int, int], bytes]

_ALIGNMENT = 32
_U32, _F32, _BOOL, _STRING = 4, 6, 7, 8
_MAX_LAYER = 1_000_000
_MAX_RANK = 256

# A basis this near to orthonormal keeps its bits. Rounding to float32 moves a norm by 6e-8 at most,
# so that what was packed once is never changed again; readers allow 1e-3.
_UNIT = 1e-6
# What readers take for zero: scaling it up would steer along noise.
_ZERO = 1e-12
# The part of a direction that is new, below which float32 input says nothing about its direction.
_DEPENDENT = 1e-5


class PackResult(NamedTuple):
    """What `pack` wrote."""

    path: str
    layers: tuple[int, ...]
    n_renormalised: int
    """Directions whose values were changed to make them unit, and orthogonal within a layer."""
    row0: str
    """`"not-expressible"`: row 0 steers and was left out; `"zero"`; `"absent"`, from a mapping."""
    skipped_zero: tuple[int, ...]
    """Layers left out because all of their values are zero."""
    content_sha256: str
    findings: tuple[Finding, ...]
    """The warnings that the file gives when it is read."""


def pack(
    path: str | os.PathLike[str],
    directions: Mapping[int, ArrayLike] | ArrayLike,
    *,
    hook: str,
    base: str,
    layers: Collection[int] | None = None,
    alpha: float | None = None,
    mode: str = "project",
    base_org: str | None = None,
    base_revision: str | None = None,
    base_url: str | None = None,
    method: str | None = None,
    contrast: str | None = None,
    derived_at: str | None = None,
    structure: str | None = None,
    dir_scales: Sequence[float] | None = None,
    layer_scales: Mapping[int, float] | None = None,
    generator: str | None = None,
    created: str | None = None,
    force: bool = False,
) -> PackResult:
    """Writes directions as a GLP file and returns what was written.

    directions: float arrays by layer (1 or more), each (n_embd,) or (rank, n_embd); or one array
        (n_layers, n_embd) whose row is the layer. Layers that are all zero are left out, and so
        is row 0, which the format cannot express.
    hook: the site where the directions are to be applied. base: the checkpoint that they are for.
    layers: the layers to write, all by default.
    alpha: the strength at this hook, stored as float32.
    mode: `"project"` makes directions orthonormal within a layer (Gram-Schmidt in float64; those
        that are already keep their bits); `"add"` keeps every value, for strength is part of it,
        so that several directions in a layer must be orthonormal already.
    structure: `"per-execution-step"` when the keys of a mapping are the steps of a looped model,
        counted from 1.
    dir_scales, layer_scales: factors of alpha by direction and by layer.
    generator: by default this package; created: by default today's date (UTC).

    The file is written under a temporary name, read back and compared, and then takes its own name
    in one step. FileExistsError when that exists and `force` is not set, which replaces a regular
    file or a symbolic link (not what it leads to) and nothing else; RefusedError when the
    directions cannot make a vector; ValueError and TypeError for arguments that contradict this;
    OSError from the system.
    """
    target = os.fsdecode(path)
    _check_target(target, force)
    _check_choice("hook", hook, HOOKS)
    _check_choice("mode", mode, ("project", "add"))
    _check_choice("structure", structure or "per-layer", ("per-layer", "per-execution-step"))
    texts = {
        "base": base, "base_org": base_org, "base_revision": base_revision, "base_url": base_url,
        "method": method, "contrast": contrast, "derived_at": derived_at, "structure": structure,
        "generator": generator, "created": created,
    }  # fmt: skip
    for name, text in texts.items():
        if not isinstance(text, str) and (text is not None or name == "base"):
            raise TypeError(f"{name} must be text, not {type(text).__name__}")
    if layer_scales is not None and not isinstance(layer_scales, Mapping):
        raise TypeError(f"layer_scales must be a mapping, not {type(layer_scales).__name__}")
    if not base.strip():
        raise ValueError("base must name the checkpoint that the directions are for")
    if structure == "per-execution-step" and not isinstance(directions, Mapping):
        raise TypeError("pass a mapping from step to direction: steps count from 1, rows from 0")

    found, row0 = _by_layer(directions)
    chosen = _choose(found, layers)
    steering = {layer: rows for layer, rows in chosen.items() if rows.any()}
    if not steering:
        raise fault(
            RefusedError,
            "direction-empty",
            "Pass directions that steer a layer from 1 on. None does.",
        )
    rank, _ = _common_shape(steering)
    unit = _orthonormal if mode == "project" else _as_float32
    bases = {layer: unit(layer, rows) for layer, rows in steering.items()}
    payloads = {
        (layer, j): basis[j].tobytes() for layer, (basis, _) in bases.items() for j in range(rank)
    }
    digest = hashlib.sha256(b"".join(payloads.values())).hexdigest()

    has_scales = dir_scales is not None or bool(layer_scales)
    keys = _Keys()
    keys.text("general.architecture", "controlvector")
    keys.text("general.type", "controlvector")
    keys.text("general.name", _stem(target))
    keys.integer("general.base_model.count", 1)
    keys.text("general.base_model.0.name", base)
    keys.text("general.base_model.0.organization", base_org)
    keys.text("general.base_model.0.version", base_revision)
    keys.text("general.base_model.0.repo_url", base_url)
    # Practice differs between this and the model's layers; llama.cpp's generator writes this.
    keys.integer("controlvector.layer_count", len(bases))
    keys.text("glp.mode", mode)
    keys.integer("glp.spec_version", 2 if rank > 1 or has_scales else 1)
    keys.text("glp.hook_point", hook)
    keys.text("glp.derived_at", derived_at)
    keys.text("glp.structure", structure)
    keys.single("glp.alpha_default", alpha)
    keys.integer("glp.rank", rank)
    keys.flag("glp.orthonormal", True if mode == "project" or rank > 1 else None)
    keys.text("glp.dir_scales", _dir_scales(dir_scales, rank))
    keys.text("glp.layer_scales", _layer_scales(layer_scales, bases))
    keys.text("glp.layer_ids_zero_based", ",".join(map(str, bases)))
    keys.text("glp.method", method)
    keys.text("glp.contrast", contrast)
    keys.text("glp.generator", f"glpcore {version()}" if generator is None else generator)
    keys.text("glp.created", created or time.strftime("%Y-%m-%d", time.gmtime()))
    keys.text("glp.content_sha256", digest)

    return PackResult(
        path=target,
        layers=tuple(bases),
        n_renormalised=sum(changed for _, changed in bases.values()),
        row0=row0,
        skipped_zero=tuple(layer for layer in chosen if layer not in steering),
        content_sha256=digest,
        findings=_write(target, _assemble(keys, payloads), payloads, force),
    )


# ---- What is to be written -----------------------------------------------------------------------


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


def _by_layer(
    directions: Mapping[int, ArrayLike] | ArrayLike,
) -> tuple[dict[int, NDArray[Any]], str]:
    """The (rank, n_embd) rows of every layer from 1 on, in order, and what became of row 0."""
    import numpy as np

    if isinstance(directions, Mapping):
        given = {index(layer): rows for layer, rows in directions.items()}
        for layer in given:
            if not 1 <= layer <= _MAX_LAYER:
                raise ValueError(
                    f"layer {layer} cannot be expressed: layers are 1 to {_MAX_LAYER}, for "
                    "llama.cpp starts at direction.1"
                )
        return {n: _checked(np.atleast_2d(given[n]), f"layer {n}") for n in sorted(given)}, "absent"
    table = _checked(np.asarray(directions), "the array")
    row0 = "not-expressible" if table[0].any() else "zero"
    return {layer: table[layer : layer + 1] for layer in range(1, len(table))}, row0


def _checked(rows: NDArray[Any], where: str) -> NDArray[Any]:
    import numpy as np

    if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind != "f":
        raise ValueError(
            "directions must be floats of shape (n_embd,) or (rank, n_embd) by layer, or one array "
            f"(n_layers, n_embd); {where} is {rows.dtype} of shape {rows.shape}"
        )
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        at = f"row {int(np.argmin(finite))} of {where}"
        message = f"Derive the vector again. There is a NaN or Inf in {at}."
        raise fault(RefusedError, "direction-nonfinite", message)
    return rows


def _choose(
    found: dict[int, NDArray[Any]], layers: Collection[int] | None
) -> dict[int, NDArray[Any]]:
    if layers is None:
        return found
    for layer in layers:
        if layer == 0:
            raise ValueError(
                "layer 0 cannot be expressed: direction.N applies at layer N, and llama.cpp starts "
                "at direction.1; leave it out"
            )
        if layer not in found:
            last = max(found, default=0)
            raise ValueError(f"layer {layer} is not among the directions, whose last is {last}")
    return {layer: found[layer] for layer in sorted(set(layers))}


def _common_shape(steering: Mapping[int, NDArray[Any]]) -> tuple[int, int]:
    """(rank, n_embd), which all layers share."""
    first, shape = next((layer, rows.shape) for layer, rows in steering.items())
    for layer, rows in steering.items():
        if rows.shape != shape:
            raise ValueError(
                f"every layer must have the same rank and n_embd: layer {first} has {shape} and "
                f"layer {layer} has {rows.shape}"
            )
    rank, n_embd = shape
    if rank > min(n_embd, _MAX_RANK):
        message = f"Pass at most {min(n_embd, _MAX_RANK)} directions a layer. There are {rank}."
        raise fault(RefusedError, "rank", message)
    return rank, n_embd


def _as_float32(layer: int, rows: NDArray[Any]) -> tuple[NDArray[np.float32], int]:
    """The values as they are."""
    import numpy as np

    with np.errstate(over="ignore"):
        basis = np.ascontiguousarray(rows, "<f4")
    if not np.isfinite(basis).all():
        message = f"Scale layer {layer} down. Its values are beyond float32."
        raise fault(RefusedError, "direction-nonfinite", message)
    return basis, 0


def _orthonormal(layer: int, rows: NDArray[Any]) -> tuple[NDArray[np.float32], int]:
    """The rows as an orthonormal basis, and how many of them had to change."""
    import numpy as np

    largest = np.abs(rows).max(axis=1, keepdims=True).astype(np.float64)
    # Scaled to a largest element of 1, so that no square leaves the range of float64.
    scaled = rows / np.where(largest > 0, largest, 1)
    norms = np.linalg.norm(scaled, axis=1, keepdims=True)
    for j, norm in enumerate((largest * norms)[:, 0]):
        if norm <= _ZERO:
            message = f"Leave layer {layer} out. Its direction {j} is zero (norm {norm:g})."
            raise fault(RefusedError, "direction-norm", message)
    off_unit = np.abs(largest * norms - 1)[:, 0] > _UNIT
    units = scaled / norms
    basis = np.empty_like(units)
    for j, row in enumerate(units):
        rest = row
        for _ in range(2):  # the second time takes out what rounding left in
            rest = rest - basis[:j].T @ (basis[:j] @ rest)
        size = np.linalg.norm(rest)
        if size < _DEPENDENT:
            message = (
                f"Drop direction {j} of layer {layer}. It is a combination of those before it, and "
                "no basis."
            )
            raise fault(RefusedError, "orthonormal", message)
        basis[j] = rest / size
    oblique = np.abs(basis - units).max(axis=1) > _UNIT
    changed = off_unit | oblique
    single = basis.astype("<f4")
    single[~changed] = rows[~changed]
    return single, int(changed.sum())


# ---- Metadata ------------------------------------------------------------------------------------


def _stem(target: str) -> str:
    """The name of the file without its ending, as text whatever the bytes."""
    stem = os.path.splitext(os.path.basename(target))[0]
    return os.fsencode(stem).decode("utf-8", "backslashreplace")


def _decimal(value: float) -> str:
    number = _real(value, "scales")
    if not math.isfinite(number):
        raise ValueError(f"scales must be finite, not {value!r:.60}")
    return repr(number)


def _real(value: Any, name: str) -> float:
    """A number as float64, infinite where it is beyond that."""
    if isinstance(value, (str, bytes, bytearray)):  # float() would read them
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except TypeError:
        raise TypeError(f"{name} must be a number, not {type(value).__name__}") from None


def _dir_scales(scales: Sequence[float] | None, rank: int) -> str | None:
    if scales is None:
        return None
    if len(scales) != rank:
        raise ValueError(f"dir_scales must have a number for each direction: {rank}")
    return ",".join(map(_decimal, scales))


def _layer_scales(scales: Mapping[int, float] | None, layers: Collection[int]) -> str | None:
    if not scales:
        return None
    for layer in scales:
        if layer not in layers:
            raise ValueError(f"layer_scales names layer {layer!r}, which carries no direction")
    return ",".join(f"{index(layer)}:{_decimal(scales[layer])}" for layer in sorted(scales))


class _Keys:
    """Metadata in order of writing; a value of None is not written."""

    def __init__(self) -> None:
        self.count = 0
        self.data = bytearray()

    def _add(self, key: str, kind: int, value: bytes) -> None:
        self.count += 1
        self.data += _string(key) + struct.pack("<I", kind) + value

    def text(self, key: str, value: str | None) -> None:
        if value is not None:
            self._add(key, _STRING, _string(value))

    def integer(self, key: str, value: int) -> None:
        self._add(key, _U32, struct.pack("<I", value))

    def flag(self, key: str, value: bool | None) -> None:
        if value is not None:
            self._add(key, _BOOL, struct.pack("<B", value))

    def single(self, key: str, value: float | None) -> None:
        if value is None:
            return
        number = _real(value, "alpha")
        try:
            data = struct.pack("<f", number)
        except OverflowError:
            data = struct.pack("<f", math.inf)
        (stored,) = struct.unpack("<f", data)
        # A strength that rounds to 0 would turn steering off.
        if not math.isfinite(stored) or (stored == 0) != (number == 0):
            raise ValueError(f"alpha must be a finite float32, not {value!r:.60}")
        self._add(key, _F32, data)


def _string(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"texts must be Unicode, which {text!a} is not") from None
    return struct.pack("<Q", len(data)) + data


# ---- Files ---------------------------------------------------------------------------------------


def _assemble(keys: _Keys, payloads: Payloads) -> bytes:
    entries, data = bytearray(), bytearray()
    for (layer, j), payload in payloads.items():
        name = f"direction.{layer}" if j == 0 else f"direction.{layer}.{j}"
        entries += _string(name) + struct.pack("<IQIQ", 1, len(payload) // 4, 0, len(data))
        # The last one too: llama.cpp rejects a file that ends without its padding.
        data += payload + _padding(len(payload))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(payloads), keys.count) + keys.data + entries
    return bytes(head + _padding(len(head)) + data)


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGNMENT)


def _exists(target: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "File exists; pass force (--force) to replace it", target)


def _check_target(target: str, force: bool) -> None:
    """Whether the file can be written at all, before any work; pipes and devices never are."""
    if not target:
        raise ValueError("the path is empty: name the file to write")
    folder = os.path.dirname(target) or os.curdir
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "No such folder; create it first", folder)
    try:
        mode = os.lstat(target).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory; name a file in it", target)
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise OSError(errno.EINVAL, "Not a regular file; name another", target)
    if not force:
        raise _exists(target)


def _write(target: str, data: bytes, payloads: Payloads, force: bool) -> tuple[Finding, ...]:
    folder = os.path.dirname(target) or os.curdir
    temporary = os.path.join(folder, f".glpcore-{os.urandom(8).hex()}.tmp")
    try:
        _write_through(temporary, data)
        findings = _read_back(temporary, target, data, payloads)
        _publish(temporary, target, force)
    except OSError as error:
        if error.filename not in (None, temporary):
            raise
        # The name that the caller knows.
        raise OSError(error.errno, error.strerror, target) from None
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    _sync_folder(folder)
    return findings


def _write_through(path: str, data: bytes) -> None:
    # With the mode that any new file gets: the system applies the umask.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, 0o666), "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _read_back(path: str, target: str, data: bytes, payloads: Payloads) -> tuple[Finding, ...]:
    """The file's warnings under its own name, once every byte and direction is what was meant."""
    with open(path, "rb") as stream:
        written = stream.read()
    # What a name says of the strength is judged too, and that of the temporary file says nothing.
    with open_buffer(written, target, 0, 0, len(data)) as file:
        findings = file.findings
        found = {(d.layer, d.j): d.offset for d in file.directions}
        if file.verdict != "applicable":
            raise RefusedError(summary(findings), findings)
    if written != data or list(found) != list(payloads):
        raise OSError(errno.EIO, "What was read back is not what was written", path)
    for place, payload in payloads.items():
        if written[found[place] : found[place] + len(payload)] != payload:
            raise OSError(errno.EIO, "A direction was not read back as it was written", path)
    return tuple(findings)


def _publish(temporary: str, target: str, force: bool) -> None:
    """Gives the file its name in one step; without `force`, only a name that nothing has."""
    if force:
        os.replace(temporary, target)
        return
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise _exists(target) from None
    except (OSError, NotImplementedError):
        _claim(temporary, target)


def _claim(temporary: str, target: str) -> None:
    """For file systems without hard links: takes the name first, then replaces what took it."""
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        raise _exists(target) from None
    try:
        os.replace(temporary, target)
    except BaseException:
        os.unlink(target)
        raise


def _sync_folder(folder: str) -> None:
    """Makes the new name last, where the system can: the file is there already."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
