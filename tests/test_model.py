"""Facts of a model, from its GGUF header or its config.json."""

from __future__ import annotations

import json
import os
import sys

import gguf_writer as gw
import pytest
from gguf_writer import FFN, TARGET, Judge, Spec, run_cli

import glpcore
from glpcore._model import ModelFacts, read_model


def gguf(path, arch="llama", **keys):
    spec = Spec()
    spec.set("general.architecture", arch)
    values = {f"{arch}.embedding_length": 8, f"{arch}.block_count": 4, **keys}
    for key, value in values.items():
        if value is not None:
            spec.set(key, value)
    spec.set("tokenizer.ggml.tokens", gw.array(gw.STRING, ["a", "b"]))
    spec.add_tensor("token_embd.weight", bytes(16), (8,), gw.GGML_F16)
    path.write_bytes(spec.build())
    return path


def config(path, text=None, **keys):
    known = {"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 4, **keys}
    known = {key: value for key, value in known.items() if value is not None}
    path.write_text(json.dumps(known) if text is None else text)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model"


# ---- GGUF ----------------------------------------------------------------------------------------


def test_gguf(path):
    assert read_model(gguf(path)) == ModelFacts("llama", 8, 4, (), None)
    names = {
        "general.name": "Tiny Chat 1B",
        "general.basename": "Tiny",
        "general.size_label": "1B",
        "general.finetune": "Chat",
        "general.base_model.count": 2,
        "general.base_model.0.name": "Tiny Base",
        "general.base_model.1.name": "Tiny Other",
        "general.base_model.2.name": "beyond the count",
    }
    assert read_model(gguf(path, **names)).base_names == (
        "Tiny Chat 1B", "Tiny", "Tiny-1B", "Tiny-1B-Chat", "Tiny Base", "Tiny Other",
    )  # fmt: skip


NAMES = ("general.name", "general.basename", "general.base_model.0.name")


@pytest.mark.parametrize("key", NAMES)
@pytest.mark.parametrize("name", ["-", "", " ", "._-", "org/-", "/", "/."])
def test_gguf_names_that_say_nothing(path, tmp_path, key, name):
    gguf(path, **{"general.base_model.count": 1, "general.size_label": "1B", key: name})
    assert read_model(path).base_names == ()
    assert Judge(tmp_path).check(gw.sound(), "--model", path, *TARGET).findings == []


@pytest.mark.parametrize("key", [*NAMES, "general.finetune", "general.architecture"])
def test_gguf_names_with_a_nul(path, key):
    gguf(path, **{"general.base_model.count": 1, "general.basename": "Tiny", key: "Tiny\0 1B"})
    with pytest.raises(glpcore.FormatError, match="NUL") as caught:
        read_model(path)
    assert caught.value.code == "model"
    assert run_cli("check", path, "--model", path).status == 2


@pytest.mark.parametrize("name", ["/data/models/Tiny-1B/", "Tiny-1B/.", "D:\\Tiny-1B\\", ".", "-"])
def test_check_with_the_folder_of_a_model(path, tmp_path, name):
    model = config(path, _name_or_path=name)
    assert Judge(tmp_path).check(gw.sound(), "--model", model, *TARGET).findings == []
    vector = tmp_path / "vector.gguf"
    assert glpcore.load(vector, model=model, hook=FFN).findings == []


@pytest.mark.parametrize("type", gw.INTEGERS)
def test_gguf_integers_of_any_type(path, type):
    facts = read_model(gguf(path, **{"llama.block_count": gw.scalar(type, 100)}))
    assert facts.n_layers == 100


def test_draft_blocks_are_not_steered(path):
    facts = read_model(gguf(path, **{"llama.block_count": 47, "llama.nextn_predict_layers": 1}))
    assert facts.n_layers == 46


def test_paths_of_any_kind(path):
    gguf(path)
    assert read_model(str(path)) == read_model(os.fsencode(path)) == read_model(path)


@pytest.mark.parametrize(
    "keys",
    [
        {"llama.embedding_length": None},
        {"llama.block_count": None},
        {"llama.block_count": 0},
        {"llama.block_count": -4 & 0xFFFFFFFF and gw.scalar(gw.I32, -4)},
        {"llama.block_count": 4.0},
        {"llama.block_count": True},
        {"llama.embedding_length": "8"},
        {"llama.embedding_length": gw.array(gw.U32, [8])},
        {"general.architecture": "qwen2"},
        {"general.architecture": 3},
    ],
    ids=str,
)
def test_gguf_that_does_not_say(path, keys):
    with pytest.raises(glpcore.FormatError) as caught:
        read_model(gguf(path, **keys))
    assert caught.value.code == "model"


def test_a_vector_is_no_model(path):
    path.write_bytes(gw.sound().build())
    with pytest.raises(glpcore.FormatError, match="Pass the model"):
        read_model(path)


def test_a_damaged_model(path):
    data = gguf(path).read_bytes()
    path.write_bytes(data[: data.index(b"token_embd") + 20])
    with pytest.raises(glpcore.FormatError) as caught:
        read_model(path)
    assert caught.value.code == "truncated"


@pytest.mark.parametrize("key", ["llama.embedding_length", "llama.block_count"])
@pytest.mark.parametrize("size", [1 << 31, 1 << 33, (1 << 64) - 1])
def test_gguf_of_a_size_that_no_model_has(path, tmp_path, key, size):
    gguf(path, **{key: gw.scalar(gw.U64, size)})
    vectors = Judge(tmp_path)
    for vector in (
        vectors.write(gw.sound(), "v.gguf"),
        vectors.write(gw.raw([[1.0] * 8]), "r.f32"),
    ):
        with pytest.raises(glpcore.FormatError, match=r"2\*\*31 or more") as caught:
            glpcore.load(vector, model=path, hook=FFN)
        assert caught.value.code == "model"
        answer = run_cli("check", vector, "--hook", FFN, "--model", path)
        assert answer.status == 2
        assert "internal error" not in answer.err
    # The largest that can be stated is judged like any other.
    gguf(path, **{key: gw.scalar(gw.U64, (1 << 31) - 1)})
    codes = Judge(tmp_path).check(gw.sound(), "--hook", FFN, "--model", path).codes()
    assert codes == ({"width-mismatch"} if key == "llama.embedding_length" else set())
    assert Judge(tmp_path).check(gw.raw([[1.0] * 8]), "--hook", FFN, "--model", path).status == 2


# ---- config.json ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "facts"),
    [
        ({}, ("llama", 8, 4, ())),
        ({"_name_or_path": "Example/Tiny-1B"}, ("llama", 8, 4, ("Example/Tiny-1B",))),
        ({"_name_or_path": ""}, ("llama", 8, 4, ())),
        ({"_name_or_path": "/data/models/Tiny-1B/"}, ("llama", 8, 4, ("/data/models/Tiny-1B",))),
        ({"_name_or_path": "models/Tiny-1B//./"}, ("llama", 8, 4, ("models/Tiny-1B",))),
        ({"_name_or_path": "C:\\models\\Tiny-1B\\"}, ("llama", 8, 4, ("C:/models/Tiny-1B",))),
        ({"_name_or_path": "Tiny-1B."}, ("llama", 8, 4, ("Tiny-1B.",))),
        ({"_name_or_path": "."}, ("llama", 8, 4, ())),
        ({"_name_or_path": "./"}, ("llama", 8, 4, ())),
        ({"_name_or_path": "../.."}, ("llama", 8, 4, ())),
        ({"_name_or_path": "/"}, ("llama", 8, 4, ())),
        ({"_name_or_path": "Example/ - "}, ("llama", 8, 4, ())),
        ({"_commit_hash": " "}, ("llama", 8, 4, ())),
        (
            {"hidden_size": None, "num_hidden_layers": None, "n_embd": 16, "n_layer": 2},
            ("llama", 16, 2, ()),
        ),
        (
            {"model_type": "gemma3", "hidden_size": None, "num_hidden_layers": None,
             "text_config": {"model_type": "gemma3_text", "hidden_size": 32,
                             "num_hidden_layers": 3}},
            ("gemma3_text", 32, 3, ()),
        ),
        # The outer numbers of a multimodal model may be those of its projector.
        ({"text_config": {"hidden_size": 32, "num_hidden_layers": 3}}, ("llama", 32, 3, ())),
        ({"text_config": None}, ("llama", 8, 4, ())),
    ],
    ids=str,
)  # fmt: skip
def test_config(path, keys, facts):
    assert read_model(config(path, **keys)) == ModelFacts(*facts, None)


