"""`drill`: one question, or what a mode of it asks."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from inferproof.reports.commands.answers import answers, take_answer
from inferproof.reports.commands.common import (
    chosen_language,
    fail,
    group,
    known,
    open_ledger,
    read_deck,
    t,
    tell,
)
from inferproof.reports.commands.options import CardsOption, JsonOption, LangOption, RunOption, cards_like

if TYPE_CHECKING:
    from inferproof.questions.card import Language
    from inferproof.questions.headings import Heading

app = group()


@app.command(
    help=t(
        "Ask a question, take an answer of many lines, grade it against the rubric and the evidence. A design question "
        "is asked step by step; piped, a line answers a step.\n\n"
        "Examples: inferproof drill | inferproof drill prefix-cache-ttft --lang zh | "
        "inferproof drill design-rag-cluster | inferproof drill beam-search-kv --answer mine.txt | "
        "inferproof drill --due | inferproof drill --mode mock --minutes 30\n\n"
        "Modes: --mode predict draws workloads and asks what the real engine will do with them, then runs it: "
        "inferproof drill --mode predict --engine vllm --questions 5 --seed 7. --mode diagnose shows a recorded run; "
        "you name the bottleneck and the next evidence.\n\n"
        "Where several questions are asked, answers from a pipe or a file are divided by lines that hold only a dot.",
        "出一道题，接受多行回答，按评分点和证据打分。系统设计题逐步提问；从管道输入时一行答一步。\n\n"
        "例：inferproof drill | inferproof drill prefix-cache-ttft --lang zh | inferproof drill design-rag-cluster | "
        "inferproof drill --due | inferproof drill --mode mock --minutes 30\n\n"
        "模式：--mode predict 随机给出负载，先由你预测真实引擎会怎么做，再实际运行："
        "inferproof drill --mode predict --engine vllm --questions 5 --seed 7。--mode diagnose 给出一次真实运行的记录，"
        "问瓶颈和下一步证据。\n\n"
        "一次问多题时，来自管道或文件的各份回答之间用单独一行 . 隔开。",
    )
)
def drill(
    card: Annotated[
        str | None,
        typer.Argument(
            help=t("Card id; none: the one you answered least.", "题卡 id；缺省为作答最少的一张。"),
            autocompletion=cards_like,
        ),
    ] = None,
    lang: LangOption = None,
    answer: Annotated[Path | None, typer.Option(help=t("Read the answer from a file.", "从文件读取回答。"))] = None,
    editor: Annotated[
        bool, typer.Option("--editor", "-e", help=t("Write the answer in $EDITOR.", "用 $EDITOR 作答。"))
    ] = False,
    run: RunOption = False,
    mode: Annotated[
        Literal["drill", "mock", "predict", "diagnose"],
        typer.Option(
            help=t(
                "drill: one question. mock: an interview with follow-ups, a time limit and a debrief. "
                "predict: what will the engine do? diagnose: name the bottleneck of a recorded run.",
                "drill：一道题。mock：限时模拟面试，有追问和总结。predict：预测引擎会怎么做。diagnose：指出一次记录的瓶颈。",
            )
        ),
    ] = "drill",
    due: Annotated[
        bool, typer.Option("--due", help=t("Ask what is due today, one after another.", "依次问今天到期的内容。"))
    ] = False,
    minutes: Annotated[
        float, typer.Option(min=0.01, help=t("Length of a mock interview.", "模拟面试的时长（分钟）。"))
    ] = 30,
    questions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=t(
                "At most so many (mock: one per 10 minutes; predict: no end).",
                "最多几题（mock 默认每 10 分钟一题，predict 默认不限）。",
            ),
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help=t("The same questions (or case) again.", "同一种子出同样的题（或案例）。"))
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help=t("Ask about vllm or sglang only.", "只问 vllm 或 sglang。")),
    ] = None,
    as_json: JsonOption = False,
    cards: CardsOption = None,
) -> None:
    """Drill one question, what is due, a whole interview, predictions or a diagnosis."""
    language = chosen_language(lang)
    if mode in ("predict", "diagnose"):
        from inferproof.reports.commands.exercises import diagnose, predict

        if card or due:
            fail(t(f"--mode {mode} takes no CARD and no --due", f"--mode {mode} 不接受 CARD 和 --due"))
        if mode == "predict":
            predict(questions, seed, engine, as_json, language)
        else:
            diagnose(seed, engine, answer, editor, as_json, language)
        return
    from inferproof.questions.headings import headings
    from inferproof.runners.paths import cache_dir

    if due and mode != "drill":
        fail(t(f"--due asks single questions; leave out --mode {mode}", f"--due 逐题复习，不能与 --mode {mode} 同用"))
    asked = headings(cache_dir() / "headings.json", cards or [])
    if mode == "mock" or due:
        from inferproof.reports.commands.sittings import ask_due, hold_mock, new_desk

        among = {card: asked[known(card, asked)]} if card else asked
        desk = new_desk(answers(answer, editor, language), language, cards, quiet=as_json)
        if mode == "mock":
            hold_mock(desk, among, minutes, questions, as_json)
        ask_due(desk, among, questions, as_json)
    heading = asked[known(card, asked) if card else _answered_least(asked)]
    _ask(heading, answer, editor, language, cards, run=run, as_json=as_json)


def _ask(
    heading: Heading,
    file: Path | None,
    editor: bool,
    language: Language,
    cards: list[Path] | None,
    *,
    run: bool,
    as_json: bool,
) -> None:
    """Put one question, and grade and keep its answer."""
    from inferproof.runners.paths import data_dir

    steps = [f"{i}. {prompt[language]}" for i, prompt in enumerate(heading.prompts, 1)]
    typed = file is None and sys.stdin.isatty()
    if not as_json:
        tell(f"{heading.title[language]}  [{heading.id}]\n\n{heading.question[language]}\n")
        if steps and (editor or not typed):
            tell("\n".join(steps) + "\n")
    draft = data_dir() / "drafts" / f"{heading.id}.txt"
    text = take_answer(file, editor, language, draft, steps)
    from inferproof.grading.attempts import keep
    from inferproof.reports.commands.assessment import graded, show

    card = read_deck(cards)[heading.id]
    with open_ledger() as ledger:
        grade = graded(card, text, language, ledger, run=run)
        keep(ledger, heading.id, text, grade)
    if typed:
        draft.unlink(missing_ok=True)
    show(card, grade, language, as_json=as_json)


def _answered_least(asked: Iterable[str]) -> str:
    with open_ledger() as ledger:
        counts = ledger.counts("attempt")
    return min(asked, key=lambda card: counts.get(card, 0))
