"""Files for deployment say what the command understands, and pass the tools that check them.

``make deploy-check`` installs those tools; without one, only its own check is skipped.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from quicksilver import __version__
from quicksilver.cli.app import make_app
from quicksilver.lab.processes import free_udp_port
from tests.cli.processes import read_event, run, running

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFEST = DEPLOY / "kubernetes" / "quicksilver.yaml"
PROGRAM = "/opt/quicksilver/bin/quicksilver"
VALUES = {
    "%S": "/var/lib",
    "$RECORDER_GROUPS": "prices weather",
    "${RECORDER_LISTEN}": "192.0.2.1:7500",
    "$RECORDER_OPTIONS": "",
    "$GMS_OPTIONS": "--transport unicast",
    "$(POD_IP)": "192.0.2.1",
}
"""What stands for what in the files, as systemd and Kubernetes would put it there."""


def put(text: str) -> str:
    for name, value in VALUES.items():
        text = text.replace(name, value)
    return text


def command_of(unit: Path) -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text("utf-8"), re.MULTILINE)
    program, *arguments = shlex.split(put(line))
    assert program == PROGRAM
    return arguments


def resources() -> list[dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all(MANIFEST.read_text("utf-8")))


def pods() -> dict[str, dict[str, Any]]:
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in resources()
        if "template" in one.get("spec", {})
    }


def check_command(arguments: list[str]) -> None:
    """Parse a command line up to where it would begin."""
    name, *rest = arguments
    command: Any = typer.main.get_command(make_app([name]))
    with command.commands[name].make_context(name, list(rest)):
        pass


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_calls_a_command_that_exists(unit: Path) -> None:
    """Its options, too, and with values that the command takes."""
    check_command(command_of(unit))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_ends_cleanly_and_keeps_its_state_where_it_may(unit: Path) -> None:
    """The exit code after SIGTERM is no failure, and the state is in the unit's own folder."""
    text = unit.read_text("utf-8")
    settings = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    assert settings["SuccessExitStatus"] == str(128 + signal.SIGTERM)
    assert f"%S/{settings['StateDirectory']}" in settings["ExecStart"]
    assert "--listen 0.0.0.0" not in text, "a recorder tells others where it listens"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_takes_a_unit(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # It also looks whether the program is there.
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text("utf-8").replace(PROGRAM, sys.executable), "utf-8")
    outcome = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False, timeout=60
    )
    assert outcome.returncode == 0, outcome.stderr
    assert unit.name not in outcome.stderr


@pytest.mark.integration
def test_the_gms_of_the_unit_runs_and_ends_as_it_says(tmp_path: Path) -> None:
    """With its own options, on free ports and in another folder."""
    arguments = [
        one.replace("/var/lib/quicksilver-gms", str(tmp_path))
        for one in command_of(DEPLOY / "systemd" / "quicksilver-gms.service")
    ]
    arguments[arguments.index("--port") + 1] = "0"
    with running(*arguments, "--multicast-port", str(free_udp_port()), "--json") as process:
        address = read_event(process)["address"].replace("0.0.0.0", "127.0.0.1")
        with running("sub", "prices", "-n", "1", "--json", "--gms", address) as sub:
            assert read_event(sub)["event"] == "ready"
            assert run("pub", "prices", "--gms", address, given="one\n").returncode == 0
            assert read_event(sub)["payload"] == "one"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
        assert process.stderr is not None
        for line in process.stderr.read().splitlines():
            assert json.loads(line)["event"]
    assert (tmp_path / "gms.sqlite").exists()


class TestContainer:
    TEXT = (DEPLOY / "Dockerfile").read_text("utf-8")

    def test_what_it_copies_exists_and_is_not_ignored(self) -> None:
        ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        for line in re.findall(r"^COPY (?!--)(.*) \S+$", self.TEXT, re.MULTILINE):
            for name in line.split():
                assert (ROOT / name).exists()
                assert f"!{name}" in ignored

    def test_it_installs_extras_that_exist_and_runs_the_command(self) -> None:
        import tomllib

        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        (extras,) = re.findall(r'"\$1\[([\w,]+)\]"', self.TEXT)
        assert set(extras.split(",")) <= set(project["optional-dependencies"])
        assert 'ENTRYPOINT ["quicksilver"]' in self.TEXT
        assert "USER 10001" in self.TEXT

    def test_its_linter_has_nothing_to_say(self) -> None:
        program = Path(sys.executable).parent / "hadolint"
        found = str(program) if program.exists() else shutil.which("hadolint")
        if found is None:
            pytest.skip("hadolint is not installed: make deploy-check")
        outcome = subprocess.run(
            [found, "--no-color", DEPLOY / "Dockerfile"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (outcome.returncode, outcome.stdout) == (0, "")


class TestKubernetes:
    def test_every_container_calls_a_command_that_exists(self) -> None:
        for pod in pods().values():
            (container,) = pod["containers"]
            check_command([put(one) for one in container["args"]])
            assert container["image"] == f"quicksilver:{__version__}"

    def test_the_gms_has_nodes_use_unicast_and_is_where_they_look(self) -> None:
        """Few cluster networks have multicast."""
        found = pods()
        gms = found["gms"]["containers"][0]
        assert "--transport=unicast" in gms["args"]
        port = gms["ports"][0]["containerPort"]
        assert f"--port={port}" in gms["args"]
        services = {one["metadata"]["name"]: one for one in resources() if one["kind"] == "Service"}
        service = services["gms"]
        space = service["metadata"]["namespace"]
        # A service with an address of its own would hide where nodes connect from.
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["ports"][0]["port"] == port
        for name in ("recorder", "subscriber"):
            arguments = found[name]["containers"][0]["args"]
            assert f"--gms=gms.{space}.svc.cluster.local:{port}" in arguments

    def test_what_is_kept_is_on_a_volume(self) -> None:
        """The root of the file system is read-only."""
        for name, option in (("gms", "--state="), ("recorder", "--path=")):
            container = pods()[name]["containers"][0]
            (path,) = [one.partition("=")[2] for one in container["args"] if one.startswith(option)]
            assert any(path.startswith(one["mountPath"] + "/") for one in container["volumeMounts"])

    def test_nothing_runs_as_root(self) -> None:
        for pod in pods().values():
            assert pod["securityContext"]["runAsNonRoot"] is True
            security = pod["containers"][0]["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}

    def test_it_fits_the_schemas_of_kubernetes(self) -> None:
        validate = pytest.importorskip(
            "kubernetes_validate", reason="kubernetes-validate is not installed: make deploy-check"
        )
        version = validate.latest_version()
        for one in resources():
            validate.validate(one, version, strict=True)
