"""From sources to a File: paths, buffers, file objects, raw shapes, and closing."""

from __future__ import annotations

import errno
import gc
import io
import math
import mmap
import os
import pickle
import weakref
from pathlib import Path

import gguf_writer as gw
import numpy as np
import pytest

import glpcore
from glpcore import _core

ROWS = [gw.unit(8, layer) for layer in range(4)]
RAW = gw.raw(ROWS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "vector.gguf"
    path.write_bytes(gw.sound().build())
    return path


@pytest.fixture
def raw_path(tmp_path: Path) -> Path:
    path = tmp_path / "vector.f32"
    path.write_bytes(RAW)
    return path


# ---- Sources -------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_source", [str, Path, os.fsencode], ids=["str", "Path", "bytes"])
@pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "read"])
def test_paths(path, as_source, mapped):
    with glpcore.open(as_source(path), mmap=mapped) as file:
        assert (file.name, file.size, file.layers) == (str(path), path.stat().st_size, (1, 2, 3))
        assert file.verdict == "applicable"


@pytest.mark.skipif(os.name == "nt", reason="names there are text")
def test_path_that_is_not_text(path):
    odd = os.path.join(os.fsencode(path.parent), b"\xff.gguf")
    os.rename(path, odd)
    assert glpcore.open(odd).name == os.fsdecode(odd)


@pytest.mark.parametrize(
    "bad", [b"GGUF\3\0\0\0", "a\0b", Path("a\0b")], ids=["contents", "str", "Path"]
)
def test_a_path_with_a_nul(bad):
    with pytest.raises(ValueError, match=r"bytes are a path: wrap .* in memoryview\(\)") as caught:
        glpcore.open(bad)
    assert not isinstance(caught.value, glpcore.GlpError)


@pytest.mark.parametrize("make", [bytes, bytearray, np.array], ids=["bytes", "bytearray", "array"])
def test_buffers(path, make):
    data = path.read_bytes()
    source = memoryview(np.frombuffer(data, "u1") if make is np.array else make(data))
    file = glpcore.open(source)
    assert (file.name, file.size, file.layers) == (None, len(data), (1, 2, 3))


def test_a_writable_buffer_is_copied(path):
    data = bytearray(path.read_bytes())
    file = glpcore.open(data)
    data[:] = bytes(len(data))
    assert file.info.mode == "project"
    data += b"not held"


def test_a_read_only_buffer_is_used_in_place(path):
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as m:
        file = glpcore.open(m)
        vec = file.accept()
        start = np.frombuffer(m, "u1").ctypes.data
        assert start <= vec[1].ctypes.data < start + len(m)
        with pytest.raises(BufferError):
            m.close()  # it is held
        del vec
        file.close()


def test_buffer_off_alignment(path):
    data = b"x" + path.read_bytes()
    vec = glpcore.load(memoryview(data)[1:])
    np.testing.assert_array_equal(vec[2], np.array(gw.unit(8, 2), "f4"))


def test_buffer_with_gaps(path):
    with pytest.raises(ValueError, match="contiguous"):
        glpcore.open(memoryview(path.read_bytes())[::2])


class Trickle(io.RawIOBase):
    """A pipe: a few bytes at a time."""

    def __init__(self, data: bytes, name: object = 3):
        self.stream, self.name, self.taken = io.BytesIO(data), name, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        got = self.stream.read(min(len(buffer), 100))
        buffer[: len(got)] = got
        self.taken += len(got)
        return len(got)


def test_file_objects(path):
    data = path.read_bytes()
    with open(path, "rb") as stream:
        assert glpcore.open(stream).name == str(path)
    for source in (io.BytesIO(data), Trickle(data)):
        file = glpcore.open(source)
        assert (file.name, file.size) == (None, len(data))
    with pytest.raises(TypeError, match="binary mode"):
        glpcore.open(io.StringIO("GGUF"))


