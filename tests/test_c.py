"""The C tests: every program of tests/c, compiled with the sources as a host would compile them.

CC chooses the compiler, and GLPCORE_TEST_RUNNER what its programs run under, an emulator of
another processor for one:

    CC="aarch64-linux-gnu-gcc -static" GLPCORE_TEST_RUNNER=qemu-aarch64 \
        python -m pytest -q -s tests/test_c.py -k "test_program and O2"

Where it can, each program also runs under AddressSanitizer and
UndefinedBehaviorSanitizer, which stop at the first fault, and over objects that a host compiled
with -ffast-math (not linked with it, which would flush subnormals in the whole process).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CC = shlex.split(os.environ.get("CC", "cc"))
RUNNER = shlex.split(os.environ.get("GLPCORE_TEST_RUNNER", ""))
WARNINGS = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
SANITIZERS = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# Flags for the sources, and for the program that is linked with them.
BUILDS = {
    "O2": (["-O2", "-ffp-contract=off"], ["-O2", "-ffp-contract=off"]),
    "sanitizers": (SANITIZERS, SANITIZERS),
    "fast-math": (["-O3", "-ffast-math"], ["-O2", "-ffp-contract=off"]),
}
PROGRAMS = sorted((ROOT / "tests" / "c").glob("*.c"))
SOURCES = sorted((ROOT / "csrc").glob("*.c"))

pytestmark = pytest.mark.skipif(
    os.name == "nt" or shutil.which(CC[0]) is None, reason=f"no C compiler {CC[0]!r} to test with"
)


def run(*command: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=900, check=False, cwd=cwd)


@pytest.fixture(scope="module", params=BUILDS, ids=BUILDS)
def objects(request, tmp_path_factory) -> tuple[list[str], list[Path]]:
    flags, program_flags = BUILDS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sanitizers":
        (folder / "probe.c").write_text("int main(void) { return 0; }\n")
        probe = folder / "probe"
        built = run(*CC, *flags, folder / "probe.c", "-o", probe)
        if built.returncode != 0 or run(*RUNNER, probe).returncode != 0:
            pytest.skip(f"{CC[0]} has no sanitizers here")
    made = []
    for source in SOURCES:
        target = folder / (source.stem + ".o")
        built = run(*CC, *WARNINGS, *flags, f"-I{ROOT}/csrc/include", "-c", source, "-o", target)
        assert built.returncode == 0, built.stderr
        made.append(target)
    return program_flags, made


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_program(objects, program, tmp_path):
    flags, made = objects
    target = tmp_path / program.stem
    built = run(
        *CC, *WARNINGS, *flags, f"-I{ROOT}/csrc/include", f"-I{ROOT}/csrc", program, *made,
        "-lm", "-lpthread", "-o", target,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    done = run(*RUNNER, target, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    counts = re.search(r".*?(\d+) passed, (\d+) failed\s*\Z", done.stdout)
    assert counts, done.stdout[-2000:]
    print(counts[0].strip())
    assert int(counts[1]) > 0
    assert int(counts[2]) == 0


def test_bare_build(tmp_path):
    """`cc -c csrc/*.c` with no flag of ours, which is how a Makefile vendors the sources."""
    built = run(*CC, "-c", *SOURCES, cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    assert len(list(tmp_path.glob("*.o"))) == len(SOURCES)


def test_header_in_cpp(tmp_path):
    """The public header is clean C++."""
    cxx = shutil.which(os.environ.get("CXX", "c++"))
    if cxx is None:
        pytest.skip("no C++ compiler")
    source = tmp_path / "include.cpp"
    source.write_text('#include "glpcore.h"\nint main() { return glpcore_version()[0] == 0; }\n')
    built = run(
        cxx, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only",
        f"-I{ROOT}/csrc/include", source,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr


@pytest.fixture(scope="module")
def seeds(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("seeds")
    made = run(sys.executable, ROOT / "tests" / "fuzz" / "make_seeds.py", folder)
    assert made.returncode == 0, made.stderr
    return sorted(folder.iterdir())


def test_every_kind_of_fault_in_64_bytes(objects, seeds, tmp_path):
    """test_glp over a file for each kind of fault: the message in buffers of 0 to 64 bytes."""
    flags, made = objects
    target = tmp_path / "test_glp"
    built = run(
        *CC, *flags, f"-I{ROOT}/csrc/include", f"-I{ROOT}/csrc", ROOT / "tests/c/test_glp.c", *made,
        "-lm", "-lpthread", "-o", target,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    done = run(*RUNNER, target, *seeds, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_every_prefix_and_header_byte(seeds, tmp_path):
    """Every prefix and every value of every header byte of a file, as tests/fuzz/sweep.c has it.

    tools/heavy_checks.sh does the same for every family of files.
    """
    (sound,) = [seed for seed in seeds if seed.name == "sound.gguf"]
    target = tmp_path / "sweep"
    flags = [*SANITIZERS, f"-I{ROOT}/csrc/include"]
    files = [ROOT / "tests/fuzz/fuzz_open.c", ROOT / "tests/fuzz/sweep.c"]
    wrap = "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free"
    built = run(
        *CC, "-std=c99", "-DSWEEP_WRAP", *flags, *SOURCES, *files, "-lm", "-lpthread", wrap, "-o",
        target,
    )  # fmt: skip
    if built.returncode != 0:
        pytest.skip(f"{CC[0]} has no sanitizers, or its linker no --wrap")
    done = run(target, sound)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    counts = re.search(r"(\d+) passed, 0 failed", done.stdout)
    assert counts, done.stdout
    assert int(counts[1]) > 255 * 500
