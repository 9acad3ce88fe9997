"""SGLang's two event loops: what each of them does in an iteration, and that both obey the order of the tokens.

Question
    The overlapping loop launches a step before the last step's token is known. Does a token still depend on the one
    before it, and where do the loops differ?
Watched
    The statements of `event_loop_normal` and `event_loop_overlap`, in order. On a running engine with either loop, its
    greedy tokens: each is compared with what a fresh prefill of everything before it gives, and then one token is
    replaced by another, to see whether what comes next changes.
Can mislead
    The reference is the engine's own prefill with the prefix cache in use, so an error common to both would not show.
    The small model computes in float32; with bfloat16 a near tie may fall either way between prefill and decode.
    A random model's next token need not depend on the last one at every position: hence the count over many.
Sources
    SGLang 0.5.15.post1 and 0.5.16: `srt/managers/scheduler.py` (`event_loop_normal`, `event_loop_overlap`,
    `is_disable_overlap_for_batch`, `dispatch_event_loop`).
"""

from __future__ import annotations

from inferproof.probes import overlap as overlap_probes
from inferproof.probes.core import Inconclusive, Observations, Request, Run, probe, random_tokens
from inferproof.probes.engine_source import in_order, lines_with, statements

_SCHEDULER = "srt/managers/scheduler.py"


@probe(
    engine="sglang",
    levels=("source",),
    observes={
        "normal_order": "whether the normal loop launches a batch and then processes its result",
        "normal_queue": "statements of the normal loop that use a result queue",
        "queued": "statements of the overlapping loop that put a launched batch, copied, and its result into the queue",
        "taken": "statements that take the oldest of them out and process it",
        "last_after_launch": "whether that loop launches the new batch before it processes the last one",
        "processed_first": "conditions under which it processes the last batch before it launches the new one",
        "exceptions": "statements that say for which batches that is so",
        "samples_late": "whether delayed sampling of the new batch stands behind the processing of the last one",
        "chosen": "conditions on which a scheduler enters the overlapping loop",
    },
    covers=(
        "sglang.srt.managers.scheduler:Scheduler.event_loop_normal",
        "sglang.srt.managers.scheduler:Scheduler.event_loop_overlap",
        "sglang.srt.managers.scheduler:Scheduler.is_disable_overlap_for_batch",
        "sglang.srt.managers.scheduler:dispatch_event_loop",
    ),
)
def sglang_source_trace(run: Run) -> Observations:
    """Read the two loops side by side: when a batch is launched, and when its result is processed."""
    normal = statements(run, _SCHEDULER, "Scheduler.event_loop_normal")
    ahead = statements(run, _SCHEDULER, "Scheduler.event_loop_overlap")
    exceptions = statements(run, _SCHEDULER, "Scheduler.is_disable_overlap_for_batch")
    chosen = statements(run, _SCHEDULER, "dispatch_event_loop")
    loop = [s for s in ahead if s.line > next(s.line for s in ahead if s.code.startswith("while True"))]
    return {
        "normal_order": in_order(
            normal, "= self.run_batch(batch)", "self.process_batch_result(batch, result)", "self.last_batch = batch"
        ),
        "normal_queue": lines_with(normal, "result_queue"),
        "queued": lines_with(ahead, "self.result_queue.append((batch.copy(), batch_result))"),
        "taken": lines_with(ahead, "self.result_queue.popleft()"),
        "last_after_launch": in_order(
            loop,
            "= self.run_batch(batch)",
            "self.result_queue.append(",
            "if self.last_batch:",
            "self.last_batch = batch",
        ),
        "processed_first": lines_with(loop, "if disable_overlap_for_batch:"),
        "exceptions": lines_with(exceptions, "= ", " and ", "batch"),
        "samples_late": in_order(loop, "if self.last_batch:", "self.launch_batch_sample_if_needed("),
        "chosen": lines_with(chosen, "scheduler.enable_overlap:"),
    }


@probe(
    engine="sglang",
    levels=("engine",),
    observes={
        "overlap": "whether the engine runs its overlapping loop",
        "output_tokens": "greedy tokens of the request",
        "distinct_tokens": "how many different ones there are among them",
        "as_prefilled": "of these, tokens equal to the one that a prefill of the prompt and all tokens before gives",
        "again": "whether a second run of the same request gave the same tokens",
        "replaced": "positions at which the last token was replaced by another",
        "changed": "of these, positions at which the next token was then another one",
    },
    config=overlap_probes.sglang_config,
    covers=("sglang.srt.managers.scheduler:Scheduler.event_loop_overlap",),
)
def sglang_token_chain(
    run: Run,
    *,
    overlap: bool = True,  # noqa: ARG001 - set in the engine's config
    prompt_tokens: int = 100,
    max_tokens: int = 16,
) -> Observations:
    """Decode greedily, then ask for each token again from all that stands before it."""
    prompt = random_tokens(prompt_tokens, seed=81)
    first, second = (run.engine.generate([Request(prompt, max_tokens)])[0].tokens for _ in range(2))
    if len(first) < max_tokens:
        raise Inconclusive(f"the request ended after {len(first)} of {max_tokens} tokens")

    def following(before: list[int]) -> int:
        return int(run.engine.generate([Request(before)])[0].tokens[0])

    asked = [following([*prompt, *first[:i]]) for i in range(max_tokens)]
    other = [following([*prompt, *first[: i - 1], first[i - 1] ^ 1]) for i in range(1, max_tokens)]
    run.samples.update(tokens=list(first), asked=asked, after_replacement=other)
    return {
        "overlap": not run.engine.flags["disable_overlap_schedule"],
        "output_tokens": len(first),
        "distinct_tokens": len(set(first)),
        "as_prefilled": sum(a == b for a, b in zip(first, asked, strict=True)),
        "again": first == second,
        "replaced": len(other),
        "changed": sum(a != b for a, b in zip(first[1:], other, strict=True)),
    }
