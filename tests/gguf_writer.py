"""A GGUF v3 writer that can break any single piece, and files of the GLP family made with it.

Written from the format alone, with `struct`; it shares no code with the library it tests. A `Spec`
is a file taken apart: copy it, alter what the test is about, and `build()` it. `sound()` gives a
specification of a valid GLP file, whose alterations are each one fault away from it.

The end of this module asks glpcore's command line about such files.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import io
import json
import re
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# ---- Values --------------------------------------------------------------------------------------

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
INTEGERS = (U8, I8, U16, I16, U32, I32, U64, I64)
SCALARS = {
    U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B",
    U64: "<Q", I64: "<q", F64: "<d",
}  # fmt: skip
TYPE_NAMES = {
    U8: "u8", I8: "i8", U16: "u16", I16: "i16", U32: "u32", I32: "i32", F32: "f32", BOOL: "bool",
    STRING: "string", ARRAY: "array", U64: "u64", I64: "i64", F64: "f64",
}  # fmt: skip

GGML_F32, GGML_F16 = 0, 1
NO_SUCH_GGML_TYPE = 4000


class Value(NamedTuple):
    """A metadata value as the file holds it: its type number and the bytes that follow."""

    type: int
    data: bytes


def scalar(type: int, x: float) -> Value:
    return Value(type, struct.pack(SCALARS[type], x))


def string(text: str | bytes, size: int | None = None) -> Value:
    """A text; `size` is the length to claim where it is not the true one."""
    data = text.encode() if isinstance(text, str) else text
    return Value(STRING, struct.pack("<Q", len(data) if size is None else size) + data)


def array(type: int, items: Iterable[Any] = (), count: int | None = None) -> Value:
    """An array of numbers, texts, or (type ARRAY) of arrays; `count` may lie."""
    parts = []
    for item in items:
        if isinstance(item, Value):
            parts.append(item.data)
        elif type == STRING:
            parts.append(string(item).data)
        else:
            parts.append(scalar(type, item).data)
    n = len(parts) if count is None else count
    return Value(ARRAY, struct.pack("<IQ", type, n) + b"".join(parts))


def nested(depth: int, innermost: Value | None = None) -> Value:
    """`depth` arrays, each the only element of the one around it."""
    value = innermost or array(U8, [7])
    for _ in range(depth - 1):
        value = array(ARRAY, [value])
    return value


def to_value(x: Any) -> Value:
    """The value a plain writer would choose for a Python object."""
    if isinstance(x, Value):
        return x
    if isinstance(x, bool):
        return scalar(BOOL, x)
    if isinstance(x, int):
        return scalar(U32, x)
    if isinstance(x, float):
        return scalar(F32, x)
    return string(x)


# ---- Files ---------------------------------------------------------------------------------------


@dataclasses.dataclass
class Key:
    name: bytes
    value: Value
    size: int | None = None  # the length to claim


@dataclasses.dataclass
class Tensor:
    name: bytes
    dims: tuple[int, ...]
    data: bytes
    type: int = GGML_F32
    offset: int | None = None  # from the start of the data; by default the next aligned place
    n_dims: int | None = None
    size: int | None = None  # the name's length to claim


class Place(NamedTuple):
    """Where in the file a key-value lies."""

    entry: int
    type: int
    value: int
    end: int


class Image(bytes):
    """The bytes of a file, with the places of its parts."""

    keys: dict[bytes, Place]
    entries: dict[bytes, int]  # of a tensor's entry in the header
    shapes: dict[bytes, int]  # of its number of dimensions
    data: dict[bytes, int]  # of its data
    tensors_at: int
    header_end: int
    data_start: int
    data_end: int  # of the last tensor, unpadded

    def cut(self, size: int) -> Image:
        shorter = Image(self[:size])
        shorter.__dict__.update(self.__dict__)
        return shorter


def _name(name: str | bytes) -> bytes:
    return name.encode() if isinstance(name, str) else name


@dataclasses.dataclass
class Spec:
    """A GGUF file taken apart. Every field that is derived can be claimed to be otherwise."""

    keys: list[Key] = dataclasses.field(default_factory=list)
    tensors: list[Tensor] = dataclasses.field(default_factory=list)
    magic: bytes = b"GGUF"
    version: int = 3
    n_tensors: int | None = None
    n_keys: int | None = None
    alignment: int = 32
    pad_last: bool = True
    trailing: bytes = b""

    def copy(self) -> Spec:
        return copy.deepcopy(self)

    def key(self, name: str | bytes) -> Key:
        return next(k for k in self.keys if k.name == _name(name))

    def set(self, name: str | bytes, value: Any) -> Spec:
        """Gives a key another value in its place, or appends it."""
        for key in self.keys:
            if key.name == _name(name):
                key.value = to_value(value)
                return self
        return self.append(name, value)

    def append(self, name: str | bytes, value: Any, size: int | None = None) -> Spec:
        """Appends a key, there already or not."""
        self.keys.append(Key(_name(name), to_value(value), size))
        return self

    def drop(self, *names: str | bytes) -> Spec:
        gone = {_name(name) for name in names}
        self.keys = [key for key in self.keys if key.name not in gone]
        return self

    def tensor(self, name: str | bytes) -> Tensor:
        return next(t for t in self.tensors if t.name == _name(name))

    def add_tensor(
        self,
        name: str | bytes,
        values: Sequence[float] | bytes = (),
        dims: tuple[int, ...] | None = None,
        type: int = GGML_F32,
        **claims: Any,
    ) -> Spec:
        data = values if isinstance(values, bytes) else floats(values)
        shape = (len(data) // 4,) if dims is None else dims
        self.tensors.append(Tensor(_name(name), shape, data, type, **claims))
        return self

    def directions(self) -> dict[tuple[int, int], bytes]:
        """The payloads of the well-named directions by (layer, j)."""
        found = {}
        for tensor in self.tensors:
            match = re.fullmatch(rb"direction\.([1-9][0-9]*|0)(?:\.([1-9][0-9]*))?", tensor.name)
            if match and int(match[1]) <= 1_000_000 and int(match[2] or 0) < 1 << 32:
                found[int(match[1]), int(match[2] or 0)] = tensor.data
        return found

    def rehash(self) -> Spec:
        """Makes the content hash true again after directions were altered."""
        return self.set("glp.content_sha256", content_hash(self.directions()))

    def build(self) -> Image:
        out = bytearray(self.magic)
        places: dict[bytes, Place] = {}
        entries: dict[bytes, int] = {}
        shapes: dict[bytes, int] = {}
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        n_keys = len(self.keys) if self.n_keys is None else self.n_keys
        out += struct.pack("<IQQ", self.version, n_tensors, n_keys)
        for key in self.keys:
            entry = len(out)
            out += struct.pack("<Q", len(key.name) if key.size is None else key.size) + key.name
            kind = len(out)
            out += struct.pack("<I", key.value.type)
            value = len(out)
            out += key.value.data
            places[key.name] = Place(entry, kind, value, len(out))
        tensors_at = len(out)
        offset = 0
        offsets = []
        for tensor in self.tensors:
            at = offset if tensor.offset is None else tensor.offset
            offsets.append(at)
            if tensor.offset is None:
                offset += -(-len(tensor.data) // self.alignment) * self.alignment
            entries[tensor.name] = len(out)
            claimed = len(tensor.name) if tensor.size is None else tensor.size
            out += struct.pack("<Q", claimed) + tensor.name
            shapes[tensor.name] = len(out)
            n_dims = len(tensor.dims) if tensor.n_dims is None else tensor.n_dims
            out += struct.pack(f"<I{len(tensor.dims)}Q", n_dims, *tensor.dims)
            out += struct.pack("<IQ", tensor.type, at)
        header_end = len(out)
        end = header_end
        if self.tensors:
            out += bytes(-len(out) % self.alignment)
        start = len(out)
        for tensor, at in zip(self.tensors, offsets, strict=True):
            if tensor.offset is not None:
                continue  # what was placed by hand lies where the test wants it, or nowhere
            out += bytes(start + at - len(out))
            out += tensor.data
            end = len(out)
        if self.tensors and self.pad_last:
            out += bytes(-len(out) % self.alignment)
        out += self.trailing
        image = Image(out)
        image.keys, image.entries, image.shapes = places, entries, shapes
        image.data = {t.name: start + at for t, at in zip(self.tensors, offsets, strict=True)}
        image.tensors_at, image.header_end = tensors_at, header_end
        image.data_start, image.data_end = start, end
        return image


# ---- The GLP family ------------------------------------------------------------------------------

RESIDUAL = "residual_stream_post_layer"
FFN = "ffn_out_pre_residual"
ATTENTION = "attn_out_pre_residual"
REVISION = "0123456789abcdef0123456789abcdef01234567"


def floats(values: Iterable[float]) -> bytes:
    values = list(values)
    return struct.pack(f"<{len(values)}f", *values)


def unit(n_embd: int, layer: int, j: int = 0) -> list[float]:
    """Row j of a reflection that depends on the layer: orthonormal over j, different by layer."""
    normal = [1.0 + ((7 * layer + 3 * i) % 11) for i in range(n_embd)]
    square = sum(x * x for x in normal)
    return [(i == j) - 2 * normal[i] * normal[j] / square for i in range(n_embd)]


def direction_name(layer: int, j: int = 0) -> bytes:
    return b"direction.%d" % layer if j == 0 else b"direction.%d.%d" % (layer, j)


def content_hash(payloads: Mapping[tuple[int, int], bytes]) -> str:
    digest = hashlib.sha256()
    for place in sorted(payloads):
        digest.update(payloads[place])
    return digest.hexdigest()


def sound(
    *,
    n_embd: int = 8,
    layers: Sequence[int] = (1, 2, 3),
    rank: int = 1,
    mode: str | bytes = "project",
    hook: str | bytes | None = FFN,
    alpha: Any = 4.0,
    directions: Mapping[tuple[int, int], Sequence[float] | bytes] | None = None,
    keys: Mapping[str, Any] | None = None,
) -> Spec:
    """A file that glpcore accepts without a warning, unless the arguments say otherwise.

    `directions` replaces payloads by (layer, j), and is hashed. `keys` sets metadata last; None
    drops a key.
    """
    version = 1 if rank == 1 else 2
    spec = Spec()
    spec.set("general.architecture", "controlvector")
    spec.set("general.name", "Verbosity")
    spec.set("general.base_model.count", 1)
    spec.set("general.base_model.0.name", "Tiny 1B")
    spec.set("general.base_model.0.organization", "Example")
    spec.set("general.base_model.0.version", REVISION)
    spec.set("general.base_model.0.repo_url", "https://example.org/tiny-1b")
    spec.set("controlvector.layer_count", len(layers))
    spec.set("glp.mode", mode)
    spec.set("glp.spec_version", version)
    if hook is not None:
        spec.set("glp.hook_point", hook)
    spec.set("glp.alpha_default", alpha)
    spec.set("glp.rank", rank)
    spec.set("glp.orthonormal", True)
    spec.set("glp.layer_ids_zero_based", ",".join(map(str, layers)))
    spec.set("glp.method", "difference-of-means")
    spec.set("glp.contrast", "succinct-vs-verbose")
    spec.set("glp.created", "2026-01-01")
    for layer in layers:
        for j in range(rank):
            values: Sequence[float] | bytes = unit(n_embd, layer, j)
            if directions is not None and (layer, j) in directions:
                values = directions[layer, j]
            spec.add_tensor(direction_name(layer, j), values)
    spec.rehash()
    for name, value in (keys or {}).items():
        if value is None:
            spec.drop(name)
        else:
            spec.set(name, value)
    return spec


def rank_two(**changes: Any) -> Spec:
    return sound(rank=2, **changes)


def additive(**changes: Any) -> Spec:
    """A declared additive file: its strength lies in the data."""
    layers = changes.get("layers", (1, 2, 3))
    n_embd = changes.get("n_embd", 8)
    payloads = {(n, 0): [3.0 * x for x in unit(n_embd, n)] for n in layers}
    payloads.update(changes.pop("directions", {}))
    return sound(mode="add", hook=changes.pop("hook", RESIDUAL), directions=payloads, **changes)


def steps(**changes: Any) -> Spec:
    """A file for a looped model: direction.N is step N - 1."""
    keys = {"glp.structure": "per-execution-step", **changes.pop("keys", {})}
    return sound(keys=keys, **changes)


def control_vector(n_embd: int = 8, layers: Sequence[int] = (1, 2, 3)) -> Spec:
    """What writers of control vectors wrote before there was a glp.* key."""
    spec = Spec()
    spec.set("general.architecture", "controlvector")
    spec.set("controlvector.model_hint", "llama")
    spec.set("controlvector.layer_count", len(layers))
    for layer in layers:
        spec.add_tensor(direction_name(layer), [2.5 * x for x in unit(n_embd, layer)])
    return spec


def raw(rows: Sequence[Sequence[float]]) -> bytes:
    """A headerless .f32: row = layer, layer 0 included."""
    return b"".join(floats(row) for row in rows)


# ---- Asking glpcore ------------------------------------------------------------------------------

# What `sound()` is for.
TARGET = ("--hook", FFN, "--n-embd", "8", "--n-layers", "4")


class Answer(NamedTuple):
    status: int
    out: str
    err: str


def run_cli(*argv: Any, stdin: bytes = b"") -> Answer:
    """Runs `python -m glpcore ARGV` in this process."""
    from glpcore import _cli

    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
            try:
                status = _cli.main([str(a) for a in argv])
            except SystemExit as stop:
                status = stop.code if isinstance(stop.code, int) else 64
    finally:
        sys.stdin = before
    texts = []
    for stream in streams:
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Answer(status or 0, *texts)


class Verdict(NamedTuple):
    """What `info --json` or `check --json` says of one file."""

    status: int
    verdict: str
    findings: list[dict[str, Any]]
    info: dict[str, Any]

    def of(self, code: str) -> list[dict[str, Any]]:
        return [f for f in self.findings if f["code"] == code]

    def one(self, code: str) -> dict[str, Any]:
        found = self.of(code)
        assert found, f"no {code} among {[f['code'] for f in self.findings]}"
        return found[0]

    def codes(self) -> set[str]:
        return {f["code"] for f in self.findings}


def judge_path(command: str, path: Path, *flags: Any) -> Verdict:
    answer = run_cli(command, path, *flags, "--json")
    said = json.loads(answer.out)
    verdicts = {0: "applicable", 1: "refused", 2: "unreadable"}
    assert said["verdict"] == verdicts[answer.status], answer
    severities = {f["severity"] for f in said["findings"]}
    assert severities <= {"warning", "refusal", "format"}
    # The status is a function of the findings, and of nothing else.
    worst = 2 if "format" in severities else 1 if "refusal" in severities else 0
    assert answer.status == worst, said["findings"]
    return Verdict(answer.status, said["verdict"], said["findings"], said.get("info") or {})


class Judge:
    """Writes a file and asks about it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, file: Spec | bytes, name: str = "vector.gguf") -> Path:
        path = self.folder / name
        path.write_bytes(file.build() if isinstance(file, Spec) else file)
        return path

    def check(self, file: Spec | bytes, *flags: Any, name: str = "vector.gguf") -> Verdict:
        return judge_path("check", self.write(file, name), *flags)

    def info(self, file: Spec | bytes, *flags: Any, name: str = "vector.gguf") -> Verdict:
        return judge_path("info", self.write(file, name), *flags)


