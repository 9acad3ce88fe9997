"""What this machine can and cannot run, and what to do about it."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from inferproof.runners import environment, paths
from inferproof.runners.builds import Bilingual, load_builds
from inferproof.runners.ledger import Ledger, LedgerError

Status = Literal["ok", "warn", "no"]
GIB = 1 << 30
MEMORY_NEEDED = 8 * GIB
"""Bytes that an engine, its scheduler and the builds' setup take together with room to spare."""
DISK_NEEDED = 8 * GIB
"""Bytes for the default builds (4 GiB) and what pip needs while it installs them."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at: how it stands, in a sentence, and what to do where something is to be done."""

    subject: str
    status: Status
    message: Bilingual
    remedy: Bilingual | None = None


def examine() -> list[Finding]:
    """Look at everything; takes about a second and changes nothing. Raises BuildError for a wrong build list."""
    looks = (_python, _platform, _cores, _memory, _disk, _vectors, _gpu, _compiler, _plots, _index, _ledger)
    return [*(look() for look in looks), *_builds()]


def _finding(subject: str, status: Status, en: str, zh: str, remedy: tuple[str, str] | None = None) -> Finding:
    return Finding(subject, status, Bilingual(en, zh), Bilingual(*remedy) if remedy else None)


def _python() -> Finding:
    from packaging.specifiers import SpecifierSet

    version = platform.python_version()
    wanted = sorted({build.python for build in load_builds().values() if build.wheel})
    if all(SpecifierSet(specifier).contains(version) for specifier in wanted):
        return _finding("python", "ok", f"Python {version}", f"Python {version}")
    return _finding(
        "python", "warn", f"Python {version}; the engines' builds want {', '.join(wanted)}",
        f"Python {version}；各引擎构建需要 {', '.join(wanted)}",
        ("install Python 3.11 so that python3.11 is on PATH; setup finds it there",
         "安装 Python 3.11 并让 python3.11 在 PATH 中，setup 会找到它"),
    )  # fmt: skip


def _platform() -> Finding:
    name = f"{platform.system()} {platform.machine()}"
    if name == "Linux x86_64":
        return _finding("platform", "ok", name, name)
    return _finding(
        "platform", "no", f"{name}: the builds' wheels are for Linux x86_64",
        f"{name}：各构建的 wheel 只适用于 Linux x86_64",
        ("drill, grade and the arithmetic claims work here; run verify on a Linux x86_64 machine or in a container",
         "这里可以 drill、grade 和验证算术类论断；请在 Linux x86_64 机器或容器中运行 verify"),
    )  # fmt: skip


def _cores() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count >= 2:
        return _finding("cores", "ok", f"{count} cores usable", f"可用 {count} 个核")
    return _finding(
        "cores", "warn", "one core: counts stay exact, everything takes longer", "只有一个核：计数仍然精确，但更慢"
    )


def _memory() -> Finding:
    import psutil

    free = psutil.virtual_memory().available
    en, zh = f"{free / GIB:.1f} GiB of memory available", f"可用内存 {free / GIB:.1f} GiB"
    if free >= MEMORY_NEEDED:
        return _finding("memory", "ok", en, zh)
    return _finding(
        "memory", "warn", f"{en}; an engine wants {MEMORY_NEEDED // GIB}", f"{zh}；引擎需要 {MEMORY_NEEDED // GIB} GiB",
        ("close other programs before verify", "运行 verify 前请关闭其他程序"),
    )  # fmt: skip


def _disk() -> Finding:
    try:
        cache = paths.cache_dir()
        free = shutil.disk_usage(cache).free
    except (paths.PathError, OSError) as error:
        return _finding(
            "disk", "no", str(error), str(error),
            ("set INFERPROOF_CACHE to a folder that you can write to", "将 INFERPROOF_CACHE 设为可写的文件夹"),
        )  # fmt: skip
    en, zh = f"{free / GIB:.1f} GiB free in {cache}", f"{cache} 剩余 {free / GIB:.1f} GiB"
    missing = [b for b in load_builds().values() if not b.refusal and environment.ready(b) is None]
    if free >= DISK_NEEDED or not missing:
        return _finding("disk", "ok", en, zh)
    return _finding(
        "disk", "warn", f"{en}; setting up the builds wants {DISK_NEEDED // GIB}",
        f"{zh}；安装各构建需要 {DISK_NEEDED // GIB} GiB",
        ("free some space, or set INFERPROOF_CACHE to another disk", "腾出空间，或将 INFERPROOF_CACHE 设到另一块磁盘"),
    )  # fmt: skip


