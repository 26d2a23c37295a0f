"""The steps of ``dbmd fit``, in the order in which they are taken."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dbmd._utils.model_files import MAP, MODEL, OWNED, REPORT, checkpoint_path
from dbmd._utils.text import printable, quoted
from dbmd.algorithm import COLD_EVERY
from dbmd.cli._errors import sentence
from dbmd.cli._map import collect_map, saved_map
from dbmd.cli._options import in_options, option_name
from dbmd.cli._output import print_json, print_message, print_result
from dbmd.cli._phases import Phases
from dbmd.cli._progress import Progress
from dbmd.cli._remedies import remedies_in_options
from dbmd.cli._stopping import SavesWhenStopped, save_state
from dbmd.cli._summary import in_words, summary
from dbmd.config import Config
from dbmd.data.address import shown
from dbmd.dataset import Dataset, open_data
from dbmd.errors import DataWarning
from dbmd.estimator import DBMD, Choice, load
from dbmd.estimator._checking import check_dataset
from dbmd.estimator._number import choice_for, choice_from
from dbmd.model.known import Known
from dbmd.model.membership_map import MembershipMap, check_map_shape
from dbmd.model.result import State
from dbmd.registry import is_cluster
from dbmd.report.basis import check_image_shape
from dbmd.report.ordered import Patterns
from dbmd.report.page import write
from dbmd.saved.checkpoint import Checkpoint, chosen_before
from dbmd.saved.lock import Lock
from dbmd.saved.membership_map import write_map
from dbmd.storage import check_can_write, remove_leftovers

# Parameters that may differ between a run and the one that resumes it: they do not change the result.
FREE = ("engine", "forget_factor", "n_nodes", "verbose", "warm_start")


@dataclass(frozen=True)
class FitRun:
    """A run of ``dbmd fit``.

    Attributes
    ----------
    data : tuple of str
        Paths and addresses.
    read : dict
        How to read them: parameters of :func:`dbmd.open_data`.
    params : dict
        Parameters of :class:`dbmd.DBMD`, checked.
    output : Path
        The model directory.
    overwrite, resume : bool
        Whether to replace what is there, or to continue from its checkpoint.
    checkpoint_seconds : float
        How often to save the state.
    check : bool
        Whether to say if scaling, offsets or brightness would pay.
    wants_report : bool
        Whether to write the report.
    image_shape : tuple of int, optional
        Of the components in the report.
    map_shape : tuple of int, optional
        Of the picture whose pixels are the rows; by default that of the data, if they have one.
    patterns : {"auto", "lines", "images", "bars"}
        How the report shows the components.
    quiet, as_json : bool
        What to print.
    """

    data: tuple[str, ...]
    read: dict[str, Any]
    params: dict[str, Any]
    output: Path
    overwrite: bool
    resume: bool
    checkpoint_seconds: float
    check: bool
    wants_report: bool
    image_shape: tuple[int, ...] | None
    map_shape: tuple[int, ...] | None
    patterns: Patterns
    quiet: bool
    as_json: bool

    @property
    def checkpoint_file(self) -> Path:
        """Where the state is saved."""
        return checkpoint_path(self.output)

    @property
    def page(self) -> Path:
        """Where the report is written."""
        return self.output / REPORT

    # -- a run that was finished before ----------------------------------------------------------------------------

    def is_finished(self) -> bool:
        """Say whether there is a model, and no checkpoint to resume."""
        return not self.checkpoint_file.exists() and (self.output / MODEL).exists()

    def keep_finished_model(self) -> None:
        """Check that the model is the one that this run would give, and complete what an interruption left undone."""
        model = load(self.output)
        data = open_data(self.data, **self.read)
        self._check_is_same(model, data)
        self._message(f"{printable(self.output)} is finished: there is nothing to resume.")
        with suppress(OSError), Lock(self.output):  # unless another process writes there, or nothing can be written
            self._remove_leftovers()
        shape = self._map_shape(data)
        if shape is not None and not (self.output / MAP).exists():
            write_map(collect_map(model, data, shape), self.output)
        if self.wants_report and not self.page.exists():
            self._write_page(model)
        if self.as_json:
            print_json(self._found(model, self.page if self.page.exists() else None))

    def _check_is_same(self, model: DBMD, data: Dataset) -> None:
        """Raise a ValueError if a finished model is not the one that these data and parameters give."""
        before = model.get_params()
        for name, value in DBMD(**self.params).get_params().items():
            if name not in FREE and not np.array_equal(*(_comparable(each) for each in (before[name], value))):
                raise self._other_model(f"was made with another {option_name(name)}")
        if (model.fit_info_.get("data") or {}).get("fingerprint") != (data.about or {})["fingerprint"]:
            raise self._other_model("was made with other data")

    def _other_model(self, reason: str) -> ValueError:
        return ValueError(
            f"{self.output} is finished, and {reason}. Choose another name, or start anew with --overwrite."
        )

    # -- a run -----------------------------------------------------------------------------------------------------

    def prepare_folder(self) -> None:
        """Create the folder that the model and its checkpoint go to; raise an OSError if nothing can be written."""
        folder = self.output.parent
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"{folder}: there is no permission to write here.")

    def fit_and_save(self) -> DBMD:
        """Fit, save the model and its report, and return the model. No other process may write there meanwhile."""
        with Lock(self.output) as lock:
            self._check_can_write()
            self._remove_leftovers()
            with SavesWhenStopped(lock) as stopping:
                model, checkpoint, found = self._fit(stopping)
                with Phases("saving the model", quiet=self.quiet):
                    self._save(model, checkpoint)
            with (
                _naming_what_is_saved(
                    f"The model is saved in {self.output}, but not its report (dbmd report {quoted(str(self.output))})"
                ),
                Phases("writing the report", quiet=self.quiet),
            ):
                checkpoint.remove()
                if found is not None:
                    write_map(found, self.output)
                if self.wants_report:
                    self._write_page(model)
        return model

    def _write_page(self, model: DBMD) -> None:
        found = saved_map(model, self.output)
        write(model, self.page, image_shape=self.image_shape, memberships=found, patterns=self.patterns)

    def _map_shape(self, data: Dataset) -> tuple[int, int] | None:
        """Return the shape of the picture whose pixels are the rows, checked; None if they are not."""
        return check_map_shape(self.map_shape or data.map_shape, data.shape[0])

    def _check_can_write(self) -> None:
        check_can_write(self.output, overwrite=self.overwrite or self.resume, owned=OWNED)
        if self.checkpoint_file.exists() and not (self.resume or self.overwrite):
            raise FileExistsError(
                f"{self.checkpoint_file} is there: the checkpoint of an earlier run. Go on with --resume, or start "
                "anew with --overwrite."
            )

    def _remove_leftovers(self) -> None:
        """Remove what a run that was killed while it wrote left beside its files."""
        for path in (self.output.resolve(), self.checkpoint_file, self.page, self.output / MAP):
            remove_leftovers(path)

    def _fit(self, stopping: SavesWhenStopped) -> tuple[DBMD, Checkpoint, MembershipMap | None]:
        """Fit the data, from the checkpoint if there is one to resume; print warnings after the progress."""
        model = DBMD(**self.params)
        with (
            Progress(quiet=self.quiet, max_iter=self.params["max_iter"], tol=self.params["tol"]) as progress,
            _warnings_for_users() as caught,
            open_data(self.data, **self.read, on_rows=progress.read, engine=self.params["engine"]) as data,
        ):
            if self.wants_report:
                check_image_shape(self.image_shape, data.shape[1])
            map_shape = self._map_shape(data)
            progress.print_line(_description(data))
            choice = self._choice(model, data, progress)
            checkpoint = self._checkpoint(data, progress, choice)
            state = None
            if self.resume and self.checkpoint_file.exists():
                state = checkpoint.read()
                progress.print_line(f"Going on after iteration {len(state.history)}.")
            stopping.checkpoint = checkpoint
            progress.rows_of_a_pass = data.shape[0]

            def on_iteration(now: State) -> None:
                checkpoint(now)  # first: what was shown can be saved
                progress(now)

            compared = check_dataset(model, data, progress.phase) if self.check else None
            model.fit_data(data, resume=state, on_iteration=on_iteration, on_phase=progress.phase, choice=choice)
            found = None
            if map_shape is not None:
                progress.phase("memberships for the map")
                # A cluster has the rows at its nodes: here they are read from the files.
                here = open_data(self.data, **self.read) if is_cluster(self.params["engine"]) else data
                found = collect_map(model, here, map_shape)
        if compared is not None:
            model.fit_info_["check"] = dict(compared.gains)
            model.fit_info_["warnings"] += [finding.asdict() for finding in compared.findings()]
        texts = [
            remedies_in_options(in_options(str(each.message)))
            for each in caught
            if not issubclass(each.category, DataWarning)
        ]
        texts += [finding["command_text"] for finding in model.fit_info_["warnings"]]
        for text in dict.fromkeys(texts):
            self._message(f"Note: {text}")
        return model, checkpoint, found

    def _choice(self, model: DBMD, data: Dataset, progress: Progress) -> Choice | None:
        """Return how many patterns to take, of the checkpoint if there is one to resume; None if that was given."""
        if model.n_components == "auto" and self.resume and self.checkpoint_file.exists():
            return chosen_before(self.checkpoint_file, choice_from)
        choice = choice_for(model, data, progress.phase)
        if choice is not None:
            progress.print_line(choice.sentence)
        return choice

    def _checkpoint(self, data: Dataset, progress: Progress, choice: Choice | None) -> Checkpoint:
        """Return the checkpoint of this run; one of other data or parameters cannot be resumed."""
        params = DBMD(**self.params).get_params()
        identity = {option_name(name): _comparable(value) for name, value in params.items() if name not in FREE}
        # The type first: the fingerprint depends on it.
        identity |= {"--dtype": data.dtype.name}
        identity["data"] = [(data.about or {})["fingerprint"], *data.shape, data.feature_names]
        config = Config(**self.params | ({} if choice is None else {"n_components": choice.n_components}))
        keeps = data.keeps_rows(config.r)
        # In float32, sweeps that start from the last memberships differ from those that do not.
        identity["--memory"] = "enough for the memberships" if keeps else "not enough for the memberships"
        return Checkpoint(
            self.checkpoint_file,
            identity,
            shape=(data.shape[1], config.parts(data.n_sources).n_columns, data.n_sources),
            every=self.checkpoint_seconds,
            period=COLD_EVERY if keeps else 1,
            warn=progress.warn,
            choice=None if choice is None else choice.asdict(),
        )

    def _save(self, model: DBMD, checkpoint: Checkpoint) -> None:
        """Write the model directory; if that fails, say where the state of the fit is."""
        model.fit_info_["command"] = " ".join(["dbmd", *(quoted(shown(argument)) for argument in sys.argv[1:])])
        try:
            model.save(self.output, overwrite=self.overwrite or self.resume)
        except OSError as error:
            raise OSError(f"The model cannot be saved: {sentence(error)} {save_state(checkpoint)}") from error

    # -- what is printed -------------------------------------------------------------------------------------------

    def print_summary(self, model: DBMD) -> None:
        """Print what was found."""
        found = self._found(model, self.page if self.wants_report else None)
        with _naming_what_is_saved(f"The model is saved in {self.output}, but what was found cannot be printed"):
            if self.as_json:
                print_json(found)
            elif not self.quiet:
                print_result(in_words(found))

    def _found(self, model: DBMD, page: Path | None) -> dict[str, Any]:
        return summary(model) | {"model": str(self.output), "report": None if page is None else str(page)}

    def _message(self, text: str) -> None:
        if not self.quiet:
            print_message(text)


def _comparable(value: Any) -> Any:
    """Return a parameter in a form that can be compared and written as JSON."""
    return [value.fingerprint] if isinstance(value, Known) else value


def _description(data: Dataset) -> str:
    n, m = data.shape
    sources = f", {data.n_sources} sources" if data.n_sources > 1 else ""
    picture = "" if data.map_shape is None else f", a picture of {data.map_shape[0]} x {data.map_shape[1]} pixels"
    return f"{n:,} samples of {m:,} features{sources}{picture}; {data.description}, {data.dtype}."


@contextmanager
def _warnings_for_users() -> Iterator[list[warnings.WarningMessage]]:
    """Collect warnings, without those that are meant for developers."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for kind in (DeprecationWarning, PendingDeprecationWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        yield caught


@contextmanager
def _naming_what_is_saved(text: str) -> Iterator[None]:
    """If something cannot be written, say before the reason what was saved and what was not."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        raise OSError(f"{text}: {sentence(error)}") from error