# A remedy is the first sentence. Cut to 63 bytes it must still begin with one of these verbs and
# name the thing to change, which is what the pattern of its code looks for.
IMPERATIVES = {
    "Add", "Apply", "Ask", "Check", "Choose", "Convert", "Correct", "Declare", "Derive", "Do",
    "Download", "Drop", "Export", "Fix", "Free", "Give", "Keep", "Leave", "List", "Load",
    "Make", "Match", "Name", "Open", "Orthonormalise", "Pack", "Pass", "Pick", "Re-export",
    "Re-tune", "Read", "Rebuild", "Remove", "Rename", "Renormalise", "Repeat", "Request",
    "Save", "See", "Set", "Split", "State", "Steer", "Take", "Treat", "Trust", "Try", "Update",
    "Upgrade", "Use", "Verify", "Write",
}  # fmt: skip

REMEDY: dict[str, str] = {
    "io": r"file|path|permission",
    "not-gguf": r"GGUF|\.f32",
    "gguf-version": r"version|v3|GGUF",
    "truncated": r"again|cut",
    "count": r"again|damaged",
    "string": r"again|text|key",
    "value-type": r"GGUF|value|type",
    "duplicate-key": r"key|once",
    "duplicate-tensor": r"tensor|once",
    "alignment": r"alignment",
    "tensor-name": r"name",
    "tensor-shape": r"shape|dimension",
    "tensor-offset": r"offset|again",
    "too-big": r"limit|max_bytes|vector",
    "padding": r"pad",
    "trailing": r"file|bytes|from",
    "key-type": r"glp\.|type|key",
    "legacy-namespace": r"glp\.|dspark|again|export",
    "mode-missing": r"mode",
    "mode-mismatch": r"mode|add|project",
    "mode-unknown": r"mode|glpcore|version",
    "version-missing": r"version",
    "version-unknown": r"version|glpcore",
    "version-gate": r"version",
    "hook-missing": r"hook",
    "hook-unknown": r"hook",
    "hook-mismatch": r"hook|_pre_residual|post_layer",
    "transferred": r"alpha|strength|site|hook|derived",
    "structure": r"structure|step",
    "tensor-unexpected": r"tensor|direction|vector",
    "direction-name": r"name|direction\.",
    "direction-zero": r"direction\.0|layer",
    "direction-type": r"F32|float32",
    "direction-shape": r"1-D|n_embd|shape|width",
    "direction-empty": r"direction|vector",
    "direction-nonfinite": r"finite|NaN|again|derive",
    "direction-norm": r"norm|unit|zero|renormalise",
    "rank": r"rank|direction",
    "orthonormal": r"orthonorm|basis",
    "layer-ids": r"layer_ids|layer",
    "alpha": r"alpha",
    "scales": r"scales",
    "content-hash": r"again|hash|sha256",
    "hash-unverified": r"hash|verify",
    "width-mismatch": r"\d|width|n_embd",
    "depth-mismatch": r"\d|layer",
    "base-mismatch": r"base|model|revision",
    "arch-mismatch": r"arch|model",
    "base-missing": r"base",
    "hash-missing": r"sha256|hash",
    "alpha-missing": r"alpha|strength",
    "alpha-name": r"alpha|name",
    "alpha-extreme": r"alpha|strength",
    "key-unknown": r"key|glp\.",
    "raw-shape": r"shape|n_embd|n_layers|GGUF",
    "raw-size": r"size|shape|n_embd|n_layers",
    "raw-nonfinite": r"finite|NaN|again|derive",
}


def assert_remedy(code: str, message: str) -> None:
    """The remedy of a finding survives a buffer of 64 bytes."""
    cut = message.encode()[:63].decode(errors="ignore")
    assert cut.split(maxsplit=1)[0] in IMPERATIVES, f"{code}: no imperative first: {cut!r}"
    assert re.search(REMEDY[code], cut, re.IGNORECASE), f"{code}: the remedy is cut: {cut!r}"
    assert "\n" not in message


def first_sentence(message: str) -> str:
    return re.split(r"(?<=[.!?]) ", message, maxsplit=1)[0]
