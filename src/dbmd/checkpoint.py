"""The state of a fit in one small file, so that it can go on where it was stopped or killed."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from dbmd.model.evidence import Evidence
from dbmd.model.objective import Objective
from dbmd.model.path import Path as Descent
from dbmd.result import Iteration, State
from dbmd.storage import from_npz, to_json, to_npz, write_file

FORMAT = "dbmd-checkpoint-3"


@dataclass
class Checkpoint:
    """Keeps the last state that a fit can be resumed from exactly, and writes it now and then.

    Parameters
    ----------
    path : Path
        The file.
    identity : dict
        What makes the fit: parameters and fingerprint of the data. One that differs cannot be resumed.
    every : float
        Seconds between writes; 0: after each iteration.
    period : int
        Only states after a multiple of so many iterations can be resumed exactly
        (:data:`dbmd.algorithm.FRESH`, or 1 if no memberships are kept).
    tell : callable
        Told, once, that the file cannot be written: the fit goes on all the same.
    """

    path: Path
    identity: Mapping[str, Any]
    every: float = 60.0
    period: int = 1
    tell: Callable[[str], object] = warnings.warn

    def __post_init__(self) -> None:
        self._told = False
        self.state: State | None = None
        self.written: State | None = None
        self._clock = time.monotonic()

    def __call__(self, state: State) -> None:
        """Note a state; write it if it is time."""
        if len(state.history) % self.period == 0 or state.converged:
            self.state = state
        if time.monotonic() - self._clock < self.every:
            return
        try:
            self.write()
        except OSError as error:  # no space, say: there may be some the next time
            if not self._told:
                said = f"{self.path}: the checkpoint cannot be written ({error.strerror or error})."
                self.tell(f"{said} The fit goes on, and will try again.")
            self._told = True

    def write(self) -> bool:
        """Write the last state that can be resumed. Return whether there is one."""
        self._clock = time.monotonic()
        if self.state is not None and self.state is not self.written:
            write_file(self.path, to_npz(_to_arrays(self.state, self.identity)))
            self.written = self.state
        return self.state is not None

    def remove(self) -> None:
        """Remove the file: the fit is done."""
        self.path.unlink(missing_ok=True)

    def read(self) -> State:
        """Return the state that was written; raise a ValueError if it belongs to another fit."""
        state, identity = _from_arrays(from_npz(self.path), self.path)
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
        self.state = self.written = state
        return state


def _to_arrays(state: State, identity: Mapping[str, Any]) -> dict[str, Any]:
    states = {"state": state} | ({"best": state.best} if state.best is not None else {})
    record = {"format": FORMAT, "identity": identity} | {name: _record(s) for name, s in states.items()}
    arrays: dict[str, Any] = {"record": np.array(to_json(record).decode())}
    for name, s in states.items():
        arrays |= {f"{name}_W": s.W, f"{name}_sigma2": s.sigma2, f"{name}_origin": s.origin}
    # Of the path only that of the attempt that goes on: the best one is at its end.
    path = {f.name: getattr(state.path, f.name) for f in fields(state.path)}
    arrays |= {f"path_{name}": np.array(value) for name, value in path.items() if value is not None}
    return arrays


def _record(state: State) -> dict[str, Any]:
    assert state.objective is not None
    return {
        "attempt": state.attempt,
        "converged": state.converged,
        "floor": state.floor,
        "evidence": None if state.evidence is None else asdict(state.evidence),
        "objective": asdict(state.objective),
        "history": [record.asdict() for record in state.history],
    }


def _from_arrays(arrays: Mapping[str, Any], path: Path) -> tuple[State, dict[str, Any]]:
    try:
        record = json.loads(str(arrays["record"]))
        if record["format"] != FORMAT:
            raise KeyError(record["format"])
        best = _state(record["best"], arrays, "best") if "best" in record else None
        return replace(_state(record["state"], arrays, "state"), best=best, path=_path(arrays)), dict(
            record["identity"]
        )
    except Exception as error:  # there is no end to what may be wrong with a file
        raise ValueError(f"{path} is not a checkpoint of this version of dbmd ({error}).") from error


def _state(record: Mapping[str, Any], arrays: Mapping[str, Any], name: str) -> State:
    return State(
        W=arrays[f"{name}_W"],
        sigma2=arrays[f"{name}_sigma2"],
        origin=arrays[f"{name}_origin"],
        floor=record["floor"],
        evidence=_evidence(record["evidence"]),
        objective=Objective(**record["objective"]),
        history=tuple(Iteration(**entry) for entry in record["history"]),
        converged=record["converged"],
        attempt=record["attempt"],
    )


def _evidence(record: Mapping[str, Any] | None) -> Evidence | None:
    return None if record is None else Evidence(tuple(record["excess"]), record["one_in"])


def _path(arrays: Mapping[str, Any]) -> Descent:
    known = {f.name: arrays.get(f"path_{f.name}", f.default) for f in fields(Descent)}
    numbers = {name: known[name].item() for name in ("residual", "distance", "least", "stuck")}
    return Descent(**known | numbers | {name: tuple(known[name]) for name in ("steps", "changes")})