def test_endless_stream_stops_at_the_limit():
    source = Trickle(bytes(100_000))
    with pytest.raises(glpcore.FormatError) as caught:
        glpcore.open(source, max_bytes=1000)
    assert caught.value.code == "too-big"
    assert source.taken == 1001


@pytest.mark.parametrize("bad", [None, 3, 1.5, ["x"], object()])
def test_not_a_source(bad):
    with pytest.raises(TypeError, match="pass a path, a binary file object, or bytes in a"):
        glpcore.open(bad)


# ---- Raw .f32 ------------------------------------------------------------------------------------


def test_raw(raw_path):
    for source in (raw_path, memoryview(RAW), io.BytesIO(RAW)):
        for n_layers in (4, None):
            file = glpcore.open(source, n_embd=8, n_layers=n_layers)
            assert file.info.raw
            assert (file.layers, file.info.n_embd, file.size) == ((0, 1, 2, 3), 8, 128)
            if isinstance(source, io.BytesIO):
                source.seek(0)


@pytest.mark.parametrize("shape", [{}, {"n_layers": 4}])
def test_raw_without_a_width(raw_path, shape):
    with pytest.raises(glpcore.FormatError, match=r"n_embd for a raw \.f32") as caught:
        glpcore.open(raw_path, **shape)
    assert caught.value.code == "not-gguf"


@pytest.mark.parametrize(
    "shape",
    [{"n_embd": 7}, {"n_embd": 64}, {"n_embd": 8, "n_layers": 3}, {"n_embd": 8, "n_layers": 5}],
)
def test_raw_of_another_size(raw_path, shape):
    for source in (raw_path, memoryview(RAW)):
        with pytest.raises(glpcore.FormatError) as caught:
            glpcore.open(source, **shape)
        assert caught.value.code == "raw-size"


@pytest.mark.parametrize("name", ["n_embd", "n_layers"])
@pytest.mark.parametrize("value", [0, -1, 1 << 40])
def test_shapes_are_positive(raw_path, name, value):
    with pytest.raises(ValueError, match=f"{name} must be a positive number"):
        glpcore.open(raw_path, **{"n_embd": 8, name: value})


def test_a_stated_shape_changes_nothing_for_gguf(path):
    assert not glpcore.open(path, n_embd=3, n_layers=1).info.raw


def test_load_raw(raw_path):
    vec = glpcore.load(raw_path, n_embd=8, hook=gw.FFN)
    np.testing.assert_array_equal(vec[0], np.array(ROWS[0], "f4"))
    with pytest.raises(glpcore.RefusedError) as caught:
        glpcore.load(raw_path, n_embd=8)
    assert caught.value.code == "hook-missing"


# ---- Failures of the system ----------------------------------------------------------------------


def test_missing(tmp_path):
    for given in (tmp_path / "none.gguf", str(tmp_path / "none.gguf")):
        with pytest.raises(FileNotFoundError) as caught:
            glpcore.open(given)
        error = caught.value
        assert (error.errno, error.filename) == (errno.ENOENT, os.fspath(given))
        assert (error.code, [f.code for f in error.findings]) == ("io", ["io"])
        assert not isinstance(error, glpcore.GlpError)


def test_directory(tmp_path):
    with pytest.raises(IsADirectoryError):
        glpcore.load(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="regular file; for a pipe or device, read its bytes first"):
        glpcore.open(tmp_path / "pipe", n_embd=8)


def test_empty():
    with pytest.raises(OSError, match="not empty") as caught:
        glpcore.open(memoryview(b""))
    assert caught.value.code == "io"


@pytest.mark.parametrize("bad", [0, -1])
def test_max_bytes_is_positive(path, bad):
    with pytest.raises(ValueError, match="max_bytes must be a positive number"):
        glpcore.open(path, max_bytes=bad)


def test_max_bytes_beyond_64_bits(path):
    glpcore.open(path, max_bytes=1 << 80)


