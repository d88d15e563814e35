"""The meaning: one test per row of the table of refusals and warnings, and per condition in a row.

Each case is a file and a target that differ in one thing from a pair that is accepted without a
finding. It says which code must come back, as what, and about which key or tensor.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import gguf_writer as gw
import pytest
from gguf_writer import (
    ATTENTION,
    FFN,
    RESIDUAL,
    TARGET,
    Judge,
    Spec,
    array,
    assert_remedy,
    first_sentence,
    judge_path,
    run_cli,
    scalar,
)

import glpcore

REFUSAL, WARNING = "refusal", "warning"

NAN = scalar(gw.F32, math.nan)
ADD = ("--mode", "add", "--hook", RESIDUAL, "--n-embd", "8", "--n-layers", "4")
STEPS = (*TARGET, "--structure", "per-execution-step")


class Case(NamedTuple):
    code: str
    condition: str
    make: Callable[[], Spec]
    flags: tuple[Any, ...] = TARGET
    severity: str = REFUSAL
    info: int | None = None  # exit status of `info`, where it follows from the contract
    key: str | None = None
    tensor: str | None = None
    words: tuple[str, ...] = ()  # must be in the message
    also: frozenset[str] = frozenset()  # other codes that rightly come with it
    sound: Callable[[], Spec] | None = gw.sound  # a file of the family, accepted for `flags`
    sound_flags: tuple[Any, ...] | None = None  # or accepted for these


def keys(**changes: Any) -> Callable[[], Spec]:
    """A sound file with other glp.* values, named without the prefix."""
    return lambda: gw.sound(keys={f"glp.{name}": value for name, value in changes.items()})


def keys2(**changes: Any) -> Callable[[], Spec]:
    """The same for rank 2."""
    return lambda: gw.rank_two(keys={f"glp.{name}": value for name, value in changes.items()})


def version2(**changes: Any) -> Callable[[], Spec]:
    """The same for rank 1 under version 2, which allows scales."""
    return keys(spec_version=2, **changes)


def base_keys(**changes: Any) -> Callable[[], Spec]:
    return lambda: gw.sound(keys={f"general.base_model.0.{k}": v for k, v in changes.items()})


def tensors(change: Callable[[Spec], Any], rank: int = 1) -> Callable[[], Spec]:
    def make() -> Spec:
        spec = gw.sound(rank=rank)
        change(spec)
        return spec.rehash()

    return make


def payload(values: Any, layer: int = 2, **changes: Any) -> Callable[[], Spec]:
    return lambda: gw.sound(directions={(layer, 0): values}, **changes)


def scaled(factor: float, layer: int = 2) -> Callable[[], Spec]:
    return payload([factor * x for x in gw.unit(8, layer)], layer)


def extra(name: str | bytes, rank: int = 1) -> Callable[[], Spec]:
    return tensors(lambda spec: spec.add_tensor(name, gw.unit(8, 3, rank)), rank)


def several(*names: str) -> frozenset[str]:
    return frozenset(names)


# ---- key-type ------------------------------------------------------------------------------------

TEXT_KEYS = [
    "mode",
    "hook_point",
    "derived_at",
    "dir_scales",
    "layer_scales",
    "layer_ids_zero_based",
    "content_sha256",
    "created",
    "method",
    "contrast",
    "structure",
    "generator",
    "base_model",
    "base_revision",
    "validation",
]
OTHER_TYPES: dict[str, dict[str, Any]] = {
    **{
        name: {"u32": 1, "bool": False, "array of texts": array(gw.STRING, ["project"])}
        for name in TEXT_KEYS
    },
    "spec_version": {"f32": 1.0, "text": "1", "bool": True, "array": array(gw.U32, [1])},
    "rank": {"f64": scalar(gw.F64, 1), "text": "1", "bool": True},
    "alpha_default": {"u32": 4, "i8": scalar(gw.I8, 4), "text": "4.0", "array": array(gw.F32, [4])},
    "orthonormal": {
        "u8": scalar(gw.U8, 1),
        "text": "true",
        "byte 2": gw.Value(gw.BOOL, b"\x02"),
        "byte 255": gw.Value(gw.BOOL, b"\xff"),
    },
}
# What a wrong type must not be reported as too: the key is there.
ABSENT = {
    "mode": "mode-missing",
    "hook_point": "hook-missing",
    "spec_version": "version-missing",
    "alpha_default": "alpha-missing",
    "content_sha256": "hash-missing",
}

KEY_TYPE = [
    Case(
        "key-type", f"{name} as {how}", keys(**{name: value}), key=f"glp.{name}",
        words=(f"glp.{name}",), also=several("*"), info=1,
    )
    for name, wrong in OTHER_TYPES.items()
    for how, value in wrong.items()
]  # fmt: skip

# ---- mode, version, hook, structure --------------------------------------------------------------


def legacy() -> Spec:
    spec = gw.control_vector()
    return spec.set("dspark.mode", "project").set("dspark.alpha_default", 4.0)


def per_layer() -> Spec:
    return gw.sound(keys={"glp.structure": "per-layer"})


def free_text() -> Spec:
    return gw.sound(keys={"glp.structure": "looped, see the card"})


MODE = [
    Case("legacy-namespace", "dspark.* and no glp.mode", legacy, also=several("*"), info=1),
    Case(
        "legacy-namespace", "for adding too", legacy, ADD, also=several("*"), info=1,
        sound=gw.additive,
    ),
    Case(
        "mode-missing", "a control vector where projection is asked", gw.control_vector,
        also=several("hook-mismatch", "hook-missing"), info=0, words=("add",),
    ),
    Case(
        "mode-missing", "glp.* keys without a mode", keys(mode=None),
        also=several("direction-norm", "*"), info=0,
    ),
    Case("mode-mismatch", "add where projection is asked", gw.additive,
         ("--n-embd", "8"), info=0),
    Case("mode-mismatch", "add where projection is asked by name", gw.additive,
         ("--mode", "project"), info=0),
    Case("mode-mismatch", "project where adding is asked", gw.sound, ("--mode", "add"), info=0,
         sound=gw.additive),
    *(
        Case("mode-unknown", repr(text), lambda t=text: gw.sound(mode=t), flags, info=1,
             sound=sound)
        for text in (
            b"ablate", b"Project", b"PROJECT", b"project ", b" project", b"project\0", b"",
            b"projection", b"proj", b"project\0add", b"add\0", b"\xff", b"pro\0ject",
        )
        for flags, sound in ((TARGET, gw.sound), (("--mode", "add"), gw.additive))
    ),
    Case("version-missing", "absent", keys(spec_version=None), severity=WARNING, info=0),
    *(
        Case("version-unknown", str(value), keys(spec_version=value), info=1, words=("1", "2"))
        for value in (0, 3, 4_294_967_295)
    ),
    Case("version-unknown", "2^32 + 1 is not 1", keys(spec_version=scalar(gw.U64, (1 << 32) + 1)),
         info=1),
    Case("version-unknown", "2^63 + 1 is not 1", keys(spec_version=scalar(gw.U64, (1 << 63) + 1)),
         info=1),
    Case("version-gate", "rank 2 under version 1", keys2(spec_version=1), info=1,
         sound=gw.rank_two),
    Case("version-gate", "rank 2 under no version", keys2(spec_version=None), info=1,
         also=several("version-missing"), sound=gw.rank_two),
    Case("version-gate", "glp.rank 2 alone", keys(rank=2), info=1, also=several("rank", "*"),
         sound=gw.sound),
    Case("version-gate", "dir_scales", keys(dir_scales="0.5"), info=1,
         sound=version2(dir_scales="0.5")),
    Case("version-gate", "layer_scales", keys(layer_scales="1:0.5"), info=1,
         sound=version2(layer_scales="1:0.5")),
    Case("version-gate", "a direction.N.j tensor", extra("direction.3.1"), info=1,
         also=several("rank", "orthonormal")),
]  # fmt: skip

HOOK = [
    Case("hook-missing", "no hook stated", lambda: gw.sound(hook=None), (), info=1),
    Case("hook-missing", "a hook stated", lambda: gw.sound(hook=None), info=1),
    *(
        Case("hook-unknown", repr(text), lambda t=text: gw.sound(hook=t), flags, info=1)
        for text in (
            b"resid_post", b"FFN_OUT_PRE_RESIDUAL", b"ffn_out_pre_residual\0", b"",
            b"ffn_out_pre_residual ", b"ffn_out", b"ffn_out_pre_residua",
        )
        for flags in ((), TARGET)
    ),
    *(
        Case("hook-mismatch", f"{theirs} for {ours}", lambda t=theirs: gw.sound(hook=t),
             ("--hook", ours), info=0, words=(theirs, ours),
             sound=lambda o=ours: gw.sound(hook=o))
        for theirs in (RESIDUAL, FFN, ATTENTION)
        for ours in (RESIDUAL, FFN, ATTENTION)
        if theirs != ours
    ),
    Case("hook-mismatch", "additive without a hook is at the residual stream", gw.control_vector,
         ("--mode", "add", "--hook", FFN), info=0, words=(RESIDUAL, FFN),
         sound=lambda: gw.additive(hook=FFN)),
    Case("transferred", "derived elsewhere", keys(derived_at=RESIDUAL), severity=WARNING, info=0,
         words=(RESIDUAL, FFN), sound=keys(derived_at=FFN)),
    Case("transferred", "an additive file without a hook is at the residual stream",
         lambda: gw.additive(hook=None, keys={"glp.derived_at": FFN}), ("--mode", "add"),
         severity=WARNING, info=0, words=(RESIDUAL, FFN),
         sound=lambda: gw.additive(hook=None, keys={"glp.derived_at": RESIDUAL})),
    Case("transferred", "derived at a site of another name", keys(derived_at="resid_post"),
         severity=WARNING, info=0, words=("resid_post",)),
]  # fmt: skip

STRUCTURE = [
    Case("structure", "steps, not asked", gw.steps, info=0, key="glp.structure",
         words=("per-execution-step",), sound_flags=TARGET),
    Case("structure", "steps, per layer asked", gw.steps, (*TARGET, "--structure", "per-layer"),
         info=0, sound=per_layer),
    Case("structure", "silent, steps asked", gw.sound, STEPS, info=0, sound=gw.steps),
    Case("structure", "per layer, steps asked", per_layer, STEPS, info=0, sound=gw.steps),
    Case("structure", "other text, steps asked", free_text, STEPS, info=0, sound=gw.steps),
    Case("structure", "other text, not asked", free_text, severity=WARNING, info=0,
         words=("looped, see the card",), sound=per_layer),
    *(
        Case("structure", f"{text!r} is other text", keys(structure=text), severity=WARNING,
             info=0)
        for text in (b"per-execution-step\0", b"Per-Execution-Step", b"per_layer", b"")
    ),
]  # fmt: skip

# ---- directions ----------------------------------------------------------------------------------


def foreign(name: str, type: int, size: int = 16) -> Callable[[], Spec]:
    return tensors(lambda spec: spec.add_tensor(name, bytes(size), (8,), type))


def reshaped(dims: tuple[int, ...]) -> Callable[[], Spec]:
    return tensors(lambda spec: setattr(spec.tensor("direction.2"), "dims", dims))


def typed(type: int, size: int) -> Callable[[], Spec]:
    def change(spec: Spec) -> None:
        tensor = spec.tensor("direction.2")
        tensor.type, tensor.data = type, bytes(size)

    return tensors(change)


def without_directions() -> Spec:
    spec = gw.sound(keys={"glp.layer_ids_zero_based": None, "glp.content_sha256": None})
    spec.tensors.clear()
    return spec


def foreign_only() -> Spec:
    return without_directions().add_tensor("token_embd.weight", gw.unit(8, 1))


BAD_NAMES = [
    b"direction.", b"direction.+4", b"direction.-4", b"direction. 4", b"direction.4 ",
    b"direction.04", b"direction.00", b"direction.4x", b"direction.0x4", b"direction.4e0",
    b"direction.1000001", b"direction.4294967297", b"direction.18446744073709551617",
    "direction.\u0664".encode(), "direction.\uff14".encode(), b"direction.4.", b"direction.4.0",
    b"direction.4.01", b"direction.4.-1", b"direction.4.+1", b"direction.4.1.1", b"direction..1",
    b"direction.4.x", b"direction.4.4294967297",
]  # fmt: skip

ELEMENTS = {
    "NaN": 0x7FC00000,
    "a signalling NaN": 0x7F800001,
    "a negative NaN": 0xFFC00000,
    "Inf": 0x7F800000,
    "-Inf": 0xFF800000,
}


def with_bits(bits: int, element: int = 5) -> bytes:
    data = bytearray(gw.floats(gw.unit(8, 2)))
    struct.pack_into("<I", data, 4 * element, bits)
    return bytes(data)


DIRECTIONS = [
    Case("tensor-unexpected", "a weight", foreign("blk.0.attn_q.weight", 1), info=1,
         tensor="blk.0.attn_q.weight"),
    Case("tensor-unexpected", "an unknown type", foreign("x", gw.NO_SUCH_GGML_TYPE), info=1,
         tensor="x"),
    *(
        Case("tensor-unexpected", name, extra(name), info=1, tensor=name)
        for name in ("direction", "directions.4", "Direction.4", "xdirection.4", " direction.4",
                     "direction_4")
    ),
    Case("tensor-unexpected", "for adding too",
         lambda: gw.additive().add_tensor("x", bytes(32)), ADD, info=1, tensor="x",
         sound=gw.additive),
    *(
        Case("direction-name", name.decode(), extra(name), info=1, tensor=name.decode(),
             also=several("rank", "version-gate", "layer-ids", "orthonormal"))
        for name in BAD_NAMES
    ),
    Case("direction-zero", "direction.0", lambda: gw.sound(layers=(0, 1, 2)), info=1,
         tensor="direction.0"),
    Case("direction-zero", "for adding too", lambda: gw.additive(layers=(0, 1)), ADD, info=1,
         tensor="direction.0", sound=gw.additive),
    Case("direction-type", "F16", typed(1, 16), info=1, tensor="direction.2", also=several("*")),
    Case("direction-type", "I32", typed(26, 32), info=1, tensor="direction.2", also=several("*")),
    Case("direction-type", "F64", typed(28, 64), info=1, tensor="direction.2", also=several("*")),
    Case("direction-type", "a type without a size", typed(gw.NO_SUCH_GGML_TYPE, 32), info=1,
         tensor="direction.2", also=several("*")),
    Case("direction-shape", "8 x 1", reshaped((8, 1)), info=1, tensor="direction.2",
         also=several("*")),
    Case("direction-shape", "4 x 2", reshaped((4, 2)), info=1, tensor="direction.2",
         also=several("*")),
    Case("direction-shape", "1 x 1 x 1 x 8", reshaped((1, 1, 1, 8)), info=1,
         tensor="direction.2", also=several("*")),
    Case("direction-shape", "no element", reshaped((0,)), info=1, tensor="direction.2",
         also=several("*")),
    Case("direction-shape", "widths differ",
         tensors(lambda s: s.tensors.__setitem__(
             1, gw.Tensor(b"direction.2", (12,), gw.floats(gw.unit(12, 2))))),
         info=1, tensor="direction.2", words=("8", "12"), also=several("*")),
    Case("direction-empty", "no tensor", without_directions, info=1, also=several("*")),
    Case("direction-empty", "none that is a direction", foreign_only, info=1,
         also=several("tensor-unexpected", "*")),
    *(
        Case("direction-nonfinite", how, payload(with_bits(bits)), info=1, tensor="direction.2",
             also=several("direction-norm"))
        for how, bits in ELEMENTS.items()
    ),
    *(
        Case("direction-nonfinite", f"{how} for adding",
             lambda b=bits: gw.additive(directions={(2, 0): with_bits(b)}), ADD, info=1,
             tensor="direction.2", sound=gw.additive)
        for how, bits in ELEMENTS.items()
    ),
    Case("direction-norm", "zero", scaled(0), info=1, tensor="direction.2"),
    Case("direction-norm", "1e-13", scaled(1e-13), info=1, tensor="direction.2"),
    Case("direction-norm", "0.998", scaled(0.998), info=1, tensor="direction.2"),
    Case("direction-norm", "1.002", scaled(1.002), info=1, tensor="direction.2",
         words=("1.002",), sound=scaled(1.0009)),
    Case("direction-norm", "0.99895", scaled(0.99895), info=1, tensor="direction.2",
         sound=scaled(0.9991)),
    Case("direction-norm", "4, a strength folded in", scaled(4), info=1, tensor="direction.2"),
    Case("direction-norm", "beyond float32, still finite", payload([3e38] * 8), info=1,
         tensor="direction.2"),
    Case("direction-norm", "zero for adding",
         lambda: gw.additive(directions={(2, 0): [0.0] * 8}), ADD, WARNING, info=0,
         tensor="direction.2", sound=gw.additive),
]  # fmt: skip

# ---- rank, orthonormality ------------------------------------------------------------------------


def gap() -> Spec:
    """Indices 0 and 2 at every layer."""
    spec = gw.rank_two()
    for layer in (1, 2, 3):
        spec.tensor(gw.direction_name(layer, 1)).name = gw.direction_name(layer, 2)
    return spec.rehash()


def no_zeroth() -> Spec:
    """Index 1 without index 0 at one layer."""
    spec = gw.rank_two()
    spec.tensors = [t for t in spec.tensors if t.name != b"direction.2"]
    return spec.rehash()


def uneven() -> Spec:
    """Rank 2 at two layers and 1 at the third."""
    spec = gw.rank_two()
    spec.tensors = [t for t in spec.tensors if t.name != b"direction.3.1"]
    return spec.rehash()


def rotated(cosine: float) -> Callable[[], Spec]:
    """Unit vectors whose inner product is `cosine`."""
    a, b = gw.unit(8, 2, 0), gw.unit(8, 2, 1)
    sine = math.sqrt(1 - cosine * cosine)
    tilted = [cosine * x + sine * y for x, y in zip(a, b, strict=True)]
    return lambda: gw.rank_two(directions={(2, 1): tilted})


def identity_rows(k: int) -> Spec:
    rows = {(1, j): struct.pack("<I", 0x3F800000).rjust(4 * j + 4, b"\0") for j in range(k)}
    padded = {place: row.ljust(4 * k, b"\0") for place, row in rows.items()}
    return gw.sound(n_embd=k, layers=(1,), rank=k, directions=padded)


RANK = [
    Case("rank", "glp.rank 0", keys(rank=0), info=1, key="glp.rank", also=several("version-gate")),
    Case("rank", "0 under version 2", version2(rank=0), info=1, key="glp.rank",
         sound=version2(rank=1)),
    Case("rank", "a gap in the indices", gap, info=1, sound=gw.rank_two, also=several("*")),
    Case("rank", "no index 0", no_zeroth, info=1, sound=gw.rank_two, also=several("*")),
    Case("rank", "layers with different k", uneven, info=1, sound=gw.rank_two,
         also=several("orthonormal")),
    Case("rank", "declared 3, found 2", keys2(rank=3), info=1, words=("3", "2"), key="glp.rank",
         sound=keys2(rank=2)),
    Case("rank", "declared 1, found 2", keys2(rank=1), info=1, words=("1", "2"), key="glp.rank",
         sound=keys2(rank=None)),
    Case("rank", "declared 2, found 1", version2(rank=2), info=1, key="glp.rank",
         sound=version2(rank=None)),
    Case("rank", "2^32 + 1 is not 1", version2(rank=scalar(gw.U64, (1 << 32) + 1)), info=1,
         key="glp.rank"),
    *(
        Case("rank", f"-1 as {gw.TYPE_NAMES[t]}", version2(rank=scalar(t, -1)), info=1,
             key="glp.rank", words=("-1",))
        for t in (gw.I8, gw.I16, gw.I32, gw.I64)
    ),
    Case("rank", "2^64 - 1 is not -1", version2(rank=scalar(gw.U64, (1 << 64) - 1)), info=1,
         key="glp.rank"),
    Case("rank", "257", lambda: identity_rows(257), ("--hook", FFN), info=1, words=("256",),
         sound=lambda: identity_rows(256), also=several("orthonormal")),
    Case("orthonormal", "not declared", keys2(orthonormal=None), info=1, sound=gw.rank_two,
         words=("glp.orthonormal",)),
    Case("orthonormal", "declared false", keys2(orthonormal=False), info=1, sound=gw.rank_two,
         key="glp.orthonormal"),
    Case("orthonormal", "cosine 0.002", rotated(0.002), info=1, sound=rotated(0.0009),
         words=("2",)),
    Case("orthonormal", "cosine -0.002", rotated(-0.002), info=1, sound=rotated(-0.0009)),
    Case("orthonormal", "the same direction twice", rotated(1.0), info=1, sound=gw.rank_two),
    Case("orthonormal", "a norm whose square is off by more than 1e-3",
         lambda: gw.rank_two(directions={(2, 1): [1.0009 * x for x in gw.unit(8, 2, 1)]}),
         info=1, sound=lambda: gw.rank_two(
             directions={(2, 1): [1.0004 * x for x in gw.unit(8, 2, 1)]})),
    Case("orthonormal", "a non-zero direction of norm 3 among them",
         lambda: gw.rank_two(directions={(2, 1): [3 * x for x in gw.unit(8, 2, 1)]}),
         info=1, sound=gw.rank_two, also=several("direction-norm")),
]  # fmt: skip

# ---- texts of numbers ----------------------------------------------------------------------------

LAYER_IDS = [
    *(
        Case("layer-ids", f"malformed {text!r}", keys(layer_ids_zero_based=text), info=1,
             key="glp.layer_ids_zero_based")
        for text in (
            b"", b",", b"1,,2,3", b"1,2,3,", b",1,2,3", b"1, 2,3", b" 1,2,3", b"1,2,3 ",
            b"1;2;3", b"1-3", b"1..3", b"+1,2,3", b"-1,2,3", b"01,2,3", b"0x1,2,3", b"1_0,2,3",
            b"1,2,3\0", b"1.0,2,3", b"1e0,2,3", b"[1,2,3]", b"1 2 3", b"\xd9\xa1,2,3",
            b"1,2,3,4294967299", b"1,2,18446744073709551619", b"1,2,3\n",
        )
    ),
    *(
        Case("layer-ids", f"another set {text!r}", keys(layer_ids_zero_based=text), info=1,
             key="glp.layer_ids_zero_based", sound=keys(layer_ids_zero_based=b"3,1,2"))
        for text in (b"1,2", b"1,2,3,4", b"0,1,2", b"2,3,4", b"1,1,2,3", b"1,2,3,3", b"1,2,2",
                     b"0,1,2,3")
    ),
]  # fmt: skip

ALPHA = [
    *(
        Case("alpha", how, lambda v=value: gw.sound(alpha=v), info=1, key="glp.alpha_default")
        for how, value in {
            "NaN": NAN,
            "Inf": scalar(gw.F32, math.inf),
            "-Inf": scalar(gw.F32, -math.inf),
            "f64 NaN": scalar(gw.F64, math.nan),
            "f64 Inf": scalar(gw.F64, math.inf),
            "f64 1e39 overflows float32": scalar(gw.F64, 1e39),
            "f64 -1e300": scalar(gw.F64, -1e300),
            "f64 1e-60 rounds to 0": scalar(gw.F64, 1e-60),
        }.items()
    ),
    *(
        Case("alpha-extreme", f"{x:g}", lambda v=x: gw.sound(alpha=v), severity=WARNING, info=0,
             words=("glp.alpha_default",), sound=lambda v=x: gw.sound(alpha=math.copysign(32.0, v)))
        for x in (32.5, -33.0, 1e30)
    ),
    Case("alpha-missing", "absent", keys(alpha_default=None), severity=WARNING, info=0),
]  # fmt: skip

BAD_FLOATS = (
    b"inf", b"-inf", b"nan", b"NaN", b"infinity", b"1e999", b"-1e999", b"0x1", b"0x1p0", b"1_0",
    b" 1", b"1 ", b"1,5", b"", b"e5", b"1e", b"1e+", b"--1", b"+-1", b".", b"-", b"1.2.3", b"1f",
    b"1\0", b"\xef\xbc\x91", b"1e1.5", b"\xd9\xa1",
)  # fmt: skip

SCALES = [
    *(
        Case("scales", f"dir_scales {text!r} for k = 2", keys2(dir_scales=text), info=1,
             key="glp.dir_scales", sound=keys2(dir_scales=b"1,-0.5"))
        for text in (b"", b"1", b"1,1,1", b"1,", b",1", b"1,,1", b"1;1", b"1, 1", b"1,1\0")
    ),
    *(
        Case("scales", f"dir_scales 1,{text!r}", keys2(dir_scales=b"1," + text), info=1,
             key="glp.dir_scales", sound=keys2(dir_scales=b"1,1e0"))
        for text in BAD_FLOATS
    ),
    Case("scales", "dir_scales of two for k = 1", version2(dir_scales=b"1,1"), info=1,
         key="glp.dir_scales", sound=version2(dir_scales=b"0.25")),
    *(
        Case("scales", f"layer_scales {text!r}", version2(layer_scales=text), info=1,
             key="glp.layer_scales", sound=version2(layer_scales=b"3:2,1:-0.5"))
        for text in (
            b"", b",", b"1", b"1:", b":1", b"1:1:1", b"1=1", b"1:1,", b",1:1", b"1:1,,2:1",
            b"1:1 ,2:1", b"1:1, 2:1", b"1 :1", b"01:1", b"+1:1", b"-1:1", b"0x1:1", b"1.0:1",
            b"1:1\0", b"1;1", b"4294967297:1",
            b"1:1,1:1", b"1:0.5,2:1,1:0.5", b"4:1", b"0:1", b"1:1,7:1", b"1000000:1",
        )
    ),
    *(
        Case("scales", f"layer_scales 1:{text!r}", version2(layer_scales=b"1:" + text), info=1,
             key="glp.layer_scales", sound=version2(layer_scales=b"1:1E-1"))
        for text in BAD_FLOATS
    ),
]  # fmt: skip

# ---- hash, target, provenance --------------------------------------------------------------------

RIGHT = gw.content_hash(gw.sound().directions())
WRONG = hashlib.sha256(b"").hexdigest()


def shuffled_payloads() -> Spec:
    """The digest of the same payloads in another order."""
    payloads = gw.sound().directions()
    order = hashlib.sha256(payloads[2, 0] + payloads[1, 0] + payloads[3, 0]).hexdigest()
    return gw.sound(keys={"glp.content_sha256": order})


def one_bit() -> Spec:
    spec = gw.sound()
    data = bytearray(spec.tensor("direction.3").data)
    data[0] ^= 1
    spec.tensor("direction.3").data = bytes(data)
    return spec


HASH = [
    Case("content-hash", "of nothing", keys(content_sha256=WRONG), info=1,
         key="glp.content_sha256"),
    Case("content-hash", "one bit of one payload", one_bit, info=1),
    Case("content-hash", "payloads in another order", shuffled_payloads, info=1),
    *(
        Case("content-hash", f"malformed: {how}", keys(content_sha256=text), info=1,
             key="glp.content_sha256", sound=keys(content_sha256=RIGHT))
        for how, text in {
            "upper case": RIGHT.upper(),
            "63 digits": RIGHT[:-1],
            "65 digits": RIGHT + "0",
            "empty": "",
            "a prefix": "sha256:" + RIGHT,
            "a newline": RIGHT + "\n",
            "a NUL": RIGHT + "\0",
            "no hexadecimal": "x" * 64,
        }.items()
    ),
    Case("hash-missing", "absent", keys(content_sha256=None), severity=WARNING, info=0),
]  # fmt: skip


def wide() -> Spec:
    return gw.sound(n_embd=40)


TARGETS = [
    Case("width-mismatch", "wider", wide, ("--n-embd", "10"), info=0, words=("40", "10"),
         sound=wide, sound_flags=("--n-embd", "40")),
    Case("width-mismatch", "narrower", gw.sound, ("--n-embd", "16"), info=0, words=("8", "16"),
         sound_flags=("--n-embd", "8")),
    Case("width-mismatch", "for adding too", gw.additive, ("--mode", "add", "--n-embd", "16"),
         info=0, words=("8", "16"), sound=gw.additive,
         sound_flags=("--mode", "add", "--n-embd", "8")),
    Case("depth-mismatch", "the largest layer is n_layers", gw.sound, ("--n-layers", "3"), info=0,
         words=("3",), sound_flags=("--n-layers", "4")),
    Case("depth-mismatch", "a layer far beyond", lambda: gw.sound(layers=(1, 1_000_000)),
         ("--n-layers", "1000000"), info=0, sound=lambda: gw.sound(layers=(1, 1_000_000)),
         sound_flags=("--n-layers", "1000001")),
    Case("depth-mismatch", "steps: more than n_layers", gw.steps,
         ("--structure", "per-execution-step", "--n-layers", "2"), info=0, sound=gw.steps,
         sound_flags=("--structure", "per-execution-step", "--n-layers", "3")),
    *(
        Case("base-mismatch", f"{name!r}", gw.sound, ("--base", name), info=0,
             words=("Tiny 1B", name), sound_flags=("--base", "Tiny 1B"))
        for name in ("Tiny 2B", "Small 1B", "Tiny 1B Chat", "Tiny", "1B")
    ),
    *(
        Case("base-mismatch", f"for {name!r}", gw.sound, ("--base", "Other"), info=0,
             sound_flags=("--base", name))
        for name in ("tiny 1b", "TINY-1B", "Tiny_1B", "Tiny1B", "Example/Tiny-1B", "other/tiny_1b")
    ),
    Case("base-mismatch", "revision", gw.sound, ("--base-revision", "f" * 40), info=0,
         words=("f" * 40, gw.REVISION), sound_flags=("--base-revision", gw.REVISION)),
    Case("base-mismatch", "revision of the same name", gw.sound,
         ("--base", "Tiny 1B", "--base-revision", "f" * 40), info=0,
         sound_flags=("--base", "Tiny 1B", "--base-revision", "main")),
    Case("base-mismatch", "glp.base_model where the general key is absent",
         lambda: gw.sound(keys={"general.base_model.0.name": None, "glp.base_model": "Big 9B"}),
         ("--base", "Tiny 1B"), info=0, words=("Big 9B",), sound=lambda: gw.sound(
             keys={"general.base_model.0.name": None, "glp.base_model": "Tiny 1B"})),
    Case("base-mismatch", "glp.base_revision where the general key is absent",
         lambda: gw.sound(
             keys={"general.base_model.0.version": None, "glp.base_revision": "e" * 40}),
         ("--base-revision", "f" * 40), info=0, words=("e" * 40,), sound=lambda: gw.sound(
             keys={"general.base_model.0.version": None, "glp.base_revision": "f" * 40})),
    Case("base-mismatch", "glp.base_model beside a general key that agrees",
         lambda: gw.sound(keys={"glp.base_model": "Big 9B"}), ("--base", "Tiny 1B"), info=0,
         key="glp.base_model", words=("Big 9B",),
         sound=lambda: gw.sound(keys={"glp.base_model": "tiny-1b"})),
    Case("base-mismatch", "glp.base_revision beside a general key that agrees",
         lambda: gw.sound(keys={"glp.base_revision": "e" * 40}),
         ("--base-revision", gw.REVISION), info=0, key="glp.base_revision", words=("e" * 40,),
         sound=lambda: gw.sound(keys={"glp.base_revision": gw.REVISION})),
    Case("base-mismatch", "a NUL at the end is a character",
         lambda: gw.sound(keys={"general.base_model.0.name": gw.string(b"Tiny 1B\0")}),
         ("--base", "Tiny 1B"), info=0, key="general.base_model.0.name"),
    Case("base-missing", "absent", base_keys(name=None), severity=WARNING, info=0),
    *(
        Case("key-unknown", key, keys(**{key.removeprefix("glp."): "x"}), severity=WARNING, info=0,
             key=key)
        for key in ("glp.layer_ids", "glp.Mode", "glp.alpha", "glp.mode.extra", "glp.")
    ),
]  # fmt: skip

CASES = [
    *KEY_TYPE, *MODE, *HOOK, *STRUCTURE, *DIRECTIONS, *RANK, *LAYER_IDS, *ALPHA, *SCALES, *HASH,
    *TARGETS,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}: {case.condition}")
def test_finding(judge, case):
    spec = case.make()
    found = judge.check(spec, *case.flags)
    finding = found.one(case.code)
    assert finding["severity"] == case.severity
    assert found.status == (1 if case.severity == REFUSAL else 0)
    if "*" not in case.also:
        assert found.codes() - {case.code} <= case.also
    assert_remedy(case.code, finding["message"])
    for word in case.words:
        assert word in finding["message"]
    if case.key is not None:
        assert finding["key"] == case.key
    if case.tensor is not None:
        assert case.tensor in [f.get("tensor") for f in found.of(case.code)]
    if case.info is not None:
        assert judge.info(spec).status == case.info
    if case.sound is not None:
        accepted = judge.check(case.sound(), *(case.sound_flags or case.flags))
        assert accepted.status == 0
        assert case.code not in accepted.codes()


# ---- The family, accepted ------------------------------------------------------------------------

SOUND = {
    "project": (gw.sound, TARGET),
    "project, nothing stated": (gw.sound, ()),
    "rank 2": (gw.rank_two, TARGET),
    "rank 5": (lambda: gw.sound(rank=5), TARGET),
    "scales": (keys2(dir_scales="1,0.5", layer_scales="2:0.5"), TARGET),
    "add": (gw.additive, ADD),
    "add, nothing stated": (gw.additive, ("--mode", "add")),
    "steps": (gw.steps, STEPS),
    "per layer": (per_layer, TARGET),
    "per layer, asked": (gw.sound, (*TARGET, "--structure", "per-layer")),
    "a control vector": (gw.control_vector, ADD),
    "layer 1,000,000": (lambda: gw.sound(layers=(1, 1_000_000)), ()),
    "no rank under version 2": (keys2(rank=None), TARGET),
    "no rank, no basis, rank 1": (keys(rank=None, orthonormal=None), TARGET),
    "not orthonormal, rank 1": (keys(orthonormal=False), TARGET),
    "no layer ids": (keys(layer_ids_zero_based=None), TARGET),
    "the keys in use beside the format": (
        keys(generator="tool 1.0", base_model="Tiny 1B", base_revision="main", validation="ok",
             structure="per-layer"), TARGET,
    ),
    "alpha 0": (lambda: gw.sound(alpha=0.0), TARGET),
    "alpha in float64": (lambda: gw.sound(alpha=scalar(gw.F64, 0.1)), TARGET),
    "alpha 32": (lambda: gw.sound(alpha=32.0), TARGET),
    "alpha -32": (lambda: gw.sound(alpha=-32.0), TARGET),
    "alpha at float32's end": (lambda: gw.sound(alpha=scalar(gw.F64, 1e-45)), TARGET),
    "an unpinned revision": (base_keys(version="main"), ("--base-revision", "f" * 40)),
    "an unpinned revision asked": (gw.sound, ("--base-revision", "main")),
    "nothing but a mode, adding": (lambda: gw.control_vector().set("glp.mode", "add"), ADD),
}  # fmt: skip


@pytest.mark.parametrize(("make", "flags"), SOUND.values(), ids=SOUND)
def test_sound(judge, make, flags):
    found = judge.check(make(), *flags)
    assert (found.status, found.findings) == (0, [])
    described = judge.info(make())
    assert (described.status, described.findings) == (0, [])


@pytest.mark.parametrize("type", gw.INTEGERS, ids=[gw.TYPE_NAMES[t] for t in gw.INTEGERS])
@pytest.mark.parametrize("key", ["spec_version", "rank"])
def test_any_integer_type(judge, key, type):
    good = keys2(**{key: scalar(type, 2)})()
    assert judge.check(good, *TARGET).findings == []
    assert glpcore.open(memoryview(good.build())).info.spec_version == 2
    bad = judge.check(keys2(**{key: scalar(type, 7)})(), *TARGET)
    assert bad.status == 1
    assert bad.codes() == {"version-unknown" if key == "spec_version" else "rank"}


@pytest.mark.parametrize("type", [gw.I8, gw.I16, gw.I32, gw.I64])
def test_a_negative_version_is_no_version(judge, type):
    found = judge.check(keys(spec_version=scalar(type, -1))(), *TARGET)
    assert found.status == 1
    assert found.codes() <= {"version-unknown", "key-type"}


@pytest.mark.parametrize("name", ABSENT)
def test_a_wrong_type_is_not_absence(judge, name):
    """One fault, one finding: the key is there."""
    for value in OTHER_TYPES[name].values():
        found = judge.check(keys(**{name: value})(), *TARGET)
        assert ABSENT[name] not in found.codes()
        assert "key-type" in found.codes()


@pytest.mark.parametrize("value", [array(gw.STRING, []), scalar(gw.F32, 1), scalar(gw.U8, 0)])
def test_every_wrong_key_is_named(judge, value):
    """Every finding, not the first."""
    wrong = dict.fromkeys(("mode", "hook_point", "method", "layer_ids_zero_based"), value)
    found = judge.check(keys(**wrong)(), *TARGET)
    assert {f["key"] for f in found.of("key-type")} == {f"glp.{name}" for name in wrong}


def test_findings_are_all_reported(judge):
    """Independent faults do not hide each other."""
    spec = gw.sound(
        alpha=NAN,
        directions={(1, 0): [0.0] * 8, (3, 0): with_bits(0x7FC00000)},
        keys={"glp.content_sha256": WRONG, "glp.layer_ids_zero_based": "1,2", "glp.new": 1,
              "glp.rank": 3, "glp.derived_at": RESIDUAL},
    )  # fmt: skip
    spec.add_tensor("x", bytes(32)).add_tensor("direction.0", gw.unit(8, 0))
    flags = ("--hook", RESIDUAL, "--n-embd", "16", "--n-layers", "2", "--base", "Other")
    found = judge.check(spec, *flags)
    assert found.status == 1
    assert found.codes() >= {
        "alpha", "direction-norm", "direction-nonfinite", "content-hash", "layer-ids", "rank",
        "key-unknown", "transferred", "tensor-unexpected", "direction-zero", "hook-mismatch",
        "width-mismatch", "depth-mismatch", "base-mismatch", "version-gate",
    }  # fmt: skip


@pytest.mark.parametrize("count", [7, 8, 9, 20])
def test_many_of_one_code_are_counted(judge, count):
    spec = gw.sound()
    for n in range(count):
        spec.add_tensor(f"foreign.{n}", bytes(4))
    found = judge.check(spec, *TARGET).of("tensor-unexpected")
    assert len(found) == min(count, 9)
    if count > 8:
        assert str(count - 8) in found[8]["message"]


def test_legacy_keys_beside_a_mode_are_no_finding_of_their_own(judge):
    spec = gw.sound().set("dspark.mode", "project")
    assert "legacy-namespace" not in judge.check(spec, *TARGET).codes()


def test_a_broken_layer_is_refused_whatever_is_used(judge):
    """There is no way to take the sound layers and leave the broken one."""
    path = judge.write(payload(with_bits(0x7FC00000), layer=3)())
    with pytest.raises(glpcore.RefusedError) as caught:
        glpcore.load(path)
    assert caught.value.code == "direction-nonfinite"


# ---- Overrides -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "make"),
    [
        ("hook-missing", lambda: gw.sound(hook=None)),
        ("hook-unknown", lambda: gw.sound(hook="resid_post")),
        ("hook-mismatch", lambda: gw.sound(hook=RESIDUAL)),
    ],
)
def test_allow_hook_mismatch(judge, code, make):
    flags = ("--hook", FFN)
    assert judge.check(make(), *flags).status == 1
    found = judge.check(make(), *flags, "--allow-hook-mismatch")
    assert found.status == 0
    assert found.one(code)["severity"] == WARNING
    vec = glpcore.load(judge.write(make()), hook=FFN, allow_hook_mismatch=True)
    assert vec.hook == FFN
    assert code in [f.code for f in vec.findings]
    # The file's alpha was measured at another site.
    with pytest.raises(glpcore.RefusedError) as caught:
        vec.alpha(1)
    assert caught.value.code == "alpha-missing"
    assert tuple(vec.strength(1, fallback=2.0)) == (2.0, False)


def test_hook_mismatch_says_whose_hook_and_the_switch(judge):
    found = judge.check(gw.sound(hook=RESIDUAL), "--hook", ATTENTION)
    sentence = first_sentence(found.one("hook-mismatch")["message"])
    places = [sentence.find(word) for word in (RESIDUAL, ATTENTION, "allow-hook-mismatch")]
    assert -1 not in places, sentence
    assert places == sorted(places), sentence


@pytest.mark.parametrize(
    "flags", [("--base", "Other"), ("--base-revision", "f" * 40)], ids=["name", "revision"]
)
def test_allow_base_mismatch(judge, flags):
    assert judge.check(gw.sound(), *flags).status == 1
    found = judge.check(gw.sound(), *flags, "--allow-base-mismatch")
    assert found.status == 0
    assert found.one("base-mismatch")["severity"] == WARNING
    # The other override is not this one.
    assert judge.check(gw.sound(), *flags, "--allow-hook-mismatch", "--renormalise").status == 1


def test_any_of_several_base_names(judge):
    path = judge.write(gw.sound())
    glpcore.load(path, base=["Other", "example/tiny-1b"])
    with pytest.raises(glpcore.RefusedError) as caught:
        glpcore.load(path, base=["Other", "Another"])
    assert caught.value.code == "base-mismatch"


def test_a_base_is_not_asked_of_a_file_that_names_none(judge):
    """Absent provenance is a warning; nothing is known to differ."""
    found = judge.check(base_keys(name=None, version=None)(), "--base", "Tiny 1B")
    assert found.status == 0
    assert "base-missing" in found.codes()


def test_renormalise(judge):
    np = pytest.importorskip("numpy")
    spec = gw.sound(directions={(2, 0): [4 * x for x in gw.unit(8, 2)]})
    path = judge.write(spec)
    assert judge_path("check", path, *TARGET).status == 1
    found = judge_path("check", path, *TARGET, "--renormalise")
    assert found.status == 0
    assert found.one("direction-norm")["severity"] == WARNING
    vec = glpcore.load(path, renormalise=True)
    assert vec.n_renormalised == 1
    assert abs(np.linalg.norm(vec[2].astype(np.float64)) - 1) < 1e-6
    np.testing.assert_allclose(vec[2], np.array(gw.unit(8, 2)), rtol=0, atol=1e-6)
    # What was right is left alone, bit for bit, and so is the file.
    assert vec[1].tobytes() == spec.tensor("direction.1").data
    assert path.read_bytes() == spec.build()
    file = glpcore.open(path)
    assert max(d.norm for d in file.directions) == pytest.approx(4, abs=1e-6)


def test_renormalise_what_needs_none(judge):
    vec = glpcore.load(judge.write(gw.sound()), renormalise=True)
    assert vec.n_renormalised == 0
    assert vec.findings == []


@pytest.mark.parametrize("factor", [0.0, 1e-13], ids=["zero", "1e-13"])
def test_zero_is_never_renormalised(judge, factor):
    found = judge.check(scaled(factor)(), *TARGET, "--renormalise")
    assert found.status == 1
    assert found.one("direction-norm")["severity"] == REFUSAL


def test_nonfinite_is_never_overridden(judge):
    switches = ("--renormalise", "--allow-hook-mismatch", "--allow-base-mismatch")
    found = judge.check(payload(with_bits(0x7F800000))(), *TARGET, *switches)
    assert found.one("direction-nonfinite")["severity"] == REFUSAL


def test_hash_unverified(judge):
    path = judge.write(one_bit())
    with pytest.raises(glpcore.RefusedError) as caught:
        glpcore.load(path)
    assert caught.value.code == "content-hash"
    vec = glpcore.load(path, verify_hash=False)
    assert [(f.code, f.severity) for f in vec.findings] == [("hash-unverified", WARNING)]
    assert_remedy("hash-unverified", vec.findings[0].message)


# ---- Additive files ------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1e-6, 1.0, 3.0, 1e6])
def test_any_norm_adds(judge, factor):
    spec = gw.additive(directions={(2, 0): [factor * x for x in gw.unit(8, 2)]})
    assert judge.check(spec, *ADD).findings == []


def test_a_hook_makes_no_difference_to_what_is_not_stated(judge):
    assert judge.check(gw.additive(hook=None), *ADD).findings == []
    assert judge.check(gw.additive(hook=None), "--mode", "add", "--hook", FFN).status == 1
    assert judge.check(gw.additive(hook="resid_post"), "--mode", "add").status == 1


def test_mode_missing_is_refused_by_load(judge):
    path = judge.write(gw.control_vector())
    with pytest.raises(glpcore.RefusedError) as caught:
        glpcore.load(path)
    assert "mode-missing" in [f.code for f in caught.value.findings]
    vec = glpcore.load(path, mode="add")
    assert (vec.mode, vec.hook, vec.layers) == ("add", RESIDUAL, (1, 2, 3))


# ---- `info` judges a file by itself --------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "mode", "hook", "status"),
    [
        (gw.sound, "project", FFN, 0),
        (lambda: gw.sound(hook=ATTENTION), "project", ATTENTION, 0),
        (gw.additive, "add", RESIDUAL, 0),
        (gw.control_vector, "add", RESIDUAL, 0),
        (gw.steps, "project", FFN, 0),
        (lambda: gw.sound(mode="ablate"), None, FFN, 1),
        (lambda: gw.sound(hook="x"), "project", None, 1),
    ],
    ids=["project", "attention", "add", "control vector", "steps", "mode", "hook"],
)
def test_info_judges_a_file_by_itself(judge, make, mode, hook, status):
    spec = make()
    file = glpcore.open(judge.write(spec))
    assert (file.info.mode, file.info.hook) == (mode, hook)
    assert file.verdict == ("refused" if status else "applicable")
    assert judge.info(spec).status == status


def test_info_text(judge):
    path = judge.write(keys2(derived_at=RESIDUAL)())
    text = run_cli("info", path).out
    for word in ("applicable", "project", FFN, "TRANSFERRED", "Tiny 1B", "1-3", "8"):
        assert word in text, text
    assert "TRANSFERRED" not in run_cli("info", judge.write(gw.sound())).out
    assert "refused" in run_cli("info", judge.write(gw.sound(mode="ablate"))).out


# ---- The name of the file ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "alpha", "warns"),
    [
        ("x-a4.gguf", 4.0, False),
        ("x-a4.gguf", 2.0, True),
        ("x-a4.gguf", -4.0, True),
        ("x-a1.5.gguf", 1.5, False),
        ("x-a1.5.gguf", 1.0, True),
        ("x-a0.gguf", 0.0, False),
        ("x-a0.gguf", 4.0, True),
        ("x-a4.0.gguf", 4.0, False),
        ("x-a0.1.gguf", 0.1, False),
        ("x-alpha.gguf", 2.0, False),
        ("x-a-4.gguf", -4.0, False),
        ("x-a-4.gguf", 4.0, True),
        ("x-a.gguf", 4.0, False),
        ("x-a-b.gguf", 4.0, False),
        ("x-a-4-v2.gguf", 4.0, True),
        ("x-a4.GGUF", 2.0, True),
        ("x-a4.GGUF", 4.0, False),
        ("x.gguf", 2.0, False),
    ],
)
def test_alpha_name(judge, name, alpha, warns):
    found = judge.check(gw.sound(alpha=alpha), *TARGET, name=name)
    assert found.status == 0
    assert found.codes() == ({"alpha-name"} if warns else set())
    if warns:
        assert found.one("alpha-name")["severity"] == WARNING
        assert_remedy("alpha-name", found.one("alpha-name")["message"])
        # Metadata decides.
        vec = glpcore.load(judge.folder / name, hook=FFN)
        assert vec.alpha(1) == alpha


def test_alpha_name_is_of_the_file_not_the_folder(judge, tmp_path):
    folder = tmp_path / "x-a9.gguf"
    folder.mkdir()
    assert Judge(folder).check(gw.sound(), *TARGET).findings == []


# ---- A model as the target -----------------------------------------------------------------------


def config(folder, **changes):
    path = folder / "config.json"
    facts = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 4}
    path.write_text(json.dumps({**facts, **changes}))
    return path


def model_file(judge, arch="llama", n_embd=8, n_layers=4, name="Tiny 1B"):
    spec = Spec()
    spec.set("general.architecture", arch).set("general.name", name)
    spec.set(f"{arch}.embedding_length", n_embd).set(f"{arch}.block_count", n_layers)
    spec.set("tokenizer.ggml.tokens", array(gw.STRING, ["a", "b"]))
    spec.add_tensor("token_embd.weight", bytes(16), (8,), gw.GGML_F16)
    return judge.write(spec, "model.gguf")


def hinted(hint: str) -> Spec:
    return gw.sound(keys={"controlvector.model_hint": hint})


@pytest.mark.parametrize("kind", ["config", "gguf"])
def test_model(judge, tmp_path, kind):
    def model(**facts):
        if kind == "gguf":
            return model_file(judge, **facts)
        names = {"n_embd": "hidden_size", "n_layers": "num_hidden_layers", "arch": "model_type"}
        return config(tmp_path, **{names[k]: v for k, v in facts.items()})

    def check(*flags):
        return judge.check(gw.sound(), "--hook", FFN, *flags)

    assert check("--model", model()).findings == []
    assert check("--model", model(n_embd=16)).codes() == {"width-mismatch"}
    assert check("--model", model(n_layers=3)).codes() == {"depth-mismatch"}
    # What is stated wins over the model's.
    assert check("--model", model(n_embd=16), "--n-embd", 8).findings == []
    assert check("--model", model(n_layers=3), "--n-layers", 4).findings == []
    with pytest.raises(glpcore.RefusedError) as caught:
        glpcore.load(judge.folder / "vector.gguf", model=model(n_embd=16))
    assert caught.value.code == "width-mismatch"


def test_base_name_of_a_model(judge):
    found = judge.check(gw.sound(), "--model", model_file(judge, name="Big 9B"))
    assert found.status == 1
    assert found.codes() == {"base-mismatch"}
    allowed = judge.check(
        gw.sound(), "--model", model_file(judge, name="Big 9B"), "--allow-base-mismatch"
    )
    assert allowed.status == 0


@pytest.mark.parametrize(
    ("hint", "arch", "severity"),
    [
        ("llama", "llama", None),
        ("Llama", "llama", None),
        ("gemma3_text", "gemma3", None),
        ("gemma3", "gemma3_text", None),
        ("llama", "qwen2", REFUSAL),
        ("qwen2", "llama", REFUSAL),
        ("gemma3", "llama", REFUSAL),
        ("gemma2", "gemma3", REFUSAL),
        ("granite", "granitemoehybrid", None),
        ("granitemoe", "granitemoehybrid", None),
        ("granitehybrid", "granitemoehybrid", None),
        ("granite", "granitemoe", REFUSAL),
        ("llama", "granitemoehybrid", REFUSAL),
        ("a-new-architecture", "llama", WARNING),
        ("llama", "a-new-architecture", WARNING),
    ],
)
def test_architecture(judge, tmp_path, hint, arch, severity):
    path = config(tmp_path, model_type=arch)
    found = judge.check(hinted(hint), "--model", path)
    if severity is None:
        assert found.findings == []
        return
    finding = found.one("arch-mismatch")
    assert finding["severity"] == severity
    assert found.status == (1 if severity == REFUSAL else 0)
    assert hint in finding["message"]
    assert arch in finding["message"]
    assert_remedy("arch-mismatch", finding["message"])
    allowed = judge.check(hinted(hint), "--model", path, "--allow-base-mismatch")
    assert allowed.status == 0
    assert allowed.one("arch-mismatch")["severity"] == WARNING


def test_a_nul_at_the_end_of_an_architecture(judge, tmp_path):
    path = config(tmp_path, model_type="zork")
    spec = gw.sound(keys={"controlvector.model_hint": gw.string(b"zork\0")})
    assert judge.check(spec, "--model", path).codes() == {"arch-mismatch"}


def test_steps_are_not_the_models_layers(judge, tmp_path):
    """A looped model runs more steps than it has layers; only the caller says how many."""
    path = config(tmp_path, num_hidden_layers=2)
    steps = ("--structure", "per-execution-step")
    assert judge.check(gw.steps(), *steps, "--model", path).findings == []
    found = judge.check(gw.steps(), *steps, "--model", path, "--n-layers", "2")
    assert found.codes() == {"depth-mismatch"}
    vec = load(gw.steps, structure="per-execution-step", model=path)
    assert vec.dense().shape[0] == max(vec.layers)


# ---- Strength ------------------------------------------------------------------------------------


def load(make: Callable[[], Spec] = gw.sound, **target: Any):
    return glpcore.load(memoryview(make().build()), **target)


def test_order_of_choice():
    vec = load(hook=FFN)
    assert tuple(vec.strength(1)) == (4.0, True)
    assert tuple(vec.strength(1, fallback=2.0)) == (4.0, True)
    assert tuple(vec.strength(1, alpha=3.0)) == (3.0, False)
    assert tuple(vec.strength(1, alpha=3.0, fallback=2.0)) == (3.0, False)
    assert vec.alpha(2) == 4.0


def test_no_site_named_never_adopts():
    vec = load()
    assert vec.hook == FFN
    with pytest.raises(glpcore.RefusedError) as caught:
        vec.strength(1)
    assert caught.value.code == "alpha-missing"
    assert tuple(vec.strength(1, fallback=2.0)) == (2.0, False)
    assert tuple(vec.strength(1, alpha=3.0)) == (3.0, False)


def test_no_alpha_default():
    vec = load(keys(alpha_default=None), hook=FFN)
    with pytest.raises(glpcore.RefusedError) as caught:
        vec.alpha(1)
    assert caught.value.code == "alpha-missing"
    assert tuple(vec.strength(1, fallback=1.5)) == (1.5, False)


def test_zero_is_a_value():
    vec = load(hook=FFN)
    assert tuple(vec.strength(1, alpha=0.0)) == (0.0, False)
    assert tuple(vec.strength(1, alpha=0)) == (0.0, False)
    declared = load(lambda: gw.sound(alpha=0.0), hook=FFN)
    assert tuple(declared.strength(1)) == (0.0, True)
    assert tuple(declared.strength(1, fallback=2.0)) == (0.0, True)
    assert tuple(load().strength(1, fallback=0.0)) == (0.0, False)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_strength_is_finite(bad):
    vec = load(hook=FFN)
    with pytest.raises(ValueError, match="finite"):
        vec.alpha(1, alpha=bad)
    with pytest.raises(ValueError, match="finite"):
        load().alpha(1, fallback=bad)


def test_a_layer_that_is_not_steered_has_no_strength():
    vec = load(lambda: gw.sound(layers=(1, 2, 5)), hook=FFN)
    for layer, j in [(0, 0), (3, 0), (6, 0), (1, 1)]:
        with pytest.raises((KeyError, IndexError, ValueError)):
            vec.alpha(layer, j)


# Numbers whose nearest float64 is easily missed.
AWKWARD = (
    "0.1", "-0.3", "1e-5", "1e22", "1e23", "123456789.123456789", "0.30000000000000004",
    "2.2250738585072011e-308", "2.2250738585072014e-308", "1.7976931348623157e308", "5e-324",
    "9007199254740993", "9007199254740992.5", "0.000001", "1E-1", "1e+2", "-0", "+2",
    "3.14159265358979323846264338327950288419716939937510582097494459",
)  # fmt: skip


@pytest.mark.parametrize("text", AWKWARD)
def test_scales_are_read_exactly(text):
    vec = load(version2(dir_scales=text), hook=FFN)
    assert vec.alpha(1, alpha=1.0) == float(text)
    vec = load(version2(layer_scales=f"2:{text}"), hook=FFN)
    assert vec.alpha(2, alpha=1.0) == float(text)
    assert vec.alpha(1, alpha=1.0) == 1.0


def test_scales_multiply_left_to_right():
    """(alpha x dir_scales[j]) x layer_scales[L], in float64."""
    make = keys2(dir_scales="0.1,0.7", layer_scales="2:0.3,3:-1.7")
    vec = load(make, hook=FFN)
    directions, layers = [0.1, 0.7], {1: 1.0, 2: 0.3, 3: -1.7}
    orders_differ = False
    for alpha in (None, 1.1, -2.3):
        for layer in (1, 2, 3):
            for j in (0, 1):
                a = 4.0 if alpha is None else alpha
                expected = (a * directions[j]) * layers[layer]
                orders_differ |= expected != a * (directions[j] * layers[layer])
                assert tuple(vec.strength(layer, j, alpha=alpha)) == (expected, alpha is None)
    assert orders_differ  # or the order would not have been tested


def test_alpha_in_float32_is_that_float32():
    assert load(lambda: gw.sound(alpha=0.1), hook=FFN).alpha(1) == struct.unpack(
        "<f", struct.pack("<f", 0.1)
    )[0]  # fmt: skip
    assert load(lambda: gw.sound(alpha=scalar(gw.F64, 0.1)), hook=FFN).alpha(1) == pytest.approx(
        0.1, rel=1e-7
    )


def test_additive_strength():
    vec = load(gw.additive, mode="add", hook=RESIDUAL)
    assert tuple(vec.strength(1)) == (4.0, True)
    bare = load(gw.control_vector, mode="add", hook=RESIDUAL)
    with pytest.raises(glpcore.RefusedError) as caught:
        bare.alpha(1)
    assert caught.value.code == "alpha-missing"


# ---- The layer map and the dense table -----------------------------------------------------------


def test_layers_have_no_offset():
    vec = load(lambda: gw.sound(layers=(2, 7, 4)))
    assert vec.layers == (2, 4, 7)
    assert list(vec) == [2, 4, 7]
    assert len(vec) == 3
    assert 2 in vec
    assert 3 not in vec
    assert 0 not in vec
    for layer in vec:
        assert vec[layer].tobytes() == gw.floats(gw.unit(8, layer))
    with pytest.raises(KeyError):
        vec[3]


def test_rank_k_rows():
    vec = load(gw.rank_two)
    assert vec.rank == 2
    assert vec[2].shape == (2, 8)
    for j in (0, 1):
        assert vec[2][j].tobytes() == gw.floats(gw.unit(8, 2, j))
        assert vec.direction(2, j).tobytes() == gw.floats(gw.unit(8, 2, j))


def test_dense_rows():
    vec = load(lambda: gw.sound(layers=(1, 3)), hook=FFN)
    table = vec.dense(5)
    assert table.shape == (5, 8)
    assert table.dtype == "float32"
    for row in range(5):
        expected = gw.floats(gw.unit(8, row)) if row in (1, 3) else bytes(32)
        assert table[row].tobytes() == expected


def test_dense_rows_reach_the_last_layer():
    vec = load(hook=FFN)
    assert vec.dense(4).shape == (4, 8)
    with pytest.raises(ValueError, match="layer"):
        vec.dense(3)


def test_dense_rows_of_steps():
    vec = load(gw.steps, structure="per-execution-step", hook=FFN, n_layers=3)
    assert vec.structure == "per-execution-step"
    table = vec.dense(3)
    for row in range(3):
        assert table[row].tobytes() == gw.floats(gw.unit(8, row + 1))


def test_dense_refuses_rank_k():
    with pytest.raises(glpcore.RefusedError) as caught:
        load(gw.rank_two, hook=FFN).dense(4)
    assert caught.value.code == "rank"


def test_dense_refuses_strengths_by_layer_unless_asked_for():
    np = pytest.importorskip("numpy")
    vec = load(version2(layer_scales="2:0.5"), hook=FFN)
    with pytest.raises(glpcore.RefusedError) as caught:
        vec.dense(5)
    assert caught.value.code == "scales"
    alphas = np.full(5, 7.0)
    vec.dense(5, alphas=alphas)
    assert alphas.tolist() == [0.0, 4.0, 2.0, 4.0, 0.0]
    vec.dense(5, alpha=10.0, alphas=alphas)
    assert alphas.tolist() == [0.0, 10.0, 5.0, 10.0, 0.0]


# ---- Raw .f32 ------------------------------------------------------------------------------------

ROWS = [[0.0] * 8, gw.unit(8, 1), gw.unit(8, 2), [0.0] * 8]
RAW = ("--n-embd", "8", "--n-layers", "4", "--hook", FFN)


def test_raw(judge):
    data = gw.raw(ROWS)
    found = judge.check(data, *RAW, name="v.f32")
    assert found.status == 0
    vec = glpcore.load(judge.folder / "v.f32", hook=FFN, n_embd=8, n_layers=4)
    assert (vec.layers, vec.mode, vec.hook) == ((1, 2), "project", FFN)
    assert vec[1].tobytes() == gw.floats(ROWS[1])
    with pytest.raises(glpcore.RefusedError) as caught:
        vec.alpha(1)
    assert caught.value.code == "alpha-missing"


def test_raw_row_zero_goes_on_working(judge):
    judge.write(gw.raw([gw.unit(8, 0), *ROWS[1:]]), "v.f32")
    vec = glpcore.load(judge.folder / "v.f32", hook=FFN, n_embd=8, n_layers=4)
    assert vec.layers == (0, 1, 2)
    assert vec.dense(4)[0].tobytes() == gw.floats(gw.unit(8, 0))


def test_raw_is_chosen_by_its_magic_not_its_name(judge):
    assert judge.check(gw.raw(ROWS), *RAW, name="v.gguf").status == 0
    assert judge.check(gw.sound(), *TARGET, name="v.f32").findings == []


def test_raw_needs_its_shape(judge):
    found = judge.check(gw.raw(ROWS), name="v.f32")
    assert found.status == 2
    assert found.codes() == {"not-gguf"}
    assert "n_embd" in found.one("not-gguf")["message"].replace("-", "_")


@pytest.mark.parametrize(
    ("data", "flags"),
    [
        (gw.raw(ROWS)[:-1], RAW),
        (gw.raw(ROWS)[:-4], RAW),
        (gw.raw(ROWS) + b"\0", RAW),
        (gw.raw(ROWS), ("--n-embd", "8", "--n-layers", "5", "--hook", FFN)),
        (gw.raw(ROWS), ("--n-embd", "16", "--n-layers", "4", "--hook", FFN)),
        (gw.raw(ROWS), ("--n-embd", "7", "--hook", FFN)),
    ],
)
def test_raw_size(judge, data, flags):
    found = judge.check(data, *flags, name="v.f32")
    assert found.status == 2
    assert found.codes() == {"raw-size"}
    assert found.findings[0]["severity"] == "format"
    assert str(len(data)) in found.findings[0]["message"]
    assert_remedy("raw-size", found.findings[0]["message"])


@pytest.mark.parametrize("bits", ELEMENTS.values(), ids=ELEMENTS)
def test_raw_nonfinite(judge, bits):
    data = bytearray(gw.raw(ROWS))
    struct.pack_into("<I", data, 4 * 17, bits)
    found = judge.check(bytes(data), *RAW, name="v.f32")
    assert found.status == 1
    finding = found.one("raw-nonfinite")
    assert finding["severity"] == REFUSAL
    assert_remedy("raw-nonfinite", finding["message"])


def test_raw_off_unit(judge):
    rows = [*ROWS[:2], [2 * x for x in gw.unit(8, 2)], ROWS[3]]
    found = judge.check(gw.raw(rows), *RAW, name="v.f32")
    assert found.status == 1
    assert found.codes() == {"direction-norm"}
    assert judge.check(gw.raw(rows), *RAW, "--renormalise", name="v.f32").status == 0


def test_raw_without_a_hook(judge):
    data = gw.raw(ROWS)
    found = judge.check(data, "--n-embd", "8", name="v.f32")
    assert found.status == 1
    assert found.one("hook-missing")["severity"] == REFUSAL
    described = judge.info(data, "--n-embd", "8", name="v.f32")
    assert described.status == 0
    assert described.one("hook-missing")["severity"] == WARNING


def test_raw_of_zeros_holds_no_direction(judge):
    found = judge.check(bytes(32 * 4), *RAW, name="v.f32")
    assert found.status == 1
    assert "direction-empty" in found.codes()


# ---- Real data -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rank", "payloads", "digest"),
    [
        (
            1,
            {(1, 0): [0.5] * 4, (2, 0): [1.0, 0, 0, 0]},
            "9e29a3887cf5a00f505f05f4e11ef98fe6b1f25203beb4c60b01b720e7544151",
        ),
        (
            2,
            {(n, j): [float(i == j) for i in range(4)] for n in (1, 2) for j in (0, 1)},
            "57293713fbcdd48ea67ae5ddccfd3e10a5e6c912af44ebca58141a5615e67f8f",
        ),
    ],
    ids=["rank 1", "rank 2"],
)
@pytest.mark.parametrize("backwards", [False, True], ids=["in order", "backwards"])
def test_digests_of_another_implementation(judge, rank, payloads, digest, backwards):
    """Whatever the order in the file, which the digest does not see."""
    spec = gw.sound(n_embd=4, layers=(1, 2), rank=rank, directions=payloads,
                    keys={"glp.content_sha256": digest})  # fmt: skip
    if backwards:
        spec.tensors.reverse()
    assert judge.check(spec, "--hook", FFN).findings == []


@pytest.mark.parametrize("n_embd", [1, 2, 13, 14, 15, 16, 17, 30, 31, 32, 33, 250])
def test_the_digest_of_any_length(judge, n_embd):
    """Against hashlib, around the ends of a block."""
    for layers in ((1,), (1, 2), (1, 2, 3)):
        spec = gw.sound(n_embd=n_embd, layers=layers)
        assert judge.check(spec, "--hook", FFN).findings == []


def test_the_digest_orders_layers_as_numbers(judge):
    spec = gw.sound(layers=(2, 10, 1))
    assert judge.check(spec, "--hook", FFN).findings == []
    assert [d.layer for d in glpcore.open(judge.folder / "vector.gguf").directions] == [1, 2, 10]
