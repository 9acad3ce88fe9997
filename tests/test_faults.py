"""Faults and enemies, the light ones; the heavy ones are in faults.py. See docs/reliability.md."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from small_cards import CARD, EVIDENCE
from test_judge import ANSWER, KEY, Endpoint, asked, endpoint, opinion
from test_worker import engine_task, launch, shelf, start, task
from typer.testing import CliRunner

from inferproof.cli import app
from inferproof.grading import judge as judge_module
from inferproof.grading.grade import grade
from inferproof.grading.judge import ask
from inferproof.questions.deck import DeckError, load_deck, read_card
from inferproof.runners import execute as execute_module
from inferproof.runners import worker as worker_module
from inferproof.runners.builds import BuildError, shipped_builds
from inferproof.runners.execute import execute
from inferproof.runners.ledger import Ledger
from inferproof.runners.memory import Memory
from inferproof.runners.scratch import Scratch
from inferproof.runners.worker import Launch, Worker

__all__ = ["endpoint", "launch", "shelf", "start"]  # fixtures

VERIFY = [sys.executable, "-m", "inferproof.cli", "verify", "--build", "host", "--level", "arithmetic"]


def quiet(event: str, fields: object) -> None:
    """Listen to nothing."""


# --- processes that are killed


def test_a_killed_runner_leaves_no_temporary_folder(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    verify = subprocess.Popen(VERIFY, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert verify.stderr is not None
    while not list(scratch.iterdir()):
        time.sleep(0.005)
    verify.kill()
    verify.wait()
    verify.stderr.close()

    again = subprocess.run(VERIFY, env=environment, capture_output=True, check=False)
    deadline = time.monotonic() + 20
    while list(scratch.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (again.returncode, list(scratch.iterdir())) == (3, [])


def test_only_folders_of_runners_that_are_gone_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "ip-run-gone/socket").mkdir(parents=True)
    (tmp_path / "ip-run-link").symlink_to(tmp_path / "mine")
    (tmp_path / "mine").mkdir()
    one, two = Scratch(), Scratch()

    assert {f.name for f in tmp_path.iterdir()} == {Path(one.name).name, Path(two.name).name, "ip-run-link", "mine"}
    one.remove()
    one.remove()
    assert not Path(one.name).exists() and Path(two.name).exists()
    two.remove()


# --- the clock


def test_a_clock_that_jumps_back_and_forth_loses_nothing_and_newest_stays_the_last_one(
    tmp_path: Path, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, jumps = datetime(2026, 7, 17, tzinfo=UTC), iter([0, 3600, -86400 * 365, 86400 * 9000, -1, 0, 0, 0] * 4)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]  # noqa: ARG003
            return now + timedelta(seconds=next(jumps))

    monkeypatch.setattr(execute_module, "datetime", Clock)
    tasks = [task(number=n) for n in range(3)]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        for _ in range(2):
            list(execute(tasks, ledger, launcher=lambda *_: launch, identities={"test": {}}, logs=tmp_path,
                         rerun=True))  # fmt: skip
        kept = list(ledger.evidence())
        assert len(kept) == len({e.id for e in kept}) == 6 and ledger.check() == 6
        last = {e.key: e for e in kept[3:]}
        assert {t.key: ledger.newest(t.key) for t in tasks} == last


# --- an engine that floods


@pytest.mark.parametrize("mode", ["floods-log", "floods-start"])
def test_an_engine_that_floods_its_log_is_killed(
    start: Callable[[], Worker], launch: Launch, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(worker_module, "MAX_LOG_BYTES", 8 << 20)

    outcome = start().run("r1", engine_task(mode), quiet)

    assert (outcome.ended, "of log" in outcome.reason) == ("died", True)


@pytest.mark.parametrize("how", ["endless-line", "endless-events", "strange-done", "nan-done"])
def test_an_engine_that_floods_or_fakes_the_workers_pipe_is_an_outcome(
    start: Callable[[], Worker], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(worker_module, "MAX_MESSAGE_BYTES", 4 << 20)

    outcome = start().run("r1", task(how, timeout_s=2), quiet)

    assert outcome.ended in ("died", "timed out")


# --- large and fuzzed input


@pytest.mark.parametrize("unit", ["vLLM reuses whole blocks. ", "命中", "(", "\x00", "1 ", "\n", "not "])
def test_an_answer_of_a_megabyte_is_graded_in_seconds(unit: str) -> None:
    answer = unit * ((1 << 20) // len(unit.encode()))
    started = time.process_time()

    assert 0 <= grade(CARD, answer, "en", EVIDENCE).score <= 10
    assert time.process_time() - started < 10


def test_an_answer_of_more_than_a_megabyte_is_refused(tmp_path: Path) -> None:
    (tmp_path / "answer.txt").write_bytes(b"x" * ((1 << 20) + 1))

    done = CliRunner().invoke(app, ["grade", "prefix-cache-ttft", str(tmp_path / "answer.txt")])

    assert (done.exit_code, "larger than 1048576 bytes" in done.output) == (2, True)


LINES = (
    Path(__file__).with_name("conftest.py").read_text().partition('CARD = """\\\n')[2].partition('"""')[0].split("\n")
)
WORDS = st.sampled_from(["null", "[]", "{}", "&a [*a]", "!!binary x", "~", "1e999", "../../etc/passwd", "\ud7ff", "-1"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(
    st.lists(
        st.tuples(st.integers(0, len(LINES) - 1), st.sampled_from("dusw"), WORDS | st.text(max_size=9)), max_size=4
    )
)
@example([(0, "s", "id: ../../x")])
def test_a_card_with_any_lines_dropped_doubled_or_replaced_is_a_card_or_a_deck_error(
    tmp_path: Path, edits: list[tuple[int, str, str]]
) -> None:
    lines = list(LINES)
    for at, how, word in edits:
        head, colon, _ = lines[at].partition(": ")
        lines[at] = {"d": "", "u": f"{lines[at]}\n{lines[at]}", "s": word, "w": f"{head}{colon}{word}"}[how]
    file = tmp_path / "small-card.yaml"
    file.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    try:
        assert read_card(file).id == "small-card"
    except DeckError as error:
        assert all(p.file == str(file) and p.message for p in error.problems)


@given(
    st.text(alphabet=st.characters(), max_size=300)
    | st.binary(max_size=300).map(lambda b: b.decode("utf-8", "replace"))
)
def test_any_answer_is_graded_between_0_and_10(answer: str) -> None:
    for language in ("en", "zh"):
        assert 0 <= grade(CARD, answer, language, EVIDENCE).score <= 10


def test_the_memory_of_cards_holds_a_collection_of_thousands(tmp_path: Path) -> None:
    memory = Memory("test")
    for number in range(3000):
        memory.keep(str(number), number)

    assert memory.recall("0") == 0 and memory.recall("2999") == 2999


# --- bombs and paths


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 40))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOMB, "values once its aliases"),
        ("a: &a [*a]\n", "values once its aliases"),
        ("[" * 100_000, "not valid YAML"),
        ("a: !!int ''\n", "not valid YAML"),
        ("a: !!python/object/apply:os.system [id]\n", "not valid YAML"),
    ],
)
def test_a_bomb_in_a_list_of_builds_does_not_go_off(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "builds.yaml").write_text(text)
    with pytest.raises(BuildError, match=why):
        shipped_builds(tmp_path / "builds.yaml")


@pytest.mark.parametrize("name", ["../../evil", "/etc", ".", "..", "a/b", ".hidden", "a\nb"])
@pytest.mark.parametrize("field", ["name", "lock", "placeholders"])
def test_a_build_cannot_name_a_path(tmp_path: Path, name: str, field: str) -> None:
    build: dict[str, Any] = {
        "engine": "none", "levels": ["arithmetic"], "about": {"en": "x", "zh": "x"}, "python": ">=3.11",
        "lock": name if field == "lock" else None, "placeholders": [name] if field == "placeholders" else [],
    }  # fmt: skip
    (tmp_path / "builds.yaml").write_text(json.dumps({name if field == "name" else "mine": build}))
    with pytest.raises(BuildError, match=f"(?s){field}: .* is not a plain name"):
        shipped_builds(tmp_path / "builds.yaml")


@pytest.mark.parametrize("probe", ["../core.x", "os.system", "core.canonical", "/etc/passwd", "..", "__main__.main"])
def test_a_card_cannot_name_a_file_or_a_function_that_is_no_probe(tmp_path: Path, card_text: str, probe: str) -> None:
    file = tmp_path / "mine/small-card.yaml"
    file.parent.mkdir()
    file.write_text(card_text.replace("prefix_cache.repeat_prompt", f'"{probe}"'), encoding="utf-8")

    done = CliRunner().invoke(app, ["cards", "lint", str(tmp_path)])

    assert (done.exit_code, "claims.vllm-hit.probe" in done.output) == (2, True), done.output


@pytest.mark.parametrize("kind", ["pipe", "device", "dangling", "loop"])
def test_what_is_no_file_among_the_cards_is_said_at_once(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "small-card.yaml"
    if kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to({"device": "/dev/zero", "dangling": "nosuch", "loop": file.name}[kind])
    with pytest.raises(DeckError, match="cannot be read"):
        load_deck([tmp_path], Memory("cards"))


# --- secrets


def test_secrets_in_the_environment_reach_no_file_and_no_screen(tmp_path: Path) -> None:
    names = ["OPENAI_API_KEY", "HF_TOKEN", "INFERPROOF_JUDGE_KEY", "AWS_SECRET_ACCESS_KEY", "HTTPS_PROXY", "LD_AUDIT_X"]
    env = {**os.environ, **dict.fromkeys(names, "http://me:s3cr3t-word@nowhere.invalid"), "TMPDIR": str(tmp_path)}
    said = b""
    tool = VERIFY[:3]
    report = [*tool, "report", "-o", str(tmp_path / "report")]
    for command in (VERIFY, report, [*tool, "evidence", "export"], [*tool, "doctor", "--json"]):
        done = subprocess.run(command, env=env, capture_output=True, timeout=120, check=False)
        said += done.stdout + done.stderr
    files = [f for f in tmp_path.rglob("*") if f.is_file()]

    assert any(f.suffix == ".log" for f in files) and any(f.name == "ledger.sqlite" for f in files)
    assert b"https://in-toto.io/Statement/v1" in said
    assert [f for f in files if b"s3cr3t-word" in f.read_bytes()] == [] and b"s3cr3t-word" not in said


def test_a_worker_gets_no_secret_of_its_runner() -> None:
    from inferproof.runners.builds import find_build
    from inferproof.runners.environment import worker_command

    os.environ["SOME_TOKEN"] = "s3cr3t-word"
    try:
        assert "s3cr3t-word" not in worker_command(find_build("host")).environment.values()
    finally:
        del os.environ["SOME_TOKEN"]


# --- a judge that is an enemy


@pytest.fixture
def raw_endpoint() -> Iterator[Callable[[Callable[[Any], None]], str]]:
    """A server that does what it is told with the raw connection."""
    import socket

    server = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(reply: Callable[[Any], None]) -> str:
        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                try:
                    connection.recv(1 << 16)
                    reply(connection)
                except OSError:
                    pass  # the client went away, as it should

        threads.append(threading.Thread(target=answer))
        threads[-1].start()
        return f"http://127.0.0.1:{server.getsockname()[1]}/v1"

    yield serve
    for thread in threads:
        thread.join(timeout=20)
    server.close()


def _asked_within(url: str, limit_s: float, timeout_s: float = 1.0) -> str:
    started = time.monotonic()
    judged = ask(url, "m", KEY, CARD, ANSWER, {}, timeout_s)
    assert time.monotonic() - started < limit_s and judged.awards == {}
    return judged.failed


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", b"HTTP/1.1 200 OK\r\n"])
def test_a_judge_that_drips_a_byte_now_and_then_is_no_opinion(
    raw_endpoint: Callable[[Callable[[Any], None]], str], head: bytes
) -> None:
    def drip(connection: Any) -> None:
        connection.sendall(head)
        for _ in range(100):
            time.sleep(0.1)
            connection.sendall(b"X")

    assert "no answer within 1 s" in _asked_within(raw_endpoint(drip), 5)


def test_a_judge_that_returns_50_megabytes_is_no_opinion_and_costs_little_memory(
    raw_endpoint: Callable[[Callable[[Any], None]], str],
) -> None:
    def pour(connection: Any) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 52428800\r\n\r\n")
        for _ in range(50):
            connection.sendall(b" " * (1 << 20))

    url, before = raw_endpoint(pour), psutil.Process().memory_info().rss
    assert f"larger than {judge_module.MAX_REPLY_BYTES} bytes" in _asked_within(url, 10, 10)
    assert psutil.Process().memory_info().rss - before < 30 << 20


@pytest.mark.parametrize(
    "content",
    [
        "[" * 100_000,
        opinion().replace('"award": 0', '"award": 1' + "0" * 400, 1),
        opinion().replace('"award": 0', '"award": NaN', 1),
        opinion().replace('"award": 0', '"award": 11', 1),
        opinion().replace("Because.", "\\ud800"),
        opinion()[:-1] + ', "bonus": {"why": "", "award": 1}}',
    ],
    ids=["deep", "huge", "nan", "eleven", "surrogate", "another-point"],
)
def test_a_judge_that_lies_about_the_schema_is_no_opinion(endpoint: Endpoint, content: str) -> None:
    endpoint.says(content)
    assert "does not hold to the schema" in asked(endpoint).failed


@pytest.mark.parametrize("status", [302, 401, 500])
def test_a_judge_that_sends_us_elsewhere_gets_no_key_twice(endpoint: Endpoint, status: int) -> None:
    endpoint.says("", status)
    assert f"status {status}" in asked(endpoint).failed and len(endpoint.headers) == 1


def test_a_judge_that_nests_its_reply_without_end_is_no_opinion(endpoint: Endpoint) -> None:
    endpoint.reply = lambda: (200, b"[" * 500_000)
    assert "not JSON" in asked(endpoint).failed
