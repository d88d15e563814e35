"""Makes the sample vector that ships in the package: the same bytes every time.

    python tools/make_sample.py            # writes python/glpcore/sample.gguf
    python tools/make_sample.py --check    # fails when the file there differs

It is a made-up direction for formality in a made-up model of 8 layers and n_embd 64. Nothing was
derived; it is for looking at, for the README and for tests.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from pathlib import Path

import numpy as np

import glpcore

SAMPLE = Path(__file__).resolve().parent.parent / "python" / "glpcore" / "sample.gguf"
N_EMBD = 64
LAYERS = range(2, 8)


def direction(layer: int) -> np.ndarray:
    """A smooth unit vector that turns a little from layer to layer.

    Rounded to a multiple of 2^-20 before it is normalised, so that the last bits of a platform's
    sine do not reach the file.
    """
    waves = [math.sin(0.1 * layer + 0.37 * i) + 0.5 * math.cos(0.05 * layer * i)
             for i in range(N_EMBD)]  # fmt: skip
    row = np.array([round(w * (1 << 20)) / (1 << 20) for w in waves])
    return (row / math.sqrt(math.fsum(row * row))).astype(np.float32)


def make(path: Path) -> None:
    glpcore.pack(
        path,
        {layer: direction(layer) for layer in LAYERS},
        hook="ffn_out_pre_residual",
        base="Sample-8L",
        base_org="glpcore",
        base_revision="0000000000000000000000000000000000000000",
        alpha=1.0,
        method="made up, for looking at",
        contrast="formal_vs_informal",
        generator="glpcore tools/make_sample.py",
        created="2026-01-01",
        force=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    if not parser.parse_args().check:
        make(SAMPLE)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / SAMPLE.name
        make(fresh)
        same = fresh.read_bytes() == SAMPLE.read_bytes()
    print("sample.gguf is up to date" if same else "run tools/make_sample.py: sample.gguf differs")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
