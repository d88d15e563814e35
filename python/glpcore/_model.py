"""What a model's own file says of it: architecture, width, depth and names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ._errors import FormatError, fault
from ._json import MAX_DIMENSION, not_a_name, read_object, require_regular, whole_number

_NO_LIMIT = (1 << 64) - 1
_MAX_BASES = 16


class ModelFacts(NamedTuple):
    """Facts of a model that a vector is judged against."""

    arch: str | None
    n_embd: int
    """Width of the residual stream."""
    n_layers: int
    base_names: tuple[str, ...]
    """The names it goes by, its base models' included; empty when it has none."""
    base_revision: str | None


def read_model(path: str | bytes | os.PathLike[Any]) -> ModelFacts:
    """Facts from the header of a GGUF model, or from a Hugging Face `config.json`.

    OSError when the file cannot be read; FormatError (`model`, or what the reading of GGUF or JSON
    gives) when it is neither, or does not say its width and depth.
    """
    path = os.fsdecode(path)
    require_regular(path)
    with open(path, "rb") as stream:
        is_gguf = stream.read(4) == b"GGUF"
    if is_gguf:
        return _from_gguf(path)
    return _from_config(read_object(path, "a GGUF model or its config.json"))


def _facts(
    arch: str | None,
    n_embd: int | None,
    n_layers: int | None,
    names: list[str | None],
    revision: str | None = None,
) -> ModelFacts:
    # Without both, a check against the model would pass what it never looked at.
    if n_embd is None or n_layers is None:
        missing = "its width" if n_embd is None else "its number of layers"
        message = (
            f"Pass the model's first GGUF file or its config.json. This does not say {missing}."
        )
        raise fault(FormatError, "model", message)
    # No vector fits such a model, and a size like this is damage more often than it is a size.
    if max(n_embd, n_layers) >= MAX_DIMENSION:
        beyond = "width" if n_embd >= MAX_DIMENSION else "number of layers"
        message = (
            f"Pass the model's first GGUF file or its config.json. This states a {beyond} of 2**31 "
            "or more, which no model has."
        )
        raise fault(FormatError, "model", message)
    known = dict.fromkeys(name for name in names if name is not None)
    return ModelFacts(arch, n_embd, n_layers, tuple(known), revision)


def _text(value: object, what: str) -> str | None:
    """A text that says something, or None. What is no text at all is an error.

    To leave it out would be to pass a check that was never made.
    """
    if not isinstance(value, str) or not value.strip():
        return None
    if not_a_name(value):
        message = f"Correct the model's {what}. A NUL or a lone surrogate is in it: {value!a:.60}."
        raise fault(FormatError, "model", message)
    return value


def _name(value: object, what: str) -> str | None:
    """A name as `glpcore_same_base` compares it, by its last part; None where that says nothing."""
    text = _text(value, what)
    if text is None:
        return None
    text = re.sub(r"(/\.?)+$", "", text)  # of a folder
    return text if text.rpartition("/")[2].strip("-_. ") else None


def _from_gguf(path: str) -> ModelFacts:
    from ._open import open as open_file

    with open_file(path, max_bytes=_NO_LIMIT) as file:
        metadata = file.metadata
        arch = _text(metadata.get("general.architecture"), "general.architecture")
        if arch == "controlvector":
            raise fault(FormatError, "model", "Pass the model. This is a steering vector.")
        n_layers = whole_number(metadata.get(f"{arch}.block_count"))
        # Draft blocks for multi-token prediction count as blocks, and must not be steered.
        drafts = whole_number(metadata.get(f"{arch}.nextn_predict_layers")) or 0
        if n_layers is not None and n_layers > drafts:
            n_layers -= drafts
        n_embd = whole_number(metadata.get(f"{arch}.embedding_length"))
        return _facts(arch, n_embd, n_layers, _gguf_names(metadata))


def _gguf_names(metadata: Mapping[str, object]) -> list[str | None]:
    # "SmolLM2" is a family; with its size and tuning it names a checkpoint.
    parts: list[str] = []
    basenames: list[str | None] = []
    for part in ("basename", "size_label", "finetune"):
        text = _name(metadata.get(f"general.{part}"), f"general.{part}")
        if text is None and not parts:
            break
        if text is not None:
            parts.append(text)
            basenames.append("-".join(parts))
    count = min(whole_number(metadata.get("general.base_model.count")) or 0, _MAX_BASES)
    keys = ["general.name", *(f"general.base_model.{i}.name" for i in range(count))]
    name, *bases = (_name(metadata.get(key), key) for key in keys)
    return [name, *basenames, *bases]


def _from_config(config: Mapping[str, object]) -> ModelFacts:
    # A multimodal model keeps the numbers of its language model in a table of their own.
    inner = config.get("text_config")
    tables = [inner, config] if isinstance(inner, dict) else [config]

    def first(*keys: str) -> object:
        values = (table.get(key) for table in tables for key in keys)
        return next((value for value in values if value is not None), None)

    path = config.get("_name_or_path")  # it may be a folder, on Windows too
    return _facts(
        _text(first("model_type"), "model_type"),
        whole_number(first("hidden_size", "n_embd", "d_model")),
        whole_number(first("num_hidden_layers", "n_layer", "num_layers")),
        [_name(path.replace("\\", "/") if isinstance(path, str) else path, "_name_or_path")],
        _text(config.get("_commit_hash"), "_commit_hash"),
    )
