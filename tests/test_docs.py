"""The documents against the code: codes, test names and examples must exist and work."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import test_container
import test_meaning

ROOT = Path(__file__).resolve().parent.parent
FORMAT = (ROOT / "docs" / "format.md").read_text()
README = (ROOT / "README.md").read_text()


def section(text: str, title: str) -> str:
    return re.split(r"^#+ ", text.split(title, 1)[1], maxsplit=1, flags=re.M)[0]


def documented_codes() -> set[str]:
    tables = section(FORMAT, "### Container") + section(FORMAT, "### Meaning")
    first_cells = re.findall(r"^\| (`[^|]*`) \|", tables, flags=re.M)
    raw = set(re.findall(r"`(raw-[a-z]+)`", section(FORMAT, "## Raw `.f32`")))
    own = set(re.findall(r"`([a-z]+)`", FORMAT.split("codes of their own:")[1].split("\n\n")[0]))
    return {code for cell in first_cells for code in re.findall(r"`([^`]+)`", cell)} | raw | own


# How the sources spell a code: right behind a severity or a reporting helper, as one of the two
# arms of a choice, or at the end of a message.
SPELLINGS = (
    r"(?:REFUSE|WARN|SEVERITY_\w+),\s*\"([a-z0-9-]+)\"",
    r"(?:bad_tensor\(r|report_hook\(it),\s*\"([a-z-]+)\"",
    r"\? \"([a-z]+-[a-z-]+)\" : \"[a-z-]+\", &where",
    r"\? \"[a-z-]+\" : \"([a-z]+-[a-z-]+)\", &where",
    r"\[([a-z]+-[a-z]+)\]\"",
    r"fault\(\s*\w+, \"([a-z-]+)\"",
)


def codes_in_the_sources() -> set[str]:
    files = [*(ROOT / "csrc").glob("*.c"), *(ROOT / "python" / "glpcore").glob("*.py")]
    text = "".join(path.read_text() for path in files)
    return {code for spelling in SPELLINGS for code in re.findall(spelling, text)}


def test_every_code_is_documented():
    assert len(documented_codes()) > 50
    assert codes_in_the_sources() - documented_codes() == set()


def test_every_documented_code_exists():
    assert documented_codes() - codes_in_the_sources() == set()


def test_every_code_of_the_tables_has_a_test():
    tested = {case.code for case in test_container.CASES + test_meaning.CASES}
    text = "".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    for code in documented_codes() - tested:
        assert re.search(rf"[\"' ]{code}[\"':]", text), code


def test_named_tests_exist():
    """The table of the first reader's refusals names a test for each."""
    cases = {
        "C": {f"{case.code}: {case.condition}" for case in test_container.CASES},
        "M": {f"{case.code}: {case.condition}" for case in test_meaning.CASES},
    }
    named = re.findall(r"`([CM])\[([^\]]+)\]`", FORMAT)
    assert len(named) > 40
    for family, name in named:
        stem = name.removesuffix("...").rstrip()
        assert any(case.startswith(stem) for case in cases[family]), name
        assert name.endswith("...") or name in cases[family], name
    for file, function in re.findall(r"`(test_\w+\.py)::(test_\w+)`", FORMAT):
        assert f"def {function}(" in (ROOT / "tests" / file).read_text(), function
    for file in re.findall(r"`(c/test_\w+\.c)`", FORMAT):
        assert (ROOT / "tests" / file).exists(), file


def test_the_rows_of_the_first_readers_refusals_are_complete():
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", FORMAT, flags=re.M)
    assert [int(number) for number, _, _ in rows] == list(range(1, 46))
    for number, code, test in rows:
        assert "`" in code, number
        assert "test_" in test or re.search(r"[CM]\[", test), number


def test_the_six_lines():
    code = re.search(r"```python\n(.*?)```", README, flags=re.S)
    assert code is not None
    done = subprocess.run(
        [sys.executable, "-c", code[1]], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert 0 <= float(done.stdout) < 1e-5


def test_links_lead_somewhere():
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} -> {target}"


def test_the_c_snippet_compiles(tmp_path):
    code = re.search(r"```c\n(.*?)```", README, flags=re.S)
    assert code is not None
    source = tmp_path / "snippet.c"
    source.write_text(f"#include <glpcore.h>\n#include <string.h>\n{code[1]}")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        pytest.skip("no C compiler")
    done = subprocess.run(
        [*compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
         f"-I{ROOT}/csrc/include", str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
