"""Files that other programs write and read: gguf-py, control vectors, and the real vector."""

from __future__ import annotations

import hashlib
import math
import struct
from pathlib import Path

import gguf
import gguf_writer as gw
import numpy as np
import pytest
from gguf_writer import FFN, RESIDUAL, judge_path, run_cli

import glpcore


def units(n_embd: int, layers: tuple[int, ...], rank: int = 1) -> dict[int, np.ndarray]:
    shape = (n_embd,) if rank == 1 else (rank, n_embd)
    return {
        n: np.array([gw.unit(n_embd, n, j) for j in range(rank)], np.float32).reshape(shape)
        for n in layers
    }


# ---- They read what we write ---------------------------------------------------------------------

PACKS = {
    "rank 1": {"directions": units(16, (1, 2, 5)), "hook": FFN, "alpha": 4.0},
    "no alpha": {"directions": units(8, (3,)), "hook": RESIDUAL},
    "rank 3": {"directions": units(16, (1, 4), 3), "hook": FFN, "alpha": 1.5},
    "a width that needs padding": {"directions": units(9, (1, 2)), "hook": FFN, "alpha": 1.0},
    "scales": {
        "directions": units(8, (1, 2), 2),
        "hook": FFN,
        "alpha": 2.0,
        "dir_scales": [1.0, 0.5],
        "layer_scales": {2: 0.25},
    },
    "add": {
        "directions": {n: 3 * d for n, d in units(8, (1, 2)).items()},
        "hook": RESIDUAL,
        "mode": "add",
        "alpha": 1.0,
    },
    "steps": {
        "directions": units(8, (1, 2)),
        "hook": FFN,
        "alpha": 1.0,
        "structure": "per-execution-step",
    },
    "an array": {
        "directions": np.array([gw.unit(8, n) for n in range(4)]),
        "hook": FFN,
        "alpha": 1.0,
    },
}


def packed(tmp_path, name: str):
    path = tmp_path / "packed.gguf"
    arguments = dict(PACKS[name])
    directions = arguments.pop("directions")
    result = glpcore.pack(path, directions, base="Tiny 1B", **arguments)
    return path, directions, result


@pytest.mark.parametrize("name", PACKS)
def test_gguf_py_reads_what_pack_writes(tmp_path, name):
    path, directions, result = packed(tmp_path, name)
    reader = gguf.GGUFReader(path)
    if isinstance(directions, np.ndarray):
        directions = {n: directions[n] for n in range(1, len(directions))}
    expected = {}
    for layer, rows in directions.items():
        for j, row in enumerate(np.atleast_2d(rows)):
            expected[gw.direction_name(layer, j).decode()] = np.float32(row)
    assert {t.name for t in reader.tensors} == set(expected)
    for tensor in reader.tensors:
        assert tensor.tensor_type == gguf.GGMLQuantizationType.F32
        assert tensor.data_offset % 32 == 0
        np.testing.assert_allclose(tensor.data, expected[tensor.name], rtol=0, atol=2e-7)

    def said(key):
        return reader.get_field(key).contents()

    rank = np.atleast_2d(next(iter(directions.values()))).shape[0]
    arguments = PACKS[name]
    scaled = "dir_scales" in arguments or "layer_scales" in arguments
    assert said("GGUF.version") == 3
    assert said("general.architecture") == "controlvector"
    assert said("controlvector.layer_count") == len(directions)
    assert said("general.base_model.0.name") == "Tiny 1B"
    assert said("glp.mode") == arguments.get("mode", "project")
    assert said("glp.hook_point") == arguments["hook"]
    assert said("glp.spec_version") == (2 if rank > 1 or scaled else 1)
    assert reader.get_field("glp.created") is not None
    digest = hashlib.sha256()
    for key in sorted(expected, key=lambda n: [int(part) for part in n.split(".")[1:]]):
        digest.update(next(t for t in reader.tensors if t.name == key).data.tobytes())
    assert said("glp.content_sha256") == digest.hexdigest() == result.content_sha256
    if "alpha" in arguments:
        assert said("glp.alpha_default") == arguments["alpha"]
    else:
        assert reader.get_field("glp.alpha_default") is None
    # llama.cpp rejects a file whose last tensor is not padded.
    assert path.stat().st_size % 32 == 0


