"""The sample vector that ships with the package, made by tools/make_sample.py."""

from __future__ import annotations

import os


def sample_path() -> str:
    """The path of a small GLP file: formality, 6 of 8 layers, n_embd 64, for no real model."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "sample.gguf")
