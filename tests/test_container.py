"""The container: one test per row of the table of `format` errors, and per condition in a row.

Each case takes a sound file of the family, breaks one piece of it and says which code must come
back, at which byte of the file, and about which key or tensor.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable
from typing import NamedTuple

import gguf_writer as gw
import pytest
from gguf_writer import Image, Spec, array, assert_remedy, judge_path, nested, run_cli

import glpcore

Offset = Callable[[Image], int]


class Case(NamedTuple):
    code: str
    condition: str
    change: Callable[[Spec], object]  # alters the specification, or returns other bytes
    offset: Offset | None = None
    key: str | None = None
    tensor: str | None = None
    words: tuple[str, ...] = ()  # must be in the message


# What the cases break: two directions, a foreign key of every kind of value.
def base() -> Spec:
    spec = gw.sound(layers=(1, 2))
    spec.append("x.number", gw.scalar(gw.U64, 1))
    spec.append("x.text", "some text")
    spec.append("x.list", array(gw.U32, [1, 2, 3]))
    spec.append("x.texts", array(gw.STRING, ["a", "bc"]))
    return spec


def claim(**fields: object) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        for name, value in fields.items():
            setattr(spec, name, value)

    return change


def about_tensor(name: str, **fields: object) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        for field, value in fields.items():
            setattr(spec.tensor(name), field, value)

    return change


def cut_at(where: Offset) -> Callable[[Spec], Image]:
    def change(spec: Spec) -> Image:
        image = spec.build()
        return image.cut(where(image))

    return change


def append(name: str | bytes, value: object, size: int | None = None) -> Callable[[Spec], object]:
    return lambda spec: spec.append(name, value, size)


def entry(key: str) -> Offset:
    return lambda image: image.keys[key.encode()].entry


def kind(key: str) -> Offset:
    return lambda image: image.keys[key.encode()].type


def value(key: str, plus: int = 0) -> Offset:
    return lambda image: image.keys[key.encode()].value + plus


def tensor_entry(name: str | bytes) -> Offset:
    data = name.encode() if isinstance(name, str) else name
    return lambda image: image.entries[data]


def shape(name: str | bytes) -> Offset:
    data = name.encode() if isinstance(name, str) else name
    return lambda image: image.shapes[data]


def at(offset: int) -> Offset:
    return lambda image: offset


def first_entries_swapped(spec: Spec) -> bytes:
    """The whole file as a big-endian writer would begin it."""
    data = bytearray(spec.build())
    data[4:8] = struct.pack(">I", 3)
    return bytes(data)


def rename(old: str, new: bytes, size: int | None = None) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        tensor = spec.tensor(old)
        tensor.name, tensor.size = new, size

    return change


def second_on_first(spec: Spec) -> None:
    """direction.2 placed inside direction.1, which is made long enough to hold it."""
    spec.tensors.clear()
    spec.add_tensor("direction.1", gw.unit(16, 1))
    spec.add_tensor("direction.2", bytes(32), (8,), offset=32)


def odd_f32(spec: Spec) -> None:
    """Data that starts at a multiple of 4, and alignment 1, which allows any offset in it."""
    spec.alignment = 1
    spec.set("general.alignment", 1).tensor("direction.2").offset = 5
    spec.append("fill", "")
    spec.set("fill", "." * (-spec.build().header_end % 4))


def foreign_on_first(spec: Spec) -> None:
    spec.add_tensor("x", bytes(4), (1,), offset=0)


LONG = b"direction." + b"1" * 53  # 63 bytes: the longest name
HUGE = (1 << 63) - 1

CASES = [
    Case("not-gguf", "other magic", claim(magic=b"GGML"), at(0)),
    Case("not-gguf", "lower case", claim(magic=b"gguf"), at(0)),
    Case("not-gguf", "magic byte-swapped", claim(magic=b"FUGG"), at(0)),
    Case("not-gguf", "three bytes", lambda spec: b"GGU", at(0)),
    Case("not-gguf", "a text file", lambda spec: b"{\"shape\": [43, 4096]}\n", at(0)),
    *(
        Case("gguf-version", f"version {n}", claim(version=n), at(4), words=(str(n),))
        for n in (0, 1, 2, 4, 0xFFFFFFFF)
    ),
    Case("gguf-version", "big-endian", first_entries_swapped, at(4), words=("big-endian",)),
    Case("truncated", "magic alone", lambda spec: b"GGUF", at(4)),
    Case("truncated", "inside the version", cut_at(at(7)), at(4)),
    Case("truncated", "inside the tensor count", cut_at(at(9)), at(8)),
    Case("truncated", "inside the key count", cut_at(at(23)), at(16)),
    Case(
        "truncated", "inside a key's length",
        cut_at(lambda i: i.keys[b"x.texts"].entry + 7), entry("x.texts"),
    ),
    Case(
        "truncated", "inside a value's type",
        cut_at(lambda i: i.keys[b"x.texts"].type + 3), kind("x.texts"),
    ),
    Case(
        "truncated", "inside a number",
        lambda spec: cut_at(lambda i: i.keys[b"last"].value + 7)(
            spec.append("last", gw.scalar(gw.U64, 1))
        ),
        lambda i: i.keys[b"last"].value,
    ),
    Case(
        "truncated", "inside an array's type",
        cut_at(lambda i: i.keys[b"x.texts"].value + 3), value("x.texts"),
    ),
    Case(
        "truncated", "inside an array's length",
        cut_at(lambda i: i.keys[b"x.texts"].value + 11), value("x.texts", 4),
    ),
    Case(
        "truncated", "inside a text's length",
        cut_at(lambda i: i.keys[b"x.texts"].value + 12 + 9 + 7), value("x.texts", 12 + 9),
    ),
    Case(
        "truncated", "an array longer than the file",
        append("y", array(gw.U64, [1, 2], count=1000)), value("y"),
    ),
    Case(
        "truncated", "an array of texts longer than the file",
        append("y", array(gw.STRING, ["a"], count=1 << 40)), value("y"),
    ),
    Case(
        "truncated", "an array of arrays longer than the file",
        append("y", array(gw.ARRAY, [array(gw.U8, [1])], count=HUGE)), value("y"),
    ),
    Case(
        "truncated", "inside a tensor's name length",
        lambda spec: cut_at(lambda i: i.entries[b"x"] + 7)(
            spec.add_tensor("x", bytes(4))
        ),
        lambda i: i.entries[b"x"],
    ),
    Case(
        "truncated", "inside a tensor's number of dimensions",
        cut_at(lambda i: i.shapes[b"direction.2"] + 3), shape("direction.2"),
    ),
    Case(
        "truncated", "inside a dimension",
        cut_at(lambda i: i.shapes[b"direction.2"] + 11),
        lambda i: i.shapes[b"direction.2"] + 4,
    ),
    Case(
        "truncated", "inside a tensor's type",
        cut_at(lambda i: i.shapes[b"direction.2"] + 15),
        lambda i: i.shapes[b"direction.2"] + 12,
    ),
    Case(
        "truncated", "inside a tensor's offset",
        cut_at(lambda i: i.shapes[b"direction.2"] + 23),
        lambda i: i.shapes[b"direction.2"] + 16,
    ),
    Case(
        "truncated", "inside the last tensor's data",
        cut_at(lambda i: i.data_end - 1),
        lambda i: i.data[b"direction.2"], tensor="direction.2",
    ),
    Case(
        "truncated", "a tensor that claims more than there is",
        about_tensor("direction.2", dims=(1 << 40,)),
        lambda i: i.data[b"direction.2"], tensor="direction.2",
    ),
    Case(
        "truncated", "a tensor that claims all that 64 bits can count",
        lambda spec: spec.add_tensor("x", bytes(8), ((1 << 64) - 1,), type=24),  # I8
        lambda i: i.data[b"x"], tensor="x",
    ),
    Case("count", "keys: more than the file can hold", claim(n_keys=100_000), at(16)),
    Case("count", "keys: 2^31 + 1", claim(n_keys=(1 << 31) + 1), at(16)),
    Case("count", "keys: 2^63", claim(n_keys=1 << 63), at(16)),
    Case("count", "keys: 2^64 - 1", claim(n_keys=(1 << 64) - 1), at(16)),
    Case("count", "tensors: more than the file can hold", claim(n_tensors=100_000), at(8)),
    Case("count", "tensors: 2^31 + 1", claim(n_tensors=(1 << 31) + 1), at(8)),
    Case("count", "tensors: 2^59, which times 32 wraps", claim(n_tensors=1 << 59), at(8)),
    Case("count", "tensors: 2^64 - 1", claim(n_tensors=(1 << 64) - 1), at(8)),
    Case("string", "an empty key", append(b"", 1), lambda i: i.keys[b""].entry),
    Case(
        "string", "a key longer than the file", append("y", 1, size=1 << 20), entry("y"),
    ),
    Case("string", "a key of 2^64 - 1 bytes", append("y", 1, size=(1 << 64) - 1), entry("y")),
    Case(
        "string", "a key of 65,536 bytes",
        append(b"k" * 65536, 1), lambda i: i.keys[b"k" * 65536].entry,
    ),
    *(
        Case("string", f"a key that {how}", append(name, 1), lambda i, n=name: i.keys[n].entry)
        for how, name in [
            ("is not UTF-8", b"glp.\xff"),
            ("is cut UTF-8", b"glp.\xc3"),
            ("is overlong UTF-8", b"glp.\xc0\xae"),
            ("holds a surrogate", b"glp.\xed\xa0\x80"),
            ("is beyond Unicode", b"glp.\xf4\x90\x80\x80"),
            ("holds a NUL", b"glp.mode\x00"),
        ]
    ),
    Case(
        "string", "a text longer than the file",
        append("y", gw.string("abc", size=1 << 20)), value("y"),
    ),
    Case(
        "string", "a text of 2^64 - 1 bytes",
        append("y", gw.string("abc", size=(1 << 64) - 1)), value("y"),
    ),
    Case(
        "string", "a text in an array longer than the file",
        append("y", array(gw.STRING, [gw.string("a", size=1 << 32)])), value("y", 12),
    ),
    Case(
        "string", "a tensor name longer than the file",
        about_tensor("direction.2", size=1 << 32), tensor_entry("direction.2"),
    ),
    *(
        Case(
            "value-type", f"value type {n}", append("y", gw.Value(n, bytes(8))),
            kind("y"), key="y", words=(str(n),),
        )
        for n in (13, 255, 0x80000000, 0xFFFFFFFF)
    ),
    *(
        Case(
            "value-type", f"array element type {n}",
            append("y", gw.Value(gw.ARRAY, struct.pack("<IQ", n, 1) + bytes(8))),
            key="y", words=(str(n),),
        )
        for n in (13, 0xFFFFFFFF)
    ),
    Case(
        "value-type", "element type of an empty array",
        append("y", gw.Value(gw.ARRAY, struct.pack("<IQ", 13, 0))), key="y",
    ),
    Case("value-type", "arrays five deep", append("y", nested(5)), key="y"),
    Case(
        "value-type", "arrays a thousand deep", append("y", nested(1000)), key="y",
    ),
    Case(
        "value-type", "a size of 2^64", append("y", array(gw.U64, [1], count=1 << 61)), key="y",
    ),
    Case(
        "value-type", "a size that wraps to 8",
        append("y", array(gw.U64, [1], count=(1 << 61) + 1)), key="y",
    ),
    Case(
        "duplicate-key", "a deciding key, another value", append("glp.mode", "add"),
        lambda i: i.keys[b"glp.mode"].entry, key="glp.mode",
    ),
    Case("duplicate-key", "the same value", append("x.number", 1), key="x.number"),
    Case(
        "duplicate-key", "general.alignment", lambda spec: spec.append("general.alignment", 32)
        .append("general.alignment", 32), key="general.alignment",
    ),
    Case(
        "duplicate-tensor", "a direction",
        lambda spec: spec.add_tensor("direction.1", gw.unit(8, 1)),
        tensor_entry("direction.1"), tensor="direction.1",
    ),
    Case(
        "duplicate-tensor", "a foreign tensor",
        lambda spec: spec.add_tensor("x", bytes(4)).add_tensor("x", bytes(4)), tensor="x",
    ),
    *(
        Case(
            "alignment", condition, append("general.alignment", number),
            value("general.alignment"), key="general.alignment",
        )
        for condition, number in [
            ("zero", 0),
            ("three", 3),
            ("2 MiB", 1 << 21),
            ("2^31", 1 << 31),
            ("a u64", gw.scalar(gw.U64, 32)),
            ("an i32", gw.scalar(gw.I32, 32)),
            ("a text", "32"),
            ("an array", array(gw.U32, [32])),
        ]
    ),
    Case(
        "tensor-name", "empty", rename("direction.2", b""), lambda i: i.entries[b""],
    ),
    Case(
        "tensor-name", "64 bytes", rename("direction.2", LONG + b"1"),
        tensor_entry(LONG + b"1"), tensor=(LONG + b"1").decode(),
    ),
    *(
        Case("tensor-name", how, rename("direction.2", name), tensor_entry(name))
        for how, name in [
            ("a NUL", b"direction.2\x00"),
            ("not UTF-8", b"direction.\xff"),
            ("a surrogate", b"direction.\xed\xbf\xbf"),
        ]
    ),
    *(
        Case(
            "tensor-shape", f"{n} dimensions", about_tensor("direction.2", n_dims=n),
            shape("direction.2"), tensor="direction.2",
        )
        for n in (0, 5, 0xFFFFFFFF)
    ),
    *(
        Case(
            "tensor-shape", how, about_tensor("direction.2", dims=dims),
            shape("direction.2"), tensor="direction.2",
        )
        for how, dims in [
            ("elements overflow", (1 << 32, 1 << 32)),
            ("elements wrap to 8", ((1 << 61) + 1, 8)),
            ("four dimensions overflow", (1 << 16, 1 << 16, 1 << 16, 1 << 16)),
            ("bytes overflow", (1 << 62,)),
            ("bytes wrap to 32", ((1 << 62) + 8,)),
        ]
    ),
    Case(
        "tensor-shape", "bytes of a foreign type overflow",
        lambda spec: spec.add_tensor("x", bytes(32), (1 << 61,), type=27),  # I64
        shape("x"), tensor="x",
    ),
    Case(
        "tensor-offset", "not a multiple of the alignment",
        about_tensor("direction.2", offset=4), tensor="direction.2",
    ),
    Case(
        "tensor-offset", "not 4-byte aligned for F32", odd_f32, tensor_entry("direction.2"),
        tensor="direction.2",
    ),
    Case(
        "tensor-offset", "past the end", about_tensor("direction.2", offset=1 << 20),
        tensor="direction.2",
    ),
    Case(
        "tensor-offset", "wraps to the header",
        about_tensor("direction.2", offset=(1 << 64) - 64), tensor="direction.2",
    ),
    Case(
        "tensor-offset", "wraps with the size",
        about_tensor("direction.2", offset=(1 << 64) - 32), tensor="direction.2",
    ),
    Case("tensor-offset", "overlaps in part", second_on_first, tensor="direction.2"),
    Case(
        "tensor-offset", "the same place",
        about_tensor("direction.2", offset=0),
    ),
    Case("tensor-offset", "a foreign tensor on a direction", foreign_on_first),
]  # fmt: skip


def broken(case: Case) -> bytes:
    spec = base()
    changed = case.change(spec)
    return changed if isinstance(changed, bytes) else spec.build()


def image_of(case: Case) -> Image:
    """The file with the places of its parts, whole where the case cuts it."""
    spec = base()
    changed = case.change(spec)
    return changed if isinstance(changed, Image) else spec.build()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}: {case.condition}")
def test_broken(judge, case):
    data = broken(case)
    for command in ("check", "info"):
        found = getattr(judge, command)(data)
        assert found.status == 2
        assert [f["code"] for f in found.findings] == [case.code]
        finding = found.findings[0]
        assert finding["severity"] == "format"
        assert_remedy(case.code, finding["message"])
        for word in case.words:
            assert word in finding["message"]
        if case.offset is not None:
            assert finding["offset"] == case.offset(image_of(case))
        if case.key is not None:
            assert finding["key"] == case.key
        if case.tensor is not None:
            assert finding["tensor"] == case.tensor


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}: {case.condition}")
def test_broken_raises(case):
    """The same through the library: one exception, which carries the finding."""
    data = broken(case)
    with pytest.raises(glpcore.FormatError) as caught:
        glpcore.open(memoryview(data))
    assert caught.value.code == case.code
    assert [f.code for f in caught.value.findings] == [case.code]
    assert caught.value.offset == caught.value.findings[0].offset
    with pytest.raises(glpcore.FormatError) as caught:
        glpcore.load(memoryview(data))
    assert caught.value.code == case.code


def test_sound(judge):
    """What all these cases break is accepted as it is."""
    for command in ("check", "info"):
        found = getattr(judge, command)(base())
        assert (found.status, found.findings) == (0, [])


# ---- Beside the faults: what looks alike and is legal --------------------------------------------


def aligned(alignment: int, declared: int | None = None) -> Spec:
    spec = gw.sound(keys={"general.alignment": declared or alignment})
    spec.alignment = alignment
    return spec


def placed_first(spec: Spec) -> Spec:
    """general.alignment as the first key: order means nothing."""
    spec.keys.insert(0, spec.keys.pop())
    return spec


def reordered() -> Spec:
    spec = base()
    spec.keys.reverse()
    spec.tensors.reverse()
    return spec


def keys_of(size: int) -> Spec:
    return base().append(b"k" * size, 1)


LEGAL = {
    "alignment 64": lambda: aligned(64),
    "alignment 1 MiB": lambda: aligned(1 << 20),
    "alignment 8": lambda: aligned(8),
    "alignment as the first key": lambda: placed_first(aligned(64)),
    "keys and tensors in reverse": reordered,
    "a key of 65,535 bytes": lambda: keys_of(65535),
    "a key that is not ASCII": lambda: base().append("x.größe.層", 1),
    "a text that is not UTF-8": lambda: base().append("x", gw.string(b"\xff\x00\xfe")),
    "an empty text": lambda: base().append("x", ""),
    "an array of 10,000": lambda: base().append("x", array(gw.U8, [1] * 10_000)),
    "no other key": lambda: gw.sound(layers=(1,)),
    "a layer of five": lambda: gw.sound(layers=(1, 2, 3, 4, 5), n_embd=64),
    **{
        f"a foreign {gw.TYPE_NAMES[t]}": lambda t=t: base().append("x", gw.scalar(t, 1))
        for t in gw.SCALARS
    },
    **{
        f"a foreign array of {gw.TYPE_NAMES[t]}": lambda t=t: base().append("x", array(t, [1, 0]))
        for t in gw.SCALARS
    },
    "a foreign array of texts": lambda: base().append("x", array(gw.STRING, ["", "a", b"\xff"])),
    **{
        f"an empty array of {gw.TYPE_NAMES[t]}": lambda t=t: base().append("x", array(t))
        for t in gw.TYPE_NAMES
    },
    **{f"arrays {n} deep": lambda n=n: base().append("x", nested(n)) for n in (1, 2, 3, 4)},
    "texts four deep": lambda: base().append("x", nested(4, array(gw.STRING, ["a", "b"]))),
    "arrays beside each other": lambda: base().append(
        "x", array(gw.ARRAY, [array(gw.U8, [1]), array(gw.STRING, ["a"]), array(gw.F64)])
    ),
    "a bool of 2 in a foreign key": lambda: base().append("x", gw.Value(gw.BOOL, b"\x02")),
}


@pytest.mark.parametrize("make", LEGAL.values(), ids=LEGAL)
def test_legal(judge, make):
    found = judge.check(make())
    assert (found.status, found.findings) == (0, [])


# A foreign tensor is a reason to refuse, never a container fault: (type, dims, bytes).
FOREIGN = {
    "F16": (1, (8,), 16),
    "Q4_0": (2, (64,), 36),
    "Q8_0 in two dimensions": (8, (32, 4), 136),
    "I64": (27, (3,), 24),
    "BF16": (30, (2, 2, 2, 2), 32),
    "F64": (28, (1,), 8),
    "a retired type": (4, (32,), 0),
    "an unknown type": (gw.NO_SUCH_GGML_TYPE, (8,), 0),
    "an unknown type, any extent": (gw.NO_SUCH_GGML_TYPE, (1 << 50,), 0),
    "a zero dimension": (0, (0,), 0),
    "a zero dimension among others": (0, (8, 0, 1 << 40), 0),
    "zero and an unknown type": (gw.NO_SUCH_GGML_TYPE, (0, 0, 0, 0), 0),
}


@pytest.mark.parametrize(("type", "dims", "size"), FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("first", [False, True], ids=["last", "first"])
def test_foreign_tensor(judge, type, dims, size, first):
    spec = base().add_tensor("blk.0.weight", bytes(size), dims, type)
    if first:
        spec.tensors.insert(0, spec.tensors.pop())
    found = judge.check(spec)
    assert found.status == 1
    assert {f["code"] for f in found.findings} == {"tensor-unexpected"}
    file = glpcore.open(memoryview(spec.build()))
    tensor = next(t for t in file.tensors if t.name == "blk.0.weight")
    assert tensor.n_bytes == size
    assert tuple(tensor.shape) in (dims, dims[::-1])


def test_foreign_block_that_is_not_whole(judge):
    """A row that is no whole number of blocks has no size in bytes."""
    found = judge.check(base().add_tensor("x", bytes(18), (33,), type=2))
    assert [f["code"] for f in found.findings] == ["tensor-shape"]
    assert found.status == 2


def test_a_name_of_63_bytes_is_a_name(judge):
    """... and here it is no direction, which is for the meaning to refuse."""
    found = judge.check(base().add_tensor(LONG, gw.unit(8, 1)))
    assert found.status == 1
    assert "tensor-name" not in found.codes()


def test_model_files_have_any_order(judge):
    """An F32 tensor between others, placed by hand, out of order."""
    spec = gw.sound(layers=(1, 2))
    spec.tensors.reverse()
    image = spec.build()
    file = glpcore.open(memoryview(image))
    assert [t.name for t in file.tensors] == ["direction.2", "direction.1"]
    assert [d.layer for d in file.directions] == [1, 2]
    assert [d.offset for d in file.directions] == [
        image.data[b"direction.1"], image.data[b"direction.2"],
    ]  # fmt: skip


# ---- Warnings ------------------------------------------------------------------------------------


def unpadded() -> Spec:
    spec = gw.sound(n_embd=9)
    spec.pad_last = False
    return spec


def test_padding(judge):
    image = unpadded().build()
    for command in ("check", "info"):
        found = getattr(judge, command)(image)
        assert found.status == 0
        assert [(f["code"], f["severity"]) for f in found.findings] == [("padding", "warning")]
        assert found.findings[0]["offset"] == image.data_end
        assert_remedy("padding", found.findings[0]["message"])
    assert judge.check(gw.sound(n_embd=9)).findings == []


@pytest.mark.parametrize("extra", [b"\0", b"payload", bytes(4096)], ids=["NUL", "text", "page"])
def test_trailing(judge, extra):
    spec = gw.sound()
    end = len(spec.build())
    spec.trailing = extra
    for command in ("check", "info"):
        found = getattr(judge, command)(spec)
        assert found.status == 0
        assert [(f["code"], f["severity"]) for f in found.findings] == [("trailing", "warning")]
        assert found.findings[0]["offset"] == end
        assert str(len(extra)) in found.findings[0]["message"]
        assert_remedy("trailing", found.findings[0]["message"])


def test_warnings_travel_with_the_vector():
    vec = glpcore.load(memoryview(unpadded().build()))
    assert "padding" in [f.code for f in vec.findings]


# ---- Size ----------------------------------------------------------------------------------------


def test_too_big(judge):
    image = gw.sound().build()
    path = judge.write(image)
    assert glpcore.open(path, max_bytes=len(image)).size == len(image)
    for source in (path, memoryview(image)):
        with pytest.raises(glpcore.FormatError) as caught:
            glpcore.open(source, max_bytes=len(image) - 1)
        assert caught.value.code == "too-big"
        message = caught.value.findings[0].message
        assert str(len(image)) in message
        assert str(len(image) - 1) in message
        assert_remedy("too-big", message)
    with pytest.raises(glpcore.FormatError) as caught:
        glpcore.load(path, max_bytes=len(image) - 1)
    assert caught.value.code == "too-big"
    with pytest.raises(ValueError, match="max_bytes"):
        glpcore.open(path, max_bytes=0)


def test_too_big_by_default(judge):
    """A sparse file of more than 1 GiB: a model. `check` stops there, `info` reads its header."""
    path = judge.write(gw.sound())
    os.truncate(path, (1 << 30) + 1)
    found = judge_path("check", path)
    assert found.status == 2
    assert found.one("too-big")["severity"] == "format"
    assert_remedy("too-big", found.one("too-big")["message"])
    for function in (glpcore.open, glpcore.load):
        with pytest.raises(glpcore.FormatError) as caught:
            function(path)
        assert caught.value.code == "too-big"
    described = judge_path("info", path)
    assert described.status == 0
    assert "trailing" in described.codes()
    answer = run_cli("info", path)
    assert "model" in answer.out + answer.err


# ---- Files that cannot be opened -----------------------------------------------------------------


def missing(folder):
    return folder / "missing.gguf"


def directory(folder):
    return folder


def empty(folder):
    path = folder / "empty.gguf"
    path.touch()
    return path


def dangling(folder):
    path = folder / "link.gguf"
    path.symlink_to(folder / "nowhere")
    return path


def under_a_file(folder):
    (folder / "file").write_bytes(b"x")
    return folder / "file" / "vector.gguf"


def fifo(folder):
    path = folder / "fifo"
    os.mkfifo(path)
    return path


def unix_socket(folder):
    path = folder / "s"
    here = os.getcwd()
    os.chdir(folder)  # the name of a socket has some 100 bytes at most
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("s")
    finally:
        os.chdir(here)
    return path


UNREADABLE = {
    "missing": (missing, FileNotFoundError, errno.ENOENT),
    "directory": (directory, IsADirectoryError, errno.EISDIR),
    "empty": (empty, OSError, None),
    "dangling link": (dangling, FileNotFoundError, errno.ENOENT),
    "under a file": (under_a_file, NotADirectoryError, errno.ENOTDIR),
    "fifo": (fifo, OSError, None),
    "socket": (unix_socket, OSError, None),
    "null device": (lambda folder: "/dev/null", OSError, None),
}


@pytest.mark.parametrize(("make", "error", "number"), UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "read"])
def test_unreadable(tmp_path, make, error, number, mmap):
    path = make(tmp_path)
    with pytest.raises(error) as caught:
        glpcore.open(path, mmap=mmap)
    assert not isinstance(caught.value, ValueError)
    if number is not None:
        assert caught.value.errno == number
        assert str(path) in str(caught.value)
    assert [f.code for f in caught.value.findings] == ["io"]
    for command in ("check", "info"):
        found = judge_path(command, path)
        assert found.status == 2
        assert [(f["code"], f["severity"]) for f in found.findings] == [("io", "format")]
        assert_remedy("io", found.findings[0]["message"])


@pytest.fixture
def nobody():
    """Root may read anything, so it becomes somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


def test_unreadable_by_permission(judge, request):
    path = judge.write(gw.sound())
    path.chmod(0)
    request.getfixturevalue("nobody")
    with pytest.raises(PermissionError) as caught:
        glpcore.open(path)
    assert caught.value.errno == errno.EACCES
    assert judge_path("check", path).codes() == {"io"}


def test_a_link_to_a_file_is_fine(judge, tmp_path):
    link = tmp_path / "link.gguf"
    link.symlink_to(judge.write(gw.sound()))
    assert judge_path("check", link).status == 0


def test_exit_status_is_the_worst(judge):
    """0 applicable, 1 refused, 2 unreadable, over several files; 64 for usage."""
    fine = judge.write(gw.sound(), "fine.gguf")
    refused = judge.write(gw.sound(mode="ablate"), "refused.gguf")
    broken = judge.write(b"GGUF", "broken.gguf")
    assert run_cli("check", fine).status == 0
    assert run_cli("check", fine, refused).status == 1
    assert run_cli("check", refused, broken, fine).status == 2
    assert run_cli("check").status == 64
    assert run_cli("check", fine, "--mode", "ablate").status == 64
    assert run_cli("check", fine, "--n-embd", "x").status == 64