@pytest.mark.parametrize("name", PACKS)
def test_we_accept_what_pack_writes(tmp_path, name):
    path, directions, _ = packed(tmp_path, name)
    arguments = PACKS[name]
    rows = directions if isinstance(directions, np.ndarray) else next(iter(directions.values()))
    vec = glpcore.load(
        path,
        mode=arguments.get("mode", "project"),
        hook=arguments["hook"],
        base="tiny-1b",
        structure=arguments.get("structure"),
        n_embd=rows.shape[-1],
    )
    said = {f.code for f in vec.findings}
    assert said == (set() if "alpha" in arguments else {"alpha-missing"})


# ---- We read what they write ---------------------------------------------------------------------


def write_with_gguf_py(path: Path, fill, arch: str = "controlvector") -> Path:
    writer = gguf.GGUFWriter(path, arch)
    fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def add_glp(writer: gguf.GGUFWriter, layers=(1, 2), n_embd: int = 16) -> None:
    payloads = {n: np.array(gw.unit(n_embd, n), np.float32) for n in layers}
    writer.add_string("glp.mode", "project")
    writer.add_uint32("glp.spec_version", 1)
    writer.add_string("glp.hook_point", FFN)
    writer.add_float32("glp.alpha_default", 4.0)
    writer.add_string("general.base_model.0.name", "Tiny 1B")
    writer.add_string(
        "glp.content_sha256",
        hashlib.sha256(b"".join(d.tobytes() for d in payloads.values())).hexdigest(),
    )
    for n, data in payloads.items():
        writer.add_tensor(f"direction.{n}", data)


SCALARS = {
    "uint8": 200, "int8": -100, "uint16": 60000, "int16": -30000, "uint32": 4_000_000_000,
    "int32": -2_000_000_000, "float32": 0.5, "bool": True, "string": "größe\n", "uint64": 1 << 63,
    "int64": -(1 << 62), "float64": 1e300,
}  # fmt: skip


def test_all_value_types(tmp_path):
    def fill(writer):
        add_glp(writer)
        for name, value in SCALARS.items():
            getattr(writer, f"add_{name}")(f"x.{name}", value)
        writer.add_array("x.integers", [1, -2, 3])
        writer.add_array("x.floats", [0.5, 1.5])
        writer.add_array("x.bools", [True, False])
        writer.add_array("x.texts", ["a", "", "ü"])
        writer.add_array("x.nested", [[1, 2], [3]])
        writer.add_array("x.nested_texts", [[["a"], ["b", "c"]], [["d"]]])
        writer.add_key_value("x.bytes", b"\x01\x02", gguf.GGUFValueType.ARRAY)

    path = write_with_gguf_py(tmp_path / "v.gguf", fill)
    assert judge_path("check", path, "--hook", FFN, "--n-embd", 16).findings == []
    metadata = glpcore.open(path).metadata
    for name, value in SCALARS.items():
        assert metadata[f"x.{name}"] == value
        assert type(metadata[f"x.{name}"]) is type(value)
    assert list(metadata["x.integers"]) == [1, -2, 3]
    assert list(metadata["x.floats"]) == [0.5, 1.5]
    assert list(metadata["x.bools"]) == [True, False]
    assert list(metadata["x.texts"]) == ["a", "", "ü"]
    assert [list(x) for x in metadata["x.nested"]] == [[1, 2], [3]]
    assert bytes(metadata["x.bytes"]) == b"\x01\x02"
    assert "x.nested_texts" in metadata
    assert "y" not in metadata
    assert set(SCALARS) <= {key.removeprefix("x.") for key in metadata}


@pytest.mark.parametrize("type", [t for t in gw.SCALARS if t not in (gw.F32, gw.F64)])
def test_arrays_of_any_integer(type):
    """gguf-py writes i32 arrays only; the reader must hold for all."""
    low = struct.calcsize(gw.SCALARS[type]) * 8 - 1
    signed = gw.SCALARS[type][-1].islower()
    values = [0, 1] if type == gw.BOOL else [0, (1 << low) - 1, -(1 << low) if signed else 1 << low]
    spec = gw.sound(keys={"x": gw.array(type, values), "y": gw.scalar(type, values[-1])})
    metadata = glpcore.open(memoryview(spec.build())).metadata
    assert list(metadata["x"]) == values
    assert metadata["y"] == values[-1]


