from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from ._errors import Finding
from ._metadata import Metadata
from ._model import ModelFacts
from ._open import _Path
from ._records import Info, Payload, Row, Strength, Tensor

_Array = TypeVar("_Array")

def version() -> str: ...
def escape(text: str | bytes) -> str: ...
def open_path(
    path: bytes, name: _Path, n_layers: int, n_embd: int, max_bytes: int, read: bool
) -> File: ...
def open_buffer(
    source: Any, name: str | None, n_layers: int, n_embd: int, max_bytes: int
) -> File: ...
def project_rows(
    x: Any, v: Any, scale: float, *, threads: int = 1, dtype: Literal["bf16"] | None = None
) -> None: ...
def project_rows_k(
    x: Any,
    directions: Any,
    alphas: Sequence[float],
    *,
    threads: int = 1,
    dtype: Literal["bf16"] | None = None,
) -> None: ...
def add_rows(
    x: Any, v: Any, scale: float, *, threads: int = 1, dtype: Literal["bf16"] | None = None
) -> None: ...

@final
class File:
    @property
    def name(self) -> str | None: ...
    @property
    def size(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def __enter__(self) -> File: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    @property
    def info(self) -> Info: ...
    @property
    def metadata(self) -> Metadata: ...
    def _kv_count(self) -> int: ...
    def _kv_keys(self) -> list[str]: ...
    def _kv_find(self, key: str) -> tuple[int, bytes] | None: ...
    @property
    def tensors(self) -> tuple[Tensor, ...]: ...
    @property
    def directions(self) -> tuple[Payload, ...]: ...
    @property
    def layers(self) -> tuple[int, ...]: ...
    @property
    def findings(self) -> list[Finding]: ...
    @property
    def verdict(self) -> str: ...
    def judge(
        self,
        *,
        mode: str | None = "project",
        hook: str | None = None,
        n_embd: int | None = None,
        n_layers: int | None = None,
        base: str | Sequence[str] | None = None,
        base_revision: str | None = None,
        model: _Path | ModelFacts | None = None,
        structure: str | None = None,
        allow_hook_mismatch: bool = False,
        allow_base_mismatch: bool = False,
        renormalise: bool = False,
        verify_hash: bool = True,
    ) -> list[Finding]: ...
    def accept(
        self,
        *,
        mode: str | None = "project",
        hook: str | None = None,
        n_embd: int | None = None,
        n_layers: int | None = None,
        base: str | Sequence[str] | None = None,
        base_revision: str | None = None,
        model: _Path | ModelFacts | None = None,
        structure: str | None = None,
        allow_hook_mismatch: bool = False,
        allow_base_mismatch: bool = False,
        renormalise: bool = False,
        verify_hash: bool = True,
    ) -> Vector: ...
    def table(self) -> tuple[Row, ...]: ...
    def describe(
        self,
        layers: bool = False,
        findings: Sequence[Finding] | None = None,
        *,
        name: str | None = None,
    ) -> str: ...

@final
class Vector:
    @property
    def mode(self) -> str: ...
    @property
    def hook(self) -> str: ...
    @property
    def structure(self) -> str: ...
    @property
    def n_embd(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def layers(self) -> tuple[int, ...]: ...
    @property
    def findings(self) -> list[Finding]: ...
    @property
    def n_renormalised(self) -> int: ...
    @property
    def file(self) -> File: ...
    def __getitem__(self, layer: int, /) -> NDArray[np.float32]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def __contains__(self, layer: object, /) -> bool: ...
    def direction(self, layer: int, j: int = 0) -> NDArray[np.float32]: ...
    def strength(
        self, layer: int, j: int = 0, *, alpha: float | None = None, fallback: float | None = None
    ) -> Strength: ...
    def alpha(
        self, layer: int, j: int = 0, *, alpha: float | None = None, fallback: float | None = None
    ) -> float: ...
    def adopted(self, *, alpha: float | None = None, fallback: float | None = None) -> bool: ...
    def dense(
        self,
        n_layers: int | None = None,
        *,
        alpha: float | None = None,
        fallback: float | None = None,
        alphas: Any = None,
    ) -> NDArray[np.float32]: ...
    def at(
        self, layer: int, *, alpha: float | None = None, fallback: float | None = None
    ) -> PreparedLayer: ...
    def project(
        self,
        x: _Array,
        layer: int,
        *,
        alpha: float | None = None,
        fallback: float | None = None,
        threads: int = 1,
        dtype: Literal["bf16"] | None = None,
    ) -> _Array: ...
    def add(
        self,
        x: _Array,
        layer: int,
        *,
        alpha: float | None = None,
        fallback: float | None = None,
        threads: int = 1,
        dtype: Literal["bf16"] | None = None,
    ) -> _Array: ...

@final
class PreparedLayer:
    @property
    def layer(self) -> int: ...
    @property
    def alphas(self) -> tuple[float, ...]: ...
    @property
    def vector(self) -> Vector: ...
    def project(
        self, x: _Array, *, threads: int = 1, dtype: Literal["bf16"] | None = None
    ) -> _Array: ...
    def add(
        self, x: _Array, *, threads: int = 1, dtype: Literal["bf16"] | None = None
    ) -> _Array: ...
