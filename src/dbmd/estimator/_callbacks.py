"""scikit-learn's callbacks (1.9 and later), or stand-ins that do nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["CallbackSupportMixin", "Task", "with_callbacks"]


F = TypeVar("F", bound=Callable[..., Any])


class CallbackSupportMixin:
    """Stand-in for scikit-learn before 1.9: no callbacks can be set."""


def with_callbacks(method: F) -> F:
    """Stand-in for scikit-learn before 1.9: leave the method as it is."""
    return method


if not TYPE_CHECKING:  # scikit-learn has no types: to a checker the stand-ins are what there is
    with suppress(ImportError):
        from sklearn.callback import CallbackSupportMixin, with_callbacks


class Task:
    """A fit as a task with one subtask for each iteration, for the callbacks of an estimator.

    Parameters
    ----------
    estimator : estimator
        Whose callbacks to call.
    data : dict
        X, y and metadata of the fit, by the names that callbacks expect.
    max_subtasks : int
        The largest number of iterations.
    """

    def __init__(self, estimator: Any, data: dict[str, Any], max_subtasks: int) -> None:
        self.arguments, self.context = {"estimator": estimator, **data}, None
        if hasattr(estimator, "_init_callback_context"):
            self.context = estimator._init_callback_context(max_subtasks=max_subtasks)
            self.context.call_on_fit_task_begin(**self.arguments)

    def iteration(self, fitted: Callable[[], dict[str, Any]]) -> bool:
        """Call the callbacks after an iteration, and return whether one of them asks to stop.

        ``fitted`` returns the attributes of the model so far.
        """
        if self.context is None:
            return False
        subtask = self.context.subcontext(task_name="iteration")
        subtask.call_on_fit_task_begin(**self.arguments)
        return bool(subtask.call_on_fit_task_end(**self.arguments, reconstruction_attributes=fitted))

    def end(self, fitted: Callable[[], dict[str, Any]]) -> None:
        """Call the callbacks after the fit."""
        if self.context is not None:
            self.context.call_on_fit_task_end(**self.arguments, reconstruction_attributes=fitted)
