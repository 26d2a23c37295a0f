"""How the fit went, and how far it can be relied on."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dbmd.pl._axes import ZERO, colours, names_of, one


def noise(model: Any, *, ax: Any = None) -> Any:
    """Draw the noise level of each source, the quietest first.

    Parameters
    ----------
    model : DBMD
        Fitted.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    check_is_fitted(model, "noise_variance_")
    levels = np.sqrt(model.noise_variance_)
    order = np.argsort(levels, kind="stable")
    ax = one(ax, height=1.4 + 0.28 * len(levels))
    at = np.arange(len(levels))
    ax.hlines(at, 0.0, levels[order], color=ZERO, linewidth=0.8)
    ax.plot(levels[order], at, "o")
    ax.set_yticks(at, [str(name) for name in model.sources_[order]])
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    ax.set(xlabel=f"noise level, in units of {model.fit_info_.get('noise_unit', 'the data')}", ylabel="source")
    return ax


def convergence(model: Any, *, ax: Any = None) -> Any:
    """Draw the objective after each iteration, above its least value.

    Parameters
    ----------
    model : DBMD
        Fitted.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    check_is_fitted(model, "history_")
    objective = np.array([record.objective for record in model.history_])
    ax = one(ax, height=3.2)
    ax.plot(np.arange(1, len(objective) + 1), objective, marker="o", markersize=3)
    ax.set(xlabel="iteration", ylabel="objective")
    return ax


def agreement(model: Any, *, limit: float = 0.9, ax: Any = None) -> Any:
    """Draw how well two halves of the data agree on each component, of a model with ``halves=True``.

    Parameters
    ----------
    model : DBMD
        Fitted with ``halves=True``.
    limit : float, default=0.9
        Components below it are drawn in another colour: two halves of the data do not agree on them.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    check_is_fitted(model, "components_")
    if not hasattr(model, "agreement_"):
        raise ValueError("The model does not know how well two halves agree: fit with halves=True.")
    values, names = np.asarray(model.agreement_), names_of(model)
    ax = one(ax, height=1.4 + 0.28 * len(values))
    good, bad = colours(2)
    ax.barh(np.arange(len(values)), values, color=[good if value >= limit else bad for value in values])
    ax.axvline(limit, color=ZERO, linestyle=":", linewidth=1.0)
    ax.set_yticks(np.arange(len(values)), names)
    ax.invert_yaxis()
    ax.set(xlim=(min(0.0, values.min()), 1.0), xlabel="agreement of two halves of the data", ylabel="component")
    return ax


def choice(choice: Any, *, ax: Any = None) -> Any:
    """Draw how well two halves of the data agree for each number of components, and the number that is proposed.

    Parameters
    ----------
    choice : Choice
        From :func:`dbmd.choose_components`, or ``choice_`` of a model with ``n_components="auto"``.
    ax : matplotlib Axes, optional
        Where to draw.

    Returns
    -------
    Axes
    """
    ax, tried = one(ax), np.asarray(choice.tried)
    curves = {"worst pair": choice.worst, "mean of all pairs": choice.mean}
    for (name, values), colour in zip(curves.items(), colours(2), strict=True):  # NaN: a split that was not needed
        low, middle, high = (f(values, axis=1) for f in (np.nanmin, np.nanmedian, np.nanmax))
        ax.plot(tried, middle, "o-", color=colour, label=name)
        ax.fill_between(tried, low, high, color=colour, alpha=0.2, linewidth=0)
    ax.plot(tried, choice.explained, color=ZERO, label="explained variance")
    ax.axhline(choice.limit, color=ZERO, linestyle=":", linewidth=1.0)
    if choice.is_stable:
        ax.axvline(choice.n_components, color=ZERO, linewidth=6.0, alpha=0.3, zorder=0)
    ax.set(xlabel="number of components", ylabel="agreement of two halves", xticks=tried, ylim=(None, 1.02))
    ax.legend(frameon=False, fontsize="small")
    return ax
