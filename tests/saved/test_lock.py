"""One at a time: whoever is at work is named, and whoever is gone blocks nobody."""

import json
import multiprocessing
import os
import re
import socket

import pytest

from dbmd.saved import lock
from dbmd.saved.lock import Lock

NO_PROCESS = 2**22 + 1  # above the largest number that Linux gives to a process


@pytest.fixture
def place(tmp_path):
    return tmp_path / "model"


def refusal(place):
    with pytest.raises(FileExistsError) as caught, Lock(place):
        pass
    said = str(caught.value)
    assert str(place) in said
    assert "\n" not in said
    return said


def assert_free(place):
    with Lock(place) as mine:
        assert json.loads(mine.path.read_text())["process"] == os.getpid()
    assert not list(place.parent.glob("*.lock"))


def leave(place, **changes):
    """Write the file of somebody else."""
    path = place.with_name("model.lock")
    path.unlink(missing_ok=True)
    with Lock(place):
        mine = json.loads(path.read_text())
    path.write_text(json.dumps(mine | {"process": NO_PROCESS, "started": "1"} | changes))
    return path


@pytest.fixture(params=["locks", "no locks"])
def file_system(request, monkeypatch):
    """File systems with and without locks."""
    if request.param == "no locks":

        def refuse(handle, operation):
            raise OSError(37, "No locks available")

        monkeypatch.setattr(lock.fcntl, "flock", refuse)


def test_who_is_at_work_is_named_until_it_is_done(place):
    with Lock(place):
        said = refusal(place)
        assert f"process {os.getpid()} on {socket.gethostname()}" in said
        assert "choose another name" in said
    assert_free(place)


def test_one_place_has_one_lock_by_whatever_link_it_is_reached(place, tmp_path):
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    with Lock(tmp_path / "link"):
        refusal(place)
    assert_free(place)


@pytest.mark.usefixtures("file_system")
def test_what_the_dead_left_blocks_nobody(place):
    leave(place)
    assert_free(place)
    leave(place, boot="before the machine was started again")
    assert_free(place)
    leave(place, process=os.getpid())  # in a container, every first process has the same number
    assert_free(place)
    for content in (
        "",
        "{",
        "[]",
        "null",
        '{"process": "x"}',
        "[" * 9999,
    ):  # killed before it was written, or no file of ours
        place.with_name("model.lock").write_text(content)
        assert_free(place)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_without_locks_of_the_system_the_process_is_looked_for(place, monkeypatch):
    holder = start_holder(place)
    path = place.with_name("model.lock")
    theirs = json.loads(path.read_text())
    monkeypatch.setattr(lock, "fcntl", None)  # as on Windows
    assert f"process {holder.pid} on" in refusal(place)
    assert path.exists()
    path.write_text(json.dumps(theirs | {"started": "0"}))  # its number was given to another process
    assert_free(place)
    holder.kill()
    holder.join()


@pytest.mark.usefixtures("file_system")
def test_of_another_machine_it_is_said_how_to_go_on(place):
    path = leave(place, host="elsewhere", boot="of elsewhere")
    said = refusal(place)
    assert f"process {NO_PROCESS} on elsewhere" in said
    assert f"remove {path}" in said
    leave(place, host="elsewhere")  # another container of this machine
    assert_free(place)


def test_what_is_no_file_is_neither_waited_for_nor_followed(place, tmp_path):
    path = place.with_name("model.lock")
    os.mkfifo(path)
    assert "no regular file" in refusal(place)
    path.unlink()
    (tmp_path / "precious").write_text("mine")
    path.symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match=re.escape(str(path))), Lock(place):
        pass
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_full_disk_is_said_with_the_name_and_leaves_nothing(place, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lock.os, "ftruncate", full)
    with pytest.raises(OSError, match=r"No space.*model\.lock"), Lock(place):
        pass
    assert not list(place.parent.iterdir())


def _hold(place, ready):
    with Lock(place):
        ready.set()
        multiprocessing.Event().wait()


def start_holder(place):
    """Return a process that has the lock."""
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(place, ready))
    holder.start()
    assert ready.wait(30)
    return holder


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # the fork does nothing but wait
def test_a_kill_lets_others_in(place):
    holder = start_holder(place)
    assert f"process {holder.pid} on" in refusal(place)
    holder.kill()
    holder.join()
    assert place.with_name("model.lock").exists()
    assert_free(place)


def _enter_and_leave(place, counts):
    for _ in range(100):
        try:
            with Lock(place):
                os.close(os.open(place, os.O_CREAT | os.O_EXCL))  # fails if another is inside, too
                os.unlink(place)
                counts[0] += 1
        except FileExistsError as refused:
            if refused.errno is not None:
                counts[1] += 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_there_are_never_two(place):
    context = multiprocessing.get_context("fork")
    counts = [context.Array("i", 2) for _ in range(4)]
    runners = [context.Process(target=_enter_and_leave, args=(place, each)) for each in counts]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join(60)
        assert runner.exitcode == 0
    assert sum(each[0] for each in counts) > 10
    assert sum(each[1] for each in counts) == 0
    assert not list(place.parent.iterdir())
