"""Writing: a kill leaves the old or the new, nothing piles up, and what is read back is what was written."""

import io
import json
import multiprocessing
import os
import signal
import stat
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from dbmd import storage
from dbmd.saved.lock import Lock
from dbmd.storage import check_can_write, from_npz, left_aside, read_file, to_json, to_npz, write_directory, write_file

OWNED = frozenset({"a", "b"})
NO_PROCESS = 2**22 + 1  # above the largest number that Linux gives to a process


def contents(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def write(path, *, overwrite=False, **files):
    write_directory(path, files, overwrite=overwrite, owned=OWNED)


# -- directories ---------------------------------------------------------------------------------------------------


def test_a_directory_has_the_files_that_were_written_and_nothing_is_beside_it(tmp_path):
    write(tmp_path / "deep" / "model", a=b"1", b=b"2")
    assert contents(tmp_path / "deep" / "model") == {"a": b"1", "b": b"2"}
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["model"]


@pytest.fixture(params=["at once", "in steps"])
def exchange(request, monkeypatch):
    """Systems that can exchange two names at once, and those that cannot."""
    if request.param == "in steps":
        monkeypatch.setattr(storage.sys, "platform", "other")


@pytest.mark.usefixtures("exchange")
def test_overwriting_replaces_all_files_and_leaves_nothing_behind(tmp_path):
    write(tmp_path / "model", a=b"1", b=b"2")
    write(tmp_path / "model", overwrite=True, a=b"3")
    assert contents(tmp_path / "model") == {"a": b"3"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_where_names_cannot_be_exchanged_the_old_one_can_be_found_until_there_is_a_new_one(tmp_path, monkeypatch):
    monkeypatch.setattr(storage.sys, "platform", "other")
    write(tmp_path / "model", a=b"1")
    assert left_aside(tmp_path / "model") is None
    aside = tmp_path / f".model.before-{NO_PROCESS}"
    (tmp_path / "model").rename(aside)  # as if killed here
    assert left_aside(tmp_path / "model") == aside
    write(tmp_path / "model", a=b"2")
    assert contents(tmp_path / "model") == {"a": b"2"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_directory_is_replaced_only_if_that_is_allowed(tmp_path):
    write(tmp_path, overwrite=False, a=b"1")  # an empty one may be filled
    with pytest.raises(FileExistsError, match="overwrit"):
        write(tmp_path, a=b"2")
    assert contents(tmp_path) == {"a": b"1"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_foreign_files_folders_and_links_are_never_lost(tmp_path, overwrite):
    for make in (lambda p: p.write_bytes(b"x"), lambda p: p.mkdir(), lambda p: p.symlink_to("nowhere")):
        path = tmp_path / f"model{len(list(tmp_path.iterdir()))}"
        path.mkdir()
        make(path / "mine")
        with pytest.raises(FileExistsError, match="mine"):
            write(path, overwrite=overwrite, a=b"2")
        assert [entry.name for entry in path.iterdir()] == ["mine"]


def test_a_file_in_a_folder_is_owned_by_its_full_name(tmp_path):
    path, owned = tmp_path / "model", frozenset({"a", "sub/a"})
    for content in (b"1", b"2"):
        write_directory(path, {"a": content, "sub/a": content}, overwrite=True, owned=owned)
        assert (path / "sub" / "a").read_bytes() == content
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]
    (path / "sub" / "mine").touch()
    with pytest.raises(FileExistsError, match=r"\(sub/mine\)"):
        write_directory(path, {"a": b"3"}, overwrite=True, owned=owned)
    (path / "sub" / "mine").unlink()
    write_directory(path, {"a": b"3"}, overwrite=True, owned=owned)
    assert contents(path) == {"a": b"3"}


def test_check_can_write_says_the_same_before_anything_is_computed(tmp_path):
    check_can_write(tmp_path / "new", overwrite=False, owned=OWNED)
    check_can_write(tmp_path, overwrite=False, owned=OWNED)
    (tmp_path / "a").touch()
    check_can_write(tmp_path, overwrite=True, owned=OWNED)
    with pytest.raises(FileExistsError):
        check_can_write(tmp_path, overwrite=False, owned=OWNED)
    with pytest.raises(FileExistsError, match="is a file"):
        check_can_write(tmp_path / "a", overwrite=True, owned=OWNED)


def test_a_link_to_a_directory_stays_one(tmp_path):
    write(tmp_path / "disk" / "model", a=b"1")
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "model")
    write(tmp_path / "link", overwrite=True, a=b"2")
    assert (tmp_path / "link").is_symlink()
    assert contents(tmp_path / "disk" / "model") == {"a": b"2"}
    assert {path.name for path in tmp_path.iterdir()} == {"disk", "link"}
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["model"]


def test_permissions_are_those_of_anything_else_the_user_makes(tmp_path):
    (tmp_path / "usual").mkdir()
    (tmp_path / "usual" / "file").touch()
    write(tmp_path / "model", a=b"1")
    write_file(tmp_path / "one", b"1")

    def mode(path):
        return stat.S_IMODE(path.stat().st_mode)

    assert mode(tmp_path / "model") == mode(tmp_path / "usual")
    assert mode(tmp_path / "model" / "a") == mode(tmp_path / "one") == mode(tmp_path / "usual" / "file")


@pytest.mark.parametrize("name", ["model", "model[1]", "a*b", "model.v1"])
@pytest.mark.parametrize("killed", [NO_PROCESS, "this process"])
def test_what_killed_writers_left_is_removed_by_the_next(tmp_path, name, killed):
    killed = os.getpid() if killed == "this process" else killed
    (tmp_path / f".{name}.writing-{killed}").mkdir()
    (tmp_path / f".{name}.writing-{killed}" / "a").write_bytes(b"half")
    write(tmp_path / name, a=b"1")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    file = f"{name}.checkpoint"
    (tmp_path / f".{file}.writing-{killed}").write_bytes(b"half")
    write_file(tmp_path / file, b"1")
    assert {path.name for path in tmp_path.iterdir()} == {name, file}


def test_what_running_writers_and_others_have_is_left_alone(tmp_path):
    others = [f".model.writing-{os.getppid()}", f".model2.writing-{NO_PROCESS}", ".model.writing-", ".model.writing-x"]
    for name in others:
        (tmp_path / name).mkdir()
    write(tmp_path / "model", a=b"1")
    assert {path.name for path in tmp_path.iterdir()} == {"model", *others}


def test_a_failure_leaves_the_old_and_nothing_else(tmp_path, monkeypatch):
    write(tmp_path / "model", a=b"1")
    write_file(tmp_path / "file", b"1")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space.*/model'"):
        write(tmp_path / "model", overwrite=True, a=b"2")
    with pytest.raises(OSError, match=r"No space.*/file'"):
        write_file(tmp_path / "file", b"2")
    assert {path.name for path in tmp_path.iterdir()} == {"model", "file"}
    assert contents(tmp_path / "model") == {"a": b"1"}
    assert (tmp_path / "file").read_bytes() == b"1"


# -- kills ---------------------------------------------------------------------------------------------------------


def _write_on_and_on(folder, ready):
    """Write versions until killed: all files of a version have the same content, which says how long it is."""
    for version in range(10**6):
        content = f"{version} ".encode() * 20_000
        write_directory(folder / "model", {"a": content, "b": content}, overwrite=True, owned=OWNED)
        write_file(folder / "file", content)
        ready.set()


@pytest.mark.slow
@pytest.mark.usefixtures("exchange")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # the fork does nothing but write
def test_kills_at_random_moments_leave_a_complete_version_and_nothing_piles_up(tmp_path, rng):
    context = multiprocessing.get_context("fork")
    in_steps = storage.sys.platform == "other"
    kinds = set()
    for _ in range(25):
        ready = context.Event()
        writer = context.Process(target=_write_on_and_on, args=(tmp_path, ready))
        writer.start()
        assert ready.wait(30)
        writer.join(rng.uniform(0, 0.02))
        assert writer.is_alive()
        writer.kill()
        writer.join()
        aside = left_aside(tmp_path / "model")
        assert in_steps or aside is None
        found = contents(aside or tmp_path / "model")
        kinds.add(tuple(sorted(path.name.split("-")[0] for path in tmp_path.iterdir())))
        assert set(found) == {"a", "b"}
        assert found["a"] == found["b"]
        for content in (found["a"], (tmp_path / "file").read_bytes()):
            assert len(content.split()) == 20_000
            assert len(set(content.split())) == 1
    write(tmp_path / "model", overwrite=True, a=b"last")
    write_file(tmp_path / "file", b"last")
    assert {path.name for path in tmp_path.iterdir()} == {"model", "file"}
    assert kinds - {("file", "model")}, "no kill came in the middle of a write"


CALLS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "fcntl.flock", "ctypes.call_function"}


def _write_until_call(number, folder):
    """Write a file and a directory as a fit does; end, as if killed, right before a call to the file system."""
    left = number

    def count(event, arguments):
        nonlocal left
        if event in CALLS:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    with Lock(folder / "model"):
        write_file(folder / "file", b"new")
        write_directory(folder / "model", {"a": b"new", "b": b"new"}, overwrite=True, owned=OWNED)
        (folder / "file").unlink()


@pytest.mark.slow
@pytest.mark.usefixtures("exchange")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_kill_at_any_call_leaves_a_complete_version_a_free_lock_and_nothing_that_is_not_swept(tmp_path):
    context = multiprocessing.get_context("fork")
    for number in range(1, 100):
        folder = tmp_path / str(number)
        folder.mkdir()
        write(folder / "model", a=b"old", b=b"old")
        write_file(folder / "file", b"old")
        writer = context.Process(target=_write_until_call, args=(number, folder))
        writer.start()
        writer.join()
        found = contents(left_aside(folder / "model") or folder / "model")
        assert found in ({"a": b"old", "b": b"old"}, {"a": b"new", "b": b"new"})
        if writer.exitcode == 0:
            break
        assert writer.exitcode == -signal.SIGKILL
        if found["a"] == b"old":  # what a fit goes on from is not lost before the model is there
            assert (folder / "file").read_bytes() in (b"old", b"new")
        with Lock(folder / "model"):
            write_file(folder / "file", b"last")
            write(folder / "model", overwrite=True, a=b"last")
        assert {path.name for path in folder.iterdir()} == {"model", "file"}
    assert 20 < number < 99


# -- formats -------------------------------------------------------------------------------------------------------


@given(
    st.dictionaries(
        st.text(st.characters(codec="ascii", categories=["L"]), min_size=1, max_size=8),
        npst.arrays(npst.boolean_dtypes() | npst.floating_dtypes(sizes=(32, 64)) | npst.integer_dtypes(), (2, 3)),
        max_size=3,
    )
)
def test_arrays_come_back_bit_by_bit(tmp_path_factory, arrays):
    path = tmp_path_factory.mktemp("npz") / "arrays.npz"
    path.write_bytes(to_npz(arrays))
    found = from_npz(path)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert found[name].tobytes() == array.tobytes()


def test_arrays_of_objects_are_neither_written_nor_read(tmp_path):
    with pytest.raises(TypeError, match="'x' holds objects"):
        to_npz({"x": np.array([{}], object)})
    np.savez(tmp_path / "arrays.npz", x=np.array([{}], object))
    with pytest.raises(ValueError, match=r"arrays\.npz cannot be read: .*allow_pickle"):
        from_npz(tmp_path / "arrays.npz")


class Bomb:
    """What would run code if it were unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("exploded"),)


def test_reading_never_runs_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "arrays.npz", x=np.array([Bomb()], object))
    np.save(tmp_path / "bare.npy", np.array([Bomb()], object))
    (tmp_path / "bare.npy").rename(tmp_path / "bare.npz")
    for name in ("arrays.npz", "bare.npz"):
        with pytest.raises(ValueError, match=f"{name} cannot be read"):
            from_npz(tmp_path / name)
    assert not (tmp_path / "exploded").exists()


ARRAYS = {"x": np.arange(50.0), "y": np.array("text")}
WHOLE = to_npz(ARRAYS)


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255), st.booleans())
def test_broken_archives_are_a_value_error_with_the_name_or_read_as_they_were(tmp_path_factory, place, change, cut):
    broken = WHOLE[:place] if cut else WHOLE[:place] + bytes([WHOLE[place] ^ change]) + WHOLE[place + 1 :]
    path = tmp_path_factory.mktemp("npz") / "arrays.npz"
    path.write_bytes(broken)
    try:
        found = from_npz(path)
    except ValueError as error:
        said = str(error)
    else:
        # Dates and the like may change unnoticed; arrays have a checksum.
        np.testing.assert_equal(found, ARRAYS)
        return
    assert said.startswith(f"{path} cannot be read: ")
    assert "\n" not in said


def test_archives_made_to_trick_the_reader_are_a_value_error(tmp_path):
    path = tmp_path / "arrays.npz"
    header = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little")
    huge = header + b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000000,)}".ljust(117) + b"\n"
    for content in (huge, header + b"(".ljust(118), b"", b"text"):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("x.npy", content)
        path.write_bytes(buffer.getvalue())
        with pytest.raises(ValueError, match="cannot be read"):
            from_npz(path)
    with pytest.raises(ValueError, match="cannot be read"):
        from_npz(tmp_path)
    with pytest.raises(FileNotFoundError):
        from_npz(tmp_path / "none")


def test_an_archive_that_would_grow_out_of_proportion_is_a_value_error(tmp_path, monkeypatch):
    path = tmp_path / "arrays.npz"
    path.write_bytes(to_npz({"x": np.zeros(10**6), "y": np.zeros(10**5)}))
    assert from_npz(path)["x"].shape == (10**6,)
    monkeypatch.setattr(storage, "MOST_UNPACKED", 8_500_000)
    with pytest.raises(ValueError, match=r"npz cannot be read: its arrays would take more than 8500000 bytes\."):
        from_npz(path)
    path.write_bytes(to_npz({"x": np.random.default_rng(0).normal(size=1_100_000)}))
    assert from_npz(path)["x"].shape == (1_100_000,)  # what is large because it is large is read


def test_only_regular_files_are_read_and_nothing_is_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for path, kind in (("pipe", "pipe"), ("link", "pipe"), ("/dev/zero", "device"), (tmp_path, "directory")):
        for read in (read_file, from_npz):
            with pytest.raises(ValueError, match=f"cannot be read: it is a {kind}, not a regular file"):
                read(tmp_path / path)
    write_file(tmp_path / "file", b"1")
    assert read_file(tmp_path / "file") == b"1"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_json_is_strict_and_keeps_what_json_can_hold(value):
    def refuse(constant):
        raise AssertionError(constant)

    found = json.loads(to_json({"value": value}), parse_constant=refuse)["value"]

    def finite(x):
        if isinstance(x, list):
            return [finite(entry) for entry in x]
        return None if isinstance(x, float) and not np.isfinite(x) else x

    assert found == finite(value)


def test_json_takes_numbers_of_numpy_and_anything_that_has_a_name():
    record = {1: np.float32(0.5), "n": np.int64(3), "b": np.True_, "x": np.array([[1, 2]]), "p": Path("a"), "t": (1,)}
    assert json.loads(to_json(record)) == {"1": 0.5, "n": 3, "b": True, "x": [[1, 2]], "p": "a", "t": [1]}