# ---- What a file says ----------------------------------------------------------------------------


def test_info(path):
    info = glpcore.open(path).info
    assert isinstance(info, glpcore.Info)
    want = {
        "raw": False, "file_size": path.stat().st_size, "mode": "project", "mode_declared": True,
        "mode_text": "project", "spec_version": 1, "spec_version_declared": True, "hook": gw.FFN,
        "hook_text": gw.FFN, "derived_at": None, "transferred": False, "structure": "per-layer",
        "structure_text": None, "alpha": 4.0, "rank": 1, "has_dir_scales": False,
        "has_layer_scales": False, "n_embd": 8, "n_directions": 3, "n_layers": 3, "layer_min": 1,
        "layer_max": 3, "base_name": "Tiny 1B", "base_organization": "Example",
        "base_revision": gw.REVISION, "base_url": "https://example.org/tiny-1b",
        "method": "difference-of-means", "contrast": "succinct-vs-verbose",
        "created": "2026-01-01", "generator": None, "name": "Verbosity", "model_hint": None,
    }  # fmt: skip
    found = info._asdict()
    assert {key: found[key] for key in want} == want
    assert set(found) - set(want) == {"norm_min", "norm_max", "content_sha256"}
    assert 1 - 1e-6 < info.norm_min <= info.norm_max < 1 + 1e-6
    assert len(info.content_sha256) == 64


def test_info_of_what_is_not_known():
    keys = {"glp.structure": "spiral", "glp.alpha_default": None}
    odd = gw.sound(mode=b"abl\xff", hook="somewhere", keys=keys)
    info = glpcore.open(memoryview(odd.build())).info
    assert (info.mode, info.mode_text) == (None, "abl\\xff")
    assert (info.hook, info.hook_text, info.alpha) == (None, "somewhere", None)
    assert (info.structure, info.structure_text) == ("other", "spiral")
    empty = gw.sound(layers=())
    info = glpcore.open(memoryview(empty.build())).info
    assert (info.n_directions, info.n_embd) == (0, 0)
    assert math.isnan(info.norm_min)
    assert math.isnan(info.norm_max)


def test_tensors_and_directions(path):
    data = path.read_bytes()
    file = glpcore.open(path)
    assert [(t.name, t.shape, t.type, t.n_bytes) for t in file.tensors] == [
        (f"direction.{layer}", (8,), 0, 32) for layer in (1, 2, 3)
    ]
    for layer, tensor, payload in zip((1, 2, 3), file.tensors, file.directions, strict=True):
        values = np.frombuffer(data, "<f4", 8, tensor.offset)
        np.testing.assert_array_equal(values, np.array(gw.unit(8, layer), "f4"))
        assert (payload.layer, payload.j, payload.offset) == (layer, 0, tensor.offset)
        assert payload.norm == pytest.approx(np.linalg.norm(values.astype("f8")), rel=1e-15)
    first, second = (np.array(gw.unit(8, layer), "f4").astype("f8") for layer in (1, 2))
    cosines = [p.cosine for p in file.directions]
    assert cosines[0] is None
    assert cosines[1] == pytest.approx(
        first @ second / np.linalg.norm(first) / np.linalg.norm(second), abs=1e-12
    )


def test_table(path):
    rows = glpcore.open(path).table()
    assert [(r.layer, r.j, r.alpha) for r in rows] == [(1, 0, 4.0), (2, 0, 4.0), (3, 0, 4.0)]
    refused = gw.sound(keys={"glp.spec_version": 9})
    rows = glpcore.open(memoryview(refused.build())).table()
    assert [(r.layer, r.alpha) for r in rows] == [(1, None), (2, None), (3, None)]


