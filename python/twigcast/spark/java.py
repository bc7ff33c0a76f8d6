"""Finding the Java runtime that Spark needs, and saying what to install when there is none."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from twigcast.errors import MissingJava

JAVA_VERSION_MIN: Final = 17

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_PROBE_SECONDS: Final = 60


def check_java(environment: Mapping[str, str] | None = None) -> int:
    """The major version of the Java runtime that Spark will use.

    Args:
        environment: Variables to look in instead of the process's own.

    Raises:
        MissingJava: There is none, it does not run, or it is too old.
    """
    variables = os.environ if environment is None else environment
    java, where = _find(variables)
    try:
        answer = subprocess.run(  # noqa: S603 - the runtime that Spark is about to start
            [java, "-version"], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True, env=dict(variables)
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingJava(f"the Java runtime {java} ({where}) does not run: {error}") from None
    result = _VERSION.search(answer.stderr + answer.stdout)
    if result is None:
        raise MissingJava(f"{java} ({where}) does not say which version of Java it is")
    version = int(result.group(1))
    if version < JAVA_VERSION_MIN:
        raise MissingJava(f"{java} ({where}) is Java {version}, which is too old for Spark")
    return version


def _find(variables: Mapping[str, str]) -> tuple[str, str]:
    """Where Spark looks for Java: JAVA_HOME first, then the PATH."""
    home = variables.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise MissingJava(f"JAVA_HOME is {home}, where there is no bin/java")
        return str(java), "from JAVA_HOME"
    result = shutil.which("java", path=variables.get("PATH", os.defpath))
    if result is None:
        raise MissingJava("Spark needs a Java runtime, and there is no java on the PATH")
    return result, "from the PATH"
