"""What an engine's own files put between a step in flight and whoever would overwrite or free what it uses.

Question
    Before the next step reuses a buffer, a batch's tensors or a KV block, what does the code wait for; and by
    what is a result matched to its request when it comes back?
Watched
    Statements in the engine's files, in order, as `file:line code`; nothing is run: streams and events need a GPU.
Can mislead
    A fence that stands in the code is not yet one that suffices: only a race detector or a trace on a GPU shows that.
Sources
    vLLM 0.25.1, 0.26.0, 0.27.1: `v1/worker/gpu_model_runner.py`, `v1/core/sched/scheduler.py`.
    SGLang 0.5.15.post1, 0.5.16: `srt/managers/scheduler.py`, `scheduler_components/batch_result_processor.py`,
    `speculative/ngram_worker.py`, `speculative/eagle_utils.py`, `mem_cache/common.py`.
"""

from __future__ import annotations

from inferproof.probes.core import Observations, Run, probe
from inferproof.probes.engine_source import in_order, lines_with, statements

_RUNNER, _SCHEDULER = "v1/worker/gpu_model_runner.py", "v1/core/sched/scheduler.py"


@probe(
    engine="vllm",
    levels=("source",),
    observes={
        "walks_plan": "loops in update_from_output over the plan's own num_scheduled_tokens",
        "by_request_id": "where update_from_output finds request and result row by the request's id",
        "drops_dead": "conditions in update_from_output under which a result is left out because its request is gone",
        "input_fence": "statements of synchronize_input_prep that wait for an event or record it",
        "input_fence_in_order": "whether it waits, hands over, and then records",
        "fenced_steps": "where execute_model prepares its inputs inside that fence",
        "output_fence": "statements of the asynchronous output that order the copy to the host behind the step",
        "output_waits": "statements of get_output that wait for the copy",
        "deferred_free": "statements that make block freeing wait for steps in flight, with their conditions",
    },
    covers=(
        "vllm.v1.core.sched.scheduler:Scheduler.update_from_output",
        "vllm.v1.worker.gpu_model_runner:GPUModelRunner.synchronize_input_prep",
        "vllm.v1.worker.gpu_model_runner:AsyncGPUModelRunnerOutput",
    ),
)
def vllm_source_trace(run: Run) -> Observations:
    """Read what vLLM waits for before it reuses an input buffer, and how it matches a late result."""
    commit = statements(run, _SCHEDULER, "Scheduler.update_from_output")
    fence = statements(run, _RUNNER, "GPUModelRunner.synchronize_input_prep")
    step = statements(run, _RUNNER, "GPUModelRunner.execute_model")
    copy = statements(run, _RUNNER, "AsyncGPUModelRunnerOutput.__init__")
    fetch = statements(run, _RUNNER, "AsyncGPUModelRunnerOutput.get_output")
    setup = statements(run, _SCHEDULER, "Scheduler.__init__")
    return {
        "walks_plan": lines_with(commit, "for req_id", "num_scheduled_tokens.items()"),
        "by_request_id": [
            *lines_with(commit, "request = self.requests.get(req_id)"),
            *lines_with(commit, "req_index = model_runner_output.req_id_to_index[req_id]"),
        ],
        "drops_dead": lines_with(commit, "if request is None or request.is_finished()"),
        "input_fence": lines_with(fence, "prepare_inputs_event.synchronize()")[-1:]
        + lines_with(fence, "prepare_inputs_event.record()")[-1:],
        "input_fence_in_order": in_order(
            fence, "self.prepare_inputs_event.synchronize()", "self.prepare_inputs_event.rec"
        ),
        "fenced_steps": lines_with(step, "with ", "self.synchronize_input_prep()"),
        "output_fence": lines_with(copy, ".wait_stream(") + lines_with(copy, "async_copy_ready_event.record()"),
        "output_waits": lines_with(fetch, "async_copy_ready_event.synchronize()"),
        "deferred_free": lines_with(setup, "if multiple_inflight_batches")
        + lines_with(setup, "self.defer_block_free = True"),
    }


