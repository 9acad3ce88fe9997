"""A drill in predictions at the terminal or through pipes: ask, take a number, run the engine, show what it did."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, Any, TextIO

from inferproof.grading.predict import HALF, Scored, keep, read, score, task_of
from inferproof.grading.workload import Language, Question, questions, shown
from inferproof.reports.wrap import folded

if TYPE_CHECKING:
    from inferproof.runners.evidence import Evidence, Task
    from inferproof.runners.warm import WarmWorkers

_WORDS = {
    "en": {
        "session": "Predict, then the real engine runs. Session {seed}: --seed {seed} asks the same again. "
        "Empty line: pass. Ctrl-D: stop.",
        "question": "Question {number}, {engine}",
        "credit_rule": "({exact}: 1{near})",
        "exact": "exact",
        "decimals": "to {decimals} decimals",
        "near": "; within {within}, neither being 0: {half}",
        "again": "one number, please; an empty line passes",
        "running": "the real {engine} runs ({build}, level {level})",
        "observed": "Observed: {observed}. You predicted {predicted}: credit {credit}.",
        "passed": "Observed: {observed}. You passed: credit 0.",
        "void": "No answer, and no credit lost: the run of this workload ended “{ended}”.",
        "source": "{build}, level {level}, {seconds} s: inferproof evidence show {evidence}",
        "total": "{credit} of {of} for {count} answered. Session {seed}.",
    },
    "zh": {
        "session": "先预测，再由真实引擎作答。本次种子 {seed}：用 --seed {seed} 可重复同样的题。"
        "空行：跳过。Ctrl-D：结束。",
        "question": "第 {number} 题，{engine}",
        "credit_rule": "（{exact}：1{near}）",
        "exact": "完全正确",
        "decimals": "准到小数点后 {decimals} 位",
        "near": "；相差不超过 {within} 且都不为 0：{half}",
        "again": "请给一个数字；空行表示跳过",
        "running": "真实的 {engine} 正在运行（{build}，层级 {level}）",
        "observed": "实测：{observed}。你的预测：{predicted}。得分 {credit}。",
        "passed": "实测：{observed}。你跳过了：得分 0。",
        "void": "没有结果，也不扣分：这个负载的运行以“{ended}”结束。",
        "source": "{build}，层级 {level}，{seconds} 秒：inferproof evidence show {evidence}",
        "total": "答了 {count} 题，得 {credit} / {of} 分。种子 {seed}。",
    },
}
_NAMES = {"vllm": "vLLM", "sglang": "SGLang"}


class Drill:
    """One session. What was scored stays in `scored` however it ends."""

    def __init__(self, seed: int, engines: Sequence[str], count: int | None, language: Language, out: TextIO) -> None:
        self.seed, self.language, self.out = seed, language, out
        self.scored: list[Scored] = []
        self._asked = islice(questions(seed, engines), count)

    def hold(self) -> None:
        """Ask until the count is reached or the input ends. The first question stands before anything slow begins."""
        self._print(self._say("session", seed=self.seed))
        first = next(self._asked)
        self._print(question_text(first, self.language))
        from inferproof.runners.ledger import Ledger
        from inferproof.runners.paths import ledger_file
        from inferproof.runners.site import this_site
        from inferproof.runners.warm import WarmWorkers

        site = this_site()
        with Ledger(ledger_file()) as ledger, WarmWorkers(site, ledger) as workers:
            for question, following in pairwise(chain([first], self._asked, [None])):
                assert question is not None
                if question is not first:
                    self._print(question_text(question, self.language))
                task = task_of(question, site, self.language)
                workers.prepare(task)
                if following and following.engine != question.engine:  # another worker: it can start meanwhile
                    workers.prepare(task_of(following, site, self.language))
                if (line := self._take()) is None:
                    break
                evidence = self._run(question, task, workers)
                one = score(question, read(line), evidence, self.language)
                keep(ledger, question, self.seed, one)
                self.scored.append(one)
                self._print(result_text(one, evidence, self.language))
            self._print(self._total())

    def _take(self) -> str | None:
        """A line of the person's, None at the end of input. At a terminal only an empty line passes for no number."""
        if not sys.stdin.isatty():
            line = sys.stdin.buffer.readline()
            return line.decode("utf-8", "replace") if line else None
        while True:
            print("> ", end="", file=self.out, flush=True)
            try:
                line = input()
            except EOFError:
                print(file=self.out)
                return None
            if not line.strip() or read(line) is not None:
                return line
            self._print(self._say("again"))

    def _run(self, question: Question, task: Task, workers: WarmWorkers) -> Evidence:
        from rich.console import Console

        engine = _NAMES[question.engine]
        with Console(stderr=True).status(self._say("running", engine=engine, build=task.build, level=task.level)):
            return workers.run(task)

    def _total(self) -> str:
        counted = [one.credit for one in self.scored if one.credit is not None]
        of, credit = len(counted), shown(float(sum(counted)), self.language)
        return self._say("total", credit=credit, of=of, count=len(self.scored), seed=self.seed)

    def _say(self, key: str, **values: Any) -> str:
        return folded(_say(self.language, key, **values))

    def _print(self, text: str) -> None:
        print(text, end="\n\n", file=self.out, flush=True)


def _say(language: Language, key: str, **values: Any) -> str:
    return _WORDS[language][key].format(**values)


def question_text(question: Question, language: Language) -> str:
    """The workload, what is asked, and what earns how much."""
    within = shown(question.tolerance, language) if question.tolerance else f"{question.ask.share:.0%}"
    near = _say(language, "near", within=within, half=HALF) if question.tolerance or question.ask.share else ""
    head = _say(language, "question", number=question.number, engine=_NAMES[question.engine])
    exact = _say(language, "decimals" if question.ask.decimals else "exact", decimals=question.ask.decimals)
    asks = f"{question.asks(language)} {_say(language, 'credit_rule', exact=exact, near=near)}"
    return "\n".join([head, *(folded(said, 2) for said in question.workload(language)), folded(asks)])


def result_text(one: Scored, evidence: Evidence, language: Language) -> str:
    """What was observed, the credit, how it came about, and where it stands recorded."""
    values = {name: shown(getattr(one, name), language) for name in ("observed", "predicted", "credit")}
    key = "void" if one.observed is None else "passed" if one.predicted is None else "observed"
    source = _say(
        language,
        "source",
        build=one.workload["build"],
        level=one.workload["level"],
        seconds=f"{evidence.seconds:.2f}",
        evidence=one.evidence[:10],
    )
    head = _say(language, key, ended=evidence.ended, **values)
    return "\n".join([folded(head), *(folded(said, 2) for said in one.why), folded(source, 2)])


def predictions_json(scored: Sequence[Scored]) -> dict[str, Any]:
    """The session as JSON values."""
    return {"questions": [asdict(one) for one in scored]}
