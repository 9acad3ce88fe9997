"""What mock interviews, the study plan and statistics say, in English and Chinese; told by `words.say`."""

# ruff: noqa: E501  (a sentence is easier to translate on one line)

from __future__ import annotations

PRACTICE: dict[str, tuple[str, str]] = {
    # a mock interview
    "mock_begin": (
        "Mock interview: {minutes:g} minutes, questions: {questions}. “.” alone skips a question; Ctrl-C goes to the debrief.",
        "模拟面试：{minutes:g} 分钟，{questions} 道题。只输入 . 表示跳过；Ctrl-C 直接进入总结。",
    ),
    "mock_question": ("Question {number} of {of}  ·  {left} left", "第 {number} 题，共 {of} 题  ·  剩余 {left}"),
    "mock_followup": ("Follow-up  ·  {left} left", "追问  ·  剩余 {left}"),
    "mock_status": ("this question {taken}  ·  {left} left", "本题已用 {taken}  ·  剩余 {left}"),
    "mock_took": ("({seconds} for this answer)", "（本次回答用时 {seconds}）"),
    "mock_up": ("Time is up; what you had typed counts.", "时间到，已输入的内容照样算数。"),
    "debrief": ("Debrief", "面试总结"),
    "debrief_score": (
        "{first} / 10 before follow-ups, {last} / 10 with them",
        "追问前 {first} / 10，追问后 {last} / 10",
    ),
    "debrief_time": (
        "{answers} answers, {taken} of {minutes:g} minutes",
        "回答 {answers} 次，用时 {taken}，限时 {minutes:g} 分钟",
    ),
    "question": ("question", "题目"),
    "answered_as": ("asked", "提问"),
    "score_short": ("score", "得分"),
    "with_followups": ("with follow-ups", "追问后"),
    "time": ("time", "用时"),
    "topic": ("topic", "主题"),
    "layer": ("layer", "层次"),
    "answers_covering": ("questions that touch it", "讲到它的题数"),
    "before_followups": ("before follow-ups", "追问前"),
    "of": ("{part} of {whole}", "{part} / {whole}"),
    "to_work_on": ("To work on", "需要补的"),
    "wrong_said": ("Wrong, and taken up", "说错之处"),
    "misconception_instead": (
        "a known misconception; no evidence for it on this machine yet",
        "常见误解；本机尚无相关证据",
    ),
    "followups_open": ("Follow-ups, and what a good answer says", "追问与好答案的要点"),
    "debrief_next": (
        "The model answers: inferproof cards show CARD --answer",
        "参考答案：inferproof cards show CARD --answer",
    ),
    # the study plan
    "due_points": (
        "Due of this question: {points}. Answering these is enough; only they are graded.",
        "本题到期的评分点：{points}。只答这些即可，也只按它们评分。",
    ),
    "due_none": ("Nothing is due today.", "今天没有到期的内容。"),
    "due_next": ("Next: {card} on {day}.", "下一次：{day}，{card}。"),
    "due_new": (
        "`inferproof drill` asks the question you have answered least.",
        "`inferproof drill` 会问你作答最少的一题。",
    ),
    "due_left": ("Still due today: {count}.", "今天还剩 {count} 题到期。"),
    "due_done": ("Nothing more is due today.", "今天到期的都答完了。"),
    # statistics
    "stats_opening": (
        "Answers to whole questions: {attempts}; cards tried: {tried} of {cards}.",
        "完整作答 {attempts} 次；答过 {tried} 张卡，共 {cards} 张。",
    ),
    "due_today": ("Due today (inferproof drill --due)", "今天到期（inferproof drill --due）"),
    "whole_card": ("the whole question", "整题"),
    "scores": ("Scores, oldest first", "得分（由旧到新）"),
    "recall": ("recall", "记忆率"),
    "due": ("due", "到期"),
    "today": ("today", "今天"),
    "strong_points": ("Strong points", "强项"),
    "weak": ("Weak points", "弱项"),
    "rubric_point": ("rubric point", "评分点"),
    "earned": ("earned, oldest first", "得分（由旧到新）"),
    "weeks": ("Week by week", "逐周"),
    "week": ("week of", "周（起始日）"),
    "answers": ("answers", "作答"),
    "mean_score": ("mean score", "平均分"),
    "layers": ("Layers your answers reach", "回答达到的层次"),
    "lately": ("last {count}", "最近 {count} 次"),
    "before_that": ("before that", "更早"),
}
