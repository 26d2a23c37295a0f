"""The state of a fit in one small file, so that a fit that was stopped or killed can be resumed."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dbmd._utils.fields import COUNT, FLAG, NOT_NEGATIVE, NUMBER, OBJECT, POSITIVE, check_array, check_fields
from dbmd.errors import first_line
from dbmd.model.evidence import Evidence
from dbmd.model.lbfgs import LBFGS
from dbmd.model.objective import Objective
from dbmd.model.offsets import OffsetPrior
from dbmd.model.result import Iteration, State, check_iteration
from dbmd.storage import from_npz, is_as_signed, signed, to_json, to_npz, write_file

FORMAT = "dbmd-checkpoint-5"  # 5: with offsets

C = TypeVar("C")
STATE = {
    "attempt": COUNT,
    "converged": FLAG,
    "floor": NOT_NEGATIVE,
    "evidence": OBJECT.or_none,
    "offset_prior": OBJECT.or_none,
    "objective": OBJECT,
    "history": OBJECT.list,
}


@dataclass
class Checkpoint:
    """Keeps the last state that a fit can be resumed from exactly, and writes it at intervals.

    Parameters
    ----------
    path : Path
        The file.
    identity : dict
        What the result depends on: parameters and fingerprint of the data. A fit with another cannot be resumed.
    shape : tuple of int
        Numbers of features, columns of V and sources, which fix the shapes of the arrays of a state.
    every : float
        Seconds between writes; 0: after each iteration.
    period : int
        Only states after a multiple of this number of iterations can be resumed exactly
        (:data:`dbmd.algorithm.COLD_EVERY`, or 1 if no memberships are kept).
    warn : callable
        Called once with a sentence if the file cannot be written; the fit goes on all the same.
    choice : dict, optional
        How the number of components was chosen: a fit that is resumed does not choose again.
    """

    path: Path
    identity: Mapping[str, Any]
    shape: tuple[int, int, int]
    every: float = 60.0
    period: int = 1
    warn: Callable[[str], object] = warnings.warn
    choice: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        self._has_warned = False
        self.state: State | None = None
        self.written: State | None = None
        self._clock = time.monotonic()

    def __call__(self, state: State) -> None:
        """Keep a state, and write it if it is time."""
        if len(state.history) % self.period == 0 or state.converged:
            self.state = state
        if time.monotonic() - self._clock < self.every:
            return
        try:
            self.write()
        except OSError as error:  # no space left, for example: there may be some the next time
            if not self._has_warned:
                reason = f"{self.path}: the checkpoint cannot be written ({error.strerror or error})."
                self.warn(f"{reason} The fit goes on, and will try again.")
            self._has_warned = True

    def write(self) -> bool:
        """Write the last state that can be resumed. Return whether there is one."""
        self._clock = time.monotonic()
        if self.state is not None and self.state is not self.written:
            write_file(self.path, to_npz(_to_arrays(self.state, self.identity, self.choice)))
            self.written = self.state
        return self.state is not None

    def remove(self) -> None:
        """Remove the file: the fit is done."""
        self.path.unlink(missing_ok=True)

    def read(self) -> State:
        """Return the state that was written; raise a ValueError if it belongs to another fit."""
        arrays = from_npz(self.path)
        record = _record_of(arrays, self.path)
        identity = record["identity"]
        mine = json.loads(to_json(self.identity))
        for name in dict.fromkeys((*mine, *identity)):
            was, now = identity.get(name), mine.get(name)
            if was != now:
                what = f"{name} was {was} and is {now}"
                if name == "data" or isinstance(was, list) or isinstance(now, list):
                    what = "the data are not the same" if name == "data" else f"{name} is not the same"
                raise ValueError(
                    f"{self.path} cannot be resumed: {what}. "
                    "Give the data and parameters it was begun with, or start anew with --overwrite."
                )
        try:
            state = _from_arrays(record, arrays, self.shape)
        except Exception as error:  # a damaged file may raise anything
            reason = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
            raise ValueError(f"{self.path} cannot be resumed: {reason}. Start anew with --overwrite.") from error
        self.state = self.written = state
        return state


def chosen_before(path: Path, read_choice: Callable[[dict[str, Any]], C]) -> C:
    """Return how the number of components was chosen, before all else of a checkpoint can be read.

    Parameters
    ----------
    path : Path
        The file.
    read_choice : callable
        Returns it, of its record.
    """
    record = _record_of(from_npz(path), path)
    try:
        check_fields(record, {"choice": OBJECT})
        return read_choice(record["choice"])
    except ValueError as error:
        raise ValueError(
            f"{path} cannot be resumed: its number of components was not chosen ({first_line(error)}). Give the "
            "data and parameters it was begun with, or start anew with --overwrite."
        ) from error


def _to_arrays(state: State, identity: Mapping[str, Any], choice: Mapping[str, Any] | None) -> dict[str, Any]:
    states = {"state": state} | ({"best": state.best} if state.best is not None else {})
    record = {"format": FORMAT, "identity": identity} | {name: _record(s) for name, s in states.items()}
    record |= {} if choice is None else {"choice": choice}
    arrays: dict[str, Any] = {}
    for name, s in states.items():
        arrays |= {f"{name}_V": s.V, f"{name}_sigma2": s.sigma2, f"{name}_origin": s.origin}
    # Only the steps of the attempt that is running: the best attempt before it has ended.
    path = {f.name: getattr(state.lbfgs, f.name) for f in fields(state.lbfgs)}
    arrays |= {f"path_{name}": np.array(value) for name, value in path.items() if value is not None}
    return arrays | {"record": np.array(to_json(signed(record, arrays)).decode())}


def _record(state: State) -> dict[str, Any]:
    assert state.objective is not None
    return {
        "attempt": state.attempt,
        "converged": state.converged,
        "floor": state.floor,
        "evidence": None if state.evidence is None else asdict(state.evidence),
        "offset_prior": None if state.offset_prior is None else asdict(state.offset_prior),
        "objective": asdict(state.objective),
        "history": [record.asdict() for record in state.history],
    }


def _record_of(arrays: dict[str, Any], path: Path) -> dict[str, Any]:
    """Remove the record from the arrays of a checkpoint, and return it."""
    try:
        record: dict[str, Any] = json.loads(str(arrays.pop("record")))
        is_ours = record["format"] == FORMAT and isinstance(record["identity"], dict)
        is_whole = is_ours and is_as_signed(record, arrays)
    except Exception:  # a damaged file may raise anything
        is_ours = False
    if not is_ours:
        raise ValueError(f"{path} is not a checkpoint of this version of dbmd. Start anew with --overwrite.")
    if not is_whole:
        raise ValueError(
            f"{path} cannot be resumed: it was changed after it was written, for its checksum does not match. "
            "Start anew with --overwrite."
        )
    return record


def _from_arrays(record: dict[str, Any], arrays: Mapping[str, Any], shape: tuple[int, int, int]) -> State:
    check_fields(record, {"state": OBJECT, "best": OBJECT}, optional=("best",))
    best = _state(record["best"], arrays, "best", shape) if "best" in record else None
    return replace(_state(record["state"], arrays, "state", shape), best=best, lbfgs=_lbfgs(arrays, shape))


def _state(record: dict[str, Any], arrays: Mapping[str, Any], name: str, shape: tuple[int, int, int]) -> State:
    m, n_columns, n_sources = shape
    check_fields(record, STATE, f"{name}.")
    check_fields(record["objective"], {"value": NUMBER, "scale": NUMBER}, f"{name}.objective.")
    for i, entry in enumerate(record["history"]):
        check_iteration(entry, f"{name}.history[{i}]")
    if [entry["iteration"] for entry in record["history"]] != [*range(1, len(record["history"]) + 1)]:
        raise ValueError(f"the iterations of {name}.history must be numbered from 1")
    V, sigma2, origin = (arrays[f"{name}_{each}"] for each in ("V", "sigma2", "origin"))
    check_array(f"{name}_V", V, (m, n_columns))
    check_array(f"{name}_sigma2", sigma2, (n_sources,), least=np.finfo(np.float64).smallest_subnormal)
    check_array(f"{name}_origin", origin, (m,))
    with np.errstate(over="ignore"):
        if not np.isfinite([np.square(V).sum(), np.square(origin).sum()]).all():
            raise ValueError(f"{name}_V and {name}_origin must hold numbers whose squares are finite, too")
    return State(
        V=V,
        sigma2=sigma2,
        origin=origin,
        floor=record["floor"],
        evidence=_evidence(record["evidence"], name, n_sources),
        offset_prior=_offset_prior(record["offset_prior"], name, n_sources),
        objective=Objective(**record["objective"]),
        history=tuple(Iteration(**entry) for entry in record["history"]),
        converged=record["converged"],
        attempt=record["attempt"],
    )


def _evidence(record: dict[str, Any] | None, name: str, n_sources: int) -> Evidence | None:
    if record is None:
        return None
    check_fields(record, {"excess": POSITIVE.list, "one_in": COUNT}, f"{name}.evidence.")
    if len(record["excess"]) != n_sources or record["one_in"] < 1:
        raise ValueError(f"{name}.evidence must have {n_sources} excesses, and covariances of one in 1 or more samples")
    return Evidence(tuple(record["excess"]), record["one_in"])


def _offset_prior(record: dict[str, Any] | None, name: str, n_sources: int) -> OffsetPrior | None:
    if record is None:
        return None
    check_fields(record, {"variance": POSITIVE, "n": NOT_NEGATIVE.list}, f"{name}.offset_prior.")
    if len(record["n"]) != n_sources:
        raise ValueError(f"{name}.offset_prior must have {n_sources} numbers of samples")
    return OffsetPrior(record["variance"], tuple(record["n"]))


def _lbfgs(arrays: Mapping[str, Any], shape: tuple[int, int, int]) -> LBFGS:
    known = {f.name: arrays.get(f"path_{f.name}", f.default) for f in fields(LBFGS)}
    for name in ("residual", "distance", "least"):  # infinity stands for unknown
        check_array(f"path_{name}", np.minimum(known[name], 1.0), (), least=0.0)
    check_array("path_stuck", known["stuck"], (), "i", least=0.0)
    for name in ("point", "move", "ahead"):
        if known[name] is not None:
            check_array(f"path_{name}", known[name], shape[:2])
    for name in ("steps", "changes"):
        if len(known[name]):
            check_array(f"path_{name}", known[name], (len(known["steps"]), *shape[:2]))
    numbers = {name: known[name].item() for name in ("residual", "distance", "least", "stuck")}
    return LBFGS(**known | numbers | {name: tuple(known[name]) for name in ("steps", "changes")})