@pytest.mark.parametrize("alignment", [8, 64, 4096])
def test_alignment(tmp_path, alignment):
    def fill(writer):
        writer.add_custom_alignment(alignment)
        add_glp(writer, n_embd=9)

    path = write_with_gguf_py(tmp_path / "v.gguf", fill)
    found = judge_path("check", path, "--hook", FFN)
    assert (found.status, found.findings) == (0, [])
    for direction in glpcore.open(path).directions:
        assert direction.offset % alignment == 0
        data = path.read_bytes()[direction.offset : direction.offset + 36]
        assert data == gw.floats(gw.unit(9, direction.layer))


def test_other_tensors_are_described(tmp_path):
    def fill(writer):
        add_glp(writer)
        writer.add_tensor("token_embd.weight", np.zeros((4, 32), np.float16))
        writer.add_tensor(
            "blk.0.weight", np.zeros((2, 34), np.uint8), raw_dtype=gguf.GGMLQuantizationType.Q8_0
        )

    path = write_with_gguf_py(tmp_path / "v.gguf", fill)
    found = judge_path("info", path)
    assert found.status == 1
    assert {f["tensor"] for f in found.of("tensor-unexpected")} == {
        "token_embd.weight", "blk.0.weight",
    }  # fmt: skip
    tensors = {t.name: t for t in glpcore.open(path).tensors}
    reader = {t.name: t for t in gguf.GGUFReader(path).tensors}
    for name, theirs in reader.items():
        assert tensors[name].offset == theirs.data_offset
        assert tensors[name].n_bytes == theirs.n_bytes
        assert sorted(tensors[name].shape) == sorted(theirs.shape.tolist())
    assert len(tensors) == len(reader) == 4


def test_a_model_is_described_and_refused(tmp_path):
    def fill(writer):
        writer.add_block_count(2)
        writer.add_embedding_length(32)
        writer.add_tensor("token_embd.weight", np.zeros((4, 32), np.float32))

    path = write_with_gguf_py(tmp_path / "model.gguf", fill, arch="llama")
    found = judge_path("info", path)
    assert found.status == 1
    assert "direction-empty" in found.codes()


# ---- ggml types ----------------------------------------------------------------------------------


@pytest.mark.parametrize("type", gguf.GGML_QUANT_SIZES, ids=lambda t: t.name)
def test_size_of_a_ggml_type(type):
    elements, size = gguf.GGML_QUANT_SIZES[type]
    dims = (3 * elements, 5)
    spec = gw.sound().add_tensor("x", bytes(15 * size), dims, int(type))
    # A byte less, and the tensor no longer fits; a block more in the row, the same.
    file = glpcore.open(memoryview(spec.build()))
    assert next(t for t in file.tensors if t.name == "x").n_bytes == 15 * size
    short = gw.sound().add_tensor("x", bytes(15 * size - 1), dims, int(type))
    short.pad_last = False
    with pytest.raises(glpcore.FormatError) as caught:
        glpcore.open(memoryview(short.build()))
    assert caught.value.code == "truncated"


# ---- Control vectors -----------------------------------------------------------------------------


def control_vector(path: Path) -> Path:
    """As written by the Python libraries that train control vectors: no glp.* key at all."""

    def fill(writer):
        writer.add_string("controlvector.model_hint", "mistral")
        writer.add_uint32("controlvector.layer_count", 3)
        for n in (1, 2, 3):
            writer.add_tensor(f"direction.{n}", 2.5 * np.array(gw.unit(8, n), np.float32))

    return write_with_gguf_py(path, fill)


def test_a_control_vector_is_additive(tmp_path):
    path = control_vector(tmp_path / "happy.gguf")
    described = judge_path("info", path)
    assert (described.status, described.findings) == (0, [])
    file = glpcore.open(path)
    assert (file.info.mode, file.info.mode_declared) == ("add", False)
    assert file.info.hook == RESIDUAL
    text = run_cli("info", path).out
    assert "applicable" in text
    assert "add" in text
    assert RESIDUAL in text
    found = judge_path("check", path)
    assert found.status == 1
    assert found.one("mode-missing")["severity"] == "refusal"
    assert judge_path("check", path, "--mode", "add").findings == []
    assert (
        judge_path("check", path, "--mode", "add", "--hook", RESIDUAL, "--n-embd", 8).findings == []
    )
    vec = glpcore.load(path, mode="add")
    for n in (1, 2, 3):
        assert np.array_equal(vec[n], 2.5 * np.array(gw.unit(8, n), np.float32))
    x = np.zeros((2, 8), np.float32)
    vec.add(x, 2, alpha=2.0)
    np.testing.assert_allclose(x[1], 5 * np.array(gw.unit(8, 2)), rtol=1e-6)
    with pytest.raises((TypeError, glpcore.RefusedError)):
        vec.project(x, 2, alpha=2.0)


