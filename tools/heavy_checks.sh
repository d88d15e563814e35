#!/usr/bin/env bash
# The checks that take too long for every change: other processors under emulation, races, hosts that
# compile with -ffast-math, every prefix and every header byte of many files, and a fuzzer.
#
#     tools/heavy_checks.sh [SECONDS_TO_FUZZ]
#
# Needs cc, clang (with sanitizers and libFuzzer), Python with numpy and pytest, and for the other
# processors `pip install ziglang` and qemu-user; a part whose tool is missing says so and is left out.
# docs/checks.md records the last run.
set -euo pipefail
cd "$(dirname "$0")/.."
fuzz_seconds=${1:-300}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${PYTHON:-python3}
clang=$(command -v clang || command -v clang-19 || true)
include=(-std=c99 -Icsrc/include -Icsrc)
libs=(-lm -lpthread)
say() { printf '\n== %s\n' "$*"; }

tests_with() { # COMPILER RUNNER, as .ci/run does it
    CC=$1 GLPCORE_TEST_RUNNER=$2 "$python" -m pytest -q -s -p no:cacheprovider tests/test_c.py \
        -k "test_program and O2" | grep -E 'passed|failed|skipped'
}

say "races: ThreadSanitizer"
if [ -n "$clang" ]; then
    "$clang" -O1 -g -fsanitize=thread "${include[@]}" tests/c/test_pool.c csrc/*.c "${libs[@]}" -o "$work/tsan"
    "$work/tsan" | tail -1
else
    echo "left out: no clang"
fi

say "small faults in the kernels, and whether the tests see them"
"$python" tools/mutate_rows.py --count 66

say "a host's -O3 -ffast-math: refusals, scale 0 and zero v hold (subnormals are flushed there)"
for test in glp sha256 pool; do
    cc -O3 -ffast-math "${include[@]}" "tests/c/test_$test.c" csrc/*.c "${libs[@]}" -o "$work/fast"
    printf '%-28s' "$test"
    "$work/fast" | tail -1
done

if "$python" -m ziglang version >/dev/null 2>&1; then
    zig=("$python" -m ziglang cc)
    say "compiles for other systems"
    for target in aarch64-linux-gnu x86-linux-gnu x86_64-windows-gnu aarch64-macos x86_64-macos; do
        for source in csrc/*.c; do
            "${zig[@]}" -target $target -O2 -Wall -Wextra -Werror "${include[@]}" -c "$source" -o "$work/object.o"
        done
        echo "$target"
    done
    say "32-bit x86 (no 64-bit integers in hardware, no AVX2)"
    tests_with "${zig[*]} -target x86-linux-musl" ""
    say "64-bit Arm under emulation, with another compiler and libc than .ci/run has"
    if command -v qemu-aarch64 >/dev/null; then
        tests_with "${zig[*]} -target aarch64-linux-musl" qemu-aarch64
    else
        echo "left out: no qemu-aarch64"
    fi
else
    say "other processors: left out, no ziglang"
fi

say "AVX-512 under emulation"
for test in bits project; do
    cc -O2 -static -ffp-contract=off "${include[@]}" "tests/c/test_$test.c" csrc/*.c "${libs[@]}" -o "$work/test"
    printf '%-28s' "$test quick"
    tools/run_avx512.sh "$work/test" quick 2>&1 | tail -1
done

say "every prefix, every value of every header byte, every failing allocation"
"$python" tests/fuzz/make_seeds.py "$work/seeds"
cc -O1 -g -DSWEEP_WRAP -fsanitize=address,undefined -fno-sanitize-recover=all "${include[@]}" \
    csrc/*.c tests/fuzz/fuzz_open.c tests/fuzz/sweep.c "${libs[@]}" \
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free -o "$work/sweep"
# Whole headers of the sound families; the first bytes of the rest, some of which have many entries.
"$work/sweep" "$work"/seeds/sound*.gguf | tail -4
"$work/sweep" -l 24 "$work"/seeds/* | tail -4

say "fuzzing for $fuzz_seconds s"
if [ -n "$clang" ]; then
    "$clang" -O1 -g -fsanitize=fuzzer,address,undefined "${include[@]}" csrc/*.c \
        tests/fuzz/fuzz_open.c "${libs[@]}" -o "$work/fuzz"
    mkdir "$work/corpus"
    "$work/fuzz" -max_total_time="$fuzz_seconds" -max_len=4096 -rss_limit_mb=2048 -timeout=10 \
        "$work/corpus" "$work/seeds" 2>&1 | tail -4
else
    echo "left out: no clang"
fi
say "done"
