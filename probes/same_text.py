"""The same words sent again in another form: how much of the prefix is still found.

Question
    A prompt is sent again with one more blank, under another chat template, or with another adapter's key. The words
    are the same; are the tokens, and how far does the cache follow?
Watched
    The engine's own count of cached prompt tokens for each form, sent after the original on an empty cache, beside the
    number of leading token ids that form and original have in common.
Can mislead
    The tokenizer is a byte-level one without merges, of the `tokenizers` library: one token a byte. Real vocabularies
    have merges, and a change can reach a few tokens back; two short chat templates are rendered by `transformers`.
Sources
    transformers `apply_chat_template`; vLLM `v1/core/kv_cache_utils.py`, SGLang `srt/mem_cache/radix_cache.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferproof.probes import vllm_engine
from inferproof.probes.core import Inconclusive, Observations, Request, Run, probe

SYSTEM = "You answer questions about ships. " * 8
QUESTION = "How long is the longest ship of the line?"
_CHATML = "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}\n{% endfor %}"
_INST = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }} {% endfor %}"
_SEEN = {
    "prompt_tokens": "tokens of the original prompt",
    "shared_tokens": "by form: leading token ids that it has in common with the original",
    "cached_tokens": "by form: its tokens that came from the cache when the original had been sent before",
}


def forms() -> Mapping[str, list[int]]:
    """Name of a form -> its token ids."""
    return {
        "same": _render(_CHATML, SYSTEM, QUESTION),
        "blank_in_front": _render(_CHATML, " " + SYSTEM, QUESTION),
        "double_blank": _render(_CHATML, SYSTEM, QUESTION.replace(" long", "  long")),
        "other_question": _render(_CHATML, SYSTEM, "And the shortest?"),
        "other_template": _render(_INST, SYSTEM, QUESTION),
    }


def _render(template: str, system: str, question: str) -> list[int]:
    from tokenizers import Tokenizer, models, pre_tokenizers  # type: ignore[import-not-found,unused-ignore]
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bytewise = Tokenizer(models.BPE({letter: 16 + i for i, letter in enumerate(alphabet)}, []))
    bytewise.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    rendered = PreTrainedTokenizerFast(tokenizer_object=bytewise).apply_chat_template(
        messages, chat_template=template, tokenize=False
    )
    return list(bytewise.encode(rendered).ids)


def leading(first: list[int], second: list[int]) -> int:
    """How many leading ids the two have in common."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _observe(engine: Any) -> Observations:
    written = forms()
    original = Request(written["same"], salt="base")
    asked = {name: Request(ids, salt="base") for name, ids in written.items()}
    asked["other_key"] = Request(written["same"], salt="adapter")
    cached = {}
    for name, form in asked.items():
        engine.flush()
        [cold] = engine.generate([original])
        if cold.cached_tokens:
            raise Inconclusive(f"the cache was not cold: the original hit {cold.cached_tokens} tokens")
        cached[name] = engine.generate([form])[0].cached_tokens
    return {
        "prompt_tokens": len(written["same"]),
        "shared_tokens": {name: leading(written["same"], list(form.prompt)) for name, form in asked.items()},
        "cached_tokens": cached,
    }


@probe(
    engine="vllm",
    levels=("control", "engine"),
    observes=_SEEN,
    config=lambda p: vllm_engine.roomy(p["block_size"]),
    covers=(
        "vllm.v1.core.kv_cache_manager:KVCacheManager.get_computed_blocks",
        "vllm.v1.core.kv_cache_utils:generate_block_hash_extra_keys",
    ),
)
def vllm_forms(run: Run, *, block_size: int = 16) -> Observations:  # noqa: ARG001 - set in the engine's config
    """Send a chat prompt, then each other form of it on the cache that the first one left."""
    return _observe(run.engine)


@probe(
    engine="sglang",
    levels=("engine",),
    observes=_SEEN,
    config=lambda _: {"page_size": 1, "disable_radix_cache": False},
    covers=(
        "sglang.srt.mem_cache.radix_cache:RadixCache.match_prefix",
        "sglang.srt.mem_cache.radix_cache:RadixKey",
    ),
)
def sglang_forms(run: Run) -> Observations:
    """Send a chat prompt, then each other form of it on the cache that the first one left."""
    return _observe(run.engine)