def test_config_with_a_commit(path):
    assert read_model(config(path, _commit_hash=gw.REVISION)).base_revision == gw.REVISION


def test_config_with_what_python_writes_of_infinity(path):
    """Published configs hold such values, in keys that do not matter here."""
    facts = read_model(config(path, time_step_limit=[0.0, float("inf")], x=float("nan")))
    assert (facts.n_embd, facts.n_layers) == (8, 4)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "json"),
        ("[]", "json"),
        ("null", "json"),
        ("{", "json"),
        ('{"hidden_size": 8, "hidden_size": 9, "num_hidden_layers": 4}', "json"),
        ('{"hidden_size": %s}' % ("9" * 5000), "json"),
        ("[" * 100_000, "json"),
        ('{"a": ' * 100_000, "json"),
        ("\x00\x01\x02\x03", "json"),
        ("{}", "model"),
        (r'{"hidden_size": 8, "num_hidden_layers": 4, "_name_or_path": "a\u0000b"}', "model"),
        (r'{"hidden_size": 8, "num_hidden_layers": 4, "_name_or_path": "a\udcff"}', "model"),
        (r'{"hidden_size": 8, "num_hidden_layers": 4, "model_type": "\ud800"}', "model"),
        (r'{"hidden_size": 8, "num_hidden_layers": 4, "model_type": "\u0000"}', "model"),
        (r'{"hidden_size": 8, "num_hidden_layers": 4, "_commit_hash": "\u0000"}', "model"),
        (r'{"hidden_size": 8, "num_hidden_layers": 4, "_commit_hash": "\udfff"}', "model"),
        ('{"hidden_size": 8}', "model"),
        ('{"hidden_size": 8.0, "num_hidden_layers": 4}', "model"),
        ('{"hidden_size": true, "num_hidden_layers": 4}', "model"),
        ('{"hidden_size": -8, "num_hidden_layers": 4}', "model"),
        ('{"hidden_size": NaN, "num_hidden_layers": 4}', "model"),
        ('{"text_config": [1], "hidden_size": "8", "num_hidden_layers": 4}', "model"),
        ('{"hidden_size": 99999999999, "num_hidden_layers": 4}', "model"),
        ('{"hidden_size": 2147483648, "num_hidden_layers": 4}', "model"),
        ('{"hidden_size": 8, "num_hidden_layers": 1%s}' % ("0" * 4000), "model"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else value,
)
def test_bad_config(path, text, code):
    with pytest.raises(glpcore.FormatError) as caught:
        read_model(config(path, text))
    assert caught.value.code == code
    answer = run_cli("check", path, "--model", path)
    assert answer.status == 2
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1
    assert str(path) in answer.err


