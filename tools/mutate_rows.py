#!/usr/bin/env python3
"""Whether the tests of rows can fail: small faults, one at a time, in the kernels that run here.

    tools/mutate_rows.py [--count 40] [--seed 1] [--jobs 2]

The faults are of general kinds (a statement left out, a comparison or a constant off by one, a
multiply-add rounded twice, ...) and are put on lines that gcov saw run, so the list needs no care
when the kernels are rewritten; a kind that finds no place at all is an error. Each mutant runs
test_bits and, if that passes, test_project. What survives is printed to be judged: a line that only
makes things fast, or one that changes no result, is rightly missed.

Needs cc and gcov. docs/checks.md records the last run.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("test_bits", "test_project")
# A multiply-add in float64 is exact up to its addition here, so only the one in float32 counts.
FLAGS = ["-std=c99", "-O2", "-ffp-contract=off",
         "-Dtwice_rounded(a,b,c)=_mm256_add_ps(_mm256_mul_ps(a,b),c)"]  # fmt: skip
KINDS = {
    "a statement left out": (r"^( +)[^ /#{}][^{}]*;$", r"\1;"),
    "a boundary off by one": (r"(?<= )(<|>)(?= )", r"\1="),
    "a boundary off by one, inward": (r"(?<= )(<|>)=(?= )", r"\1"),
    "equal for unequal": (r"(?<= )==(?= )", "!="),
    "and for or": (r"&&", "||"),
    "minus for plus": (r"(?<= )\+(?= )", "-"),
    "a constant one too large": (r"(?<![\w.])([1-9]\d*)(?![\w.])", None),
    "a condition always true": (r"\bif \((?!1\b)", "if (1 || "),
    "a condition never true": (r"\bif \((?!0\b)", "if (0 && "),
    "low for high": (r"\bhigh\b|unpackhi", None),
    "a multiply-add rounded twice": (r"_mm256_fmadd_ps", "twice_rounded"),
}


def changed(kind: str, match: re.Match[str]) -> str:
    if kind == "a constant one too large":
        return str(int(match[0]) + 1)
    if kind == "low for high":
        return {"high": "low", "unpackhi": "unpacklo"}[match[0]]
    replacement = KINDS[kind][1]
    assert replacement is not None
    return match.expand(replacement)


def run(*words: object, cwd: Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def copy_to(tree: Path) -> None:
    shutil.copytree(ROOT / "csrc", tree / "csrc")
    shutil.copytree(ROOT / "tests" / "c", tree / "tests" / "c")


def build(tree: Path, *flags: str, rest: Path | None = None) -> str:
    """Both programs; "" or what the compiler said. With `rest`, only the rows are compiled, and
    linked with the objects there."""
    sources = sorted(tree.glob("csrc/project*.c" if rest else "csrc/*.c"))
    tests = [] if rest else [tree / "tests" / "c" / f"{name}.c" for name in PROGRAMS]
    include = [f"-I{tree}/csrc/include", f"-I{tree}/csrc"]
    made = run("cc", *FLAGS, *flags, *include, "-c", *sources, *tests, cwd=tree)
    if made.returncode != 0:
        return made.stderr
    mine = {path.name: path for path in tree.glob("*.o")}
    objects = ({path.name: path for path in rest.glob("*.o")} if rest else {}) | mine
    common = [path for name, path in objects.items() if not name.startswith("test_")]
    for name in PROGRAMS:
        words = ["cc", *flags, objects[f"{name}.o"], *common, "-lm", "-lpthread", "-o", name]
        made = run(*words, cwd=tree)
        if made.returncode != 0:
            return made.stderr
    return ""


def lines_that_run(tree: Path) -> dict[str, set[int]]:
    """By file, under the two programs."""
    problem = build(tree, "-O0", "--coverage")
    assert not problem, problem
    for name in PROGRAMS:
        done = run(tree / name, "quick", cwd=tree)
        assert done.returncode == 0, done.stdout
    ran: dict[str, set[int]] = {}
    for notes in sorted(tree.glob("project*.gcda")):
        done = run("gcov", "--json-format", notes, cwd=tree)
        assert done.returncode == 0, done.stderr
    for path in tree.glob("*.gcov.json.gz"):
        for file in json.loads(gzip.decompress(path.read_bytes()))["files"]:
            name = Path(file["file"]).name
            if (ROOT / "csrc" / name).exists() and name.startswith("project"):
                hit = {line["line_number"] for line in file["lines"] if line["count"] > 0}
                ran.setdefault(name, set()).update(hit)
    return ran


def places(ran: dict[str, set[int]]) -> Iterator[tuple[str, str, int, int, int, str]]:
    """kind, file, line, and what to put from where to where in it."""
    for name, numbers in sorted(ran.items()):
        for number, line in enumerate((ROOT / "csrc" / name).read_text().splitlines(), 1):
            code = line.split("/*")[0].rstrip()
            if number not in numbers or line.lstrip().startswith(("#", "*", "/*")):
                continue
            for kind, (pattern, _) in KINDS.items():
                for match in re.finditer(pattern, code):
                    text = changed(kind, match)
                    yield kind, name, number, match.start(), match.end(), text


def try_one(place: tuple[str, str, int, int, int, str], rest: Path) -> str:
    """Builds and runs: "caught", "survived", or "not C"."""
    _, name, number, start, end, text = place
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_to(tree)
        path = tree / "csrc" / name
        lines = path.read_text().splitlines(keepends=True)
        line = lines[number - 1]
        lines[number - 1] = line[:start] + text + line[end:]
        if text.startswith("if ("):  # close the bracket that the change opened
            lines[number - 1] = lines[number - 1].replace(text, text + "(", 1)
            lines[number - 1] = lines[number - 1].replace(") {", ")) {", 1)
        path.write_text("".join(lines))
        if build(tree, "-w", rest=rest):
            return "not C"
        for words in (("test_bits", "8"), ("test_project",)):
            try:
                if run(tree / words[0], *words[1:], cwd=tree).returncode != 0:
                    return "caught"
            except subprocess.TimeoutExpired:
                return "caught"
        return "survived"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured, rest = Path(folder) / "measured", Path(folder) / "rest"
        for tree in (measured, rest):
            copy_to(tree)
        found = list(places(lines_that_run(measured)))
        absent = set(KINDS) - {place[0] for place in found}
        if absent:
            print(f"no place for: {', '.join(sorted(absent))}")
            return 1
        problem = build(rest)
        assert not problem, problem
        # As many of each kind, so that the rare ones are among them.
        random.Random(options.seed).shuffle(found)
        seen: dict[str, int] = dict.fromkeys(KINDS, 0)
        ranked = []
        for place in found:
            ranked.append((seen[place[0]], place))
            seen[place[0]] += 1
        chosen = [p for _, p in sorted(ranked, key=lambda pair: pair[0])][: options.count]
        with ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(lambda place: try_one(place, rest), chosen))
    for place, result in zip(chosen, results, strict=True):
        if result == "survived":
            kind, name, number, start, end, text = place
            line = (ROOT / "csrc" / name).read_text().splitlines()[number - 1]
            print(f"survived: {name}:{number}: {kind}: {line[:start].lstrip()}"
                  f"[{line[start:end].strip()} -> {text.strip()}]{line[end:]}")  # fmt: skip
    caught, survived = results.count("caught"), results.count("survived")
    print(f"{caught} of {caught + survived} mutants caught, {results.count('not C')} not C, "
          f"of {len(found)} places")  # fmt: skip
    return 0 if caught > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
