"""``verbose``: lines of progress that are seen without any set-up, once, and that an application can take over."""

import logging
import threading

import pytest

from dbmd import DBMD
from estimator.making import fitted, run_python

LOGGER = logging.getLogger("dbmd")


@pytest.fixture
def unconfigure(monkeypatch):
    """Return a function that makes logging what a script finds: pytest adds handlers of its own before each test."""
    return lambda: monkeypatch.setattr(logging.getLogger(), "handlers", [])


PHASES = [
    "finding means and variances",
    "drawing samples to start from",
    "clustering the samples drawn",
    "fitting the samples drawn",
    "fitting all samples",
]
LAST = "finding the last memberships"


def expected_lines(model):
    return [
        *PHASES,
        *iteration_lines(model),
        LAST,
    ]


def iteration_lines(model):
    return [
        f"iteration {r.iteration}: objective {r.objective:.8g}, {r.rounds} rounds, {r.seconds:.2f} s"
        for r in model.history_
    ]


def test_verbose_prints_a_line_for_each_phase_and_iteration(unconfigure, capsys, data):
    unconfigure()
    X, source = data
    fitted(X, source)
    assert capsys.readouterr() == ("", "")
    model = fitted(X, source, verbose=1)
    out, err = capsys.readouterr()
    assert out.splitlines() == [f"[DBMD] {line}" for line in expected_lines(model)]
    assert err == ""
    fitted(X, source)
    assert capsys.readouterr() == ("", "")


def test_verbose_prints_a_line_for_each_further_batch(unconfigure, capsys, data):
    unconfigure()
    X, source = data
    model = DBMD(3, random_state=0, verbose=1).partial_fit(X[:100], source=source[:100])
    n_first = len(capsys.readouterr().out.splitlines())
    assert n_first == len(PHASES) + model.n_iter_ + 1
    model.partial_fit(X[100:], source=source[100:])
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"[DBMD] batch 2: objective {model.objective_:.8g}, ")


def test_lines_go_to_the_log_of_an_application_and_are_not_printed(caplog, capsys, data):
    X, source = data
    model = fitted(X, source, verbose=1)
    assert caplog.record_tuples == [("dbmd", logging.INFO, line) for line in expected_lines(model)]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("parameters", "phases"),
    [
        ({"scaling": "standard"}, ["finding the scales of the features", *PHASES, LAST]),
        ({"missing": "drop"}, ["finding missing values", *PHASES, LAST]),
        (
            {"init": "random"},
            [
                PHASES[0],
                "finding a start",
                "measuring distances to the start",
                "drawing samples to see how noise is spread",
                PHASES[-1],
                LAST,
            ],
        ),
        ({"n_init": 2}, [*PHASES, *PHASES[1:], LAST]),
    ],
)
def test_the_phases_are_those_that_a_fit_has(caplog, data, parameters, phases):
    fitted(*data, verbose=1, **parameters)
    told = [record.getMessage() for record in caplog.records]
    assert [line for line in told if not line.startswith("iteration ")] == phases


def test_a_check_tells_what_it_tries(caplog, data):
    X, source = data
    DBMD(3, random_state=0, verbose=1).check(X, source=source)
    *_, offsets, scaling, brightness = [record.getMessage() for record in caplog.records]
    for line, part in ((offsets, "offsets"), (scaling, "scaling"), (brightness, "brightness")):
        assert line == f"comparing fits of a sample with and without {part}"


def test_a_handler_of_the_logger_itself_gets_each_line_once(unconfigure, capsys, monkeypatch, data):
    unconfigure()
    seen = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())
    monkeypatch.setattr(LOGGER, "handlers", [handler])
    model = fitted(*data, verbose=1)
    assert seen == expected_lines(model)
    assert capsys.readouterr().out == ""


def test_a_level_that_the_user_has_set_silences_verbose(unconfigure, capsys, monkeypatch, data):
    unconfigure()
    monkeypatch.setattr(LOGGER, "level", logging.WARNING)
    fitted(*data, verbose=1)
    assert capsys.readouterr().out == ""
    assert LOGGER.level == logging.WARNING


def test_without_verbose_progress_is_logged_for_those_who_ask_for_all(caplog, data):
    fitted(*data)
    assert not caplog.records
    with caplog.at_level(logging.DEBUG, logger="dbmd"):
        model = fitted(*data)
    assert [record.getMessage() for record in caplog.records] == expected_lines(model)


def test_logging_is_left_as_it_was_also_by_a_fit_that_fails(data):
    before = LOGGER.level, list(LOGGER.handlers)
    with pytest.raises(ValueError, match="must be at most the number of samples"):
        DBMD(1000, verbose=1).fit(data[0])
    assert (LOGGER.level, LOGGER.handlers) == before


def test_of_two_fits_at_a_time_each_line_is_printed_once(unconfigure, capsys, data):
    """And only those of the verbose one, though they share a logger."""
    unconfigure()
    models = {}

    def fit(name, **parameters):
        models[name] = DBMD(3, random_state=0, **parameters).fit(*data[:1])

    threads = [
        threading.Thread(target=fit, args=(name,), kwargs={"verbose": verbose})
        for name, verbose in (("first", 1), ("second", 1), ("quiet", 0))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == models["first"].n_iter_ + models["second"].n_iter_ + 2 * (len(PHASES) + 1)


def test_a_script_that_knows_nothing_of_logging_sees_the_lines():
    code = """
from sklearn.datasets import load_iris
from dbmd import DBMD
print(DBMD(3, random_state=0, verbose=1).fit(load_iris().data).n_iter_)
"""
    *lines, n_iter = run_python(code).splitlines()
    assert len([line for line in lines if line.startswith("[DBMD] iteration ")]) == int(n_iter)
    assert all(line.startswith("[DBMD] ") for line in lines)


def test_a_script_with_basic_logging_gets_the_lines_in_its_log_alone():
    code = """
import logging, sys
logging.basicConfig(stream=sys.stdout)
from sklearn.datasets import load_iris
from dbmd import DBMD
print(DBMD(3, random_state=0, verbose=1).fit(load_iris().data).n_iter_)
"""
    *lines, n_iter = run_python(code).splitlines()
    assert len([line for line in lines if line.startswith("INFO:dbmd:iteration ")]) == int(n_iter)
    assert all(line.startswith("INFO:dbmd:") for line in lines)
