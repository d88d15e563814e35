"""Writes seeds for the fuzzer and files for sweep and test_glp: `make_seeds.py FOLDER`.

Small files of every family, and one for each kind of fault, named after it.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gguf_writer as gw


def small(k: int = 1, **keys: object) -> gw.Spec:
    """Two directions of width 8 and the keys that decide, so that a sweep of it is short."""
    spec = gw.sound(layers=(1, 2), rank=k, keys={f"glp.{n}": v for n, v in keys.items()})
    return spec.drop(
        "general.name", "general.base_model.count", "general.base_model.0.organization",
        "general.base_model.0.repo_url", "glp.method", "glp.contrast", "glp.created",
    )  # fmt: skip


def every_type() -> gw.Spec:
    spec = small()
    for type, name in gw.TYPE_NAMES.items():
        if type in gw.SCALARS:
            spec.append(f"x.{name}", gw.scalar(type, 1))
            spec.append(f"x.{name}s", gw.array(type, [1, 0]))
    spec.append("x.texts", gw.array(gw.STRING, ["a", ""]))
    return spec.append("x.nested", gw.nested(4, gw.array(gw.STRING, ["a"])))


def aligned() -> gw.Spec:
    spec = small()
    spec.alignment = 64
    return spec.set("general.alignment", 64)


def with_tensors() -> gw.Spec:
    spec = small().add_tensor("blk.0.weight", bytes(36), (64,), 2)
    return spec.add_tensor("unknown", b"", (8, 8), gw.NO_SUCH_GGML_TYPE)


def duplicate_tensor() -> gw.Spec:
    return small().add_tensor("direction.1", gw.unit(8, 1))


def claiming(**fields: object) -> gw.Spec:
    spec = small()
    for name, value in fields.items():
        setattr(spec, name, value)
    return spec


def misplaced(offset: int) -> gw.Spec:
    spec = small()
    spec.tensor("direction.2").offset = offset
    return spec


def off_unit(*values: float) -> gw.Spec:
    spec = small()
    spec.tensor("direction.2").data = gw.floats([*values] * (8 // len(values)))
    return spec.rehash()


def many_keys(count: int = 2000) -> gw.Spec:
    """As many entries as fit: what a reader allocates is most, compared with the file."""
    spec = gw.Spec()
    for n in range(count):
        spec.append(f"{n:x}", gw.scalar(gw.U8, 0))
    return spec


def many_tensors(count: int = 1000) -> gw.Spec:
    spec = gw.Spec()
    for n in range(count):
        spec.add_tensor(f"{n:x}", b"", (0,), offset=0)
    return spec


def many_directions(count: int = 400) -> gw.Spec:
    """Each with a fault of its own, in a file that says nothing else."""
    spec = gw.Spec().set("glp.mode", "project")
    for n in range(1, count + 1):
        spec.add_tensor(f"direction.{n}", gw.floats([float(n % 7)]))
    spec.alignment = 4
    return spec.set("general.alignment", 4)


def seeds() -> dict[str, gw.Spec | bytes]:
    """By name: `sound` and the family, or the code of the fault."""
    control = gw.control_vector(layers=(1, 2))
    return {
        # Families
        "sound": small(),
        "sound-rank-2": small(2, dir_scales="1,0.5", layer_scales="2:0.25"),
        "sound-steps": small(structure="per-execution-step"),
        "sound-add": gw.additive(layers=(1, 2)),
        "sound-control-vector": control,
        "sound-every-type": every_type(),
        "sound-aligned": aligned(),
        "sound-raw": gw.raw([[0.0] * 8, gw.unit(8, 1), gw.unit(8, 2)]),
        # Container
        "not-gguf": claiming(magic=b"GGML"),
        "gguf-version": claiming(version=2),
        "truncated": small().build()[:-40],
        "count": claiming(n_keys=1 << 40),
        "string": small().append("x", gw.string("a", size=1 << 40)),
        "value-type": small().append("x", gw.nested(5)),
        "duplicate-key": small().append("glp.mode", "add"),
        "duplicate-tensor": duplicate_tensor(),
        "alignment": small().set("general.alignment", 3),
        "tensor-name": small().add_tensor("n" * 64, bytes(32)),
        "tensor-shape": small().add_tensor("x", bytes(32), (1 << 62, 4)),
        "tensor-offset": misplaced(4),
        "tensor-offset-overlap": misplaced(0),
        "padding": claiming(pad_last=False),
        "trailing": claiming(trailing=b"more"),
        # Meaning
        "key-type": small(mode=1),
        "legacy-namespace": control.copy().set("dspark.mode", "project"),
        "mode-unknown": small(mode="ablate"),
        "version-missing": small(spec_version=None),
        "version-unknown": small(spec_version=3),
        "version-gate": small(dir_scales="1"),
        "hook-missing": small(hook_point=None),
        "hook-unknown": small(hook_point="ffn"),
        "transferred": small(derived_at=gw.RESIDUAL),
        "structure": small(structure="free text"),
        "tensor-unexpected": with_tensors(),
        "direction-name": small().add_tensor("direction.03", gw.unit(8, 3)),
        "direction-zero": gw.sound(layers=(0, 1)),
        "direction-type": small().add_tensor("direction.3", bytes(16), (8,), gw.GGML_F16),
        "direction-shape": small().add_tensor("direction.3", bytes(32), (4, 2)),
        "direction-nonfinite": off_unit(math.nan),
        "direction-norm": off_unit(2.0, 0.0),
        "direction-norm-zero": off_unit(0.0),
        "rank": small(2, rank=3),
        "orthonormal": small(2, orthonormal=False),
        "layer-ids": small(layer_ids_zero_based="1, 2"),
        "alpha": small(alpha_default=math.inf),
        "alpha-extreme": small(alpha_default=64.0),
        "scales": small(2, dir_scales="1,1e999"),
        "content-hash": small(content_sha256="0" * 64),
        "provenance-missing": small(content_sha256=None, alpha_default=None),
        "key-unknown": small(new="\x1b[2J\u202e"),
        # Size
        "many-keys": many_keys(),
        "many-tensors": many_tensors(),
        "many-directions": many_directions(),
    }


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in seeds().items():
        data = file.build() if isinstance(file, gw.Spec) else file
        (folder / f"{name}.gguf").write_bytes(data)


if __name__ == "__main__":
    main()
