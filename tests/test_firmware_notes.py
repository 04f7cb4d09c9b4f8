"""What the notes tell a user to do exists and is well-formed: commands, options, files, the service's unit."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import ROOT

NOTES = ROOT / "firmware_notes"
UNIT = NOTES / "mango-edge.service"
PAGES = sorted(NOTES.glob("*.md"))
SCRIPTS = sorted(NOTES.glob("*.sh"))
KIT = ("mango-edge", "mango-convert", "mango-bench")


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed, so what it would check is not checked")
    return found


def blocks(page: Path) -> list[str]:
    """The fenced shell blocks of a page."""
    return re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def commands(text: str) -> Iterator[list[str]]:
    """The kit's commands in a text, split into words; `sudo` and the like are left out."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        for position, word in enumerate(words):
            before = words[:position]
            if Path(word).name in KIT and all(
                part.startswith("-") or part in ("sudo", "mango-edge") for part in before
            ):
                # In `sudo -u mango-edge mango-edge ...` the first is the user.
                if words[position + 1 : position + 2] and words[position + 1] in KIT:
                    continue
                yield [Path(word).name, *words[position + 1 :]]
                break


def click_command(name: str) -> Any:
    from bench.cli import app as bench_app
    from convert.cli import app as convert_app
    from edge.cli import app as edge_app

    return typer.main.get_command(dict(zip(KIT, (edge_app, convert_app, bench_app), strict=True))[name])


def check_command(words: list[str], whole: bool = True) -> None:
    """Walk down the subcommands: each option must exist, and in a whole command nothing required may be missing."""
    current, rest = click_command(words[0]), words[1:]
    while rest and hasattr(current, "commands") and rest[0] in current.commands:
        current, rest = current.commands[rest[0]], rest[1:]
    options = {name: option for option in current.params for name in option.opts}
    arguments, given = [], set()
    while rest:
        word, rest = rest[0], rest[1:]
        if word.startswith("$"):
            continue
        if not word.startswith("-"):
            arguments.append(word)
            continue
        assert word in options, f"{shlex.join(words)}: no option {word}"
        given.add(options[word].name)
        if not options[word].is_flag:
            assert rest, f"{shlex.join(words)}: {word} needs a value"
            rest = rest[1:]
    assert not (hasattr(current, "commands") and arguments), f"{shlex.join(words)}: no command {arguments[0]}"
    if not whole:
        return
    for parameter in current.params:
        if parameter.param_type_name == "option" and parameter.required:
            assert parameter.name in given, f"{shlex.join(words)}: lacks {parameter.opts[0]}"
    needed = [p for p in current.params if p.param_type_name == "argument" and p.required]
    accepted = [p for p in current.params if p.param_type_name == "argument"]
    many = any(p.nargs == -1 for p in accepted)
    assert len(arguments) >= len(needed), f"{shlex.join(words)}: too few arguments"
    assert many or len(arguments) <= len(accepted), f"{shlex.join(words)}: too many arguments"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_the_kit_in_the_notes_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    inline = re.findall(r"`((?:sudo )?mango-(?:edge|convert|bench) [a-z][^`]*)`", text)
    found = [words for piece in (*blocks(page), *inline) for words in commands(piece)]
    assert found
    for words in found:
        # In running text a command may be named without its arguments.
        check_command(words, whole=shlex.join(words[1:]) in " ".join(blocks(page)))


def test_a_command_that_does_not_exist_is_noticed() -> None:
    check_command(["mango-edge", "model", "install", "FILE", "--key", "KEY"])
    for wrong in (
        "mango-edge fly",
        "mango-edge model install FILE",
        "mango-edge model install FILE --kay KEY",
        "mango-edge model install --key KEY",
        "mango-edge model status FILE",
    ):
        with pytest.raises(AssertionError):
            check_command(shlex.split(wrong))


