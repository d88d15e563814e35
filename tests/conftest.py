"""What several test files need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from gguf_writer import Judge


@pytest.fixture
def judge(tmp_path):
    return Judge(tmp_path)


@pytest.fixture(scope="session")
def real_vector() -> Path:
    """A real vector with its sidecar beside it, where they are at hand.

    The folder is GLPCORE_SHARED_DATA, or shared/data beside the checkout.
    """
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("GLPCORE_SHARED_DATA", beside)) / "verbosity.f32"
    if not path.is_file():
        pytest.skip("GLPCORE_SHARED_DATA does not name the folder of the real vector")
    return path
