"""Models and checkpoints: sound ones, and what may become of them."""

from __future__ import annotations

import io
import shutil

import numpy as np

from fuzzing.damage import damaged, edited_array, edited_json, pick


def edited_npz(data: bytes, rng) -> bytes:
    """Return an archive of arrays one of which is another, or gone."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = dict(archive)
    name = pick(rng, list(arrays))
    if "record" in arrays and rng.random() < 0.6:
        arrays["record"] = np.array(edited_json(str(arrays["record"]), rng))
    elif rng.random() < 0.15:
        del arrays[name]
    else:
        arrays[name] = edited_array(arrays[name], rng)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def spoil_model(model, rng) -> str:
    """Damage a model directory; return how."""
    kind = pick(rng, ("json", "json", "json", "arrays", "arrays", "bytes", "bytes", "gone", "folder"))
    path = model / pick(rng, ("model.json", "arrays.npz"))
    if kind == "json":
        path = model / "model.json"
        path.write_text(edited_json(path.read_text("utf-8"), rng), "utf-8")
    elif kind == "arrays":
        path = model / "arrays.npz"
        path.write_bytes(edited_npz(path.read_bytes(), rng))
    elif kind == "bytes":
        path.write_bytes(damaged(path.read_bytes(), rng))
    else:
        path.unlink()
        if kind == "folder":
            path.mkdir()
    return f"{kind} of {path.name}"


def spoil_checkpoint(path, rng) -> str:
    """Damage a checkpoint; return how."""
    kind = pick(rng, ("arrays", "arrays", "arrays", "bytes", "bytes", "folder"))
    if kind == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes((edited_npz if kind == "arrays" else damaged)(path.read_bytes(), rng))
    return kind


def copied(model, to):
    """Return a copy of a model directory."""
    shutil.copytree(model, to)
    return to
