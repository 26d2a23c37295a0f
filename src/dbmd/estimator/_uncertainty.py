"""How uncertain components and memberships of a fitted model are: found when it is first asked for, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dbmd._utils.parallel import kept_threads
from dbmd._utils.threads import one_blas_thread
from dbmd.estimator.fitted import FittedArrays
from dbmd.model.membership_sample import MembershipSample
from dbmd.model.peaks import PeaksOfModel
from dbmd.model.uncertainty import Uncertainty
from dbmd.model.w_error import likely_errors, variance_within

if TYPE_CHECKING:
    from dbmd.estimator._prediction import PredictionMixin

Float = NDArray[np.float64]


def w_errors(model: Any) -> Float | None:
    """Return likely errors of the components, shape (k, n_patterns, n_patterns); None if nothing is known of them."""
    known: Uncertainty | None = getattr(model, "_uncertainty", None)
    if known is None:
        return None
    if not hasattr(model, "_w_errors"):
        fitted = FittedArrays.of(model)
        assert fitted.excess is not None
        parts = fitted.parts
        W = parts.W(parts.assemble(fitted.W))
        is_free = parts.is_free[: parts.n_patterns]
        model._w_errors = likely_errors(W, is_free, fitted.excess * fitted.sigma2, known.n, known.moments)
    errors: Float = model._w_errors
    return errors


def components_std(model: PredictionMixin) -> NDArray[Any]:
    """Return the standard deviations of the components, shape (r, m), in the units of the data."""
    known: Uncertainty | None = getattr(model, "_uncertainty", None)
    errors = w_errors(model)
    if known is None or errors is None:
        raise AttributeError(
            "components_std_ is known after a fit with inference='evidence', but not after further batches, nor of a "
            "model that an earlier release saved."
        )
    fitted = FittedArrays.of(model)
    W = fitted.parts.W(fitted.parts.assemble(fitted.W))
    std = np.sqrt(known.apart + variance_within(W, errors)[: fitted.n_components])
    if fitted.preparation is not None:
        std = fitted.preparation.to_data_units_of_std(std, fitted.W.T)
    return std.astype(model.components_.dtype)


def membership_sample(model: PredictionMixin) -> MembershipSample:
    """Return memberships of some samples, with their standard deviations."""
    known: MembershipSample | PeaksOfModel | None = getattr(model, "_membership_sample", None)
    if known is None:
        raise AttributeError("membership_sample_ is known after a fit; models that an early release saved have none.")
    if isinstance(known, PeaksOfModel):
        known = model._membership_sample = found_sample(known)
    return known


def kept_sample(peaks: PeaksOfModel) -> MembershipSample | PeaksOfModel:
    """Return samples as a fitted model keeps them: where entries are missing takes more memory than what follows."""
    return peaks if peaks.peaks.gaps is None else found_sample(peaks)


def found_sample(peaks: PeaksOfModel) -> MembershipSample:
    """Return samples with their standard deviations, found in threads."""
    with one_blas_thread():
        return peaks.found(kept_threads().map)
