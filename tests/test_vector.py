"""Vectors: views of the file's own memory, strengths, dense tables, and applying."""

from __future__ import annotations

import copy
import hashlib
import pickle
import sys
from pathlib import Path

import gguf_writer as gw
import numpy as np
import pytest

import glpcore


def load(spec: gw.Spec, **target) -> glpcore.Vector:
    return glpcore.load(memoryview(spec.build()), **target)


def unit(layer: int, j: int = 0, n: int = 8) -> np.ndarray:
    return np.array(gw.unit(n, layer, j), "f4")


def write(folder: Path, spec: gw.Spec) -> Path:
    path = folder / "vector.gguf"
    path.write_bytes(spec.build())
    return path


def mapping_of(path: Path) -> range:
    """The addresses at which this process maps the file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(str(path)):
            start, end = line.split()[0].split("-")
            return range(int(start, 16), int(end, 16))
    return range(0)


# ---- Views ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/maps")
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_views_are_the_files_own_memory(tmp_path, rank):
    path = write(tmp_path, gw.sound(rank=rank))
    vec = glpcore.load(path)
    addresses = mapping_of(path)
    assert len(addresses) > 0
    offsets = {(p.layer, p.j): p.offset for p in vec.file.directions}
    for layer in vec.layers:
        assert vec[layer].ctypes.data == addresses[offsets[layer, 0]]
        for j in range(rank):
            assert vec.direction(layer, j).ctypes.data == addresses[offsets[layer, j]]
    vec = layer = None
    # The mapping goes with the last view, and read files are not mapped at all.
    assert len(mapping_of(path)) == 0
    vec = glpcore.load(path, mmap=False)
    assert len(mapping_of(path)) == 0
    np.testing.assert_array_equal(vec.direction(2), unit(2))


def test_views_of_a_closed_file_are_gone_from_the_maps(tmp_path):
    path = write(tmp_path, gw.sound())
    with glpcore.open(path) as file:
        assert file.info.rank == 1
    assert len(mapping_of(path) if sys.platform.startswith("linux") else ()) == 0


@pytest.mark.parametrize("rank", [1, 2, 3, 5])
def test_values(rank):
    vec = load(gw.sound(rank=rank))
    assert (vec.rank, vec.n_embd, vec.layers, len(vec)) == (rank, 8, (1, 2, 3), 3)
    for layer in vec:
        assert layer in vec
        want = np.array([unit(layer, j) for j in range(rank)])
        got = vec[layer]
        np.testing.assert_array_equal(got, want[0] if rank == 1 else want)
        for view in (got, vec.direction(layer), vec.direction(layer, rank - 1)):
            assert view.dtype == np.float32
            assert not view.flags.writeable
            with pytest.raises(ValueError, match=r"(?i)cannot set WRITEABLE"):
                view.flags.writeable = True
        np.testing.assert_array_equal(vec.direction(layer, rank - 1), want[-1])


def test_directions_that_are_not_evenly_spaced():
    """Rank 3 whose tensors lie in another order than j: values in a copy, directions in place."""
    spec = gw.sound(rank=3, layers=(4,))
    spec.tensors = [spec.tensors[0], spec.tensors[2], spec.tensors[1]]
    data = spec.build()
    vec = glpcore.load(memoryview(data))
    got = vec[4]
    np.testing.assert_array_equal(got, np.array([unit(4, j) for j in range(3)]))
    assert not got.flags.writeable
    start = np.frombuffer(data, "u1").ctypes.data
    assert not start <= got.ctypes.data < start + len(data)
    assert start <= vec.direction(4, 2).ctypes.data < start + len(data)


def test_views_with_gaps():
    """8 floats are 32 bytes, so rows are padded to 32 apart; 6 leave gaps that views step over."""
    vec = load(gw.sound(rank=2, n_embd=6))
    got = vec[1]
    assert got.strides == (32, 4)
    np.testing.assert_array_equal(got, np.array([unit(1, j, 6) for j in range(2)]))
    np.testing.assert_array_equal(memoryview(got).tolist(), got)
    with pytest.raises(BufferError, match="not contiguous"):
        hashlib.sha256(got.base.obj)  # it asks for plain bytes
    plain = load(gw.sound(rank=1))[1].base.obj
    assert hashlib.sha256(plain).digest() == hashlib.sha256(unit(1)).digest()


def test_the_other_way_round():
    """Tensors in descending order make a negative stride, not a copy."""
    spec = gw.sound(rank=3, layers=(4,))
    spec.tensors = spec.tensors[::-1]
    vec = load(spec)
    got = vec[4]
    assert got.strides == (-32, 4)
    np.testing.assert_array_equal(got, np.array([unit(4, j) for j in range(3)]))


def test_what_is_not_there():
    vec = load(gw.sound(rank=2, layers=(1, 2, 3, 7, 9, 10)))
    for layer in (0, 4, 11, -1, 1 << 32, 1 << 70):
        assert layer not in vec
        with pytest.raises(KeyError, match="is not steered; steered are 1-3, 7, 9-10"):
            vec[layer]
        with pytest.raises(KeyError):
            vec.direction(layer)
    for j in (2, -1, 1 << 40):
        with pytest.raises(IndexError, match="not one of the 2"):
            vec.direction(1, j)
    for wrong in ("1", 1.0, None, slice(1, 2)):
        assert wrong not in vec
        with pytest.raises(TypeError, match="layer must be an int"):
            vec[wrong]
    assert np.int64(7) in vec
    assert vec[np.uint8(7)].shape == (2, 8)


def test_renormalised():
    """Views show the private copy."""
    spec = gw.sound(directions={(2, 0): [2.0 * x for x in gw.unit(8, 2)]})
    with pytest.raises(glpcore.RefusedError, match="direction-norm"):
        load(spec)
    vec = load(spec, renormalise=True)
    assert vec.n_renormalised == 1
    np.testing.assert_allclose(vec[2], unit(2), rtol=1e-6)
    np.testing.assert_array_equal(vec[1], unit(1))
    assert load(gw.sound(), renormalise=True).n_renormalised == 0


def test_what_it_is():
    vec = load(gw.sound(), hook=gw.FFN)
    assert (vec.mode, vec.hook, vec.structure) == ("project", gw.FFN, "per-layer")
    assert isinstance(vec.file, glpcore.File)
    assert gw.FFN in repr(vec)
    assert load(gw.additive(), mode="add").mode == "add"
    steps = load(gw.steps(), structure="per-execution-step")
    assert (steps.structure, steps.layers) == ("per-execution-step", (1, 2, 3))


# ---- Strengths -----------------------------------------------------------------------------------


def test_strength_order():
    """The caller's own; the file's, only at the site that was named; the fallback; an error."""
    named, unnamed = load(gw.sound(), hook=gw.FFN), load(gw.sound())
    assert named.strength(1) == (4.0, True)
    assert named.strength(1, alpha=0.5) == (0.5, False)
    assert named.strength(1, fallback=0.5) == (4.0, True)
    assert named.strength(1, alpha=0) == (0.0, False)
    assert unnamed.strength(1, fallback=0.5) == (0.5, False)
    assert unnamed.strength(1, fallback=0) == (0.0, False)
    assert unnamed.strength(1, alpha=2, fallback=0.5) == (2.0, False)
    with pytest.raises(glpcore.RefusedError) as caught:
        unnamed.strength(1)
    assert caught.value.code == "alpha-missing"
    assert [f.code for f in caught.value.findings] == ["alpha-missing"]
    assert "[alpha-missing]" not in caught.value.findings[0].message
    assert named.adopted()
    assert not named.adopted(alpha=1)
    assert not unnamed.adopted(fallback=1)
    mismatch = load(gw.sound(), hook="attn_out_pre_residual", allow_hook_mismatch=True)
    assert [f.code for f in mismatch.findings] == ["hook-mismatch"]
    with pytest.raises(glpcore.RefusedError):
        mismatch.alpha(1)


def test_a_declared_zero_is_a_strength():
    vec = load(gw.sound(alpha=0.0), hook=gw.FFN)
    assert vec.strength(1, fallback=3) == (0.0, True)


def test_scales():
    spec = gw.sound(
        rank=2, alpha=3.0,
        keys={"glp.dir_scales": "0.5,0.25", "glp.layer_scales": "2:0.1"},
    )  # fmt: skip
    vec = load(spec, hook=gw.FFN)
    assert vec.alpha(1, 0) == 3.0 * 0.5
    assert vec.alpha(1, 1) == 3.0 * 0.25
    assert vec.alpha(2, 1) == 3.0 * 0.25 * 0.1
    assert vec.alpha(2, 1, alpha=7) == 7.0 * 0.25 * 0.1


@pytest.mark.parametrize("name", ["alpha", "fallback"])
def test_wrong_strengths(name):
    vec = load(gw.sound(), hook=gw.FFN)
    x = np.ones(8, "f4")
    for call in (vec.alpha, vec.strength, lambda layer, **kw: vec.project(x, layer, **kw)):
        with pytest.raises(ValueError, match=f"{name} must be finite"):
            call(1, **{name: float("nan")})
        with pytest.raises(TypeError, match=f"{name} must be a real number"):
            call(1, **{name: "1"})
    with pytest.raises(KeyError):
        vec.alpha(9)
    with pytest.raises(IndexError):
        vec.alpha(1, 1)


# ---- The dense table -----------------------------------------------------------------------------


def test_dense():
    vec = load(gw.sound(layers=(1, 3)))
    table = vec.dense()
    assert (table.dtype, table.shape) == (np.float32, (4, 8))
    for row in range(4):
        np.testing.assert_array_equal(table[row], vec[row] if row in vec else np.zeros(8))
    assert table.flags.writeable
    assert vec.dense(6).shape == (6, 8)
    assert (vec.dense(6)[4:] == 0).all()
    assert load(gw.sound(), n_layers=9).dense().shape == (9, 8)
    with pytest.raises(ValueError, match="3 rows does not reach the last layer: 4 are needed"):
        vec.dense(3)


def test_dense_of_steps():
    vec = load(gw.steps(), structure="per-execution-step")
    table = vec.dense()
    assert table.shape == (3, 8)
    for step in vec:
        np.testing.assert_array_equal(table[step - 1], vec[step])


def test_dense_strengths():
    spec = gw.sound(layers=(1, 3), keys={"glp.layer_scales": "3:0.5", "glp.spec_version": 2})
    vec = load(spec, hook=gw.FFN)
    with pytest.raises(glpcore.RefusedError) as caught:
        vec.dense()
    assert caught.value.code == "scales"
    alphas = np.full(4, -1.0)
    table = vec.dense(alphas=alphas)
    assert alphas.tolist() == [0, 4.0, 0, 2.0]
    np.testing.assert_array_equal(table[3], vec[3])
    vec.dense(alpha=1, alphas=alphas)
    assert alphas.tolist() == [0, 1.0, 0, 0.5]


def test_dense_refuses():
    with pytest.raises(glpcore.RefusedError) as caught:
        load(gw.sound(rank=2)).dense()
    assert caught.value.code == "rank"
    vec = load(gw.sound())
    with pytest.raises(glpcore.RefusedError) as caught:
        vec.dense(alphas=np.zeros(4))
    assert caught.value.code == "alpha-missing"
    for wrong in (np.zeros(3), np.zeros(4, "f4"), np.zeros((4, 1)), np.zeros(8)[::2], [0.0] * 4):
        with pytest.raises((ValueError, TypeError), match="alphas must be"):
            vec.dense(alpha=1, alphas=wrong)
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    with pytest.raises(TypeError, match="alphas must be a writable"):
        vec.dense(alpha=1, alphas=frozen)


# ---- Applying ------------------------------------------------------------------------------------


def states(rows: int = 5, n: int = 8, dtype: str = "f4") -> np.ndarray:
    return np.random.default_rng(7).standard_normal((rows, n)).astype(dtype)


def test_project():
    vec = load(gw.sound(), hook=gw.FFN)
    for strength in ({}, {"alpha": 0.3}):
        x, want = states(), states()
        glpcore.project_rows(want, vec[2], vec.alpha(2, **strength))
        assert vec.project(x, 2, **strength) is x
        np.testing.assert_array_equal(x, want)
    assert (vec.project(states(), 2, alpha=0) == states()).all()


@pytest.mark.parametrize("rank", [2, 5])
def test_project_of_rank_k(rank):
    """Every dot from the incoming row, each direction at its own strength."""
    scales = [1.0, 0.5, 0.25, 2.0, -1.0][:rank]
    spec = gw.sound(rank=rank, keys={"glp.dir_scales": ",".join(map(str, scales))})
    vec = load(spec)
    x = states().astype("f8")
    basis = vec[3].astype("f8")
    want = x - (x @ basis.T * [0.7 * s for s in scales]) @ basis
    got = vec.project(states(), 3, alpha=0.7)
    np.testing.assert_allclose(got, want, atol=1e-6)
    assert abs(want - x).max() > 0.1


def test_project_many_directions():
    spec = gw.sound(rank=32, n_embd=64, layers=(1,))
    vec = load(spec)
    x = states(3, 64)
    basis = vec[1].astype("f8")
    vec.project(x, 1, alpha=1)
    assert abs(x @ basis.T).max() < 1e-6


def test_project_any_array():
    vec = load(gw.sound())
    x = states(6, dtype="f2").reshape(2, 3, 8)
    want = x.reshape(6, 8).copy()
    glpcore.project_rows(want, vec[1], 2.0)
    assert vec.project(x, 1, alpha=2.0, threads=2) is x
    np.testing.assert_array_equal(x.reshape(6, 8), want)
    bits = states(3).view("u2")[:, 1::2].copy()
    want = bits.copy()
    glpcore.project_rows(want, vec[1], 1.0, dtype="bf16")
    np.testing.assert_array_equal(vec.project(bits, 1, alpha=1, dtype="bf16"), want)


@pytest.mark.parametrize("rank", [1, 3])
def test_prepared_layer(rank):
    vec = load(gw.sound(rank=rank), hook=gw.FFN)
    for strength in ({}, {"alpha": 0.3}, {"alpha": 0}):
        prepared = vec.at(2, **strength)
        assert prepared.layer == 2
        assert prepared.alphas == tuple(vec.alpha(2, j, **strength) for j in range(rank))
        for _ in range(2):
            x, want = states(), states()
            vec.project(want, 2, **strength)
            assert prepared.project(x) is x
            assert x.tobytes() == want.tobytes()
    assert vec.at(2, alpha=0).project(states()).tobytes() == states().tobytes()
    assert prepared.vector is vec
    assert repr(prepared).startswith("<glpcore.PreparedLayer 2 of <glpcore.Vector")


def test_prepared_layer_of_an_additive_vector():
    vec = load(gw.additive(), mode="add")
    x, want = states(), states()
    vec.add(want, vec.layers[0], alpha=1.5)
    assert vec.at(vec.layers[0], alpha=1.5).add(x) is x
    assert x.tobytes() == want.tobytes()
    with pytest.raises(glpcore.RefusedError, match="Its mode is add"):
        vec.at(vec.layers[0], alpha=1.5).project(x)


def test_prepared_layer_refuses():
    vec = load(gw.sound())
    with pytest.raises(glpcore.RefusedError) as caught:
        vec.at(1)
    assert caught.value.code == "alpha-missing"
    with pytest.raises(KeyError, match="layer 0 is not steered; steered are 1-3"):
        vec.at(0, alpha=1)
    with pytest.raises(TypeError, match="layer must be an int"):
        vec.at("1", alpha=1)
    with pytest.raises(ValueError, match="alpha must be finite"):
        vec.at(1, alpha=float("inf"))
    prepared = vec.at(1, alpha=1)
    with pytest.raises(ValueError, match="rows of x have 7 elements and the vector has 8"):
        prepared.project(states(2, 7))
    with pytest.raises(ValueError, match="x is read-only"):
        prepared.project(vec[1])
    with pytest.raises(glpcore.RefusedError, match="Its mode is project"):
        prepared.add(states())
    with pytest.raises(TypeError, match="with Vector"):
        glpcore.PreparedLayer()
    for clone in (copy.copy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            clone(prepared)


def test_prepared_layer_keeps_the_file(tmp_path):
    path = write(tmp_path, gw.sound())
    file = glpcore.open(path)
    prepared = file.accept().at(1, alpha=1)
    with pytest.raises(BufferError):
        file.close()
    want = states()
    glpcore.project_rows(want, unit(1), 1.0)
    assert prepared.project(states()).tobytes() == want.tobytes()
    del prepared
    file.close()


def test_a_layer_that_is_not_steered():
    vec = load(gw.sound())
    x = states()
    assert vec.project(x, 0) is x
    assert vec.project(x, 99, alpha=1) is x
    assert (x == states()).all()
    with pytest.raises(ValueError, match="rows of x have 7 elements and the vector has 8"):
        vec.project(states(2, 7), 0)


def test_project_refuses():
    vec = load(gw.sound())
    x = states()
    with pytest.raises(glpcore.RefusedError) as caught:
        vec.project(x, 1)
    assert caught.value.code == "alpha-missing"
    with pytest.raises(ValueError, match="x is read-only"):
        vec.project(vec[1], 1, alpha=1)
    with pytest.raises(ValueError, match="the vector has 8"):
        vec.project(states(2, 7), 1, alpha=1)
    with pytest.raises(TypeError, match="layer must be an int"):
        vec.project(x, "1", alpha=1)
    with pytest.raises(ValueError, match="threads"):
        vec.project(x, 1, alpha=1, threads=0)
    assert (x == states()).all()


def test_add():
    vec = load(gw.additive(), mode="add", hook=gw.RESIDUAL)
    x, want = states(), states()
    glpcore.add_rows(want, vec[2], 4.0)
    assert vec.add(x, 2) is x
    np.testing.assert_array_equal(x, want)


def test_the_other_operation():
    for vec, apply in (
        (load(gw.sound()), "add"),
        (load(gw.additive(), mode="add"), "project"),
    ):
        x = states()
        with pytest.raises(glpcore.RefusedError, match=f"Use {vec.mode}") as caught:
            getattr(vec, apply)(x, 1, alpha=1)
        assert caught.value.code == "mode-mismatch"
        assert (x == states()).all()


# ---- A real vector -------------------------------------------------------------------------------


def test_a_real_vector(real_vector):
    want = np.fromfile(real_vector, "<f4").reshape(43, 4096)
    vec = glpcore.load(real_vector, n_embd=4096, n_layers=43, hook=gw.FFN)
    assert (vec.layers, vec.n_embd, vec.findings) == (tuple(range(43)), 4096, [])
    np.testing.assert_array_equal(vec.dense(), want)
    x = np.random.default_rng(0).standard_normal((16, 4096)).astype("f4")
    exact = x - np.outer(x.astype("f8") @ want[20].astype("f8"), want[20])
    vec.project(x, 20, alpha=1)
    assert abs(x - exact).max() < 1e-6
    assert abs(x.astype("f8") @ want[20].astype("f8")).max() < 1e-5


# ---- What is no argument -------------------------------------------------------------------------


def sound_vector():
    return glpcore.load(memoryview(gw.sound().build()), hook=gw.FFN)


def test_a_bool_is_no_layer():
    vec = sound_vector()
    with pytest.raises(TypeError, match="layer must be an int, not bool"):
        vec[True]
    assert True not in vec
    assert 1 in vec


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda f: f.__name__)
def test_no_copies(how):
    vec = sound_vector()
    with pytest.raises(TypeError, match="load it again"):
        how(vec)
    with pytest.raises(TypeError, match="open it again"):
        how(vec.file)


def test_a_number_beyond_float64():
    x = states()
    with pytest.raises(ValueError, match="scale must be finite"):
        glpcore.project_rows(x, sound_vector()[1], 10**400)
    with pytest.raises(ValueError, match="threads must be"):
        glpcore.project_rows(x, sound_vector()[1], 1.0, threads=2**70)
    assert (x == states()).all()


def test_a_file_without_a_strength_says_so():
    file = memoryview(gw.sound(keys={"glp.alpha_default": None}).build())
    with pytest.raises(glpcore.RefusedError, match="declares no strength") as caught:
        glpcore.load(file, hook=gw.FFN).alpha(1)
    assert caught.value.code == "alpha-missing"
    with pytest.raises(glpcore.RefusedError, match="may not be adopted"):
        glpcore.load(memoryview(gw.sound().build())).alpha(1)
