"""The methods of a fitted estimator: memberships, clusters, score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_array, check_is_fitted

from dbmd._utils.arrays import namespace
from dbmd.dataset import Dataset, framework_of
from dbmd.engines._device_arrays import as_given, beside, brought_here, device_of
from dbmd.estimator._memberships import (
    Wanted,
    check_can_transform,
    lazy_memberships,
    mean_log_likelihood,
    membership_model,
    memberships_of,
)
from dbmd.estimator._opening import opened
from dbmd.estimator._uncertainty import components_std, membership_sample, w_errors
from dbmd.estimator._units import coefficients, in_data_units
from dbmd.estimator.fitted import FittedArrays
from dbmd.memberships import labels_of
from dbmd.model.membership_sample import MembershipSample
from dbmd.model.peaks import PeaksOfModel

Kind = Literal["peak", "mean"]


class PredictionMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """What :class:`dbmd.DBMD` offers once it is fitted."""

    components_: NDArray[Any]
    component_names_: NDArray[Any]
    labels_: NDArray[np.intp]
    _membership_sample: MembershipSample | PeaksOfModel
    brightness: bool
    shares: str
    fit: Callable[..., Any]
    # They say what to return, which no pipeline can pass on.
    __metadata_request__transform: ClassVar[dict[str, str]] = dict.fromkeys(
        ("return_std", "kind", "return_brightness"), UNUSED
    )

    @property
    def components_std_(self) -> NDArray[Any]:
        """Standard deviations of ``components_``, of the same shape and in the same units; zero for known components.

        They are found when they are first asked for, from statistics of the fit, in less than a second up to ten
        components. The error of a component is due to the noise, and to the approximations of the fit, which make the
        simplex a little too small or too large: that is estimated by fitting samples that are made up. The weight
        ``lam`` and the sign (``nonnegative``) are not accounted for.
        """
        return components_std(self)

    @property
    def membership_sample_(self) -> MembershipSample:
        """Memberships of up to 3,000 samples, of all sources alike, with row numbers, sources and known classes.

        Their standard deviations, for the components as they are, are found when it is first asked for.
        """
        return membership_sample(self)

    @membership_sample_.setter
    def membership_sample_(self, sample: MembershipSample) -> None:
        self._membership_sample = sample

    @property
    def scaled_components_(self) -> NDArray[Any]:
        """The components in the units of the scaled data, from which memberships are computed, of the same shape."""
        scaled: NDArray[Any] = getattr(self, "_scaled_components", self.components_)
        return scaled

    @property
    def n_components_(self) -> int:
        """The number of components, as given or as chosen."""
        return len(self.components_)

    @overload
    def transform(
        self,
        X: Any,
        *,
        source: ArrayLike | None = ...,
        return_std: Literal[False] = ...,
        kind: Kind = ...,
        return_brightness: Literal[False] = ...,
    ) -> NDArray[Any]: ...
    @overload
    def transform(
        self,
        X: Any,
        *,
        source: ArrayLike | None = ...,
        return_std: Literal[True],
        kind: Kind = ...,
        return_brightness: Literal[False] = ...,
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def transform(
        self,
        X: Any,
        *,
        source: ArrayLike | None = ...,
        return_std: Literal[False] = ...,
        kind: Kind = ...,
        return_brightness: Literal[True],
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...
    @overload
    def transform(
        self,
        X: Any,
        *,
        source: ArrayLike | None = ...,
        return_std: Literal[True],
        kind: Kind = ...,
        return_brightness: Literal[True],
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]: ...
    def transform(
        self,
        X: Any,
        *,
        source: ArrayLike | None = None,
        return_std: bool = False,
        kind: Kind = "peak",
        return_brightness: bool = False,
    ) -> Any:
        """Return the memberships of samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        source : array-like of shape (n_samples,), or str, optional
            Their sources, or the column of a table that names them, which by default is that of the fit. The noise
            level and the offset of a source that was not in the fit are estimated from these samples. By default the
            samples are of the source of the fit, or, if there were several, of an unknown one.
        return_std : bool, default=False
            Whether to return standard deviations of the memberships, too. They account for the noise of the source and,
            after a fit with ``inference="evidence"``, for the likely error of the components. An interval of 1.645
            standard deviations to either side holds about 90 % of the true memberships (docs/how-many.md).
        kind : {"peak", "mean"}, default="peak"
            Which memberships: those of the largest posterior probability, many of them zero, or posterior means, few of
            them zero. Means are nearer to the truth in a noisy source whose samples are mixed; where most samples
            belong to one or two clusters, peaks are.
        return_brightness : bool, default=False
            Whether to return the brightness of the samples, too, of a model with ``brightness=True``.

        Returns
        -------
        H : ndarray of shape (n_samples, n_components)
            Rows on the simplex; NaN for samples that ``missing="drop"`` leaves out. Of samples on a GPU, this and what
            follows are arrays there, of their library (CuPy, PyTorch), or of CuPy.
        std : ndarray of shape (n_samples, n_components)
            Their standard deviations. Only if ``return_std`` is true.
        brightness : ndarray of shape (n_samples,)
            Relative to the brightest, 0 to 1. Only if ``return_brightness`` is true.
        """
        if return_brightness and not self.brightness:
            raise ValueError("return_brightness=True is for models with brightness: fit with brightness=True.")
        H, brightness, std = self._transform(X, source, kind=kind, return_std=return_std)
        found = [H] + [std] * return_std + [brightness] * return_brightness
        return tuple(found) if len(found) > 1 else H

    def fit_transform(
        self, X: Any, y: Any = None, *, source: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Fit, and return the memberships of the samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        y : None
            Ignored.
        source : array-like of shape (n_samples,), or str, optional
            The source of each sample, as for :meth:`fit`.
        sample_weight : array-like of shape (n_samples,), or str, optional
            How often each sample counts, as for :meth:`fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Rows on the simplex.
        """
        check_can_transform(X)
        self.fit(X, source=source, sample_weight=sample_weight)
        return self.transform(X, source=source)

    def fit_predict(
        self, X: Any, y: Any = None, *, source: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> NDArray[np.intp]:
        """Fit, and return the cluster of each sample.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        y : None
            Ignored.
        source : array-like of shape (n_samples,), or str, optional
            The source of each sample, as for :meth:`fit`.
        sample_weight : array-like of shape (n_samples,), or str, optional
            How often each sample counts, as for :meth:`fit`.

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        check_can_transform(X)
        self.fit(X, source=source, sample_weight=sample_weight)
        return beside(self.labels_, X) if hasattr(self, "labels_") else self.predict(X, source=source)

    def predict(self, X: Any, *, source: ArrayLike | None = None) -> NDArray[np.intp]:
        """Return the cluster of each sample: its largest membership; -1 for a sample that is left out.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        source : array-like of shape (n_samples,), or str, optional
            Their sources, as for :meth:`transform`.

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        H = self._memberships(X, source)[0]
        if framework_of(X) == "dask":  # chunk by chunk: Dask's argmax is not for arrays of CuPy
            return H.map_blocks(labels_of, drop_axis=1, meta=namespace(H._meta).empty(0, np.intp))
        with device_of(H):
            return as_given(labels_of(H), X)

    def predict_proba(self, X: Any, *, source: ArrayLike | None = None) -> NDArray[Any]:
        """Return the memberships of samples, as :meth:`transform` does, for dense data and always as an array.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The samples.
        source : array-like of shape (n_samples,), or str, optional
            Their sources, as for :meth:`transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        if sparse.issparse(X):
            # scikit-learn's checks treat an estimator that has predict_proba and accepts sparse data as a classifier.
            raise TypeError("predict_proba takes no sparse data. Call transform: it returns the same memberships.")
        return self._transform(X, source)[0]

    def inverse_transform(self, H: Any, *, brightness: ArrayLike | None = None) -> NDArray[Any]:
        """Return the samples that memberships describe, in the units of the data, without offsets of sources.

        Parameters
        ----------
        H : array-like of shape (n_samples, n_components)
            Memberships.
        brightness : array-like of shape (n_samples,), optional
            Brightness of the samples, of a model with ``brightness=True``; by default 1, that of the brightest.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            ``H @ components_`` if the data are not scaled by their logarithm. Samples that were divided by their sum or
            norm stay so.
        """
        check_is_fitted(self)
        given, H = H, check_array(brought_here(H), dtype=[np.float64, np.float32])
        if H.shape[1] != len(self.components_):
            raise ValueError(f"H must have n_components = {len(self.components_)} columns. Got shape {H.shape}.")
        if self.brightness:
            H = coefficients(H, self.scaled_components_, by_energy=self.shares == "energy")
        if brightness is not None:
            s = np.asarray(brought_here(brightness), H.dtype)
            if not self.brightness or s.shape != (len(H),):
                raise ValueError(
                    f"brightness must have shape ({len(H)},), for a model with brightness=True. Got shape {s.shape} "
                    f"for one with brightness={self.brightness}."
                )
            H = H * s[:, None]
        preparation = getattr(self, "_preparation", None)
        if preparation is None or not preparation.log:
            return beside(np.asarray(H @ self.components_), given)
        return beside(in_data_units(np.asarray(H @ self.scaled_components_), preparation), given)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of :meth:`transform`: those of components, if they have names, or dbmd0, ...

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str of shape (n_components,)
        """
        check_is_fitted(self)
        names: NDArray[Any] | None = getattr(self, "component_names_", None)
        return super().get_feature_names_out(input_features) if names is None else names

    def score(
        self, X: Any, y: Any = None, *, source: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the mean log-likelihood of the samples, given their memberships, in the units of the scaled data.

        It compares models of the same number of components, and is not for choosing that number: with more components
        memberships follow the noise of every sample more closely, so it grows with each. That is what
        :func:`dbmd.metrics.agreement_score`, for searches of scikit-learn, and :func:`dbmd.choose_components` are for.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The samples.
        y : None
            Ignored.
        source : array-like of shape (n_samples,), or str, optional
            Their sources, as for :meth:`transform`.
        sample_weight : array-like of shape (n_samples,), or str, optional
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

    def _transform(self, X: Any, source: Any, *, kind: str = "peak", return_std: bool = False) -> tuple[Any, Any, Any]:
        """Return memberships, shape (n, r), brightness, shape (n,), and if wanted standard deviations, else None.

        They are arrays of the library that the samples are of, where that is possible.
        """
        H, brightness, std = self._memberships(X, source, kind=kind, return_std=return_std)
        return as_given(H, X), as_given(brightness, X), as_given(std, X)

    def _memberships(
        self, X: Any, source: Any, *, kind: str = "peak", return_std: bool = False
    ) -> tuple[Any, Any, Any]:
        """Return the same, of samples on a GPU as arrays of CuPy."""
        check_is_fitted(self)
        wanted = Wanted(kind, return_std)
        check_can_transform(X)
        if return_std:
            wanted = replace(wanted, errors=w_errors(self))
        if framework_of(X) == "dask":
            return lazy_memberships(self, X, source, wanted)
        with opened(self, X, source, None, reset=False) as data:
            return memberships_of(FittedArrays.of(self), data, wanted)
