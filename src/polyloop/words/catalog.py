"""Every sentence for people, by code, Chinese and English. A code missing in a language is a failed test, not a fallback."""

from __future__ import annotations

from typing import Final, Literal

Lang = Literal["zh", "en"]

#: What the mention of a reference column begins with, in every language; its number follows (S1.26).
MENTION: Final = "@参考图"

SENTENCES: Final[dict[str, tuple[str, str]]] = {
    "detail.valid_steps": ("有效步数", "valid steps"),
    "detail.iterations": ("模型调用次数", "model calls"),
    "detail.wall_clock": ("总时间", "wall clock time"),
    "detail.working_time": ("工作时间", "working time"),
    "detail.identical_rejections": ("模型一直重复同一个错误", "the model kept making the same mistake"),
    "detail.consecutive_rejections": ("模型的回复接连被拒绝", "the replies of the model were rejected one after another"),
    "detail.never": ("这个工具不许自动恢复", "its tool must not be recovered"),
    "detail.max_recoveries": ("恢复次数已到上限", "it was recovered as often as allowed"),
    "detail.model_intent": ("模型调用的恢复次数已到上限", "a model call was recovered as often as allowed"),
    "detail.completion_unavailable": ("读不到完成信号", "the completion signal cannot be read"),
    "detail.executor_exception": ("执行器出错", "the executor failed"),
    "run.completed": ("已完成。", "Completed."),
    "run.budget_exhausted": ("预算用完，没有完成（{detail}）。", "The budget is used up; not completed ({detail})."),
    "run.stalled": ("停止：{detail}。", "Stopped: {detail}."),
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
    "list.more": ("还有更多：加上 --continuation {continuation}", "There are more: add --continuation {continuation}"),
    "settle.done": ("已记录，运行继续时生效。", "Recorded; it takes effect when the run goes on."),
    "approval.approved": ("已批准。", "Approved."),
    "approval.denied": ("已拒绝。", "Rejected."),
    "approval.none": ("没有等待批准的操作。", "Nothing waits for approval."),
    "demo.begin": (
        "审核 {file}：计划、执行、总结三个阶段，由内置的规则模型完成，不联网。工作进程已经启动。",
        "Auditing {file} in three phases (plan, execute, summarize) with the built-in rules, offline. The worker is running.",
    ),
    "demo.killed": (
        "✗ {file} 刚写进磁盘、结果还没记入日志，进程 {pid} 就被 SIGKILL 杀死（退出状态 {status}）。",
        "✗ {file} is on the disk, its result not yet in the log: process {pid} is killed with SIGKILL (wait status {status}).",
    ),
    "demo.tail": (
        "  日志停在第 {seq} 条 {kind}：有意图，没有结果。",
        "  The log ends with record {seq}, {kind}: an intent without a result.",
    ),
    "demo.replay": (
        "↻ 另一个进程接着做：第 {of} 条意图按 {policy} 处理——向工作区按键查询，已经写成，不再重写。",
        "↻ Another process goes on: intent {of} is handled by {policy}: the workspace is asked by key, it did land, it is not written again.",
    ),
    "demo.once": ("  {file}：一个文件，{receipts} 张回执。", "  {file}: one file, {receipts} receipt."),
    "demo.verified": (
        "✓ {runs} 次运行、{records} 条记录全部校验，哈希链完整：",
        "✓ {runs} runs, {records} records verified, every hash chain is whole:",
    ),
    "demo.head": ("    {run:<12} {head}", "    {run:<12} {head}"),
    "demo.found": (
        "✓ 审核完成：{found} 项发现（错误 {errors}，其他 {warnings}），每条都有原文引证：",
        "✓ Audited: {found} findings ({errors} errors, {warnings} others), each with a quote from the document:",
    ),
    "demo.finding": ("    · {message}\n      “{quote}”", "    · {message}\n      “{quote}”"),
    "demo.more": ("    …… 另有 {more} 项", "    ... and {more} more"),
    "demo.look": (
        "报告：{report}\n日志：cd {folder} && polyloop show {run} --store runs.db",
        "Report: {report}\nLog: cd {folder} && polyloop show {run} --store runs.db",
    ),
    "exported": ("已写入 {path}。", "Written to {path}."),
    "audit.title": ("《{files}》审核报告", "Audit of {files}"),
    "audit.status.completed": ("审核完成，共 {found} 项发现。", "Audited; {found} findings."),
    "audit.status.partial": (
        "部分审核点失败或被排除；其余共 {found} 项发现。",
        "Some points failed or are excluded; the others have {found} findings.",
    ),
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
    "page.title": ("运行记录", "Record of a run"),
    "page.agent": ("智能体", "agent"),
    "page.budget": ("预算", "budget"),
    "page.tools": ("工具", "tools"),
    "page.counts": ("模型调用 {iterations}，有效步 {valid}", "model calls {iterations}, valid steps {valid}"),
    "page.repairs": ("修复", "repairs"),
    "page.reply": ("模型原文", "the model's reply"),
    "page.raw": ("原文", "as it came"),
    "page.judged": ("修复后、据以执行的文本", "repaired, as it was judged"),
    "page.observation": ("结果", "observation"),
    "page.erased": ("内容已抹除", "erased"),
    "page.head": ("哈希链到", "hash chain up to"),
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
}


def detail(word: str, lang: Lang) -> str:
    """The detail of an end in words; one that has none of its own stays as it is."""
    code = f"detail.{word}"
    return say(code, lang) if code in SENTENCES else word


def say(code: str, lang: Lang, **values: object) -> str:
    """The sentence of a code. Raises KeyError for an unknown code or a missing value."""
    zh, en = SENTENCES[code]
    return (zh if lang == "zh" else en).format(**values)
