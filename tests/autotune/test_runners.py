"""Machines that ``loopwright runner`` serves: measuring there, keys, and bad clients."""

from __future__ import annotations

import json
import math
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from loopwright.autotune.log.tuning_log import TuningLog
from loopwright.autotune.measure.elsewhere import runners, service, station, wire
from loopwright.autotune.measure.elsewhere.remote import RunnerError
from loopwright.autotune.measure.elsewhere.runners import Runners, connect
from loopwright.autotune.measure.elsewhere.service import Service
from loopwright.autotune.measure.elsewhere.wire import MAGIC, Wire, WireError, read_key, write_key
from loopwright.autotune.measure.kernels import task_of
from loopwright.autotune.protocols import Candidate
from loopwright.autotune.settings import DEFAULT_SETTINGS
from loopwright.cli import main
from loopwright.codegen.target import Target

from tools.evaluate_model import matmul_prim

KEY = b"a key of some bytes, for the tests"
SETTINGS = replace(DEFAULT_SETTINGS, measure_seconds=0.002)


@pytest.fixture
def listening() -> Iterator[Service]:
    served = Service("127.0.0.1", 0, KEY, lambda text: None)
    thread = threading.Thread(target=served.run)
    thread.start()
    yield served
    served.close()
    thread.join()


def test_a_function_is_tuned_on_a_runner(
    listening: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.py").write_text(
        "import loopwright as lw\nimport numpy as np\n"
        "@lw.compile(threads=1)\ndef net(x, w):\n    return np.maximum(x @ w, 0)\n"
        "def net_inputs():\n    return lw.f32[20, 30], lw.f32[30, 25]\n"
    )
    key, log = tmp_path / "key", tmp_path / "log.jsonl"
    key.touch(mode=0o600)
    key.write_bytes(KEY)
    address = f"tcp://127.0.0.1:{listening.port}"
    arguments = ["tune", f"{tmp_path / 'net.py'}:net", "--trials", "6", "--log", str(log)]
    arguments += ["--runner", address]
    assert main([*arguments, "--key-file", str(key)]) == 0
    assert address in capsys.readouterr().out
    assert len([r for r in TuningLog(log).records if not r.raced]) == 6
    assert main(arguments) == 2
    assert "LOOPWRIGHT_RUNNER_KEY" in capsys.readouterr().err


def test_a_lost_connection_is_made_again_and_a_lost_host_ends_tuning(listening: Service) -> None:
    task = task_of(matmul_prim(33, 40, 24), Target.host(), 1)
    rows = task.space.sample(3, np.random.default_rng(0))
    candidates = [Candidate(tuple(task.space.schedule(r).to_json()), "") for r in rows]
    with Runners([f"127.0.0.1:{listening.port}"], KEY) as found:
        (machine,) = found.machines
        assert machine.target == Target.host()
        (host,) = found._hosts.values()
        assert host._wire is not None
        host._wire._socket.shutdown(socket.SHUT_RDWR)
        records = dict(found.measurer(task, machine, SETTINGS, 0).measure(candidates, math.inf))
        assert all(records[n].ok for n, _ in enumerate(candidates))
        listening.close()
        host.close()
        host._port = 1
        with pytest.raises(RunnerError, match="does not answer"):
            for _ in range(9):
                list(found.measurer(task, machine, SETTINGS, 0).measure(candidates, math.inf))


def test_nobody_without_the_key_is_heard(
    listening: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []

    def answered(text: str) -> dict[str, str]:
        heard.append(text)
        return {"answer": station.machine_there()}

    monkeypatch.setattr(service, "_answered", answered)
    monkeypatch.setattr(wire, "HANDSHAKE_SECONDS", 0.5)
    rng = np.random.default_rng(3)
    request = json.dumps({"ask": "machine"})
    for number in range(200):
        connection = socket.create_connection(("127.0.0.1", listening.port), 5)
        with connection, suppress(OSError, WireError):
            if number % 4 == 0:  # anything
                connection.sendall(rng.bytes(int(rng.integers(1, 300))))
            elif number % 4 == 1:  # another key
                Wire(connection, b"another key of some bytes", server=False).send(request, 1)
            elif number % 4 == 2:  # no proof of the key, and a message
                connection.sendall(MAGIC + rng.bytes(32))
                connection.recv(64)
                connection.sendall(rng.bytes(32) + b"\x11\0\0\0" + request.encode())
            elif number % 40 == 3:
                connection.sendall(MAGIC)  # and no more
    assert not heard
    with Runners([f"127.0.0.1:{listening.port}"], KEY) as found:
        assert [machine.target for machine in found.machines] == [Target.host()]
    assert heard == [request]


def test_messages_are_those_that_were_sent() -> None:
    ours, theirs = socket.socketpair()
    made: list[Wire] = []
    thread = threading.Thread(target=lambda: made.append(Wire(theirs, KEY, server=True)))
    thread.start()
    client = Wire(ours, KEY, server=False)
    thread.join()
    (server,) = made
    client.send("once", 1)
    assert server.receive(1) == "once"
    server.send("there", 1)
    assert client.receive(1) == "there"
    client._sent = 0  # as somebody who sends what was sent before
    client.send("once", 1)
    with pytest.raises(WireError, match="not as it was sent"):
        server.receive(1)
    with pytest.raises(WireError, match="too long"):
        client.send("x" * (wire.MOST_MESSAGE + 1), 1)
    for end in (client, server):
        end.close()


def test_what_somebody_with_the_key_sends_is_answered() -> None:
    for text in (
        "",
        "[]",
        '{"ask": "open"}',
        '{"ask": "measure"}',
        '{"ask": "measure", "request": 1}',
    ):
        assert set(service._answered(text)) == {"error"}


def test_keys_are_their_owners(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = tmp_path / "key"
    assert main(["runner", "--new-key", str(key)]) == 0
    assert key.stat().st_mode & 0o777 == 0o600 and len(read_key(key)) == 64
    with pytest.raises(FileExistsError):
        write_key(key)
    assert main(["runner", "--new-key", str(key)]) == 2
    key.chmod(0o640)
    with pytest.raises(RunnerError, match="chmod 600"):
        read_key(key)
    os.truncate(key, 3)
    key.chmod(0o600)
    with pytest.raises(RunnerError, match="16 are the least"):
        connect("tcp://127.0.0.1:1", key)
    with pytest.raises(RunnerError, match="write tcp://host:port"):
        runners.Runners(["nowhere"], KEY)
    assert main(["runner", "--key-file", str(key)]) == 2
    assert "--listen HOST:PORT" in capsys.readouterr().err
