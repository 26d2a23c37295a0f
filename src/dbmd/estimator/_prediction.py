"""The methods of a fitted estimator: memberships, clusters, score."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from dbmd.dataset import Dataset, framework_of
from dbmd.estimator._memberships import (
    check_can_transform,
    lazy_memberships,
    mean_log_likelihood,
    membership_model,
    memberships_of,
)
from dbmd.estimator._opening import opened
from dbmd.estimator.fitted import FittedArrays


class PredictionMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """What :class:`dbmd.DBMD` offers once it is fitted."""

    components_: NDArray[Any]

    def transform(self, X: Any, *, source: ArrayLike | None = None) -> NDArray[Any]:
        """Return the memberships of samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        source : array-like of shape (n_samples,), optional
            Their sources. The noise level of a source that was not in the fit is estimated from these samples. By
            default the samples are of the source of the fit, or, if there were several, of an unknown one.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Rows on the simplex.
        """
        return self._transform(X, source)

    def predict(self, X: Any, *, source: ArrayLike | None = None) -> NDArray[np.intp]:
        """Return the cluster of each sample: its largest membership.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        source : array-like of shape (n_samples,), optional
            Their sources, as for :meth:`transform`.

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        return self._transform(X, source).argmax(axis=1)

    def predict_proba(self, X: Any, *, source: ArrayLike | None = None) -> NDArray[Any]:
        """Return the memberships of samples, as :meth:`transform` does, for dense data and always as an array.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.
        source : array-like of shape (n_samples,), optional
            Their sources, as for :meth:`transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        if sparse.issparse(X):
            # scikit-learn's checks treat an estimator that has predict_proba and accepts sparse data as a classifier.
            raise TypeError("predict_proba takes no sparse data. Call transform: it returns the same memberships.")
        return self._transform(X, source)

    def inverse_transform(self, H: Any) -> NDArray[Any]:
        """Return the samples that memberships describe, ``H @ components_``.

        Parameters
        ----------
        H : array-like of shape (n_samples, n_components)
            Memberships.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        H = check_array(H, dtype=[np.float64, np.float32])
        if H.shape[1] != len(self.components_):
            raise ValueError(f"H must have n_components = {len(self.components_)} columns. Got shape {H.shape}.")
        return np.asarray(H @ self.components_)

    def score(
        self, X: Any, y: Any = None, *, source: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the mean log-likelihood of the samples, given their memberships.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        y : None
            Ignored.
        source : array-like of shape (n_samples,), optional
            Their sources, as for :meth:`transform`.
        sample_weight : array-like of shape (n_samples,), optional
            How often each sample counts in the mean, >= 0.

        Returns
        -------
        float
        """
        check_is_fitted(self)
        with opened(self, X, source, sample_weight, reset=False) as data:
            return mean_log_likelihood(FittedArrays.of(self), data)

    def noise_levels(self, data: Dataset) -> NDArray[np.float64]:
        """Return the noise levels that the memberships of a dataset are computed with.

        Parameters
        ----------
        data : Dataset
            Samples, possibly of sources that were not in the fit.

        Returns
        -------
        ndarray of shape (n_sources,)
            sigma^2 of each of its sources.
        """
        check_is_fitted(self)
        return membership_model(FittedArrays.of(self), data).sigma2

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _transform(self, X: Any, source: Any) -> Any:
        check_is_fitted(self)
        check_can_transform(X)
        if framework_of(X) == "dask":
            return lazy_memberships(self, X, source)
        with opened(self, X, source, None, reset=False) as data:
            return memberships_of(FittedArrays.of(self), data)[0]