def test_config_that_is_not_utf8(path):
    path.write_bytes(b'{"hidden_size": "\xff"}')
    with pytest.raises(glpcore.FormatError) as caught:
        read_model(path)
    assert caught.value.code == "json"


def test_a_config_too_big(path):
    path.write_bytes(b" " * ((16 << 20) + 1))
    with pytest.raises(glpcore.FormatError, match="16 MiB"):
        read_model(path)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_model(tmp_path / "no")
    with pytest.raises(IsADirectoryError):
        read_model(tmp_path)
    answer = run_cli("check", tmp_path / "x", "--model", tmp_path / "no.json")
    assert answer.status == 2
    assert str(tmp_path / "no.json") in answer.err


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes by name")
def test_a_pipe_is_not_waited_for(path):
    os.mkfifo(path)
    with pytest.raises(OSError, match="Not a regular file"):
        read_model(path)


# ---- In use --------------------------------------------------------------------------------------


def test_facts_can_be_read_once(path, tmp_path):
    vector = Judge(tmp_path).write(gw.sound())
    facts = read_model(gguf(path))
    assert glpcore.load(vector, model=facts, hook=FFN).n_embd == 8
    with pytest.raises(glpcore.RefusedError) as caught:
        glpcore.load(vector, model=facts._replace(n_layers=3))
    assert caught.value.code == "depth-mismatch"
    with pytest.raises(glpcore.RefusedError) as caught:
        glpcore.load(vector, model=config(path, _name_or_path="Example/Big-9B"))
    assert caught.value.code == "base-mismatch"


def test_check_with_a_model(path, tmp_path):
    judge = Judge(tmp_path)
    model = gguf(path, **{"general.name": "tiny_1b"})
    assert judge.check(gw.sound(), "--model", model, *TARGET).findings == []
    assert judge.check(gw.sound(), "--model", model, "--base", "Big").codes() == {"base-mismatch"}
    # A headerless vector gets its shape from the model.
    rows = [[0.0] * 8, *(gw.unit(8, n) for n in (1, 2, 3))]
    assert judge.check(gw.raw(rows), "--model", model, "--hook", FFN).status == 0
    assert judge.check(gw.raw(rows[:3]), "--model", model, "--hook", FFN).codes() == {"raw-size"}