@pytest.mark.parametrize("sign", ["", "-"])
def test_table_of_a_strength_that_overflows(sign):
    scales = {"glp.dir_scales": f"{sign}1e300,1"}
    spec = gw.sound(layers=(1, 2), rank=2, alpha=3e38, keys=scales)
    rows = glpcore.open(memoryview(spec.build())).table()
    alpha = float(np.float32(3e38))
    assert [(r.layer, r.j, r.alpha) for r in rows] == [
        (1, 0, None), (1, 1, alpha), (2, 0, None), (2, 1, alpha),
    ]  # fmt: skip


VALUES = {
    "u8": (gw.scalar(gw.U8, 200), 200),
    "i8": (gw.scalar(gw.I8, -100), -100),
    "u16": (gw.scalar(gw.U16, 60000), 60000),
    "i16": (gw.scalar(gw.I16, -30000), -30000),
    "u32": (gw.scalar(gw.U32, 4 * 10**9), 4 * 10**9),
    "i32": (gw.scalar(gw.I32, -(2**31)), -(2**31)),
    "u64": (gw.scalar(gw.U64, 2**64 - 1), 2**64 - 1),
    "i64": (gw.scalar(gw.I64, -(2**63)), -(2**63)),
    "f32": (gw.scalar(gw.F32, 0.1), float(np.float32(0.1))),
    "f64": (gw.scalar(gw.F64, 0.1), 0.1),
    "true": (gw.scalar(gw.BOOL, 1), True),
    "odd bool": (gw.scalar(gw.BOOL, 7), True),
    "text": (gw.string("größer\n"), "größer\n"),
    "no text": (gw.string(""), ""),
    "not text": (gw.string(b"a\xffb"), "a\\xffb"),
    "numbers": (gw.array(gw.U16, [1, 2, 3]), [1, 2, 3]),
    "bools": (gw.array(gw.BOOL, [1, 0]), [True, False]),
    "texts": (gw.array(gw.STRING, ["a", "", "ccc"]), ["a", "", "ccc"]),
    "nothing": (gw.array(gw.F32, []), []),
    "nested": (gw.nested(3, gw.array(gw.U8, [7, 8])), [[[7, 8]]]),
}


def test_metadata():
    spec = gw.sound()
    for key, (value, _) in VALUES.items():
        spec.set(key, value)
    file = glpcore.open(memoryview(spec.build()))
    found = file.metadata
    for key, (_, want) in VALUES.items():
        assert found[key] == want
        assert type(found[key]) is type(want)
    assert list(found)[-len(VALUES) :] == list(VALUES)
    assert len(found) == len(list(found)) == len(dict(found))
    assert "glp.mode" in found
    assert found["glp.mode"] == "project"
    assert "absent" not in found
    assert found.get("absent") is None
    for key in ("absent", "\ud800", "\udcff", "", 3):
        assert key not in found
        assert found.get(key) is None
        with pytest.raises(KeyError):
            found[key]
    with pytest.raises(TypeError):
        found["glp.mode"] = "add"
    file.close()
    with pytest.raises(ValueError, match="closed"):
        found["glp.mode"]


def test_describe(path):
    file = glpcore.open(path)
    text = file.describe()
    assert text.startswith(f"applicable: {path}\n")
    assert text.endswith("\n")
    assert gw.FFN in text
    assert file.describe(name="another").startswith("applicable: another\n")
    assert len(file.describe(layers=True).splitlines()) >= len(text.splitlines()) + 4
    judged = file.judge(n_embd=16)
    assert [f.code for f in judged] == ["width-mismatch"]
    assert file.describe(findings=judged).startswith("refused: ")
    assert file.describe(findings=[]).startswith("applicable: ")
    with pytest.raises(ValueError, match="severity is 'fatal'"):
        file.describe(findings=[glpcore.Finding("x", "fatal", "x")])


def test_describe_longer_than_any_buffer():
    spec = gw.sound(layers=range(1, 400))
    text = glpcore.open(memoryview(spec.build())).describe(layers=True)
    assert len(text) > 8192
    assert text.splitlines()[-1].split()[0] == "399"


