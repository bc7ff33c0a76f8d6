"""The watch over folders: each version of a file once, at the cost of what is new."""

import os
import random
import time
from pathlib import Path

import pytest

from twigcast.errors import SourceError
from twigcast.reading.messages import find_message_files
from twigcast.spark.file_watch import FileWatch, version_of

HOUR_NS = 3_600_000_000_000


def put(path: Path, text: str = "<a/>", *, age_ns: int = HOUR_NS) -> None:
    """Writes a file that was changed so long ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    changed = time.time_ns() - age_ns
    os.utime(path, ns=(changed, changed))


def ids(watch: FileWatch) -> list[str]:
    return [file.id for file in watch.poll()]


def test_finds_what_the_reader_of_files_finds(tmp_path: Path) -> None:
    for name in ("a.xml", "b.txt", "sub/c.xml", "sub/deep/d.xml.gz", "x.zip", ".hidden", "_temporary", "sub/_no/e.xml"):
        put(tmp_path / name)
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    (tmp_path / "nothing").symlink_to(tmp_path / "gone")
    for include in (None, "*.xml"):
        found = FileWatch([str(tmp_path)], include).poll()
        expected = find_message_files([tmp_path], include=include)
        assert [file for file in expected if file.size] == found


def test_each_version_comes_once(tmp_path: Path) -> None:
    put(tmp_path / "a.xml")
    put(tmp_path / "b.xml")
    watch = FileWatch([str(tmp_path)])
    assert ids(watch) == ["a.xml", "b.xml"]
    assert ids(watch) == []
    put(tmp_path / "a.xml", "<a>new</a>", age_ns=HOUR_NS // 2)
    put(tmp_path / "c.xml")
    assert ids(watch) == ["c.xml", "a.xml"], "what changed first comes first"
    (tmp_path / "b.xml").unlink()
    assert ids(watch) == []
    assert str(tmp_path / "b.xml") not in watch
    put(tmp_path / "b.xml", age_ns=HOUR_NS // 3)
    assert ids(watch) == ["b.xml"]


def test_a_file_that_grows_waits(tmp_path: Path) -> None:
    now = 0.0
    watch = FileWatch([str(tmp_path)], settle_seconds=10, monotonic=lambda: now)
    put(tmp_path / "a.xml", "<a>", age_ns=0)
    assert ids(watch) == []
    assert watch.is_growing
    now = 9.0
    put(tmp_path / "a.xml", "<a>more", age_ns=0)
    assert ids(watch) == []
    now = 18.0
    assert ids(watch) == []
    now = 19.0
    (file,) = watch.poll()
    assert file.size == len("<a>more")
    assert not watch.is_growing


def test_a_file_may_become_a_folder(tmp_path: Path) -> None:
    put(tmp_path / "a")
    watch = FileWatch([str(tmp_path)])
    assert ids(watch) == ["a"]
    (tmp_path / "a").unlink()
    put(tmp_path / "a" / "b.xml")
    assert ids(watch) + ids(watch) == ["a/b.xml"]


def test_waiting_ends_when_all_have_settled(tmp_path: Path) -> None:
    put(tmp_path / "old.xml")
    put(tmp_path / "new.xml", age_ns=0)
    watch = FileWatch([str(tmp_path)], settle_seconds=0.2)
    assert [file.id for file in watch.wait()] == ["old.xml", "new.xml"]


def test_paths_may_be_patterns_whose_folders_come_later(tmp_path: Path) -> None:
    watch = FileWatch([str(tmp_path / "feeds" / "*" / "2026-*")])
    assert ids(watch) == []
    put(tmp_path / "feeds" / "x" / "2026-01" / "a.xml")
    put(tmp_path / "feeds" / "y" / "2026-02.xml")
    put(tmp_path / "feeds" / "y" / "2025-12.xml")
    assert ids(watch) == ["a.xml", "2026-02.xml"]


def test_a_folder_that_is_gone_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    watch = FileWatch([str(tmp_path / "in")])
    watch.poll()
    (tmp_path / "in").rmdir()
    with pytest.raises(SourceError, match="No such file"):
        watch.poll()


def test_known_folders_are_not_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3_000):
        put(tmp_path / f"{number % 3}" / f"{number}.xml")
    for folder in (*(tmp_path / f"{number}" for number in range(3)), tmp_path):
        os.utime(folder, ns=(0, time.time_ns() - HOUR_NS))
    watch = FileWatch([str(tmp_path)])
    assert len(watch.poll()) == 3_000
    listed: list[str] = []
    scandir = os.scandir

    def list_folder(path: str) -> object:
        listed.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", list_folder)
    assert watch.poll() == []
    assert listed == []
    put(tmp_path / "1" / "new.xml")
    assert ids(watch) == ["1/new.xml"]
    assert listed == [str(tmp_path / "1")]


@pytest.mark.parametrize("seed", range(5))
def test_random_changes_are_all_found(tmp_path: Path, seed: int) -> None:
    """Every version that stays is reported exactly once, whatever happens between looks."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    watch = FileWatch([str(tmp_path)])
    folders = [tmp_path, tmp_path / "a", tmp_path / "a" / "b", tmp_path / "c"]
    reported: list[tuple[str, int, int]] = []
    for step in range(40):
        for _ in range(chance.randrange(5)):
            path = chance.choice(folders) / f"{chance.randrange(6)}.xml"
            match chance.randrange(4):
                case 0:
                    path.unlink(missing_ok=True)
                case 1 if path.exists():
                    path.parent.joinpath("moved").mkdir(exist_ok=True)
                    path.rename(path.parent / "moved" / path.name)
                case _:
                    put(path, "<a>" + "x" * chance.randrange(3), age_ns=HOUR_NS - step * 1_000_000)
        reported += map(version_of, watch.poll())
        there = {version_of(file) for file in find_message_files([tmp_path])}
        assert there <= set(reported)
    assert len(reported) == len(set(reported))