def _vectors() -> Finding:
    try:
        facts = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        facts = ""
    flags = facts.partition("\nflags")[2].partition("\n")[0].split()
    if "avx512f" in flags:
        return _finding("vectors", "ok", "AVX-512, AVX2", "AVX-512、AVX2")
    if "avx2" in flags:
        return _finding("vectors", "ok", "AVX2, no AVX-512: it runs, slower", "AVX2，无 AVX-512：能运行，但较慢")
    return _finding(
        "vectors", "no", "no AVX2: the engines' CPU kernels do not run here", "没有 AVX2：引擎的 CPU 内核无法在此运行",
        ("run the level 'engine' on another machine", "请在另一台机器上运行 engine 级别"),
    )  # fmt: skip


def _gpu() -> Finding:
    try:
        asked = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=10, check=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        found = "; ".join(asked.stdout.split("\n")).strip("; ")
    except (OSError, subprocess.SubprocessError):
        found = ""
    if found:
        return _finding("gpu", "ok", f"NVIDIA: {found}", f"NVIDIA：{found}")
    return _finding(
        "gpu", "warn", "no NVIDIA GPU: claims of level 'cuda' do not run here; published figures stand behind them",
        "没有 NVIDIA GPU：cuda 级别的论断不会在此运行，其依据是已发表的数据",
    )  # fmt: skip


def _compiler() -> Finding:
    found = next((name for name in ("g++", "clang++") if shutil.which(name)), None)
    if found:
        return _finding("compiler", "ok", f"C++ compiler {found}", f"C++ 编译器 {found}")
    return _finding(
        "compiler", "warn", "no C++ compiler: what engines compile while they run cannot be tried",
        "没有 C++ 编译器：引擎运行时需要编译的部分无法测试", ("install g++", "安装 g++"),
    )  # fmt: skip


def _plots() -> Finding:
    if importlib.util.find_spec("matplotlib"):
        return _finding("plots", "ok", "reports have plots", "报告含图")
    return _finding(
        "plots", "warn", "matplotlib missing: reports come without plots", "缺少 matplotlib：报告没有图",
        ("pip install 'inferproof[plots]'", "pip install 'inferproof[plots]'"),
    )  # fmt: skip


def _index() -> Finding:
    if all(environment.ready(build) for build in load_builds().values() if not build.refusal):
        return _finding("network", "ok", "not needed: all builds are set up", "不需要：各构建均已就绪")
    url = _index_url()
    try:
        import httpx

        httpx.head(url, timeout=4.0, follow_redirects=True)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return _finding(
            "network", "warn", f"pip's package index does not answer ({type(error).__name__})",
            f"pip 的软件包索引没有应答（{type(error).__name__}）",
            ("setup needs an index, or folders of wheels (PIP_FIND_LINKS)",
             "setup 需要软件包索引，或 wheel 文件夹（PIP_FIND_LINKS）"),
        )  # fmt: skip
    return _finding("network", "ok", "pip's package index answers", "pip 的软件包索引有应答")


def _index_url() -> str:
    """The index that pip is set up for."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True, check=False
    )
    return os.environ.get("PIP_INDEX_URL") or asked.stdout.strip() or "https://pypi.org/simple/"


def _ledger() -> Finding:
    try:
        file = paths.ledger_file()
        count = 0
        if file.exists():
            with Ledger(file) as ledger:
                count = ledger.check()
    except (paths.PathError, LedgerError) as error:
        return _finding(
            "ledger", "no", str(error), str(error),
            ("set INFERPROOF_DATA to a folder that you can write to, or move the damaged file away",
             "将 INFERPROOF_DATA 设为可写的文件夹，或移走损坏的文件"),
        )  # fmt: skip
    return _finding("ledger", "ok", f"{count} records, intact, in {file}", f"{count} 条记录，完好，位于 {file}")


def _builds() -> list[Finding]:
    findings = []
    for build in load_builds().values():
        if build.refusal is not None:
            findings.append(_finding(build.name, "no", build.refusal.en, build.refusal.zh))
            continue
        try:
            environment.find(build)
            version = f" ({build.version})" if build.version else ""
            findings.append(_finding(build.name, "ok", f"ready{version}", f"就绪{version}"))
        except environment.NotReady as error:
            command = f"inferproof builds setup {build.name}"
            findings.append(_finding(build.name, "warn", error.why.en, error.why.zh, (command, command)))
        except paths.PathError as error:
            findings.append(_finding(build.name, "no", str(error), str(error)))
    return findings
