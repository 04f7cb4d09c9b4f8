"""What is written takes the place of the old file and of nothing else; what is read comes to an end."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edge.errors import InputError
from edge.files import open_atomic, read_regular, write_atomic


def test_a_link_stays_and_the_file_it_points_to_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "real" / "result.json"
    target.parent.mkdir()
    target.write_bytes(b"old")
    (tmp_path / "second.json").symlink_to(target)
    (tmp_path / "first.json").symlink_to("second.json")
    write_atomic(tmp_path / "first.json", b"new")
    assert target.read_bytes() == b"new"
    assert (tmp_path / "first.json").is_symlink()
    assert (tmp_path / "second.json").is_symlink()
    assert list(target.parent.iterdir()) == [target]


def test_a_link_to_a_file_that_does_not_exist_yet_makes_that_file(tmp_path: Path) -> None:
    link = tmp_path / "latest.json"
    link.symlink_to(tmp_path / "later" / "result.json")
    write_atomic(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "later" / "result.json").read_bytes() == b"new"


def test_a_link_in_a_circle_is_refused_and_stays(tmp_path: Path) -> None:
    link = tmp_path / "circle"
    link.symlink_to(link)
    with pytest.raises(OSError, match="symbolic links"):
        write_atomic(link, b"new")
    assert link.is_symlink()


def test_a_device_is_written_to_and_stays_a_device(tmp_path: Path) -> None:
    # By a link: were the fault there again, this test must not destroy the device itself.
    link = tmp_path / "nothing"
    link.symlink_to("/dev/null")
    write_atomic(link, b"new")
    assert link.is_symlink()
    assert stat.S_ISCHR(link.stat().st_mode)
    terminal, end = os.openpty()
    try:
        link = tmp_path / "terminal"
        link.symlink_to(os.ttyname(end))
        write_atomic(link, b"to the terminal\n")
        assert os.read(terminal, 100).startswith(b"to the terminal")
    finally:
        os.close(terminal)
        os.close(end)


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()), daemon=True)
    reader.start()
    write_atomic(pipe, b"through the pipe")
    reader.join(timeout=30)
    assert received == [b"through the pipe"]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_folder_in_the_file_s_place_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="a folder; give the name of a file"):
        write_atomic(tmp_path / "out", b"new")
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_keeps_what_was_printed_before(tmp_path: Path, name: str) -> None:
    program = (
        "from pathlib import Path; from edge.files import write_atomic;"
        f"print('before'); write_atomic(Path({name!r}), b'written\\n'); print('after')"
    )
    command, root = [sys.executable, "-c", program], Path(__file__).parent.parent
    piped = subprocess.run(command, cwd=root, capture_output=True, check=True)
    with (tmp_path / "out.txt").open("wb") as file:
        subprocess.run(command, cwd=root, stdout=file, check=True)
    assert piped.stdout == (tmp_path / "out.txt").read_bytes() == b"before\nwritten\nafter\n"


def test_a_failure_leaves_no_part_beside_a_link_s_target(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "folder" / "target")

    def write_half() -> None:
        with open_atomic(link) as file:
            file.write(b"half")
            raise InterruptedError

    with pytest.raises(InterruptedError):
        write_half()
    assert not list((tmp_path / "folder").iterdir())
    assert link.is_symlink()


def test_only_regular_files_of_bounded_size_are_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_regular(path, "a note", 5) == b"12345"
    with pytest.raises(InputError, match="5 bytes are more than the 4 that are accepted for a note"):
        read_regular(path, "a note", 4)
    with pytest.raises(InputError, match="a folder, not a note"):
        read_regular(tmp_path, "a note", 5)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "missing", "a note", 5)
    os.mkfifo(tmp_path / "pipe")
    for odd in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InputError, match="a device, pipe or socket, not a note"):
            read_regular(odd, "a note", 5)


@pytest.mark.parametrize(("sent", "accepted"), [(b"12345", True), (b"123456", False)])
def test_a_pipe_that_is_open_already_is_read_within_bounds(sent: bytes, accepted: bool) -> None:
    out, into = os.pipe()
    try:
        os.write(into, sent)
        os.close(into)
        path = Path(f"/dev/fd/{out}")
        if accepted:
            assert read_regular(path, "a note", 5) == sent
        else:
            with pytest.raises(InputError, match="more than the 5 bytes"):
                read_regular(path, "a note", 5)
    finally:
        os.close(out)
