"""The command line: what it prints where, its exit statuses, and what it does with bad company."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys

import gguf_writer as gw
import numpy as np
import pytest
from gguf_writer import ATTENTION, FFN, RESIDUAL, TARGET, run_cli

import glpcore

ROWS = [[0.0] * 8, gw.unit(8, 1), gw.unit(8, 2), [0.0] * 8]


@pytest.fixture
def fine(judge):
    return judge.write(gw.sound(), "fine.gguf")


@pytest.fixture
def refused(judge):
    return judge.write(gw.sound(mode="ablate"), "refused.gguf")


def program(*argv, **options) -> subprocess.CompletedProcess[bytes]:
    """The whole program, in a process of its own."""
    command = [sys.executable, "-m", "glpcore", *map(str, argv)]
    return subprocess.run(command, capture_output=True, timeout=60, **options)


def object_of(*argv) -> dict:
    return json.loads(run_cli(*argv, "--json").out)


# ---- Usage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("explain", "fine.gguf"),
        ("info",),
        ("check",),
        ("check", "--hook", FFN),
        ("check", "x", "--hook", "ffn_out"),
        ("check", "x", "--mode", "PROJECT"),
        ("check", "x", "--structure", "loop"),
        ("check", "x", "--n-embd", "0"),
        ("check", "x", "--n-embd", "-8"),
        ("check", "x", "--n-embd", "8.0"),
        ("check", "x", "--n-layers", "1_0"),
        ("check", "x", "--n-layers", "٣"),
        ("check", "x", "--n-layers", "9" * 30),
        ("check", "x", "--allow-hook"),
        ("check", "x", "--sample"),
        ("check", "-", "-"),
        ("info", "-", "x", "-"),
        ("pack", "x"),
        ("pack", "x", "y", "--alpha", "nan", "--base-model", "N"),
        ("pack", "x", "y", "--alpha", "1e999", "--base-model", "N"),
        ("pack", "x", "y", "--layers", "1-2"),
    ],
    ids=" ".join,
)
def test_usage(argv):
    answer = run_cli(*argv)
    assert answer.status == 64
    assert answer.out == ""
    assert "usage: python -m glpcore" in answer.err
    assert run_cli(*argv, "--json").status == 64


def test_help():
    for argv in ((), ("info",), ("check",), ("pack",)):
        answer = run_cli(*argv, "--help")
        assert (answer.status, answer.err) == (0, "")
        assert "exit status: 0" in answer.out
        assert "\x1b" not in answer.out
    flags = set(re.findall(r"--[a-z-]+", run_cli("check", "--help").out))
    assert {
        "--mode", "--hook", "--n-embd", "--n-layers", "--base", "--base-revision", "--model",
        "--structure", "--allow-hook-mismatch", "--allow-base-mismatch", "--renormalise", "--json",
    } <= flags  # fmt: skip
    assert run_cli("--version").out == f"glpcore {glpcore.__version__}\n"


def test_usage_is_decided_before_any_file(fine):
    answer = run_cli("check", fine, "no-such-file", "--n-embd", "x")
    assert (answer.status, answer.out) == (64, "")


def test_what_was_typed_is_escaped():
    answer = run_cli("check", "x", "--n-embd", "\x1b[31m\n\udcff")
    assert answer.status == 64
    assert "\x1b" not in answer.err
    assert len(answer.err.splitlines()[-1]) > 20


# ---- info ----------------------------------------------------------------------------------------


def test_info(fine):
    answer = run_cli("info", fine)
    lines = answer.out.splitlines()
    assert (answer.status, answer.err) == (0, "")
    assert lines[0] == f"applicable: {fine}"
    assert any(re.fullmatch(r" +mode +project \(declared\)", line) for line in lines)
    assert any(re.fullmatch(r" +layers +1-3", line) for line in lines)
    assert any("only adds" in line and "misapply" in line for line in lines)
    assert re.search("content hash +verified", answer.out)


def test_info_of_a_refused_file(refused):
    answer = run_cli("info", refused)
    assert answer.status == 1
    assert answer.out.startswith(f"refused: {refused}\n")
    assert re.search("n_embd +8\n", answer.out)
    (line,) = answer.err.splitlines()
    assert line.startswith(f"{refused}: refusal: mode-unknown: ")


def test_info_judges_by_what_the_file_declares(judge):
    for spec in (gw.additive(), gw.steps(), gw.sound(hook=ATTENTION)):
        assert judge.info(spec).findings == []


def test_info_layers(judge):
    directions = {(2, 0): [2.0 * x for x in gw.unit(8, 2)]}
    spec = gw.sound(layers=(1, 2, 4), directions=directions)
    text = run_cli("info", judge.write(spec), "--layers").out
    table = text.rpartition("\n\n")[2].splitlines()
    assert [line.split()[0] for line in table] == ["layer", "1", "2", "4"]
    cosine = float(np.dot(gw.unit(8, 1), gw.unit(8, 2)))
    # Off unit norm it is refused, and has no strength; nothing precedes layers 1 and 4.
    rows = object_of("info", judge.folder / "vector.gguf", "--layers")["info"]["table"]
    assert [row["layer"] for row in rows] == [1, 2, 4]
    assert [row["norm"] for row in rows] == pytest.approx([1, 2, 1], abs=1e-6)
    assert [row["cosine_to_previous"] for row in rows] == [
        None,
        pytest.approx(cosine, abs=1e-6),
        None,
    ]
    assert [row["alpha"] for row in rows] == [None] * 3


def test_info_layers_of_rank_two(judge):
    spec = gw.rank_two(keys={"glp.dir_scales": "1,0.5", "glp.layer_scales": "2:0.25"})
    rows = object_of("info", judge.write(spec), "--layers")["info"]["table"]
    assert [(row["layer"], row["j"], row["alpha"]) for row in rows] == [
        (1, 0, 4.0), (1, 1, 2.0), (2, 0, 1.0), (2, 1, 0.5), (3, 0, 4.0), (3, 1, 2.0),
    ]  # fmt: skip
    assert "table" not in object_of("info", judge.folder / "vector.gguf")["info"]


def test_info_layers_of_nothing(judge):
    spec = gw.Spec().set("general.architecture", "controlvector")
    assert object_of("info", judge.write(spec), "--layers")["info"]["table"] == []
    spec = gw.sound(directions={(1, 0): [float("nan")] * 8, (2, 0): [0.0] * 8})
    rows = object_of("info", judge.write(spec), "--layers")["info"]["table"]
    assert [row["norm"] for row in rows] == [None, 0.0, pytest.approx(1)]
    assert [row["cosine_to_previous"] for row in rows] == [None] * 3


def test_info_sample(fine):
    answer = run_cli("info", "--sample")
    assert answer.status == 0
    assert answer.err == ""
    assert "sample.gguf" in answer.out.splitlines()[0]
    assert run_cli("info", fine, "--sample", "--json").out.count('"verdict"') == 2


def test_info_of_several_files(fine, refused):
    answer = run_cli("info", fine, refused)
    assert [line for line in answer.out.splitlines() if not line.startswith(" ")] == [
        f"applicable: {fine}", "", f"refused: {refused}",
    ]  # fmt: skip


# ---- JSON ----------------------------------------------------------------------------------------


def test_json_of_one_file(fine):
    said = object_of("info", fine)
    assert said == object_of("check", fine, *TARGET)
    assert {key: said[key] for key in ("file", "verdict", "findings")} == {
        "file": str(fine), "verdict": "applicable", "findings": [],
    }  # fmt: skip
    info = said["info"]
    norms = info.pop("norms")
    assert [norms["min"], norms["max"]] == pytest.approx([1, 1], abs=1e-6)
    assert info == {
        "raw": False,
        "file_size": fine.stat().st_size,
        "mode": "project",
        "mode_declared": True,
        "spec_version": 1,
        "hook": FFN,
        "hook_declared": True,
        "derived_at": None,
        "transferred": False,
        "structure": "per-layer",
        "alpha": 4.0,
        "rank": 1,
        "n_embd": 8,
        "n_directions": 3,
        "layers": [1, 2, 3],
        "layer_ranges": "1-3",
        "base": {
            "name": "Tiny 1B",
            "organization": "Example",
            "revision": gw.REVISION,
            "url": "https://example.org/tiny-1b",
        },
        "model_hint": None,
        "name": "Verbosity",
        "method": "difference-of-means",
        "contrast": "succinct-vs-verbose",
        "generator": None,
        "created": "2026-01-01",
        "content_sha256": gw.content_hash(gw.sound().directions()),
        "hash": "verified",
        "misapplied_by_adding": True,
    }


def test_json_of_findings(judge):
    spec = gw.sound(directions={(2, 0): [0.5] * 8})
    path = judge.write(spec)
    said = object_of("check", path, *TARGET)
    (finding,) = said["findings"]
    assert (finding["code"], finding["severity"]) == ("direction-norm", "refusal")
    assert finding["tensor"] == "direction.2"
    assert finding["offset"] == spec.build().data[b"direction.2"]
    assert "key" not in finding
    assert said["info"]["n_directions"] == 3


def test_json_of_an_unreadable_file(judge, tmp_path):
    for path in (judge.write(b"GGUF"), tmp_path / "no-such-file", tmp_path):
        answer = run_cli("info", path, "--json")
        said = json.loads(answer.out)
        assert (answer.status, answer.err) == (2, "")
        assert (said["verdict"], said["info"]) == ("unreadable", None)
        assert [f["severity"] for f in said["findings"]] == ["format"]


def test_json_of_several_files(fine, refused, tmp_path):
    answer = run_cli("check", fine, refused, tmp_path / "no", fine, "--json")
    assert answer.status == 2
    assert [said["verdict"] for said in json.loads(answer.out)] == [
        "applicable", "refused", "unreadable", "applicable",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "state"),
    [
        ({}, "verified"),
        ({"glp.content_sha256": None}, "absent"),
        ({"glp.content_sha256": "0" * 64}, "mismatch"),
        ({"glp.content_sha256": "sha"}, "mismatch"),
    ],
    ids=str,
)
def test_json_of_the_hash(judge, keys, state):
    assert judge.info(gw.sound(keys=keys)).info["hash"] == state


def test_json_of_a_strength_that_overflows(judge):
    spec = gw.sound(rank=2, alpha=3e38, keys={"glp.dir_scales": "1e300,1"})
    found = judge.info(spec, "--layers")
    assert found.status == 0
    assert [row["alpha"] for row in found.info["table"]] == [None, float(np.float32(3e38))] * 3
    layers = gw.sound(alpha=3e38, keys={"glp.spec_version": 2, "glp.layer_scales": "2:1e300"})
    table = judge.info(layers, "--layers").info["table"]
    assert [row["alpha"] is None for row in table] == [False, True, False]


def test_json_says_the_same_in_ranges(judge):
    info = judge.info(gw.sound(layers=(1, 2, 4, 7, 8, 9))).info
    assert info["layers"] == [1, 2, 4, 7, 8, 9]
    assert info["layer_ranges"] == "1-2,4,7-9"


@pytest.mark.parametrize("command", ["info", "check"])
def test_json_does_not_change_the_status(fine, refused, judge, command):
    broken = judge.write(b"GGUF", "broken.gguf")
    for path in (fine, refused, broken):
        assert run_cli(command, path).status == run_cli(command, path, "--json").status


# ---- check ---------------------------------------------------------------------------------------


def test_check(fine, refused):
    answer = run_cli("check", fine, *TARGET)
    assert answer == (0, f"applicable: {fine}\n", "")
    answer = run_cli("check", fine, "--hook", RESIDUAL)
    assert (answer.status, answer.out) == (1, f"refused: {fine}\n")
    (line,) = answer.err.splitlines()
    assert line.startswith(f"{fine}: refusal: hook-mismatch: Use hook {FFN}, not {RESIDUAL}")


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--mode", "add"), "mode-mismatch"),
        (("--hook", ATTENTION), "hook-mismatch"),
        (("--n-embd", "16"), "width-mismatch"),
        (("--n-layers", "3"), "depth-mismatch"),
        (("--base", "Other"), "base-mismatch"),
        (("--base-revision", "f" * 40), "base-mismatch"),
        (("--structure", "per-execution-step"), "structure"),
    ],
    ids=str,
)
def test_check_flags(judge, flags, code):
    assert judge.check(gw.sound(), *flags).codes() == {code}


def test_check_switches(judge):
    assert judge.check(gw.sound(), "--hook", RESIDUAL, "--allow-hook-mismatch").status == 0
    assert judge.check(gw.sound(), "--base", "Other", "--allow-base-mismatch").status == 0
    spec = gw.sound(directions={(2, 0): [0.5] * 8})
    assert judge.check(spec).status == 1
    assert judge.check(spec, "--renormalise").status == 0
    # n_layers counts steps: the last of three is step 3.
    steps = ("--structure", "per-execution-step", "--n-layers")
    assert judge.check(gw.steps(), *steps, 3).status == 0
    assert judge.check(gw.steps(), *steps, 2).codes() == {"depth-mismatch"}


def test_a_model_that_cannot_be_read_is_no_verdict(fine, tmp_path):
    bad = tmp_path / "config.json"
    bad.write_text("{")
    for path in (bad, tmp_path / "no.json"):
        answer = run_cli("check", fine, "--model", path)
        assert (answer.status, answer.out) == (2, "")
        assert str(path) in answer.err


@pytest.mark.parametrize("flags", [("check", "--model"), ("info", "--meta")], ids=" ".join)
def test_json_where_another_input_cannot_be_read(fine, refused, tmp_path, monkeypatch, flags):
    command, flag = flags
    bad = tmp_path / "config.json"
    bad.write_text("{")
    for path, code in ((bad, "json"), (tmp_path / "no.json", "io"), (tmp_path, "io")):
        answer = run_cli(command, fine, flag, path, "--json")
        assert (answer.status, answer.err) == (2, "")
        said = json.loads(answer.out)
        assert (said["file"], said["verdict"], said["info"]) == (str(fine), "unreadable", None)
        (finding,) = said["findings"]
        assert (finding["code"], finding["severity"]) == (code, "format")
        assert str(path) in finding["message"]
        several = json.loads(run_cli(command, fine, "-", refused, flag, path, "--json").out)
        assert [one["file"] for one in several] == [str(fine), "<stdin>", str(refused)]
        assert [one["findings"] for one in several] == [[finding]] * 3
        assert run_cli(command, "-", "-", flag, path, "--json").status == 64
    assert len(json.loads(run_cli("info", fine, "--sample", "--meta", bad, "--json").out)) == 2

    def fail(*arguments):
        raise MemoryError

    monkeypatch.setattr("glpcore._model.read_model", fail)
    monkeypatch.setattr("glpcore._cli.read_sidecar", fail)
    answer = run_cli(command, fine, flag, bad, "--json")
    assert answer.status == 2
    assert json.loads(answer.out)["findings"][0]["code"] == "io"


# ---- Raw .f32 ------------------------------------------------------------------------------------


def sidecar(path, **keys):
    known = {"format": "ds4-directional-steering-v1", "shape": [4, 8], "component": "ffn_out"}
    path.write_text(json.dumps({**known, **keys}))
    return path


def test_info_of_a_raw_file(judge, tmp_path):
    path = judge.write(gw.raw(ROWS), "v.f32")
    assert run_cli("info", path).status == 2
    for flags in (
        ("--n-embd", "8"),
        ("--n-embd", "8", "--n-layers", "4", "--hook", FFN),
        ("--meta", sidecar(tmp_path / "v.json")),
    ):
        said = object_of("info", path, *flags)
        assert said["verdict"] == "applicable"
        assert said["info"]["raw"]
        assert said["info"]["layers"] == [1, 2]
        assert said["info"]["n_embd"] == 8
        hookless = {"hook-missing"} if flags == ("--n-embd", "8") else set()
        assert {f["code"] for f in said["findings"]} == hookless
    assert object_of("info", path, "--n-embd", "7")["findings"][0]["code"] == "raw-size"


@pytest.mark.parametrize(
    ("flags", "keys"),
    [
        (("--n-embd", "16"), {}),
        (("--n-layers", "5"), {}),
        (("--hook", RESIDUAL), {}),
    ],
    ids=str,
)
def test_flags_against_the_sidecar(judge, tmp_path, flags, keys):
    path = judge.write(gw.raw(ROWS), "v.f32")
    answer = run_cli("info", path, "--meta", sidecar(tmp_path / "v.json", **keys), *flags)
    assert answer.status == 64
    assert f"{flags[0]} {flags[1]} contradicts the sidecar" in answer.err


@pytest.mark.parametrize(
    "keys",
    [
        {"shape": [4]},
        {"shape": [4, 0]},
        {"shape": [4, True]},
        {"shape": [4.0, 8]},
        {"shape": [4, 1 << 31]},
        {"shape": [4, 1 << 40]},
        {"shape": [1 << 64, 8]},
        {"shape": "4x8"},
        {"component": "resid"},
        {"component": ["ffn_out"]},
        {"component": 3},
        {"format": "another"},
        {"format": "\ud800"},
        {"component": "\udcff"},
        {"good_file": "a\ud800.txt", "bad_file": "b.txt"},
        {"good_file": "a.txt", "bad_file": "b\udcff.txt"},
        {"good_file": "a\0.txt"},
        {"format": None},
    ],
    ids=str,
)
def test_a_sidecar_that_makes_no_sense(judge, tmp_path, keys):
    path = judge.write(gw.raw(ROWS), "v.f32")
    meta = sidecar(tmp_path / "v.json", **keys)
    answer = run_cli("info", path, "--meta", meta)
    assert answer.status == 2
    assert answer.err.startswith(f"{meta}: format: sidecar: Correct the sidecar's ")
    assert run_cli("pack", path, tmp_path / "o", "--meta", meta, "--base-model", "N").status == 2


# ---- pack ----------------------------------------------------------------------------------------


@pytest.fixture
def raw(judge):
    return judge.write(gw.raw([gw.unit(8, 0), *ROWS[1:], [2 * x for x in gw.unit(8, 4)]]), "v.f32")


PACK = ("--n-embd", "8", "--hook", FFN, "--base-model", "Tiny 1B")


def test_pack(raw, tmp_path):
    out = tmp_path / "o.gguf"
    answer = run_cli("pack", raw, out, *PACK, "--alpha", "1.5", "--base-org", "Example",
                     "--base-revision", "abc", "--base-url", "https://example.org",
                     "--method", "m", "--contrast", "c")  # fmt: skip
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        f"packed: {out}",
        f"  3 directions of n_embd 8 at {FFN}",
        "  layers 1-2,4",
        "  1 of 3 rows were off unit norm and have been normalised",
        "  row 0 is left out: layer 0 is not expressible, for direction.N starts at 1",
        "  all-zero rows are left out: 3",
        f"  content hash {glpcore.open(out).info.content_sha256}",
    ]
    info = object_of("check", out, "--hook", FFN, "--base", "tiny-1b")["info"]
    assert info["alpha"] == 1.5
    assert info["base"] == {
        "name": "Tiny 1B", "organization": "Example", "revision": "abc",
        "url": "https://example.org",
    }  # fmt: skip
    assert (info["method"], info["contrast"]) == ("m", "c")


def test_pack_with_a_sidecar(judge, tmp_path):
    raw = judge.write(gw.raw(ROWS), "v.f32")
    meta = sidecar(
        tmp_path / "v.json", good_file="a/b/formal.txt", bad_file="c\\informal.prompts.txt"
    )
    answer = run_cli("pack", raw, tmp_path / "o.gguf", "--meta", meta, "--base-model", "N")
    assert answer.status == 0
    assert "row 0" not in answer.out
    assert "warning: alpha-missing: " in answer.err
    info = glpcore.open(tmp_path / "o.gguf").info
    assert (info.hook, info.contrast) == (FFN, "formal_vs_informal.prompts")


@pytest.mark.parametrize("layers", ["1-2,4", "4,2,1", "1-4", "1,1-2,4"])
def test_pack_layers(raw, tmp_path, layers):
    out = tmp_path / "o.gguf"
    answer = run_cli("pack", raw, out, *PACK, "--layers", layers)
    assert answer.status == 0
    assert "row 0" in answer.out
    assert glpcore.open(out).layers == (1, 2, 4)


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ("0-4", "not expressible"),
        ("0", "not expressible"),
        ("1-5", "its last is 4"),
        ("1-9999999", "its last is 4"),
        ("2-1", "backwards"),
        ("1,", "is not like"),
        ("-1", "is not like"),
        ("1-", "is not like"),
        ("+1", "is not like"),
        (" 1", "is not like"),
        ("1--2", "is not like"),
        ("٣", "is not like"),
        ("", "is not like"),
    ],
)
def test_pack_bad_layers(raw, tmp_path, layers, words):
    answer = run_cli("pack", raw, tmp_path / "o.gguf", *PACK, "--layers", layers)
    assert answer.status == 64
    assert words in answer.err
    assert not (tmp_path / "o.gguf").exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--hook", FFN), "n_embd"),
        (("--n-embd", "8"), "--hook"),
        (("--n-embd", "8", "--hook", FFN, "--alpha", "1e39"), "float32"),
        (("--n-embd", "8", "--hook", FFN, "--alpha", "1e-60"), "float32"),
        (("--meta", "SIDECAR", "--n-embd", "4"), "contradicts the sidecar"),
        (("--meta", "SIDECAR", "--hook", ATTENTION), "contradicts the sidecar"),
    ],
    ids=str,
)
def test_pack_usage(raw, tmp_path, flags, words):
    meta = sidecar(tmp_path / "v.json", shape=[5, 8])
    flags = [meta if flag == "SIDECAR" else flag for flag in flags]
    answer = run_cli("pack", raw, tmp_path / "o.gguf", "--base-model", "N", *flags)
    assert answer.status == 64
    assert words in answer.err
    assert not (tmp_path / "o.gguf").exists()


def test_pack_unusable_input(judge, raw, tmp_path):
    out = tmp_path / "o.gguf"

    def status(path, *flags, code):
        answer = run_cli("pack", path, out, *(flags or PACK))
        assert not out.exists()
        assert code in answer.err
        assert "Traceback" not in answer.err
        return answer.status

    assert status(tmp_path / "no", code="No such file") == 2
    assert status(tmp_path, code="directory") == 2
    assert status(judge.write(b"", "e"), code="raw-size") == 2
    assert status(judge.write(raw.read_bytes()[:-1], "c"), code="raw-size") == 2
    assert status(judge.write(gw.sound(), "g"), code="raw-shape") == 2
    meta = sidecar(tmp_path / "v.json", shape=[4, 8])
    assert status(raw, "--meta", meta, "--base-model", "N", code="raw-size") == 2
    data = bytearray(raw.read_bytes())
    data[-4:] = gw.floats([float("nan")])
    assert status(judge.write(bytes(data), "n"), code="direction-nonfinite") == 1
    assert status(judge.write(bytes(64), "z"), code="direction-empty") == 1


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4", "<f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_pack_npy(tmp_path, dtype, order):
    rows = np.array([[1.0, 0, 0, 0], [0.5, 0.5, -0.5, 0.5], [0, 0, 0, 4.0]])
    np.save(tmp_path / "v.bin.npy", np.asarray(rows, dtype, order=order))
    path, out = (tmp_path / "v.bin.npy").rename(tmp_path / "v.f32"), tmp_path / "o.gguf"
    flags = ("--hook", FFN, "--base-model", "N")
    answer = run_cli("pack", path, out, *flags)
    assert answer.status == 0
    assert "1 of 2 rows were off unit norm" in answer.out
    vec = glpcore.load(out, hook=FFN, n_embd=4)
    assert {n: vec[n].tolist() for n in vec} == {1: [0.5, 0.5, -0.5, 0.5], 2: [0, 0, 0, 1]}
    answer = run_cli("pack", path, out, *flags, "--force", "--n-embd", "5")
    assert answer.status == 2
    assert "3 x 4" in answer.err


@pytest.mark.parametrize(
    "array",
    [
        np.ones(4), np.ones((1, 2, 3)), np.ones((0, 4)), np.ones((2, 2), int),
        np.ones((2, 2), complex), np.array([[None]]),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)  # fmt: skip
def test_pack_bad_npy(tmp_path, array):
    path = tmp_path / "v.npy"
    np.save(path, array, allow_pickle=True)
    answer = run_cli("pack", path, tmp_path / "o.gguf", "--hook", FFN, "--base-model", "N")
    assert answer.status == 2
    assert ": format: raw-shape: " in answer.err
    assert len(answer.err.splitlines()) == 1


def test_pack_damaged_npy(tmp_path):
    path = tmp_path / "v.npy"
    np.save(path, np.eye(4))
    data = path.read_bytes()
    for damaged in (data[:-1], data[:20], data[:6], data.replace(b"(4, 4)", b"(4, 9)")):
        path.write_bytes(damaged)
        answer = run_cli("pack", path, tmp_path / "o.gguf", "--hook", FFN, "--base-model", "N")
        assert answer.status == 2
        assert ": format: raw-shape: " in answer.err


def npy(header: str, data: bytes, version: int = 1, size: int | None = None) -> bytes:
    """A `.npy` with any text for a header."""
    text = header.encode() + b"\n"
    length = (len(text) if size is None else size).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def npy_header(descr="'<f4'", order="False", shape="(2, 4)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


@pytest.mark.parametrize("stdin", [False, True], ids=["file", "stdin"])
@pytest.mark.parametrize(
    "header",
    [
        "",
        "{",
        "{'descr': (",
        "-" * 9000 + "1",
        "(" * 9000,
        "[" * 150,
        "{1: 2, 'a': 3}",
        "{[]: 1}",
        "3",
        "'descr'",
        "{'descr': '<f4', 'fortran_order': False}",
        "['descr', 'fortran_order', 'shape']",
        "__import__('os')",
        "'\\d'",
        "\x00",
        npy_header(shape="(True, 8)"),
        npy_header(shape="(2.0, 4)"),
        npy_header(shape="[2, 4]"),
        npy_header(shape="(-2, -4)"),
        npy_header(shape="(2, -4)"),
        npy_header(shape="8"),
        npy_header(shape=f"({2**70}, 1)"),
        npy_header(shape=f"({2**40}, 1024)"),
        npy_header(shape=f"({2**62}, 4)"),
        npy_header(shape=f"({'9' * 5000}, 1)"),
        npy_header(shape="(2, 5)"),
        npy_header(order="0"),
        npy_header(order="None"),
        npy_header(descr="'|O'"),
        npy_header(descr="'<f3'"),
        npy_header(descr="'<f999'"),
        npy_header(descr="'f4,f4'"),
        npy_header(descr=r"'\ud800'"),
        npy_header(descr="[('a', '<f4')]"),
        npy_header(descr="None"),
        npy_header(descr="{}"),
    ],
    ids=lambda header: header[:70],
)
def test_pack_of_any_npy_header(tmp_path, header, stdin):
    path, out = tmp_path / "v.npy", tmp_path / "o.gguf"
    data = npy(header, bytes(32))
    path.write_bytes(data)
    source = "-" if stdin else path
    flags = ("--hook", FFN, "--base-model", "N")
    answer = run_cli("pack", source, out, *flags, stdin=data if stdin else b"")
    assert (answer.status, answer.out) == (2, ""), answer
    assert answer.err.startswith(f"{source}: format: raw-shape: Save ")
    assert len(answer.err.splitlines()) == 1
    assert not out.exists()


def test_pack_without_enough_memory(raw, tmp_path, monkeypatch):
    def fail(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr("glpcore._pack.pack", fail)
    answer = run_cli("pack", raw, tmp_path / "o.gguf", *PACK)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith(f"{raw}: format: io: Free some memory")


def test_pack_of_npy_versions(tmp_path):
    out = tmp_path / "o.gguf"
    rows = np.eye(2, 4, dtype="<f4").tobytes()
    flags = ("--hook", FFN, "--base-model", "N", "--force")
    for version in (1, 2, 3):
        # What lies behind the array is not of it.
        for data in (npy(npy_header(), rows, version), npy(npy_header(), rows + b"x", version)):
            assert run_cli("pack", "-", out, *flags, stdin=data).status == 0
            assert glpcore.load(out, hook=FFN)[1].tolist() == [0, 1, 0, 0]
        for size in (0, 10, 60_000):
            data = npy(npy_header(), rows, version, size)
            assert run_cli("pack", "-", out, *flags, stdin=data).status == 2
    for version in (0, 4, 255):
        assert run_cli("pack", "-", out, *flags, stdin=npy(npy_header(), rows, version)).status == 2


def test_pack_does_not_overwrite(raw, tmp_path):
    out = tmp_path / "o.gguf"
    out.write_bytes(b"precious")
    answer = run_cli("pack", raw, out, *PACK)
    assert (answer.status, answer.out) == (1, "")
    assert str(out) in answer.err
    assert "force" in answer.err
    assert out.read_bytes() == b"precious"
    assert run_cli("pack", raw, out, *PACK, "--force").status == 0
    before = raw.read_bytes()
    assert run_cli("pack", raw, raw, *PACK, "--force").status == 64
    assert raw.read_bytes() == before
    assert run_cli("pack", raw, tmp_path / "no" / "o.gguf", *PACK).status == 2


def test_pack_shows_the_warnings_of_its_file(raw, tmp_path):
    answer = run_cli("pack", raw, tmp_path / "o.gguf", *PACK, "--alpha", "64")
    assert answer.status == 0
    assert answer.err.startswith(f"{tmp_path / 'o.gguf'}: warning: alpha-extreme: ")


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        (("--n-embd", "4096", "--n-layers", "43", "--hook", FFN), None),
        (("--n-layers", "42"), "depth-mismatch"),
        (("--n-embd", "2048"), "width-mismatch"),
        (("--hook", ATTENTION), "hook-mismatch"),
        (("--mode", "add"), "mode-mismatch"),
    ],
    ids=str,
)
def test_real_vector(real_vector, tmp_path, flags, code):
    source, out = real_vector, tmp_path / "v.gguf"
    answer = run_cli(
        "pack", source, out, "--meta", source.with_suffix(".json"), "--layers", "1-42",
        "--base-model", "DeepSeek-V4-Flash",
    )  # fmt: skip
    assert answer.status == 0
    assert "layer 0 is not expressible" in answer.out
    assert "0 of 42 rows were off unit norm" in answer.out
    said = object_of("check", out, *flags)
    assert [f["code"] for f in said["findings"] if f["severity"] == "refusal"] == (
        [] if code is None else [code]
    )
    info = object_of("info", out)["info"]
    assert info["content_sha256"] == (
        "2fc93b0ad4f2a97228ba3bec01702933f5cc7889fc9424d5fee9aa8941458688"
    )
    assert (info["hash"], info["contrast"]) == ("verified", "succinct_vs_verbose")
    assert (info["n_directions"], info["n_embd"], info["layer_ranges"]) == (42, 4096, "1-42")
    assert re.search(r"norms +1\.000000\.\.1\.000000\n", run_cli("info", out).out)


# ---- A program among others ----------------------------------------------------------------------


def test_a_closed_pipe_is_no_error(fine, refused):
    for path, status in ((fine, 0), (refused, 1)):
        for flags in ((), ("--json",), ("--layers",)):
            reader, writer = os.pipe()
            os.close(reader)
            process = subprocess.run(
                [sys.executable, "-m", "glpcore", "info", path, *flags],
                stdout=writer,
                stderr=subprocess.PIPE,
                timeout=60,
            )
            os.close(writer)
            assert process.returncode == status
            assert b"Error" not in process.stderr
            assert b"Traceback" not in process.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_streams_that_were_closed_from_the_start(fine, redirection):
    for argv, status in ((("info", fine), 0), (("info", "no-such-file"), 2), ((), 64)):
        line = " ".join(map(str, (sys.executable, "-m glpcore", *argv, redirection)))
        process = subprocess.run(["sh", "-c", line], capture_output=True, timeout=60)
        assert process.returncode == status
        assert b"Traceback" not in process.stderr + process.stdout
    line = f"{sys.executable} -m glpcore info - <&-"
    process = subprocess.run(["sh", "-c", line], capture_output=True, timeout=60)
    assert process.returncode == 2
    assert b"Traceback" not in process.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_an_error(fine):
    with open("/dev/full", "wb") as full:
        process = subprocess.run(
            [sys.executable, "-m", "glpcore", "info", fine],
            stdout=full, stderr=subprocess.PIPE, timeout=60,
        )  # fmt: skip
    assert process.returncode == 2
    assert b"No space left" in process.stderr
    assert len(process.stderr.splitlines()) == 1


def test_any_encoding(judge):
    path = judge.write(gw.sound(keys={"general.name": "naïve 形式"}), "ü.gguf")
    for encoding in ("ascii", "latin-1", "utf-8"):
        process = program("info", path, env={**os.environ, "PYTHONIOENCODING": encoding})
        assert process.returncode == 0
        assert process.stderr == b""
        assert (b"na\\xefve" in process.stdout) == (encoding == "ascii")


def test_no_colour_and_no_numpy(fine):
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm"}
    for argv in (("--help",), ("info", fine, "--layers"), ("check", fine, "--json")):
        command = [sys.executable, "-X", "importtime", "-m", "glpcore", *map(str, argv)]
        process = subprocess.run(command, capture_output=True, timeout=60, env=environment)
        assert process.returncode == 0
        assert b"\x1b" not in process.stdout + process.stderr
        assert b"glpcore._cli" in process.stderr
        assert b"numpy" not in process.stderr


def test_stdin_has_a_name(fine):
    process = program("info", "-", "--layers", input=fine.read_bytes())
    assert process.returncode == 0
    assert process.stdout.startswith(b"applicable: <stdin>\n")
    process = program("check", "-", "--json", input=b"")
    said = json.loads(process.stdout)
    assert (process.returncode, said["file"], said["verdict"]) == (2, "<stdin>", "unreadable")
    raw = program("check", "-", "--n-embd", 8, "--hook", FFN, input=gw.raw(ROWS))
    assert raw.returncode == 0


def test_a_file_named_dash(judge, tmp_path):
    judge.write(gw.sound(), "-")
    process = program("info", "./-", cwd=tmp_path, input=b"")
    assert process.returncode == 0


def test_an_interruption_is_quiet(fine, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("glpcore._cli.open_file", interrupt)
    assert run_cli("info", fine) == (130, "", "")


@pytest.mark.parametrize("error", [RuntimeError("a\nb\x1b\ud800"), AssertionError()])
def test_a_fault_of_ours_is_one_line(fine, monkeypatch, error):
    def fail(*arguments, **options):
        raise error

    monkeypatch.setattr("glpcore._cli.open_file", fail)
    answer = run_cli("info", fine)
    assert (answer.status, answer.out) == (70, "")
    assert re.fullmatch(r"glpcore: internal error: \w+: .*\n", answer.err)
    assert "\x1b" not in answer.err


def test_not_enough_memory_is_a_finding(fine, monkeypatch):
    def fail(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr("glpcore._cli.open_file", fail)
    assert object_of("info", fine)["findings"][0]["code"] == "io"


@pytest.mark.skipif(sys.platform != "linux", reason="sparse files")
def test_info_of_a_huge_model_is_quick(tmp_path):
    spec = gw.Spec().set("general.architecture", "llama")
    spec.add_tensor("token_embd.weight", b"", (1 << 33,), gw.GGML_F32, offset=0)
    path = tmp_path / "model.gguf"
    image = spec.build()
    path.write_bytes(image)
    os.truncate(path, image.data_start + (4 << 33))
    process = program("info", path)
    assert process.returncode == 1
    assert b"did you pass the model?" in process.stderr
    assert program("check", path, "--json").stdout.count(b"too-big") == 1


# ---- Flags together ------------------------------------------------------------------------------

FLAGS = {
    "mode": ("--mode", "add"),
    "hook": ("--hook", RESIDUAL),
    "n_embd": ("--n-embd", "8"),
    "n_layers": ("--n-layers", "4"),
    "base": ("--base", "Tiny 1B"),
    "slash": ("--base", "org/"),
    "revision": ("--base-revision", "main"),
    "structure": ("--structure", "per-execution-step"),
    "allow hook": ("--allow-hook-mismatch",),
    "allow base": ("--allow-base-mismatch",),
    "renormalise": ("--renormalise",),
    "json": ("--json",),
}


@pytest.mark.parametrize("first", FLAGS)
@pytest.mark.parametrize("second", FLAGS)
def test_every_pair_of_flags_has_an_ordinary_answer(fine, first, second):
    answer = run_cli("check", fine, *FLAGS[first], *FLAGS[second])
    names = {first, second}
    usage = names >= {"mode", "renormalise"} or ("slash" in names and second != "base")
    assert answer.status in ((64,) if usage else (0, 1)), answer
    assert "internal error" not in answer.err
    if usage:
        assert "error: " in answer.err
        assert answer.out == ""


@pytest.mark.parametrize("flag", ["--base", "--base-revision"])
@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_name_is_a_usage_error(fine, flag, text):
    answer = run_cli("check", fine, flag, text)
    assert (answer.status, answer.out) == (64, "")
    assert "it is empty" in answer.err


@pytest.mark.parametrize("kind", ["f32", "npy"])
def test_pack_from_standard_input(tmp_path, kind):
    rows = np.array(ROWS, np.float32)
    data = io.BytesIO()
    np.save(data, rows)
    stdin = data.getvalue() if kind == "npy" else rows.tobytes()
    out = tmp_path / "o.gguf"
    shape = () if kind == "npy" else ("--n-embd", "8")
    answer = run_cli("pack", "-", out, "--hook", FFN, "--base-model", "Tiny 1B", *shape,
                     stdin=stdin)  # fmt: skip
    assert answer.status == 0, answer
    with glpcore.open(out) as file:
        assert file.layers == (1, 2)
