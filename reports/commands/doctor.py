"""`doctor`: what this machine can run."""

from __future__ import annotations

from inferproof.reports.commands.common import chosen_language, console, group, print_json, t
from inferproof.reports.commands.options import JsonOption, LangOption

app = group()


@app.command(
    help=t("What this machine can and cannot run, and what to do about it.", "本机能跑什么、不能跑什么、怎么办。")
)
def doctor(as_json: JsonOption = False, lang: LangOption = None) -> None:
    """Examine the machine."""
    from dataclasses import asdict

    from inferproof.runners.doctor import examine

    findings = examine()
    if as_json:
        print_json({"findings": [asdict(f) for f in findings]})
        return
    from inferproof.reports.terminal import doctor_table

    console().print(doctor_table(findings, chosen_language(lang)))
