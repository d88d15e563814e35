"""What a file may hold that was made to harm: text for terminals, and every kind of damage."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time

import gguf_writer as gw
import pytest
from gguf_writer import FFN, TARGET, judge_path, run_cli

import glpcore

# ---- Text ----------------------------------------------------------------------------------------

HOSTILE = {
    "clear screen": b"a\x1b[2Jb",
    "window title": b"a\x1b]0;owned\x07b",
    "C1 control": "a\u009b31mb".encode(),
    "raw C1 byte": b"a\x9b31mb",
    "newline": b"a\nverdict: applicable\nb",
    "carriage return": b"refused\rapplicable",
    "backspaces": b"a\x08\x08b",
    "NUL": b"a\0b",
    "DEL": b"a\x7fb",
    "not UTF-8": b"a\xff\xfeb",
    "cut UTF-8": b"a\xe2\x82",
    "surrogate": b"a\xed\xa0\x80b",
    "override": "a\u202ebcd\u202c".encode(),
    "isolate": "a\u2066bcd\u2069".encode(),
    "mark": "a\u200f\u061cb".encode(),
    "zero width": "a\u200b\u2060\ufeffb".encode(),
    "line separator": "a\u2028b\u2029c".encode(),
    "tag": "a\U000e0041b".encode(),
    "backslash": b"a\\x1b[2Jb",
    "quotes": b'a","verdict":"applicable","b":"',
    "percent": b"%s%n%1000000d",
    "long": b"\x1b" * 5000,
}

# Characters that move the cursor, reorder the text or cannot be seen. A newline ends a line.
FORBIDDEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e0fff\ud800-\udfff]"
)


def every_text(text: bytes) -> gw.Spec:
    """The same text wherever a file may hold one."""
    spec = gw.sound()
    for name in ("name", "base_model.0.name", "base_model.0.organization", "base_model.0.version",
                 "base_model.0.repo_url"):  # fmt: skip
        spec.set(f"general.{name}", text)
    for name in ("hook_point", "derived_at", "structure", "method", "contrast", "created",
                 "generator", "layer_ids_zero_based", "content_sha256", "dir_scales",
                 "layer_scales", "validation"):  # fmt: skip
        spec.set(f"glp.{name}", text)
    spec.set("controlvector.model_hint", text)
    return spec


def names(text: bytes) -> bytes | None:
    """The text as it may stand in a key or a tensor name, which must be UTF-8 without a NUL."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return None
    return None if b"\0" in text else text[:50]


def assert_printable(text: str) -> None:
    assert FORBIDDEN.search(text) is None, ascii(text)


def shapes(text: bytes) -> list[tuple[gw.Spec, int]]:
    """Files that hold the text in other places, and the status of each."""
    made = [(every_text(text), 1), (gw.sound(mode=text), 1), (gw.sound(hook=text), 1)]
    if name := names(text):
        made += [
            (gw.sound().append(b"glp." + name, 1), 0),
            (gw.sound().append(name, 1).append(name, 1), 2),
            (gw.sound().add_tensor(name, bytes(32)), 1),
            (gw.sound().add_tensor(b"direction." + name, gw.unit(8, 4)), 1),
            (gw.sound().add_tensor(name, bytes(32)).add_tensor(name, bytes(32)), 2),
        ]
    return made


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_text_is_printed_escaped(judge, text):
    lengths = [run_cli("info", judge.write(spec)).out.count("\n") for spec, _ in shapes(b"ab")]
    for (spec, status), length in zip(shapes(text), lengths, strict=False):
        path = judge.write(spec)
        for command in ("info", "check"):
            answer = run_cli(command, path)
            assert answer.status == status
            assert_printable(answer.out)
            assert_printable(answer.err)
            # Every finding is one line, and no text of the file begins a line of its own.
            assert "\nverdict: applicable" not in answer.out + answer.err
            if command == "info":
                assert answer.out.count("\n") == length
        assert_printable(run_cli("info", path, "--layers").out)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_json_is_json(judge, text):
    verdicts = ["applicable", "refused", "unreadable"]
    for spec, status in shapes(text):
        path = judge.write(spec)
        for command in ("info", "check"):
            answer = run_cli(command, path, "--json")
            assert_printable(answer.out)
            said = json.loads(answer.out, parse_constant=pytest.fail)
            assert said["verdict"] == verdicts[status]
        both = json.loads(run_cli("info", path, path, "--json").out, parse_constant=pytest.fail)
        assert [x["verdict"] for x in both] == [verdicts[status]] * 2


