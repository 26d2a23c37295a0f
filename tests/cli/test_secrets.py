"""Addresses with passwords and signatures: whatever is written or printed, they are not in it."""

import base64
import functools
import http.server
import io
import json
import pickle
import sys
import threading
import zipfile
from typing import ClassVar

import fsspec
import numpy as np
import pytest
from fsspec.spec import AbstractFileSystem

from cli.running import refused, run, samples, write_csv
from dbmd import load
from dbmd.data.address import shown
from dbmd.data.location import locate

SECRETS = ("OPENSESAME", "TreasureKey", "s1gnature", "an0ther")


class Vault(AbstractFileSystem):
    """Files that are opened by their whole address, as http's are, and errors that tell all of it."""

    protocol = "vault"
    files: ClassVar[dict[str, bytes]] = {}

    @classmethod
    def _strip_protocol(cls, path):
        return path

    def info(self, path, **options):
        name = path.rpartition("@")[2].partition("?")[0]
        if "@" not in path:
            raise KeyError(f"no key in {path}")
        if name.startswith("locked"):
            raise RuntimeError(f"403 for {path}: OPENSESAME is not allowed\nby {self}")
        if name not in self.files:
            raise FileNotFoundError(path)
        return {"name": path, "size": len(self.files[name]), "type": "file"}

    def _open(self, path, mode="rb", **options):
        name = path.rpartition("@")[2].partition("?")[0]
        if name.startswith("shut"):
            raise PermissionError(13, "Permission denied", path)
        return Breaking(path) if name.startswith("breaks") else io.BytesIO(self.files[name])


class Breaking(io.BytesIO):
    """A file that can be opened, and not read."""

    def __init__(self, path):
        super().__init__(b"x0,x1\n1,2\n")
        self.path = path

    def read(self, size=-1):
        raise ConnectionError(f"lost the connection to {self.path}")


fsspec.register_implementation("vault", Vault, clobber=True)


@pytest.fixture
def vault(tmp_path):
    X, source = samples(90)
    data = write_csv(tmp_path / "x.csv", X, lab=source).read_bytes()
    names = ["bucket/x.csv", "bucket/b/x.csv", "locked/x.csv", "shut/x.csv", "breaks/x.csv"]
    Vault.files = dict.fromkeys(names, data)
    return address


def address(name, signature="s1gnature"):
    return f"vault://TreasureKey:OPEN%53ESAME@{name}?sig={signature}&region=eu"


def everything(folder):
    """Return all bytes that were written into a folder, and those packed in them."""
    found = b""
    for path in folder.rglob("*"):
        if path.is_file():
            found += path.name.encode() + path.read_bytes()
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as archive:
                    found += b"".join(map(archive.read, archive.namelist()))
    return found.replace(b"\0", b"")  # NumPy has four bytes for a letter


def assert_kept(text):
    text = text if isinstance(text, bytes) else text.encode()
    for secret in (*SECRETS, "OPEN%53ESAME"):
        assert secret.encode() not in text


@pytest.fixture
def dbmd(monkeypatch):
    """Run a command as its own process would, with its arguments in sys.argv."""

    def command(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["dbmd", *map(str, arguments)])
        result = run(*arguments, code=code)
        assert_kept(result.stdout + result.stderr)
        return result

    return command


def test_a_fit_and_its_model_report_and_memberships_do_not_tell_them(vault, dbmd, tmp_path):
    out = tmp_path / "out"
    data = [vault("bucket/x.csv"), f"simplecache::{vault('bucket/b/x.csv')}"]
    dbmd("fit", *data, "-k", "2", "--source", "@file", "--drop", "lab", "-o", out / "m", "--json")
    dbmd("transform", out / "m", *data, "-o", out / "H.csv")
    assert_kept(everything(out))
    model = load(out / "m")
    assert model.sources_.tolist() == ["simplecache::vault://bucket/b/x.csv", "vault://bucket/x.csv"]
    assert model.fit_info_["data"]["paths"] == ["vault://bucket/x.csv", "simplecache::vault://bucket/b/x.csv"]
    assert model.fit_info_["command"].startswith("dbmd fit vault://bucket/x.csv simplecache::vault://bucket/b/x.csv -k")
    assert "vault://bucket/x.csv" in (out / "m" / "report.html").read_text()


def test_a_finished_fit_is_known_again_by_another_signature(vault, dbmd, tmp_path):
    how = ["-k", "2", "--source", "@file", "--drop", "lab", "-o", tmp_path / "m", "--no-report", "--resume"]
    dbmd("fit", vault("bucket/x.csv"), *how)
    assert "nothing to resume" in dbmd("fit", vault("bucket/x.csv", "an0ther"), *how).stderr


