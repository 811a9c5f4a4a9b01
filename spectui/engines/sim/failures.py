"""How SGLang fails: lines as recorded, at the place in the start where they came, and how the process ends."""

from __future__ import annotations

from spectui.engines.sim.arguments import Launch

CHILD_FAILED = "Received sigquit from a child process. It usually means the child failed."

_SITE = "/opt/site/sglang"


def argument_error(kind: str, message: str) -> str:
    """The traceback of a refused combination of arguments; exit code 1."""
    return (
        "Traceback (most recent call last):\n"
        '  File "<frozen runpy>", line 198, in _run_module_as_main\n'
        f'  File "{_SITE}/launch_server.py", line 67, in <module>\n'
        "    server_args = prepare_server_args(sys.argv[1:])\n"
        f'  File "{_SITE}/srt/server_args.py", line 2772, in __post_init__\n'
        "    handle_speculative_decoding(self)\n"
        f"{kind}: {message}"
        if message
        else f"Traceback (most recent call last):\n{kind}"
    )


def draft_not_found(path: object) -> str:
    """A draft folder that does not exist, as the config loader says it; exit code 1."""
    said = f"Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{path}'. "
    said += "Use `repo_type` argument if needed."
    return (
        "Traceback (most recent call last):\n"
        '  File "/opt/site/transformers/utils/hub.py", line 437, in cached_files\n'
        "    hf_hub_download(\n"
        f"huggingface_hub.errors.HFValidationError: {said}\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        f'  File "{_SITE}/launch_server.py", line 67, in <module>\n'
        "    server_args = prepare_server_args(sys.argv[1:])\n"
        f'  File "{_SITE}/srt/arg_groups/speculative_hook.py", line 88, in handle_speculative_decoding\n'
        "    server_args.speculative_algorithm = _resolve_speculative_algorithm_alias(\n"
        f"OSError: {said}"
    )


def scheduler_failed(kind: str, launch: Launch) -> str | None:
    """What the scheduler logs before it takes the server down (exit code -9); None for other kinds."""
    head = "Scheduler hit an exception: Traceback (most recent call last):\n"
    head += (
        f'  File "{_SITE}/srt/managers/scheduler.py", line 4325, in run_scheduler_process\n    scheduler = Scheduler(\n'
    )
    if kind == "oom":
        said = (
            "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 139.80 GiB of which "
            "1.12 GiB is free. Including non-PyTorch memory, this process has 138.67 GiB memory in use."
        )
        return head + (
            f'  File "{_SITE}/srt/model_executor/model_runner.py", line 2693, in init_device_graphs\n'
            f"torch.OutOfMemoryError: {said}\n\n"
            "During handling of the above exception, another exception occurred:\n\n"
            f"Exception: Capture cuda graph failed: {said}\n"
            "Possible solutions:\n"
            "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
            "2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)\n"
            "3. disable torch compile by not using --enable-torch-compile\n"
            "4. disable CUDA graph by --disable-cuda-graph. (Not recommended. Huge performance loss)\n"
        )
    if kind == "assert":
        return head + (
            f'  File "{_SITE}/srt/speculative/eagle_draft_extend_cuda_graph_runner.py", line 229, in __init__\n'
            "    self.model_runner.graph_shared_output.get_logits_buffer(\n"
            f'  File "{_SITE}/srt/model_executor/graph_shared_output.py", line 56, in get_logits_buffer\n'
            "    assert rows <= self.max_rows, (\n"
            "AssertionError: shared logits buffer holds 128 rows but caller needs 256 (vocab_size=49152)\n"
        )
    if kind == "no draft":
        return head + (
            f'  File "{_SITE}/srt/model_executor/model_runner.py", line 1426, in load_model\n'
            f"RuntimeError: Error(s) in loading {launch.args['model_path']} as a draft model: the checkpoint has no "
            "weights of one.\n"
        )
    return None


def store_refused(message: str) -> str:
    """The n-gram store refuses a setting inside the scheduler; exit code -9."""
    return (
        "Scheduler hit an exception: Traceback (most recent call last):\n"
        f'  File "{_SITE}/srt/speculative/ngram_worker.py", line 119, in __init__\n'
        f"RuntimeError: {message}\n"
    )


def port_in_use(host: object, port: object) -> str:
    """uvicorn's line when it cannot bind; exit code 1."""
    return f"ERROR:    [Errno 98] error while attempting to bind on address ('{host}', {port}): address already in use"