def test_json_keeps_numbers_json(judge):
    """NaN is no JSON: neither an alpha nor a norm may become one."""
    for alpha in (float("nan"), float("inf")):
        spec = gw.sound(alpha=alpha, directions={(1, 0): [float("inf")] * 8})
        answer = run_cli("info", judge.write(spec), "--json")
        said = json.loads(answer.out, parse_constant=pytest.fail)
        assert said["verdict"] == "refused"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_exceptions_are_escaped(text):
    for spec, status in shapes(text):
        if status == 0:
            shown = [f.message for f in glpcore.load(memoryview(spec.build())).findings]
        else:
            with pytest.raises(glpcore.GlpError) as caught:
                glpcore.load(memoryview(spec.build()))
            shown = [str(caught.value), *(f.message for f in caught.value.findings)]
        assert shown
        for message in shown:
            assert_printable(message)
            assert "\n" not in message


@pytest.mark.parametrize("name", ["a\x1b[2Jb.gguf", "a\nb.gguf", "a\u202eb.gguf"])
def test_file_names_are_escaped(judge, name):
    for spec in (gw.sound(), gw.sound(mode="ablate"), gw.Spec(magic=b"NOPE")):
        path = judge.write(spec, name)
        for command in ("info", "check"):
            answer = run_cli(command, path)
            assert_printable(answer.out)
            assert_printable(answer.err)
        assert json.loads(run_cli("info", path, "--json").out)["file"].endswith(name)


def test_a_file_name_that_is_not_utf8(tmp_path):
    path = os.fsencode(tmp_path) + b"/a\xff.gguf"
    with open(path, "wb") as file:
        file.write(gw.sound().build())
    assert glpcore.open(path).verdict == "applicable"
    answer = run_cli("info", os.fsdecode(path), "--json")
    assert answer.status == 0
    assert json.loads(answer.out)["verdict"] == "applicable"
    assert run_cli("info", os.fsdecode(path)).status == 0


def test_metadata_is_raw_where_a_program_asks(judge):
    """Escaping is for showing; a program gets the text, and invalid bytes visibly."""
    spec = gw.sound().append("x.a", b"a\x1b[2Jb").append("x.b", b"a\xffb")
    metadata = glpcore.open(judge.write(spec)).metadata
    assert metadata["x.a"] == "a\x1b[2Jb"
    assert metadata["x.b"] not in ("a\ufffdb", "ab")


# ---- Damage --------------------------------------------------------------------------------------


def small() -> gw.Image:
    """Two directions and few keys, so that every byte can be changed."""
    spec = gw.sound(n_embd=8, layers=(1, 2))
    spec.drop(
        "general.name", "general.base_model.count", "general.base_model.0.organization",
        "general.base_model.0.repo_url", "glp.method", "glp.contrast", "glp.created",
    )  # fmt: skip
    return spec.append("x", gw.nested(2)).build()


def answer_of(data: bytes) -> int:
    """0 applicable, 1 refused, 2 no sound file; anything else is a failure of this test."""
    target = {"hook": FFN, "n_embd": 8, "n_layers": 3}
    try:
        file = glpcore.open(memoryview(data))
    except (glpcore.FormatError, OSError) as error:
        severities = [f.severity for f in error.findings]
        is_format = isinstance(error, glpcore.FormatError)
    else:
        severities = [f.severity for f in file.judge(**target)]
        text = file.describe()
        assert text.endswith("\n")
        if "refusal" in severities:
            with pytest.raises(glpcore.RefusedError):
                file.accept(**target)
            return 1
        assert file.accept(**target).dense(3, alpha=1.0).shape == (3, 8)
        return 0
    assert severities == ["format"]
    assert is_format == (len(data) > 0)
    return 2