def test_a_checkpoint_does_not_tell_them_and_goes_on_with_another_signature(vault, dbmd, tmp_path, monkeypatch):
    from dbmd.saved.checkpoint import Checkpoint

    monkeypatch.setattr(Checkpoint, "remove", lambda self: None)
    how = ["-k", "2", "--source", "@file", "--drop", "lab", "-o", tmp_path / "m", "--no-report", "--checkpoint", "0"]
    dbmd("fit", vault("bucket/x.csv"), *how, "--tol", "1e-9")
    before = json.loads((tmp_path / "m" / "model.json").read_text())
    (tmp_path / "m" / "model.json").unlink()
    (tmp_path / "m" / "arrays.npz").unlink()
    assert_kept(everything(tmp_path))
    resumed = dbmd("fit", vault("bucket/x.csv", "an0ther"), *how, "--tol", "1e-9", "--resume")
    assert "Going on after iteration" in resumed.stderr
    after = json.loads((tmp_path / "m" / "model.json").read_text())
    assert after["objective"] == before["objective"]
    assert after["fit"]["data"] == before["fit"]["data"]


def test_addresses_that_differ_in_their_queries_alone_are_different_files(vault, dbmd, tmp_path):
    data = [vault("bucket/x.csv"), vault("bucket/x.csv", "an0ther")]
    dbmd("fit", *data, "-k", "2", "--source", "@file", "--drop", "lab", "-o", tmp_path / "m", "--no-report")
    model = load(tmp_path / "m")
    assert model.sources_.tolist() == ["vault://bucket/x.csv", "vault://bucket/x.csv (2)"]
    assert model.profile_.n.tolist() == [90, 90]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("bucket/none.csv", "vault://bucket/none.csv: no such file or folder."),
        ("locked/x.csv", "vault://locked/x.csv: cannot be read (403 for vault://locked/x.csv: *** is not allowed)."),
        ("shut/x.csv", "vault://shut/x.csv: cannot be read ([Errno 13] Permission denied: 'vault://shut/x.csv')."),
        ("breaks/x.csv", "vault://breaks/x.csv: "),
        ("bucket/x.xls", "vault://bucket/x.xls: no "),
    ],
)
@pytest.mark.parametrize("command", ["fit", "transform"])
def test_what_goes_wrong_is_said_without_them(command, name, told, vault, dbmd, tmp_path):
    write_csv(tmp_path / "good.csv", samples(90)[0])
    dbmd("fit", tmp_path / "good.csv", "-k", "2", "-o", tmp_path / "m", "--no-report", "-q")
    arguments = ["fit", vault(name), "-k", "2"] if command == "fit" else ["transform", tmp_path / "m", vault(name)]
    sentence = refused(*arguments, "-o", tmp_path / "new.csv")
    assert_kept(sentence)
    assert sentence.startswith(told)
    assert_kept(dbmd(*arguments, "-o", tmp_path / "new.csv", "--debug", code=1).stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "x.npy", "-k", "2", "-o", "{}"],
        ["fit", "x.npy", "-k", "2", "-o", "m", "--init", "{}.npy"],
        ["fit", "x.npy", "-k", "{}", "-o", "m"],
        ["fit", "x.npy", "-k", "2", "-o", "m", "--source={}"],
        ["transform", "m", "x.npy", "-o", "{}"],
        ["transform", "{}", "x.npy", "-o", "H.npy"],
        ["report", "{}"],
        ["report", ".", "{}"],
        ["report", ".", "-o", "{}"],
        ["demo", "-o", "{}"],
        ["{}"],
    ],
)
def test_an_address_in_the_wrong_place_is_refused_without_them(arguments, dbmd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", samples(30)[0])
    dbmd(*(argument.format(address("bucket/x.csv")) for argument in arguments), code=2)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_a_location_is_opened_with_them_and_described_without(vault):
    (location,) = locate(vault("bucket/x.csv"))
    assert location.name == "x.csv"
    assert location.size == len(Vault.files["bucket/x.csv"])
    assert_kept(f"{location} {location!r}")
    elsewhere = pickle.loads(pickle.dumps(location))  # at a worker
    with elsewhere.open() as file:
        assert file.read() == Vault.files["bucket/x.csv"]
    (elsewhere,) = pickle.loads(pickle.dumps(locate(vault("breaks/x.csv"))))
    with elsewhere.open() as file, pytest.raises(OSError, match=r"lost the connection to vault://breaks/x\.csv"):
        file.read()


class Guarded(http.server.SimpleHTTPRequestHandler):
    """Gives files to those who know the password and have a signature."""

    def send_head(self):
        known = "Basic " + base64.b64encode(b"TreasureKey:OPENSESAME").decode()
        if self.headers["Authorization"] != known or "sig=s1gnature" not in self.path:
            self.send_error(401)
            return None
        return super().send_head()

    def log_message(self, *arguments):
        pass


def test_files_are_read_over_http_with_user_password_and_signature(dbmd, tmp_path):
    (tmp_path / "www").mkdir()
    X, _ = samples(90)
    write_csv(tmp_path / "www" / "x.csv", X)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Guarded, directory=tmp_path / "www"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://TreasureKey:OPENSESAME@127.0.0.1:{server.server_port}/x.csv?sig=s1gnature"
    try:
        dbmd("fit", url, "-k", "2", "-o", tmp_path / "m")
        wrong = url.replace("sig=s1gnature", "sig=an0ther")
        dbmd("fit", wrong, "-k", "2", "-o", tmp_path / "new", code=2)
    finally:
        server.shutdown()
        server.server_close()
    assert load(tmp_path / "m").fit_info_["data"]["paths"] == [shown(url)]
    assert_kept(everything(tmp_path / "m"))
