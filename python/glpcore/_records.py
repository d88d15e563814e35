"""What a file says, as plain records."""

from __future__ import annotations

from typing import NamedTuple


class Info(NamedTuple):
    """What a file says of itself, not judged. Text that is not UTF-8 has its bytes as `\\xhh`."""

    raw: bool
    """A headerless `.f32`, which states nothing."""
    file_size: int
    mode: str | None
    """`"project"`, `"add"`, or None when the file names another; undeclared reads as `"add"`."""
    mode_declared: bool
    mode_text: str | None
    """As written, like the other `_text` fields."""
    spec_version: int
    spec_version_declared: bool
    hook: str | None
    """A known hook point or None; additive files default to `residual_stream_post_layer`."""
    hook_text: str | None
    derived_at: str | None
    transferred: bool
    """The directions were derived at another site than they are applied at."""
    structure: str
    """`"per-layer"`, `"per-execution-step"` or `"other"`."""
    structure_text: str | None
    alpha: float | None
    """`glp.alpha_default`, where the file has a usable one."""
    rank: int
    """Directions per layer; 0 when there is none."""
    has_dir_scales: bool
    has_layer_scales: bool
    n_embd: int
    """Elements in the first direction; 0 when there is none."""
    n_directions: int
    n_layers: int
    """Layers that carry directions, of which the least and the greatest are:"""
    layer_min: int
    layer_max: int
    norm_min: float
    """Least and greatest Euclidean norm; NaN when there is no direction."""
    norm_max: float
    base_name: str | None
    base_organization: str | None
    base_revision: str | None
    base_url: str | None
    method: str | None
    contrast: str | None
    created: str | None
    generator: str | None
    content_sha256: str | None
    name: str | None
    model_hint: str | None


class Tensor(NamedTuple):
    """An entry of the file's tensor table."""

    name: str
    shape: tuple[int, ...]
    """As GGUF orders it: the contiguous dimension first."""
    type: int
    """The ggml type; 0 is F32."""
    offset: int
    """Of the data, in bytes from the start of the file."""
    n_bytes: int
    """0 when the type's size is not known."""


class Payload(NamedTuple):
    """A direction as it lies in the file."""

    layer: int
    j: int
    """Which of the layer's directions, from 0."""
    norm: float
    offset: int
    """In bytes from the start of the file."""
    cosine: float | None = None
    """To direction j of the layer before, where there is one."""


class Row(NamedTuple):
    """A line of a file's table of directions."""

    layer: int
    j: int
    norm: float
    cosine: float | None
    """To direction j of the layer before, where there is one."""
    alpha: float | None
    """The strength that the file itself states, scales included; None where there is none, and
    where it is beyond float64."""


class Strength(NamedTuple):
    """How strongly a direction is applied."""

    alpha: float
    adopted: bool
    """Whether `alpha` comes from the file's own `glp.alpha_default`."""