def test_the_independent_writer_agrees_with_gguf_py(tmp_path):
    """The files that the other tests are made of are files that others can read."""
    for n, spec in enumerate([gw.sound(), gw.rank_two(), gw.additive(), gw.control_vector()]):
        path = tmp_path / f"{n}.gguf"
        path.write_bytes(spec.build())
        reader = gguf.GGUFReader(path)
        assert [t.name.encode() for t in reader.tensors] == [t.name for t in spec.tensors]
        assert [t.data.tobytes() for t in reader.tensors] == [t.data for t in spec.tensors]
        assert [k for k in reader.fields if not k.startswith("GGUF.")] == [
            key.name.decode() for key in spec.keys
        ]


# ---- The real vector -----------------------------------------------------------------------------

DIGEST = "2fc93b0ad4f2a97228ba3bec01702933f5cc7889fc9424d5fee9aa8941458688"


@pytest.fixture(scope="module")
def real(real_vector, tmp_path_factory):
    path = tmp_path_factory.mktemp("real") / "verbosity.gguf"
    answer = run_cli(
        "pack", real_vector, path, "--meta", real_vector.with_suffix(".json"), "--layers", "1-42",
        "--alpha", "1", "--base-model", "DeepSeek-V4-Flash",
    )  # fmt: skip
    assert answer.status == 0, answer
    assert "row 0" in (answer.out + answer.err).lower().replace("layer 0", "row 0")
    return path


def test_real_vector(real, real_vector):
    reader = gguf.GGUFReader(real)
    assert reader.get_field("glp.content_sha256").contents() == DIGEST
    assert [t.name for t in reader.tensors] == [f"direction.{n}" for n in range(1, 43)]
    rows = np.fromfile(real_vector, np.float32).reshape(43, 4096)
    for tensor in reader.tensors:
        assert np.array_equal(tensor.data, rows[int(tensor.name.split(".")[1])])
    text = run_cli("info", real).out
    for word in ("42", "4096", "1-42", FFN, "1.000000"):
        assert word in text, text
    file = glpcore.open(real)
    assert len(file.directions) == 42
    assert file.layers == tuple(range(1, 43))
    assert all(math.isclose(d.norm, 1, abs_tol=3e-9) for d in file.directions)
    vec = glpcore.load(real, hook=FFN, n_embd=4096, n_layers=43)
    assert [f for f in vec.findings if f.severity != "warning"] == []


def mappings(path: Path) -> list[range]:
    """Where this process has mapped the file."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(f" {path}"):
            found.append(range(*(int(end, 16) for end in line.split()[0].split("-"))))
    return found


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not say")
def test_a_view_is_the_mapped_file(real):
    vec = glpcore.load(real, hook=FFN)
    file = glpcore.open(real)
    offsets = {d.layer: d.offset for d in file.directions}
    places = mappings(real)
    assert places
    for layer in vec:
        view = vec[layer]
        address = view.__array_interface__["data"][0]
        assert any(address in place for place in places)
        assert any(address - place.start == offsets[layer] for place in places)
        assert not view.flags.writeable
    view = vec[7]
    del vec, file
    assert any(view.__array_interface__["data"][0] in place for place in mappings(real))
    # Another array of the same numbers is not in the file: the test can tell.
    assert not any(view.copy().__array_interface__["data"][0] in place for place in mappings(real))
    read = glpcore.load(real, hook=FFN, mmap=False)
    address = read[7].__array_interface__["data"][0]
    del view
    assert not any(address in place for place in mappings(real))


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ({"n_embd": 4096, "n_layers": 42}, "depth-mismatch"),
        ({"n_embd": 2048, "n_layers": 43}, "width-mismatch"),
        ({"hook": "attn_out_pre_residual"}, "hook-mismatch"),
        ({"mode": "add"}, "mode-mismatch"),
        ({"base": "DeepSeek-V3"}, "base-mismatch"),
    ],
)
def test_real_vector_elsewhere(real, target, code):
    with pytest.raises(glpcore.RefusedError) as caught:
        glpcore.load(real, **target)
    assert caught.value.code == code
