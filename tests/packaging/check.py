"""Tries the wheels in dist/ in environments that have nothing else: `make dist-check`.

check.py [--python PYTHON ...] [--extra EXTRA ...] [--sdist]

For each Python, once without and once with each extra: a new environment, the wheel, the smoke test. Where qemu-user is
installed, the library also runs on a processor without AVX2. `--sdist` builds a wheel of the sdist, too.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DIST = REPOSITORY / "dist"
SMOKE = Path(__file__).with_name("smoke.py")
OLD_PROCESSOR = "Nehalem"
"""SSE 4.2 and POPCNT, from 2008; neither AVX nor BMI."""


def run(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], check=False)
    if done.returncode != 0:
        sys.exit(f"check: failed: {' '.join(map(str, command))}")


def environment(python: str, folder: Path, wheel: Path, extra: str) -> Path:
    """Returns the Python of a new environment that has the wheel with an extra."""
    run(python, "-m", "venv", folder)
    own = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    run(own, "-m", "pip", "install", "--quiet", f"{wheel}[{extra}]" if extra else wheel)
    return own


def extras() -> list[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return ["", *sorted(set(project["optional-dependencies"]) - {"dev"})]


def the_one(pattern: str) -> Path:
    found = sorted(DIST.glob(pattern))
    if len(found) != 1:
        sys.exit(f"check: dist/ has {len(found)} files {pattern}, where one is to be tried; make clean wheel")
    return found[0]


def without_avx2(python: Path) -> None:
    emulator = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
    if platform.machine() != "x86_64" or emulator is None:
        print("without AVX2: NOT TRIED: qemu-user is not installed, or this is no x86-64")
        return
    # The program itself, since the emulator starts no link to it in another place.
    run(emulator, "-cpu", OLD_PROCESSOR, python, SMOKE, "library")
    print(f"without AVX2: works, on an emulated {OLD_PROCESSOR}")


def wheel_of_sdist(python: str, folder: Path) -> Path:
    run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, the_one("*.tar.gz"))
    return next(folder.glob("*.whl"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", help="by default the one that runs this")
    parser.add_argument("--extra", action="append", choices=extras(), help="'' for none; by default none and each")
    parser.add_argument("--sdist", action="store_true", help="build a wheel of the sdist, and try it without extras")
    options = parser.parse_args()
    wheel = the_one("*.whl")
    for python in options.python or [sys.executable]:
        for extra in options.extra or extras():
            with tempfile.TemporaryDirectory() as folder:
                own = environment(python, Path(folder) / "venv", wheel, extra)
                run(own, SMOKE, extra)
                if not extra:
                    without_avx2(own)
    if options.sdist:
        with tempfile.TemporaryDirectory() as folder:
            built = wheel_of_sdist(sys.executable, Path(folder))
            run(environment(sys.executable, Path(folder) / "venv", built, ""), SMOKE)
            print("sdist: builds, and its wheel works")


if __name__ == "__main__":
    main()
