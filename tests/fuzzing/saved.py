"""Models and checkpoints: sound ones, and what may become of them."""

from __future__ import annotations

import io
import json
import shutil
from contextlib import suppress

import numpy as np

from dbmd.storage import CHECKSUM, signed, to_json
from fuzzing.damage import damaged, edited_array, edited_json, pick


def edited_npz(data: bytes, rng, *, signs=False) -> bytes:
    """Return an archive of arrays one of which is another, or gone; the record among them may be signed anew."""
    with np.load(io.BytesIO(data)) as archive:
        arrays = dict(archive)
    name = pick(rng, list(arrays))
    if "record" in arrays and rng.random() < 0.6:
        arrays["record"] = np.array(edited_json(str(arrays["record"]), rng))
    elif rng.random() < 0.15:
        del arrays[name]
    else:
        arrays[name] = edited_array(arrays[name], rng)
    if signs:
        with suppress(Exception):  # not where there is nothing left to be signed
            arrays["record"] = _signed_anew(arrays)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _signed_anew(arrays):
    record = json.loads(str(arrays["record"]))
    del record[CHECKSUM]
    others = {name: array for name, array in arrays.items() if name != "record"}
    return np.array(to_json(signed(record, others)).decode())


def spoil_model(model, rng, *, signs=False) -> str:
    """Damage a model directory, and leave it with its checksum or, as an old one, with none; return how."""
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
    if signs:
        with suppress(Exception):  # not where there is nothing left that has one
            record = json.loads((model / "model.json").read_text("utf-8"))
            del record[CHECKSUM]
            (model / "model.json").write_text(json.dumps(record), "utf-8")
    return f"{kind} of {path.name}"


def spoil_checkpoint(path, rng, *, signs=False) -> str:
    """Damage a checkpoint, and leave its checksum as it is or let it fit again; return how."""
    kind = pick(rng, ("arrays", "arrays", "arrays", "bytes", "bytes", "folder"))
    if kind == "folder":
        path.unlink()
        path.mkdir()
    elif kind == "arrays":
        path.write_bytes(edited_npz(path.read_bytes(), rng, signs=signs))
    else:
        path.write_bytes(damaged(path.read_bytes(), rng))
    return kind


def copied(model, to):
    """Return a copy of a model directory."""
    shutil.copytree(model, to)
    return to