def test_every_prefix(judge):
    image = small()
    assert answer_of(image) == 0
    counts = {0: 0, 1: 0, 2: 0}
    for size in range(len(image)):
        status = answer_of(image[:size])
        counts[status] += 1
        # Without the last tensor's last byte nothing is sound; without padding all is.
        assert status == (2 if size < image.data_end else 0)
    assert counts[1] == 0
    assert counts[2] == image.data_end


INTERESTING = (0x00, 0x01, 0x20, 0x7F, 0x80, 0xFF)


def test_every_byte_of_the_header():
    image = small()
    counts = {0: 0, 1: 0, 2: 0}
    for at in range(image.data_start):
        for byte in {*INTERESTING, image[at] ^ 0x01, image[at] ^ 0x80} - {image[at]}:
            changed = bytearray(image)
            changed[at] = byte
            counts[answer_of(changed)] += 1
    # Each answer occurs: texts that decide nothing, texts that do, and structure.
    assert min(counts.values()) > 100, counts


def test_damaged_directions_do_not_pass():
    """The content hash covers every byte of every direction."""
    image = small()
    for name in (b"direction.1", b"direction.2"):
        for at in range(image.data[name], image.data[name] + 32):
            changed = bytearray(image)
            changed[at] ^= 0x10
            assert answer_of(changed) == 1


GARBAGE = """
import gc, sys
import glpcore

class Node:
    pass

gc.disable()
with open(sys.argv[1], "rb") as file:
    data = file.read()
for names in (("data", "file"), ("file", "data"), ("data", "vec", "view"), ("view", "data", "vec")):
    view = memoryview(data)
    file = glpcore.open(view)
    vec = file.accept()
    made = {"data": view, "file": file, "vec": vec, "view": vec[1]}
    node = Node()
    node.itself = node
    for name in names:
        setattr(node, name, made[name])
    del view, file, vec, made, node
    gc.collect()
print("alive")
"""


def test_garbage_in_cycles(judge):
    """The collector may find a file and the bytes it lies in at once, and in any order."""
    path = judge.write(gw.sound())
    process = subprocess.run(
        [sys.executable, "-c", GARBAGE, path], capture_output=True, text=True, timeout=60
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "alive\n", "")


# ---- Not a file ----------------------------------------------------------------------------------


def test_a_fifo_is_refused_without_waiting(tmp_path):
    """Opening a fifo waits for a writer, for ever: it must be refused before it is opened."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    started = time.monotonic()
    process = subprocess.run(
        [sys.executable, "-m", "glpcore", "check", path], capture_output=True, timeout=20
    )
    assert process.returncode == 2
    assert time.monotonic() - started < 20
    assert b"Traceback" not in process.stderr
    for flag in (True, False):
        with pytest.raises(OSError, match=re.escape(str(path))):
            glpcore.open(path, mmap=flag)


def test_a_fifo_with_a_writer_is_refused_too(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    thread = threading.Thread(target=os.write, args=(writer, bytes(gw.sound().build())))
    thread.start()
    try:
        found = judge_path("check", path)
        assert found.status == 2
        assert found.codes() == {"io"}
    finally:
        thread.join()
        os.close(writer)
        os.close(reader)


def test_stdin(judge):
    """A pipe is read by asking for it."""
    for command in ("info", "check"):
        answer = run_cli(command, "-", "--json", stdin=bytes(gw.sound().build()))
        assert answer.status == 0
        assert json.loads(answer.out)["verdict"] == "applicable"
    assert run_cli("check", "-", *TARGET, stdin=bytes(gw.sound(mode="x").build())).status == 1
    assert run_cli("check", "-", stdin=b"GGUF").status == 2
    assert run_cli("check", "-", stdin=b"").status == 2


def test_never_a_traceback(tmp_path):
    """The whole program, once for each status."""
    files = {0: gw.sound(), 1: gw.sound(mode="x"), 2: gw.Spec(magic=b"NOPE")}
    for status, spec in files.items():
        path = tmp_path / f"{status}.gguf"
        path.write_bytes(spec.build())
        process = subprocess.run(
            [sys.executable, "-m", "glpcore", "check", path, "--json"],
            capture_output=True,
            timeout=60,
        )
        assert process.returncode == status
        assert b"Traceback" not in process.stderr
        json.loads(process.stdout)
