"""The number of components of a fit: as given, as in the last fit, or chosen by the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from dbmd._utils.fields import COUNT, FLAG, NUMBER, check_fields
from dbmd._utils.phases import OnPhase, ignore_phase
from dbmd.config import Config
from dbmd.dataset import Dataset
from dbmd.estimator._choice import Choice
from dbmd.estimator._choosing import SPLITS, choose
from dbmd.estimator._halves import LEAST

if TYPE_CHECKING:
    from dbmd.estimator._dbmd import DBMD

RECORD = {
    "n_components": COUNT,
    "is_stable": FLAG,
    "tried": COUNT.list,
    "agreement": NUMBER.or_none.list.list.list,
    "explained": NUMBER.or_none.list,
    "limit": NUMBER,
    "n_samples": COUNT,
}
FEWEST, MOST = 2, 12  # numbers that "auto" tries
BESIDE_KNOWN = 4  # further components that it tries at least, where many are known


def choice_for(
    model: DBMD,
    data: Dataset,
    on_phase: OnPhase = ignore_phase,
    *,
    tried: Sequence[int] | None = None,
    n_splits: int = SPLITS,
) -> Choice | None:
    """Choose the number of components of a fit; None if it is given, or stays that of the last fit.

    Parameters
    ----------
    model : DBMD
        To be fitted.
    data : Dataset
        The samples.
    on_phase : callable
        Called with what is done next.
    tried : sequence of int, optional
        The numbers to try, in rising order; by default those that suit the data.
    n_splits : int
        In how many ways the data are split into halves.
    """
    config = Config.of(model)
    if not config.is_auto or keeps_number(model):
        return None
    seed = int(check_random_state(model.random_state).randint(2**31 - 1))
    tried = numbers_for(config, data.shape) if tried is None else tried
    done = count(1)

    def on_step(r: int, split: int) -> None:
        # Splits are made where the choice needs them: how many there will be is not known before.
        told = f"{next(done)} of at most {len(tried) * n_splits} done"
        on_phase(f"fitting halves of the data, {r} patterns in split {split + 1}: {told}")

    on_phase("drawing samples and fitting their halves")
    return choose(model, data, tried, seed=seed, n_splits=n_splits, on_step=on_step)


def config_for(model: DBMD, choice: Choice | None) -> Config:
    """Return the parameters of a fit, with the number of components that it has."""
    if choice is not None:
        return Config.of(model, n_components=choice.n_components)
    return Config.of(model, n_components=len(model.components_)) if keeps_number(model) else Config.of(model)


def keeps_number(model: DBMD) -> bool:
    """Say whether a number that was chosen by an earlier fit stays, because this one goes on from its components."""
    return model.n_components == "auto" and bool(model.warm_start) and hasattr(model, "components_")


def choice_from(record: Mapping[str, Any]) -> Choice:
    """Return the choice that was written as JSON; raises a ValueError if it is none."""
    check_fields(record, RECORD, "choice.")
    tried, agreement = record["tried"], []
    for r, splits in zip(tried, record["agreement"], strict=False):
        values = np.array([[np.nan if each is None else each for each in split] for split in splits], np.float64)
        if values.shape != (len(record["agreement"][0]), r):
            raise ValueError(f"choice.agreement of {r} components must have {r} numbers for each split")
        agreement.append(values)
    explained = np.array([np.nan if each is None else each for each in record["explained"]], np.float64)
    if not tried or not len(tried) == len(agreement) == len(explained) or record["n_components"] not in tried:
        raise ValueError("choice must have an agreement and an explained part for each number that was tried")
    return Choice(
        n_components=record["n_components"],
        is_stable=record["is_stable"],
        tried=tuple(tried),
        agreement=tuple(agreement),
        explained=explained,
        limit=float(record["limit"]),
        n_samples=record["n_samples"],
    )


def numbers_for(config: Config, shape: tuple[int, int]) -> range:
    """Return the numbers of components that are tried for data of a shape, (n, m).

    A simplex in m dimensions has at most m + 1 corners, one of which is dark with brightness, and halves of the data
    must have some samples for each component.
    """
    n, m = shape
    fewest = max(FEWEST, config.n_known)
    most = min(max(MOST, config.n_known + BESIDE_KNOWN), max(fewest, m + 1 - bool(config.brightness)))
    enough = n // 2 // LEAST
    if enough < fewest:
        raise ValueError(
            f"The 'n_components' parameter of DBMD must be an int for data of so few samples: 'auto' compares halves "
            f"of them, and needs at least {2 * LEAST * fewest}. Got n_samples = {n}."
        )
    return range(fewest, min(most, enough) + 1)