_SRT_SCHEDULER = "srt/managers/scheduler.py"
_RESULTS, _RESULT_CLASS = (
    "srt/managers/scheduler_components/batch_result_processor.py",
    "SchedulerBatchResultProcessor",
)


@probe(
    engine="sglang",
    levels=("source",),
    observes={
        "barrier": "statements of _apply_war_barrier that make the schedule stream wait for the forward's reads",
        "barrier_called": "where the overlapping loop calls it",
        "barrier_switch": "what it is switched on by",
        "launch_waits": "statements of run_batch that make the forward stream wait for the schedule stream",
        "pinned_batches": "where the last batches are kept alive, with how many",
        "commit_waits": "statements of process_batch_result_decode that wait for the copy to the host",
        "waits_before_output": "whether that stands before the output tokens are extended",
        "drops_finished": "conditions under which a decode result is left out because its request has finished",
        "plan_reserves": "where speculative decoding sets, when a step is prepared, how far KV is allocated",
        "commit_advances": "where it advances the committed KV length, when accepted tokens are taken in",
        "release_range": "statements of the release that free what was allocated beyond the committed length",
        "splices_uncommitted": "where the n-gram worker decides to add the last step's tokens itself",
    },
    covers=(
        "sglang.srt.managers.scheduler:Scheduler._apply_war_barrier",
        "sglang.srt.managers.scheduler:Scheduler.event_loop_overlap",
        "sglang.srt.managers.scheduler:Scheduler.record_batch_in_overlap",
        "sglang.srt.mem_cache.common:release_kv_cache",
        "sglang.srt.speculative.ngram_worker:NGRAMWorker._prepare_draft_tokens",
    ),
)
def sglang_source_trace(run: Run) -> Observations:
    """Read what SGLang's overlapping loop waits for, and where KV is allocated, committed and released."""
    barrier = statements(run, _SRT_SCHEDULER, "Scheduler._apply_war_barrier")
    loop = statements(run, _SRT_SCHEDULER, "Scheduler.event_loop_overlap")
    scheduler = statements(run, _SRT_SCHEDULER, "Scheduler")
    launch = statements(run, _SRT_SCHEDULER, "Scheduler.run_batch")
    decode = statements(run, _RESULTS, _RESULT_CLASS + ".process_batch_result_decode")
    results = statements(run, _RESULTS, _RESULT_CLASS)
    prepare = statements(run, "srt/speculative/eagle_utils.py", "eagle_prepare_for_decode")
    release = statements(run, "srt/mem_cache/common.py", "release_kv_cache")
    ngram = statements(run, "srt/speculative/ngram_worker.py", "NGRAMWorker._prepare_draft_tokens")
    return {
        "barrier": lines_with(barrier, "self.schedule_stream.wait_"),
        "barrier_called": lines_with(loop, "self._apply_war_barrier()"),
        "barrier_switch": lines_with(scheduler, "self._war_barrier_enabled ="),
        "launch_waits": lines_with(launch, "self.forward_stream.wait_stream(self.schedule_stream)"),
        "pinned_batches": lines_with(scheduler, "self.batch_record_buf =", "[None] *"),
        "commit_waits": lines_with(decode, "result.copy_done.synchronize()"),
        "waits_before_output": in_order(decode, "result.copy_done.synchronize()", "req.output_ids.extend("),
        "drops_finished": lines_with(decode, "if (self.enable_overlap", "req.finished()"),
        "plan_reserves": lines_with(prepare, "nxt = max(cur", "kv_committed_len"),
        "commit_advances": lines_with(results, "req.kv_committed_len += num_accept_tokens"),
        "release_range": lines_with(release, "start_p, end_p ="),
        "splices_uncommitted": lines_with(ngram, "use_prev_tokens = self.enable_overlap"),
    }