def test_findings_are_the_callers(path):
    file = glpcore.open(memoryview(gw.sound(keys={"glp.alpha_default": None}).build()))
    assert [f.code for f in file.findings] == ["alpha-missing"]
    file.findings.clear()
    assert [f.code for f in file.findings] == ["alpha-missing"]


def test_escape():
    assert _core.escape("plain") == "plain"
    assert _core.escape("a\x1b[31m\n") == "a\\x1b[31m\\n"
    assert _core.escape(b"\xff") == _core.escape("\udcff") == "\\xff"
    assert _core.escape("a\ud800") == "a\\xed\\xa0\\x80"
    assert _core.escape("") == ""


def test_version():
    assert glpcore.__version__ == _core.version()
    assert glpcore.__version__.count(".") == 2


# ---- Targets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ({"mode": "add"}, "mode-mismatch"),
        ({"hook": "attn_out_pre_residual"}, "hook-mismatch"),
        ({"n_embd": 9}, "width-mismatch"),
        ({"n_layers": 3}, "depth-mismatch"),
        ({"base": "other-2b"}, "base-mismatch"),
        ({"base": ["other-2b", "third"]}, "base-mismatch"),
        ({"base_revision": "f" * 40}, "base-mismatch"),
        ({"structure": "per-execution-step"}, "structure"),
    ],
)
def test_target(path, target, code):
    file = glpcore.open(path)
    assert [f.code for f in file.judge(**target) if f.severity == "refusal"] == [code]
    with pytest.raises(glpcore.RefusedError) as caught:
        file.accept(**target)
    assert caught.value.code == code
    with pytest.raises(glpcore.RefusedError):
        glpcore.load(path, **target)


def test_target_met(path):
    target = {
        "mode": "project", "hook": gw.FFN, "n_embd": 8, "n_layers": 4, "structure": "per-layer",
        "base": ("another", "tiny_1b"), "base_revision": gw.REVISION,
    }  # fmt: skip
    file = glpcore.open(path)
    assert file.judge(**target) == file.accept(**target).findings == []


def test_every_reason_is_reported(path):
    with pytest.raises(glpcore.RefusedError) as caught:
        glpcore.load(path, n_embd=9, n_layers=2, mode="add")
    error = caught.value
    assert {f.code for f in error.findings} == {
        "width-mismatch", "depth-mismatch", "mode-mismatch",
    }  # fmt: skip
    assert error.code == error.findings[0].code
    assert str(error).startswith(error.findings[0].message)
    for finding in error.findings[1:]:
        assert finding.code in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.findings, again.code) == (
        type(error), str(error), error.findings, error.code,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ({"mode": "subtract"}, ValueError, "mode must be one of 'project', 'add'"),
        ({"hook": "mlp"}, ValueError, "hook must be one of 'residual_stream_post_layer', "),
        ({"structure": "tree"}, ValueError, "structure must be one of 'per-layer', "),
        ({"n_embd": 0}, ValueError, "n_embd must be a positive number"),
        ({"n_layers": -3}, ValueError, "n_layers must be a positive number"),
        ({"n_embd": 8.0}, TypeError, "n_embd must be an int, not float"),
        ({"n_embd": True}, TypeError, "n_embd must be an int, not bool"),
        ({"base": 3}, TypeError, "int"),
        ({"base": ["a", b"b"]}, TypeError, "base must be text, not bytes"),
        ({"base": "a\0b"}, ValueError, "base holds a NUL"),
        ({"base": "\ud800"}, ValueError, "base must be Unicode"),
        ({"base_revision": "a\ud800"}, ValueError, "base_revision must be Unicode"),
        ({"base_revision": 7}, TypeError, "base_revision must be text"),
        ({"width": 8}, TypeError, "width"),
    ],
)
def test_wrong_targets(path, target, error, message):
    file = glpcore.open(path)
    for function in (file.judge, file.accept):
        with pytest.raises(error, match=message) as caught:
            function(**target)
        assert not isinstance(caught.value, glpcore.GlpError)


