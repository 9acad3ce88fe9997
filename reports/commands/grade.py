"""`grade`: answers without a person, and the grader itself against the gold set."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferproof.reports.commands.assessment import evidence_of, graded, show
from inferproof.reports.commands.common import (
    USAGE,
    chosen_language,
    console,
    fail,
    group,
    known,
    open_ledger,
    print_json,
    read_deck,
    t,
)
from inferproof.reports.commands.files import read_bytes, read_text
from inferproof.reports.commands.options import CardsOption, JsonOption, LangOption, RunOption, cards_like

if TYPE_CHECKING:
    from inferproof.grading.judge import Judgement
    from inferproof.questions.card import Card, Language
    from inferproof.runners.ledger import Ledger

app = group()


@app.command(
    help=t(
        "Grade answers without a person.\n\nExamples: inferproof grade prefix-cache-ttft answer.txt --json | "
        'inferproof grade --jsonl answers.jsonl   (a line: {"id", "card", "lang", "answer"}) | '
        "inferproof grade --bench   (the grader itself, measured on the gold set)",
        "无人值守评分。\n\n"
        "例：inferproof grade prefix-cache-ttft answer.txt --json | inferproof grade --jsonl answers.jsonl | "
        "inferproof grade --bench（用标准答案集评测评分器本身）",
    )
)
def grade(
    card: Annotated[str | None, typer.Argument(help=t("Card id.", "题卡 id。"), autocompletion=cards_like)] = None,
    file: Annotated[
        Path | None, typer.Argument(help=t("The answer; - for stdin.", "回答文件；- 表示标准输入。"))
    ] = None,
    jsonl: Annotated[
        Path | None, typer.Option(help=t("Many answers, one JSON object a line.", "多份回答，每行一个 JSON。"))
    ] = None,
    bench: Annotated[
        bool, typer.Option("--bench", help=t("Measure the grader on the gold set.", "在标准答案集上评测评分器。"))
    ] = False,
    part: Annotated[
        str,
        typer.Option(help=t("Part of the gold set: tune, check or all.", "标准答案集的部分：tune、check 或 all。")),
    ] = "check",
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="INFERPROOF_JUDGE_URL",
            help=t(
                "A second opinion: an OpenAI-compatible API (its key from INFERPROOF_JUDGE_KEY).",
                "另请评审模型：OpenAI 兼容接口（密钥取自 INFERPROOF_JUDGE_KEY）。",
            ),
        ),
    ] = None,
    judge_model: Annotated[
        str | None,
        typer.Option(envvar="INFERPROOF_JUDGE_MODEL", help=t("The judge's model.", "评审模型的名字。")),
    ] = None,
    run: RunOption = False,
    as_json: JsonOption = False,
    lang: LangOption = None,
    cards: CardsOption = None,
) -> None:
    """Grade answers."""
    if bench:
        if card or file or jsonl:
            fail(t("--bench takes the place of CARD, FILE and --jsonl", "--bench 不能与 CARD、FILE、--jsonl 同用"))
        _bench(part, as_json, chosen_language(lang))
        return
    from inferproof.grading.answers import language_of

    if judge and judge_model is None:
        fail(t("--judge needs --judge-model NAME", "--judge 需要 --judge-model NAME"))
    ask = partial(_judged, judge, judge_model) if judge and judge_model else None
    deck = read_deck(cards)
    with open_ledger() as ledger:
        if jsonl is not None:
            if card or file:
                fail(t("--jsonl takes the place of CARD and FILE", "--jsonl 不能与 CARD、FILE 同用"))
            _grade_lines(jsonl, deck, ledger, ask, run=run)
            return
        if card is None or file is None:
            fail(t("expected CARD and FILE, or --jsonl FILE", "需要 CARD 和 FILE，或 --jsonl FILE"))
        text = read_text(file)
        language = chosen_language(lang) if lang else language_of(text)
        one = deck[known(card, deck)]
        result = graded(one, text, language, ledger, run=run)
    judged = ask(one, text) if ask else None
    if as_json:
        from inferproof.reports.as_json import grade_json
        from inferproof.reports.judge_view import judge_json

        print_json(grade_json(result) | ({"judge": judge_json(one, judged, result)} if judged else {}))
        return
    show(one, result, language)
    if judged:
        from inferproof.reports.judge_view import judge_view

        typer.echo(judge_view(one, judged, result, language))


def _judged(url: str, model: str, card: Card, answer: str) -> Judgement:
    """The judge's opinion of an answer that was just graded, on the same evidence."""
    from inferproof.grading.judge import ask

    return ask(url, model, os.environ.get("INFERPROOF_JUDGE_KEY"), card, answer, evidence_of[card.id])


def _bench(part: str, as_json: bool, language: Language) -> None:
    """Measure the grader, against the evidence that this machine has."""
    from dataclasses import asdict

    from inferproof.grading.bench import run
    from inferproof.grading.gold import PARTS, read_gold
    from inferproof.grading.verify import evidence_by_claim

    if part not in (*PARTS, "all"):
        fail(f"--part is '{part}', expected tune, check or all")
    deck, answers = read_deck(), read_gold()
    with open_ledger() as ledger:
        evidence = {card: evidence_by_claim(deck[card], ledger) for card in sorted({a.card for a in answers})}
    result = run(deck, answers, evidence, part)
    if as_json:
        print_json(asdict(result))
        return
    from inferproof.reports.bench_view import bench_view

    console().print(bench_view(result, language))


def _grade_lines(
    file: Path, deck: Mapping[str, Card], ledger: Ledger, ask: Callable[[Card, str], Judgement] | None, *, run: bool
) -> None:
    """Grade a file of JSON lines. A bad line stops nothing: it is reported, and the exit status says so."""
    from inferproof.grading.answers import answer_of
    from inferproof.reports.as_json import grade_line
    from inferproof.reports.judge_view import judge_json

    bad = 0
    lines = sys.stdin.buffer.read().split(b"\n") if str(file) == "-" else read_bytes(file).split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            answer = answer_of(line, deck)
        except ValueError as error:
            bad += 1
            typer.echo(f"error: {file}:{number}: {error}", err=True)
            continue
        card = deck[answer.card]
        result = graded(card, answer.text, answer.language, ledger, run=run)
        judged = {"judge": judge_json(card, ask(card, answer.text), result)} if ask else {}
        typer.echo(json.dumps(grade_line(answer.id, result) | judged, ensure_ascii=False))
    if bad:
        raise typer.Exit(USAGE)
