"""Every sentence for people, by code, Chinese and English. A code missing in a language is a failed test, not a fallback."""

from __future__ import annotations

from typing import Final, Literal

Lang = Literal["zh", "en"]

SENTENCES: Final[dict[str, tuple[str, str]]] = {
    "run.completed": ("已完成。", "Completed."),
    "run.budget_exhausted": ("预算用完，没有完成（{detail}）。", "The budget is used up; not completed ({detail})."),
    "run.stalled": ("停止：模型一直重复同一个错误（{detail}）。", "Stopped: the model kept making the same mistake ({detail})."),
    "run.model_call_failed": ("模型调用失败：{detail}。", "The model call failed: {detail}."),
    "run.environment_fault": ("环境故障：{detail}。", "The environment failed: {detail}."),
    "run.unresolved_action": (
        "有一个操作结果不明，需要人来确认（{detail}）。",
        "The outcome of an action is not known; a person must find out ({detail}).",
    ),
    "run.cancelled": ("已取消。", "Cancelled."),
    "run.abandoned": ("已放弃。", "Abandoned."),
    "run.internal_error": ("内部错误，运行已结束。", "An internal error ended the run."),
    "run.running": ("正在运行。", "Running."),
    "run.waiting": ("正在等待：{detail}。", "Waiting for: {detail}."),
    "run.interrupted": ("已中断，可以继续。", "Interrupted; it can be resumed."),
    "run.store_failed": (
        "存储写入失败，运行已停下；最后一步没有记录下来。",
        "The store failed and the run stopped; its last step is not recorded.",
    ),
    "run.owned_elsewhere": ("另一个进程接管了这次运行。", "Another process has taken this run over."),
    "show.valid_steps": ("有效步", "valid steps"),
    "show.iterations": ("模型调用", "model calls"),
    "show.wall_clock": ("时钟秒数", "clock seconds"),
    "show.working_time": ("工作秒数", "working seconds"),
    "show.spent": (
        "用时：模型 {model} ms，工具 {action} ms，存储 {store} ms；被拒绝 {rejections} 次",
        "Spent: model {model} ms, tools {action} ms, store {store} ms; rejected {rejections}",
    ),
    "show.repairs": ("修复：{repairs}", "repairs: {repairs}"),
    "show.raw": ("原文", "raw"),
    "show.read": ("读作", "read as"),
    "show.leaked": ("没有停下，可能还在运行", "it did not stop and may still be running"),
    "show.erased": ("内容已抹除", "erased"),
    "watch.model": ("第 {iteration} 次模型调用，已 {seconds} 秒", "model call {iteration}, {seconds} s"),
    "watch.action": ("{tool} 运行中，已 {seconds} 秒", "{tool} is running, {seconds} s"),
    "watch.idle": ("没有进程在运行它", "no process is running it"),
    "run.resume_with": ("继续：{command}", "Resume with: {command}"),
    "run.suspending": ("正在停下，再按一次 Ctrl-C 立即退出。", "Stopping; press Ctrl-C again to leave at once."),
    "wait.approval": ("批准", "an approval"),
    "wait.answer": ("回答", "an answer"),
    "wait.task": ("任务完成", "a task"),
    "wait.settle": ("人工确认一个操作的结果", "a person to say what became of an action"),
    "wait.run": ("子运行结束", "a sub-run"),
    "verify.ok": ("日志完整：{records} 条记录，哈希全部相符。", "The log is whole: {records} records, every hash matches."),
    "verify.bad": ("日志有问题：第 {seq} 条记录，{message}。", "The log is damaged: record {seq}, {message}."),
    "verify.erased": ("其中 {erased} 处内容已抹除。", "{erased} texts were erased."),
    "list.none": ("还没有运行。", "No runs yet."),
    "list.more": ("还有更多：--continuation {continuation}", "There are more: --continuation {continuation}"),
    "settle.done": ("已记录，继续运行后生效。", "Recorded; it takes effect when the run goes on."),
    "approval.decided": ("已记录：{decision}。", "Recorded: {decision}."),
    "approval.none": ("没有等待批准的操作。", "Nothing waits for approval."),
    "demo.begin": (
        "一个代理要往账本里写三条记录。运行 {run} 开始，在它自己的进程里。",
        "An agent is to write three entries into a ledger. Run {run} starts in a process of its own.",
    ),
    "demo.killed": (
        "第二条已经写进文件、结果还没记入日志时，进程 {pid} 被 SIGKILL 杀死（退出状态 {status}）。",
        "With the second entry in the file and its result not yet in the log, process {pid} is killed (wait status {status}).",
    ),
    "demo.tail": (
        "日志停在 {kind}：有意图，没有结果。现在由另一个进程继续。",
        "The log ends with {kind}: an intent without a result. Another process now goes on.",
    ),
    "demo.replay": (
        "恢复：第 {of} 条意图按 {policy} 处理——先去账本里按键查，查到了，不再写一遍。",
        "Recovery: intent {of} is handled by policy {policy}: the ledger is asked by key, the entry is there, nothing is written again.",
    ),
    "demo.step": ("  #{seq:<3} {tool:<14} {outcome:<14} 修复：{repairs}", "  #{seq:<3} {tool:<14} {outcome:<14} repairs: {repairs}"),
    "demo.ended": (
        "结束：{reason}。账本 {entries} 条，互不重复 {unique} 条。",
        "Ended: {reason}. The ledger holds {entries} entries, {unique} distinct.",
    ),
    "demo.verified": (
        "校验：{records} 条记录，哈希链完整，到 {head}。",
        "Verified: {records} records, the hash chain is whole up to {head}.",
    ),
    "demo.look": (
        "去看：{folder} 里的 ledger.txt；cd 过去运行 polyloop show {run} --store runs.db，或 polyloop log {run} --jsonl --store runs.db",
        "Look at ledger.txt in {folder}; there, run: polyloop show {run} --store runs.db, or polyloop log {run} --jsonl --store runs.db",
    ),
    "doc.success": ("{operation}：已完成。", "{operation}: done."),
    "doc.partial_success": (
        "{operation}：只完成了一部分；先看 steps 与 compensation，不要重做已成功的步骤。",
        "{operation}: done in part; look at steps and compensation, repeat nothing that succeeded.",
    ),
    "doc.unknown": (
        "{operation}：不知道是否已写入；先回读，或用 reconcile 查明，不要重发。",
        "{operation}: not known whether it was written; read it back or reconcile it, do not send it again.",
    ),
    "doc.retryable": ("{operation}：还没有开始，可以再试一次。", "{operation}: it has not begun; it may be tried once more."),
    "doc.failed": ("{operation}：没有完成。", "{operation}: not done."),
    "audit.title": ("《{files}》审核报告", "Audit of {files}"),
    "audit.status.completed": ("审核完成，共 {found} 项发现。", "Audited; {found} findings."),
    "audit.status.partial": ("部分审核点失败或被排除；其余共 {found} 项发现。", "Some points failed or are excluded; the others have {found} findings."),
    "audit.status.running": ("审核还没有结束，目前 {found} 项发现。", "The audit has not ended; {found} findings so far."),
    "audit.state.pending": ("未开始", "pending"),
    "audit.state.running": ("进行中", "running"),
    "audit.state.completed": ("完成", "completed"),
    "audit.state.failed": ("失败", "failed"),
    "audit.state.excluded": ("已排除", "excluded"),
    "audit.severity.error": ("错误", "error"),
    "audit.severity.warning": ("提醒", "warning"),
    "audit.severity.info": ("提示", "info"),
    "audit.column.file": ("文件", "file"),
    "audit.column.state": ("状态", "state"),
    "audit.column.found": ("发现", "findings"),
    "audit.column.sha256": ("SHA-256", "SHA-256"),
    "audit.nothing": ("没有发现问题。", "Nothing was found."),
    "audit.colon": ("：", ": "),
    "audit.proof": ("留痕", "Record"),
    "audit.verify": (
        "每一次运行都有完整日志：polyloop verify RUN 校验，polyloop show RUN 查看。",
        "Each of these runs has its log: polyloop verify RUN checks it, polyloop show RUN shows it.",
    ),
    "audit.point": ("{point} {file}：{state}", "{point} {file}: {state}"),
    "phase.completed": ("{phase}：完成（第 {attempt} 次，{run}）", "{phase}: completed (attempt {attempt}, {run})"),
    "phase.failed": ("{phase}：失败（第 {attempt} 次，{run}）", "{phase}: failed (attempt {attempt}, {run})"),
    "phase.interrupted": ("{phase}：已停下，可以继续（{run}）", "{phase}: stopped, it can go on ({run})"),
    "phase.recovered": ("，由 {recovery} 恢复", ", recovered by {recovery}"),
    "gateway.held": ("{namespace}：{replies} 条回复，{size} 字节", "{namespace}: {replies} replies, {size} bytes"),
    "gateway.nothing": ("没有内容。", "Nothing."),
    "gateway.used": (
        "{source} {session}：{calls} 次调用，输入 {input}、输出 {output} 个词元；已花费 {spent}，预留 {held}；{unknownCalls} 次价格不明",
        "{source} {session}: {calls} calls, {input} tokens in, {output} out; spent {spent}, held {held}; {unknownCalls} at an unknown price",
    ),
    "gateway.erased": ("已删除 {erased} 条回复。", "{erased} replies erased."),
    "exported": ("已写入 {path}。", "Written to {path}."),
}


def say(code: str, lang: Lang, **values: object) -> str:
    """The sentence of a code. Raises KeyError for an unknown code or a missing value."""
    zh, en = SENTENCES[code]
    return (zh if lang == "zh" else en).format(**values)