def test_the_service_runs_a_command_that_exists() -> None:
    line = re.search(r"^ExecStart=(.*?[^\\])$", UNIT.read_text(), re.MULTILINE | re.DOTALL)
    assert line is not None
    words = shlex.split(line.group(1).replace("\\\n", " "))
    assert words[0] == "/opt/mango-edge/bin/mango-edge"
    check_command(["mango-edge", *words[1:]])
    settings = dict(re.findall(r"^(\w+)=(.*)$", (NOTES / "mango-edge.env").read_text(), re.MULTILINE))
    assert set(re.findall(r"\$\{?(\w+)", line.group(1))) == set(settings)
    for extra in re.findall(r"EXTRA=(--\S+ \S+?)\.?$", (NOTES / "mango-edge.env").read_text(), re.MULTILINE):
        check_command(["mango-edge", "run", "--source", "x", *shlex.split(extra)])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shell_blocks_in_the_notes_are_well_formed(page: Path, tmp_path: Path) -> None:
    shellcheck = program("shellcheck")
    assert blocks(page)
    for number, block in enumerate(blocks(page)):
        path = tmp_path / f"{page.stem}-{number}.sh"
        path.write_text(f"#!/bin/bash\n{block}")
        done = subprocess.run([shellcheck, path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_the_scripts_are_well_formed() -> None:
    done = subprocess.run([program("shellcheck"), *SCRIPTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_the_notes_name_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    for name in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (NOTES / name).is_file(), name
    for name in re.findall(r"firmware_notes/[\w.-]+", text):
        assert (ROOT / name.rstrip(".")).is_file(), name
    for name in re.findall(r"`([\w-]+\.(?:conf|sh|service|env))`", text):
        assert (NOTES / name).is_file(), name


def test_the_install_script_installs_files_that_exist() -> None:
    for name in re.findall(
        r"\$here/((?:firmware_notes|requirements)/[\w./-]+)", (NOTES / "install.sh").read_text()
    ):
        assert (ROOT / name).is_file(), name


@pytest.fixture
def system(tmp_path: Path) -> Path:
    """A root with the unit, the system's own units, and something to execute."""
    units = Path("/usr/lib/systemd/system")
    if not (units / "sysinit.target").exists():
        pytest.skip("no systemd units on this machine, so the unit is not verified")
    shutil.copytree(units, tmp_path / "usr/lib/systemd/system", symlinks=True)
    for folder in ("etc/systemd/system", "etc/mango-edge", "opt/mango-edge/bin"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(UNIT, tmp_path / "etc/systemd/system")
    shutil.copy(NOTES / "mango-edge.env", tmp_path / "etc/mango-edge")
    executable = tmp_path / "opt/mango-edge/bin/mango-edge"
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    return tmp_path


def verify(system: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            program("systemd-analyze"),
            "verify",
            "--man=no",
            f"--root={system}",
            "/etc/systemd/system/mango-edge.service",
        ],
        capture_output=True,
        text=True,
        check=False,
    )


def test_systemd_finds_nothing_wrong_with_the_unit(system: Path) -> None:
    done = verify(system)
    assert done.returncode == 0, done.stderr
    assert "mango-edge.service" not in done.stderr


def test_systemd_would_find_what_is_wrong(system: Path) -> None:
    path = system / "etc/systemd/system/mango-edge.service"
    path.write_text(path.read_text().replace("WatchdogSec=60", "WatchdogSec=often\nMemoryMaximum=1"))
    assert "mango-edge.service" in verify(system).stderr


def test_the_stated_exposure_is_the_one_that_systemd_finds() -> None:
    done = subprocess.run(
        [program("systemd-analyze"), "security", "--offline=true", UNIT],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Overall exposure level for mango-edge\.service: ([0-9.]+) (\w+)", done.stdout)
    if found is None:
        pytest.skip(f"this systemd-analyze rates no unit offline: {done.stderr.strip()}")
    stated = re.search(r"\*\*([0-9.]+) (\w+)\*\* \(systemd (\d+)", (NOTES / "README.md").read_text("utf-8"))
    assert stated is not None
    version = subprocess.run(
        [program("systemd-analyze"), "--version"], capture_output=True, text=True, check=True
    )
    if version.stdout.split()[1] == stated.group(3):
        assert found.groups() == stated.groups()[:2]
    else:  # other versions weigh differently; it must be well confined in all of them
        assert float(found.group(1)) < 2.5


def test_the_unit_is_a_watched_restarted_unprivileged_limited_service() -> None:
    settings = re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.MULTILINE)
    for wanted in (
        ("Type", "notify"), ("WatchdogSec", "60"), ("Restart", "always"), ("StartLimitIntervalSec", "0"),
        ("User", "mango-edge"), ("MemoryMax", "320M"), ("NoNewPrivileges", "yes"), ("ProtectSystem", "strict"),
        ("CapabilityBoundingSet", ""), ("DevicePolicy", "closed"),
    ):  # fmt: skip
        assert wanted in settings
