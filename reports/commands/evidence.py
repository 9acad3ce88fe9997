"""`evidence`: what probes observed on this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inferproof.reports.commands.common import fail, group, open_ledger, print_json, t
from inferproof.reports.commands.files import read_bytes
from inferproof.reports.commands.options import JsonOption

if TYPE_CHECKING:
    from inferproof.runners.evidence import Evidence
    from inferproof.runners.ledger import Ledger

app = group("What probes observed on this machine.", "探针在本机上观测到的证据。")


@app.command("list", help=t("Every record in the ledger, oldest first.", "列出账本中的记录。"))
def list_evidence(as_json: JsonOption = False) -> None:
    """List evidence."""
    from inferproof.reports.as_json import evidence_line

    with open_ledger() as ledger:
        for e in ledger.evidence():
            if as_json:
                typer.echo(json.dumps(evidence_line(e), ensure_ascii=False))
            else:
                typer.echo(f"{e.id[:12]}  {e.started_at[:19]}  {e.task['build']:<16} {e.task['probe']:<28} {e.ended}")


@app.command("show", help=t("One record, whole (an id's first letters are enough).", "显示一条记录（id 前几位即可）。"))
def show_evidence(record: str) -> None:
    """Show one record."""
    with open_ledger() as ledger:
        (found,) = _named_evidence(ledger, record)
    print_json({"id": found.id, **found.body()})


def _named_evidence(ledger: Ledger, prefix: str, *, one: bool = True) -> list[Evidence]:
    """Evidence whose id starts so; a name that is to mean one record means exactly one."""
    found = list(ledger.evidence(prefix))
    if one and len(found) != 1:
        fail(t(f"{len(found)} records start with '{prefix}'", f"以 '{prefix}' 开头的记录有 {len(found)} 条"))
    return found


@app.command("check", help=t("Compare every record with its id.", "逐条核对记录与 id。"))
def check_ledger() -> None:
    """Check the ledger."""
    with open_ledger() as ledger:
        count = ledger.check()
    typer.echo(t(f"{count} records, all match their ids", f"{count} 条记录，全部与 id 相符"))


@app.command(
    "export",
    help=t(
        "Records as in-toto Statements, one JSON line each, for `evidence import` on another machine.\n\n"
        "Examples: inferproof evidence export --out mine.jsonl | inferproof evidence export 3f9a 77c0",
        "把记录导出为 in-toto Statement，每行一个 JSON，供另一台机器 `evidence import`。\n\n"
        "例：inferproof evidence export --out mine.jsonl | inferproof evidence export 3f9a 77c0",
    ),
)
def export_evidence(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...",
            help=t("Their first letters are enough; none: all.", "id 前几位即可；缺省为全部。"),
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help=t("Write to this file.", "写入这个文件。"))] = None,
) -> None:
    """Export evidence."""
    from inferproof.runners.attestation import statement
    from inferproof.runners.paths import write_atomically

    with open_ledger() as ledger:
        found = {e.id: e for prefix in ids or [""] for e in _named_evidence(ledger, prefix, one=bool(ids))}
    lines = (json.dumps(statement(e)) for e in found.values())
    if out is None:
        for line in lines:
            typer.echo(line)
        return
    write_atomically(out, "".join(f"{line}\n" for line in lines))
    typer.echo(t(f"{len(found)} records written to {out}", f"已将 {len(found)} 条记录写入 {out}"))


@app.command(
    "import",
    help=t(
        "Add the records that `evidence export` wrote to a file (- for stdin): all of them, or none if one is wrong.",
        "加入 `evidence export` 导出的记录（- 表示标准输入）：全部加入；有一条不对则一条也不加。",
    ),
)
def import_evidence(file: Path) -> None:
    """Import evidence."""
    from inferproof.runners.attestation import records

    content = sys.stdin.buffer.read() if str(file) == "-" else read_bytes(file)
    bodies = records(content.split(b"\n"), str(file))
    with open_ledger() as ledger:
        added = ledger.import_evidence(bodies)
    known = len(bodies) - added
    typer.echo(t(f"{added} records added, {known} were there already", f"新增 {added} 条记录，{known} 条原已存在"))
