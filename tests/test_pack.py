"""`glpcore.pack`: what is written, what is refused, and how a file comes under its name."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time
from pathlib import Path

import gguf_writer as gw
import numpy as np
import pytest
from gguf_writer import ATTENTION, FFN, RESIDUAL

import glpcore
from glpcore import _pack


def pack(path, directions, **changes):
    arguments = {"hook": FFN, "base": "Tiny 1B", "alpha": 1.0, **changes}
    return glpcore.pack(path, directions, **arguments)


def units(n_embd: int, layers, rank: int = 1) -> dict[int, np.ndarray]:
    return {n: np.array([gw.unit(n_embd, n, j) for j in range(rank)], np.float32) for n in layers}


@pytest.fixture
def out(tmp_path):
    return tmp_path / "v.gguf"


def directions_of(path) -> dict[tuple[int, int], np.ndarray]:
    """What the core reads, copied."""
    with glpcore.open(path) as file:
        vec = file.accept(mode=file.info.mode, structure=None)
        found = {(n, j): vec.direction(n, j).copy() for n in vec for j in range(vec.rank)}
        del vec
    return found


def refusal(code, *arguments, **changes) -> str:
    with pytest.raises(glpcore.RefusedError) as caught:
        pack(*arguments, **changes)
    assert caught.value.code == code
    return str(caught.value)


# ---- The content hash ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("directions", "digest"),
    [
        (
            {1: [0.5, 0.5, 0.5, 0.5], 2: [1.0, 0.0, 0.0, 0.0]},
            "9e29a3887cf5a00f505f05f4e11ef98fe6b1f25203beb4c60b01b720e7544151",
        ),
        (
            {n: [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]] for n in (1, 2)},
            "57293713fbcdd48ea67ae5ddccfd3e10a5e6c912af44ebca58141a5615e67f8f",
        ),
    ],
    ids=["rank 1", "rank 2"],
)
def test_digests_of_another_implementation(out, directions, digest):
    result = pack(out, directions)
    assert result.content_sha256 == digest
    assert glpcore.open(out).info.content_sha256 == digest
    assert result.n_renormalised == 0
    # By (layer, j) as numbers, however they were given.
    backwards = dict(reversed(directions.items()))
    assert pack(out, backwards, force=True).content_sha256 == digest


def test_layers_are_ordered_as_numbers(out):
    directions = units(8, (10, 9, 100, 2))
    result = pack(out, directions)
    assert result.layers == (2, 9, 10, 100)
    expected = hashlib.sha256(b"".join(directions[n].tobytes() for n in (2, 9, 10, 100)))
    assert result.content_sha256 == expected.hexdigest()


# ---- What is written -----------------------------------------------------------------------------


def test_metadata(out):
    pack(
        out, units(8, (3, 1)), alpha=0.1, base_org="Example", base_revision=gw.REVISION,
        base_url="https://example.org", method="m", contrast="a_vs_b", derived_at=RESIDUAL,
        generator="g", created="2026-01-02",
    )  # fmt: skip
    assert dict(glpcore.open(out).metadata) == {
        "general.architecture": "controlvector",
        "general.type": "controlvector",
        "general.name": "v",
        "general.base_model.count": 1,
        "general.base_model.0.name": "Tiny 1B",
        "general.base_model.0.organization": "Example",
        "general.base_model.0.version": gw.REVISION,
        "general.base_model.0.repo_url": "https://example.org",
        "controlvector.layer_count": 2,
        "glp.mode": "project",
        "glp.spec_version": 1,
        "glp.hook_point": FFN,
        "glp.derived_at": RESIDUAL,
        "glp.alpha_default": float(np.float32(0.1)),
        "glp.rank": 1,
        "glp.orthonormal": True,
        "glp.layer_ids_zero_based": "1,3",
        "glp.method": "m",
        "glp.contrast": "a_vs_b",
        "glp.generator": "g",
        "glp.created": "2026-01-02",
        "glp.content_sha256": glpcore.open(out).info.content_sha256,
    }


def test_what_is_not_said_is_not_written(out):
    before = time.strftime("%Y-%m-%d", time.gmtime())
    result = pack(out, units(8, (1,)), alpha=None)
    metadata = glpcore.open(out).metadata
    assert metadata["glp.created"] in (before, time.strftime("%Y-%m-%d", time.gmtime()))
    assert metadata["glp.generator"] == f"glpcore {glpcore.__version__}"
    for key in ("alpha_default", "method", "contrast", "derived_at", "structure", "dir_scales"):
        assert f"glp.{key}" not in metadata
    assert "general.base_model.0.organization" not in metadata
    assert [f.code for f in result.findings] == ["alpha-missing"]


def test_the_same_twice(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        pack(tmp_path / name / "v.gguf", units(9, (1, 2)), created="2026-01-01")
    assert (tmp_path / "a/v.gguf").read_bytes() == (tmp_path / "b/v.gguf").read_bytes()


@pytest.mark.parametrize("n_embd", [1, 7, 8, 9])
def test_alignment_and_padding(out, n_embd):
    pack(out, {1: np.eye(1, n_embd)[0], 2: np.eye(1, n_embd)[0]})
    file = glpcore.open(out)
    assert [d.offset % 32 for d in file.directions] == [0, 0]
    assert out.stat().st_size % 32 == 0
    assert file.findings == []


# ---- Norms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [2.0, 0.5, 1.001, 1 + 2e-6, 1e-11, 1e30, -3.0])
def test_rows_off_unit_norm_are_normalised(out, factor):
    good, odd = (np.array(gw.unit(64, n)) for n in (1, 2))
    result = pack(out, {1: good.astype(np.float32), 2: odd * factor})
    assert result.n_renormalised == 1
    found = directions_of(out)
    assert found[1, 0].tobytes() == good.astype(np.float32).tobytes()
    np.testing.assert_allclose(found[2, 0], np.copysign(1, factor) * odd, atol=1e-7)
    # What was packed once is unit, and is left alone.
    again = pack(out, found and {2: found[2, 0]}, force=True)
    assert again.n_renormalised == 0
    assert directions_of(out)[2, 0].tobytes() == found[2, 0].tobytes()


@pytest.mark.parametrize("off", [1e-7, -4e-7])
def test_rows_of_unit_norm_keep_their_bits(out, off):
    row = (np.array(gw.unit(64, 1)) * (1 + off)).astype(np.float32)
    assert abs(np.linalg.norm(row.astype(float)) - 1) > 5e-8
    assert pack(out, {1: row}).n_renormalised == 0
    assert directions_of(out)[1, 0].tobytes() == row.tobytes()


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_values_beyond_float32_are_normalised_in_float64(out, scale):
    row = scale * np.array([3.0, 0.0, -4.0])
    if scale < 1:
        assert "zero" in refusal("direction-norm", out, {1: row})
        return
    pack(out, {1: row})
    assert directions_of(out)[1, 0].tolist() == [np.float32(0.6), 0.0, np.float32(-0.8)]


@pytest.mark.parametrize("dtype", ["<f2", ">f4", ">f8", "<f4"])
def test_any_float_type(out, dtype):
    pack(out, {5: np.array([0.5, -0.5, 0.5, 0.5], dtype)})
    assert directions_of(out)[5, 0].tolist() == [0.5, -0.5, 0.5, 0.5]


# ---- Rank k --------------------------------------------------------------------------------------


def test_a_basis_is_made_orthonormal(out):
    rows = np.array([[2.0, 0, 0, 0], [1.0, 1.0, 0, 0], [5.0, 5.0, 1e-3, 0]])
    result = pack(out, {1: rows, 4: np.eye(3, 4)})
    assert result.n_renormalised == 3
    found = directions_of(out)
    # Each keeps its own side of those before it; the first keeps its line.
    for j in range(3):
        np.testing.assert_allclose(found[1, j], np.eye(3, 4)[j], atol=1e-7)
        assert found[4, j].tobytes() == np.eye(3, 4, dtype=np.float32)[j].tobytes()
    file = glpcore.open(out)
    assert file.verdict == "applicable"
    assert file.metadata["glp.spec_version"] == 2
    assert file.metadata["glp.rank"] == 3


def test_gram_schmidt_holds_for_many_near_rows(out):
    random = np.random.default_rng(7)
    rows = 1 + 1e-3 * random.standard_normal((40, 64))
    pack(out, {1: rows})
    basis = np.array([row for _, row in sorted(directions_of(out).items())], float)
    assert np.abs(basis @ basis.T - np.eye(40)).max() < 1e-6
    # The same nested subspaces: row j lies in the span of the first j + 1.
    for j in (0, 1, 39):
        rest = rows[j] - basis[: j + 1].T @ (basis[: j + 1] @ rows[j])
        assert np.linalg.norm(rest) < 1e-5 * np.linalg.norm(rows[j])
        assert basis[j] @ rows[j] > 0


@pytest.mark.parametrize(
    "last", [[1.0, 1.0, 0.0], [1.0, 1.0, 1e-7], [2.0, 0.0, 0.0]], ids=["sum", "nearly", "multiple"]
)
def test_dependent_rows_are_refused(out, last):
    message = refusal("orthonormal", out, {7: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], last]})
    assert "layer 7" in message
    assert "direction 2" in message
    assert not out.exists()


def test_rank_is_at_most_n_embd_and_256(out):
    assert "at most 2" in refusal("rank", out, {1: np.eye(3, 2)})
    assert "at most 256" in refusal("rank", out, {1: np.eye(257, 300)})
    assert pack(out, {1: np.eye(256, 300)}).layers == (1,)


def test_scales(out):
    pack(
        out, units(8, (1, 20), 2), alpha=2.0, dir_scales=[1, 0.25], layer_scales={20: 0.5, 1: 1e-5}
    )
    vec = glpcore.load(out, hook=FFN)
    assert [vec.alpha(n, j) for n in (1, 20) for j in (0, 1)] == [2e-5, 5e-6, 1.0, 0.25]
    assert glpcore.open(out).info.spec_version == 2


# ---- Zero rows and row 0 -------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "word"), [(0.0, "zero"), (1.0, "not-expressible")])
def test_an_array_is_rows_by_layer(out, first, word):
    table = np.array([gw.unit(8, n) for n in range(6)], np.float32)
    table[0] *= first
    table[[2, 5]] = 0
    result = pack(out, table)
    assert result == glpcore._pack.PackResult(
        str(out), (1, 3, 4), 0, word, (2, 5), result.content_sha256, ()
    )
    assert {n: row.tobytes() for (n, _), row in directions_of(out).items()} == {
        n: table[n].tobytes() for n in (1, 3, 4)
    }
    # A choice of layers does not hide row 0, nor speak of rows that were not chosen.
    some = pack(out, table, layers=[5, 3], force=True)
    assert (some.layers, some.row0, some.skipped_zero) == ((3,), word, (5,))


def test_a_mapping_has_no_row_zero(out):
    assert pack(out, {1: np.zeros(4), 3: np.eye(4)[0]}).row0 == "absent"
    with pytest.raises(ValueError, match="layer 0 cannot be expressed"):
        pack(out, {0: np.eye(4)[0], 1: np.eye(4)[1]}, force=True)


@pytest.mark.parametrize(
    ("layers", "words"), [([0, 1], "layer 0"), ([4], "whose last is 3"), ([-1], "layer -1")]
)
def test_layers_that_are_not_there(out, layers, words):
    with pytest.raises(ValueError, match=words):
        pack(out, np.eye(4), layers=layers)
    assert not out.exists()


@pytest.mark.parametrize(
    "directions", [np.zeros((3, 4)), np.eye(1, 4), {2: np.zeros(4)}, {}], ids=str
)
def test_nothing_to_write(out, directions):
    refusal("direction-empty", out, directions)
    assert not out.exists()


# ---- Other modes ---------------------------------------------------------------------------------


def test_an_additive_file_keeps_every_value(out):
    row = np.array([3.0, -4.0, 0.1], np.float32)
    result = pack(out, {1: row}, mode="add", hook=RESIDUAL)
    assert result.n_renormalised == 0
    assert directions_of(out)[1, 0].tobytes() == row.tobytes()
    assert "glp.orthonormal" not in glpcore.open(out).metadata
    refusal("direction-nonfinite", out, {1: np.array([1e300, 1.0])}, mode="add", force=True)


def test_steps_come_as_a_mapping(out):
    pack(out, units(8, (1, 2)), structure="per-execution-step")
    assert glpcore.load(out, hook=FFN, structure="per-execution-step", n_layers=2).layers == (1, 2)
    with pytest.raises(TypeError, match="mapping"):
        pack(out, np.eye(4), structure="per-execution-step", force=True)


# ---- Arguments that make no sense ----------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 2])
def test_values_that_are_not_finite(out, value, row):
    table = np.eye(4)
    table[row, 3] = value
    assert f"row {row}" in refusal("direction-nonfinite", out, table)
    # Of a damaged file no part is trusted.
    refusal("direction-nonfinite", out, table, layers=[1])
    assert not out.exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hook": "ffn_out"}, "hook must be one of"),
        ({"mode": "ablate"}, "mode must be one of"),
        ({"structure": "free text"}, "structure must be one of"),
        ({"base": "  "}, "base must name"),
        ({"base": "a\udcff"}, "Unicode"),
        ({"alpha": float("nan")}, "finite float32"),
        ({"alpha": float("inf")}, "finite float32"),
        ({"alpha": 1e39}, "finite float32"),
        ({"alpha": 1e-60}, "finite float32"),
        ({"dir_scales": [1.0, 1.0]}, "dir_scales"),
        ({"dir_scales": [float("inf")]}, "finite"),
        ({"dir_scales": [10**400]}, "finite"),
        ({"layer_scales": {1: 10**400}}, "finite"),
        ({"alpha": 10**400}, "finite float32"),
        ({"method": "\ud800"}, "Unicode"),
        ({"hook": None}, "hook must be one of"),
        ({"layer_scales": {9: 1.0}}, "layer_scales names layer 9"),
    ],
    ids=str,
)
def test_bad_arguments(out, changes, words):
    with pytest.raises(ValueError, match=words):
        pack(out, units(8, (1,)), **changes)
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": "x"}, "alpha must be a number, not str"),
        ({"alpha": "1"}, "alpha must be a number, not str"),
        ({"alpha": b"1"}, "alpha must be a number, not bytes"),
        ({"alpha": [1.0]}, "alpha must be a number, not list"),
        ({"alpha": 1j}, "alpha must be a number, not complex"),
        ({"dir_scales": ["1"]}, "scales must be a number, not str"),
        ({"dir_scales": [None]}, "scales must be a number, not NoneType"),
        ({"layer_scales": {1: "1"}}, "scales must be a number, not str"),
        ({"layer_scales": [1.0]}, "layer_scales must be a mapping, not list"),
        ({"base": None}, "base must be text, not NoneType"),
        ({"base": b"Tiny"}, "base must be text, not bytes"),
        ({"base_org": 3}, "base_org must be text, not int"),
        ({"base_revision": 3}, "base_revision must be text, not int"),
        ({"base_url": 3}, "base_url must be text, not int"),
        ({"method": 3}, "method must be text, not int"),
        ({"contrast": ("a", "b")}, "contrast must be text, not tuple"),
        ({"derived_at": 3}, "derived_at must be text, not int"),
        ({"generator": 3}, "generator must be text, not int"),
        ({"created": time.gmtime(0)}, "created must be text, not struct_time"),
    ],
    ids=str,
)
def test_arguments_of_another_type(out, changes, words):
    with pytest.raises(TypeError, match=words):
        pack(out, units(8, (1,)), **changes)
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    "alpha", [np.float32(0.5), np.float64(0.5), np.int64(2), True, np.array(2)]
)
def test_numbers_of_any_kind(out, alpha):
    pack(out, units(8, (1,)), alpha=alpha, dir_scales=[alpha], layer_scales={1: alpha})
    file = glpcore.open(out)
    assert file.info.alpha == float(alpha)
    assert file.metadata["glp.dir_scales"] == repr(float(alpha))


@pytest.mark.parametrize("alpha", [0.0, -0.0, -4, 3.4e38, 1e-45])
def test_any_float32_is_an_alpha(out, alpha):
    pack(out, units(8, (1,)), alpha=alpha)
    assert glpcore.open(out).info.alpha == float(np.float32(alpha))


@pytest.mark.parametrize(
    "directions",
    [
        {1: [1, 0]},
        {1: np.eye(2, dtype=complex)},
        {1: np.ones((2, 2, 2))},
        {1: np.ones((1, 0))},
        np.ones(3),
        np.ones((0, 3)),
        {1: np.eye(1, 4), 2: np.eye(1, 5)},
        {1: np.eye(1, 4), 2: np.eye(2, 4)},
        {1_000_001: np.eye(1, 4)},
    ],
    ids=str,
)
def test_bad_shapes(out, directions):
    with pytest.raises(ValueError, match=r"must be floats of shape|same rank|layers are 1 to"):
        pack(out, directions)


def test_layers_are_whole_numbers(out):
    with pytest.raises(TypeError):
        pack(out, {1.5: np.eye(1, 4)})


@pytest.mark.parametrize(
    ("name", "changes", "codes"),
    [
        ("v.gguf", {}, set()),
        ("v-a4.gguf", {"alpha": 4.0}, set()),
        ("v-a4.gguf", {"alpha": 2.0}, {"alpha-name"}),
        ("v-a4.gguf", {"alpha": 64.0}, {"alpha-name", "alpha-extreme"}),
        ("v.gguf", {"alpha": None}, {"alpha-missing"}),
    ],
)
def test_findings_are_those_of_the_file(tmp_path, monkeypatch, name, changes, codes):
    result = pack(tmp_path / name, units(8, (1,)), **changes)
    assert {f.code for f in result.findings} == codes
    assert list(result.findings) == glpcore.open(tmp_path / name).findings
    monkeypatch.chdir(tmp_path)
    again = pack(name, units(8, (1,)), force=True, **changes)
    assert list(again.findings) == glpcore.open(name).findings


# ---- The name ------------------------------------------------------------------------------------


def test_never_overwrites_unless_told(out):
    out.write_bytes(b"precious")
    with pytest.raises(FileExistsError) as caught:
        pack(out, units(8, (1,)))
    assert caught.value.filename == str(out)
    assert out.read_bytes() == b"precious"
    pack(out, units(8, (1,)), force=True)
    assert glpcore.open(out).verdict == "applicable"
    assert os.listdir(out.parent) == ["v.gguf"]


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_never_overwrites_in_a_race(out, monkeypatch, links):
    """Somebody takes the name after it was found free."""
    if not links:
        monkeypatch.setattr(_pack.os, "link", no_link)
    read_back = _pack._read_back

    def slow(*arguments):
        out.write_bytes(b"precious")
        return read_back(*arguments)

    monkeypatch.setattr(_pack, "_read_back", slow)
    with pytest.raises(FileExistsError) as caught:
        pack(out, units(8, (1,)))
    assert caught.value.filename == str(out)
    assert out.read_bytes() == b"precious"
    assert os.listdir(out.parent) == ["v.gguf"]


def no_link(*arguments):
    raise PermissionError(1, "Operation not permitted")


def test_without_hard_links(out, monkeypatch):
    monkeypatch.setattr(_pack.os, "link", no_link)
    pack(out, units(8, (1,)))
    assert glpcore.open(out).verdict == "applicable"
    assert os.listdir(out.parent) == ["v.gguf"]
    out.unlink()

    def fail(*arguments):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(_pack.os, "replace", fail)
    with pytest.raises(OSError, match="Input/output"):
        pack(out, units(8, (1,)))
    assert os.listdir(out.parent) == []


def test_what_is_read_back_must_be_what_was_written(out, monkeypatch):
    read_back = _pack._read_back

    def damage(path, *arguments):
        with open(path, "r+b") as stream:
            stream.seek(-8, os.SEEK_END)  # in the padding, which no hash covers
            stream.write(b"x")
        return read_back(path, *arguments)

    monkeypatch.setattr(_pack, "_read_back", damage)
    with pytest.raises(OSError, match="read back"):
        pack(out, {1: np.eye(1, 9)})
    assert os.listdir(out.parent) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError(28, "No space left")])
def test_a_failure_leaves_nothing(out, monkeypatch, error):
    def fail(number):
        raise error

    monkeypatch.setattr(_pack.os, "fsync", fail)
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        pack(out, units(8, (1,)))
    assert caught.type is (error if isinstance(error, type) else type(error))
    assert os.listdir(out.parent) == []


def test_a_link_is_replaced_not_followed(out, tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"precious")
    out.symlink_to(other)
    with pytest.raises(FileExistsError):
        pack(out, units(8, (1,)))
    pack(out, units(8, (1,)), force=True)
    assert other.read_bytes() == b"precious"
    assert not out.is_symlink()


@pytest.mark.skipif(sys.platform == "win32", reason="no umask")
@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_the_mode_of_any_new_file(out, mask):
    before = os.umask(mask)
    try:
        pack(out, units(8, (1,)))
    finally:
        os.umask(before)
    assert stat.S_IMODE(out.stat().st_mode) == 0o666 & ~mask


@pytest.mark.skipif(sys.platform != "linux", reason="a name of any bytes")
def test_names(tmp_path):
    for name in (b"a\xff.gguf", b"n" * 250 + b".gguf", "ü.gguf".encode()):
        path = os.fsencode(tmp_path) + b"/" + name
        pack(os.fsdecode(path), units(8, (1,)))
        expected = name[:-5].decode("utf-8", "backslashreplace")
        assert glpcore.open(path).metadata["general.name"] == expected


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        pack(tmp_path / "no" / "v.gguf", units(8, (1,)))
    with pytest.raises(OSError, match="directory"):
        pack(tmp_path, units(8, (1,)), force=True)


# ---- The sample and the real vector --------------------------------------------------------------


def test_the_sample(tmp_path):
    from glpcore._sample import sample_path

    with glpcore.open(sample_path()) as file:
        assert file.findings == []
        info = file.info
        assert (info.n_embd, file.layers, info.hook) == (64, (2, 3, 4, 5, 6, 7), FFN)
    root = Path(__file__).resolve().parent.parent
    script = root / "tools" / "make_sample.py"
    if not script.is_file():
        pytest.skip("tools/ is not beside the tests")
    import importlib.util

    spec = importlib.util.spec_from_file_location("make_sample", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.make(tmp_path / "sample.gguf")
    assert (tmp_path / "sample.gguf").read_bytes() == Path(sample_path()).read_bytes()


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ({}, None),
        ({"n_layers": 42}, "depth-mismatch"),
        ({"n_embd": 2048}, "width-mismatch"),
        ({"hook": ATTENTION}, "hook-mismatch"),
        ({"hook": RESIDUAL}, "hook-mismatch"),
        ({"mode": "add"}, "mode-mismatch"),
        ({"base": "Another"}, "base-mismatch"),
    ],
    ids=str,
)
def test_real_vector(real_vector, out, target, code):
    table = np.fromfile(real_vector, "<f4").reshape(43, 4096)
    result = pack(out, table, base="DeepSeek-V4-Flash")
    assert result.content_sha256 == (
        "2fc93b0ad4f2a97228ba3bec01702933f5cc7889fc9424d5fee9aa8941458688"
    )
    assert (result.layers, result.n_renormalised) == (tuple(range(1, 43)), 0)
    assert (result.row0, result.skipped_zero) == ("not-expressible", ())
    stated = {"hook": FFN, "n_embd": 4096, "n_layers": 43, **target}
    if code is None:
        vec = glpcore.load(out, **stated)
        assert vec.layers == tuple(range(1, 43))
        assert vec[42].tobytes() == table[42].tobytes()
        return
    with pytest.raises(glpcore.RefusedError) as caught:
        glpcore.load(out, **stated)
    assert [f.code for f in caught.value.findings if f.severity == "refusal"] == [code]


# ---- Where it cannot be written ------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("force", [False, True])
def test_a_pipe_is_never_replaced(out, force):
    os.mkfifo(out)
    with pytest.raises(OSError, match="Not a regular file; name another") as caught:
        pack(out, units(8, (1,)), force=force)
    assert caught.value.filename == str(out)
    assert out.is_fifo()
    assert os.listdir(out.parent) == [out.name]


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_is_never_replaced(out, force):
    out.mkdir()
    with pytest.raises(IsADirectoryError, match="name a file in it") as caught:
        pack(out, units(8, (1,)), force=force)
    assert caught.value.filename == str(out)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="create it first") as caught:
        pack(tmp_path / "nowhere" / "o.gguf", units(8, (1,)))
    assert caught.value.filename == str(tmp_path / "nowhere")


def test_a_failure_names_the_file_that_was_asked_for(out, monkeypatch):
    def fail(path, *rest):
        raise OSError(30, "Read-only file system", path)

    monkeypatch.setattr(_pack.os, "open", fail)
    with pytest.raises(OSError, match="Read-only") as caught:
        pack(out, units(8, (1,)))
    assert caught.value.filename == str(out)
    assert caught.value.errno == 30


def test_an_empty_path():
    with pytest.raises(ValueError, match="name the file to write"):
        pack("", units(8, (1,)))


def test_several_additive_directions(tmp_path):
    """They keep their values, so they must be orthonormal as they come."""
    target = tmp_path / "v.gguf"
    given = {"hook": "residual_stream_post_layer", "base": "Tiny 1B", "mode": "add"}
    glpcore.pack(target, {1: np.eye(2, 8, dtype="f4")}, **given)
    vec = glpcore.load(target, mode="add", hook="residual_stream_post_layer")
    np.testing.assert_array_equal(vec[1], np.eye(2, 8))
    with pytest.raises(glpcore.RefusedError) as caught:
        glpcore.pack(target, {1: 3 * np.eye(2, 8, dtype="f4")}, force=True, **given)
    assert caught.value.code == "orthonormal"
    np.testing.assert_array_equal(glpcore.load(target, mode="add")[1], np.eye(2, 8))