def test_model(path, tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 4}')
    vec = glpcore.load(path, model=config)
    assert vec.dense(alpha=1).shape == (4, 8)
    with pytest.raises(glpcore.RefusedError) as caught:
        glpcore.load(path, model=os.fsencode(config), n_layers=3)  # what is stated wins
    assert caught.value.code == "depth-mismatch"
    raw = tmp_path / "vector.f32"
    raw.write_bytes(RAW)
    assert glpcore.load(raw, model=config, hook=gw.FFN).layers == (0, 1, 2, 3)


# ---- Closing -------------------------------------------------------------------------------------


def test_closing(path):
    file = glpcore.open(path)
    assert not file.closed
    assert "closed" not in repr(file)
    file.close()
    file.close()
    assert file.closed
    assert "closed" in repr(file)
    uses = {
        "info": lambda: file.info,
        "size": lambda: file.size,
        "findings": lambda: file.findings,
        "verdict": lambda: file.verdict,
        "metadata": lambda: file.metadata["x"],
        "keys": lambda: list(file.metadata),
        "count": lambda: len(file.metadata),
        "tensors": lambda: file.tensors,
        "directions": lambda: file.directions,
        "layers": lambda: file.layers,
        "table": file.table,
        "judge": file.judge,
        "accept": file.accept,
        "describe": file.describe,
        "enter": file.__enter__,
    }
    for name, use in uses.items():
        with pytest.raises(ValueError, match="the file is closed"):
            pytest.fail(f"{name} gave {use()}")


def test_closing_under_a_vector(path):
    file = glpcore.open(path)
    vec = file.accept()
    view = vec[1]
    with pytest.raises(BufferError, match=r"1 vector\(s\), 1 view\(s\)"):
        file.close()
    assert not file.closed
    np.testing.assert_array_equal(vec[1], view)
    del vec
    with pytest.raises(BufferError):
        file.close()  # the array still holds it
    part = view[2:5]
    del view
    with pytest.raises(BufferError):
        file.close()
    del part
    file.close()
    assert file.closed


def test_with_and_a_vector_alive(path):
    with pytest.raises(BufferError), glpcore.open(path) as file:
        vec = file.accept()
    assert vec[1].shape == (8,)
    with pytest.raises(KeyError), glpcore.open(path) as file:  # the real error comes out
        file.accept()[99]


def test_a_view_outlives_all_names(path):
    view = glpcore.load(path)[2]
    gc.collect()
    np.testing.assert_array_equal(view, np.array(gw.unit(8, 2), "f4"))


def test_the_file_goes_with_its_last_user(path):
    vec = glpcore.load(path)
    file, view = weakref.ref(vec.file), vec[1]
    del vec
    gc.collect()
    assert file() is not None
    del view
    gc.collect()
    assert file() is None


@pytest.mark.parametrize("first", ["buffer", "file"])
def test_garbage_with_its_buffer(path, first):
    """A cycle that holds a vector and the memoryview it came from is collected like any other."""
    data = memoryview(path.read_bytes())
    cycle: list[object] = [data] if first == "buffer" else []
    vec = glpcore.load(data)
    cycle += [vec, vec.file, data, cycle]
    gone = weakref.ref(vec)
    del vec, data, cycle
    gc.collect()
    assert gone() is None


def test_handles_are_not_made_by_hand(path):
    for kind in (glpcore.File, glpcore.Vector):
        for make in (kind, lambda kind=kind: kind.__new__(kind), lambda kind=kind: kind(object())):
            with pytest.raises(TypeError, match=r"make a (File|Vector) with"):
                make()
        with pytest.raises(TypeError):
            type("Sub", (kind,), {})
    with pytest.raises(TypeError):
        pickle.dumps(glpcore.open(path))
