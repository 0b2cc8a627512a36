"""The policy texts: whole, versioned, in both languages, given to the runs they are about, and never changed behind one's back."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from polyloop.app.policies import with_policies
from polyloop.app.request_file import load
from polyloop.app.wiring import request_for
from polyloop.cli.main import app
from polyloop.contract.problem import KINDS, ProblemError
from polyloop.dialogue import policy as policies
from polyloop.dialogue.policy import VERSIONS, Policy, policy
from polyloop.words.catalog import Lang
from tests import outside
from tests.dialogue.chain import DONE, Chain

#: What each version said, so that a text cannot change under the same version.
SAID = {
    ("documents", "1", "zh"): "3f2c5fa5456cd0814a95ffe5f3a9cb791d8d63ce7ac98b048ee245b1fa010d5f",
    ("documents", "1", "en"): "cbd49494ba7b0bf77bf9801e71adcd718eec8d73be2bb38ca59a740871711cd9",
    ("canvas", "2", "zh"): "e26deccea8c5a7d2193e85c3e78287ebcd0f0340530402386cc93eb247f526d7",
    ("canvas", "2", "en"): "27ba54537f8424245b012197af46e05d0e3261a4a4c441d1362edd94418e8ec2",
}
#: Clause -> what must stand in the Chinese text, and in the English one. Clauses about how we build (S0.1 aside) bind the code, not the model.
CLAUSES: dict[str, tuple[str, str]] = {
    "S0.1": ("以工具的参数结构和实际返回的 JSON 为准", "argument schema and the JSON that came back"),
    "S0.2": ("不从给人看的文字里推断状态", "never words shown to people"),
    "S0.3": ("nodeId、资源类型、canonicalUrl、所在容器", "nodeId, resource type, canonicalUrl, container"),
    "S0.4": ("不能当作身份", "a title is no identity"),
    "S0.5": ("或者列表没有读全，就不要写", "or the listing was not read to its end, do not write"),
    "S0.6": ("全部步骤做完，该回读的已经回读相符", "every step is done and what had to be read back matched"),
    "S0.7": ("看 steps 和 compensation", "Look at steps and compensation"),
    "S0.8": ("已成功的步骤不再重做", "never repeat a step that succeeded"),
    "S0.9": ("不知道是否写入", "nobody knows whether it was written"),
    "S0.10": ("先读回目标", "Read the target back"),
    "S0.11": ("新建和追加绝不自己重发", "never send a create or an append again"),
    "S0.12": ("服务明确说还没开始，并且允许重试", "nothing has begun and that a retry is allowed"),
    "S0.13": ("等够 retryAfterSeconds，最多再试一次", "Wait retryAfterSeconds and try once more at most"),
    "S0.14": ("看 retryable、actions、details 再决定", "Decide by retryable, actions and details"),
    "S0.15": ("命令正常退出、返回了 ID、空的回复，都不是写成的证据", "A clean exit, an id that came back, an empty reply prove nothing"),
    "S0.16": ("回执固定有 contractVersion", "A receipt always has contractVersion"),
    "S0.17": ("只有实际产生时才有", "only when they were produced"),
    "S0.18": ("taskId、documentUrl、documentName、documentType", "taskId, documentUrl, documentName, documentType"),
    "S0.19": ("业务 status 与外层结果", "The business status and the outer outcome"),
    "S0.20": ("ID 和任务 ID 只用来定位、恢复和继续查询", "Ids and task ids only locate, resume and query"),
    "S0.21": ("证据由强到弱", "From strong to weak"),
    "S0.22": ("任务 ID 查到成功终态", "by the task id it returned, until it ends in success"),
    "S0.23": ("该做的回读有一处不符，就不报告完成", "one read-back that does not match, nothing is reported as done"),
    "S0.24": ("没结束的任务、只拿到 ID", "a task that has not ended, a mere id"),
    "S0.25": ("不为“再确认一次”重复请求", "do not ask again just to be sure"),
    "S0.26": ("complete=true 才表示请求的范围全部读到", "complete=true alone means that the whole requested scope was read"),
    "S0.27": ("hasMore=true 表示还有，保留 continuation", "hasMore=true means there is more: keep the continuation"),
    "S0.28": ("原因在 stopReason", "stopReason says at which"),
    "S0.29": ("reason、page、nextCursor、count", "reason, page, nextCursor, count"),
    "S0.30": ("成功的列表里没有 failures", "A good list has no failures"),
    "S0.31": ("超时不是 truncated", "A timeout is never truncated"),
    "S0.32": ("没有未处理的失败", "no failure left open"),
    "S0.33": ("取到 complete 为止", "go on until complete"),
    "S0.34": ("并说明覆盖了多少", "say how much was covered"),
    "S0.35": ("用同样的查询和条件，不换工具，不放宽关键词", "same query and filters: no other tool, no looser keywords"),
    "S0.36": ("按 kind 判断", "Go by kind"),
    "S0.37": ("看 stage、retryable、actions、details", "look at stage, retryable, actions, details"),
    "S0.38": ("参数、权限、认证错误就是 failed", "Errors of arguments, permission or authentication are failed"),
    "S0.39": ("executionStarted 明确为 false 才可能重试", "only where executionStarted is expressly false"),
    "S0.40": ("不是说查清之后永远不能重做", "not that it can never be done again"),
    "S0.41": ("suggestedAction 或 nextCommand", "suggestedAction or nextCommand"),
    "S0.42": ("只写工作目录内的相对路径", "relative paths inside the working directory only"),
    "S0.43": ("写完、校验、关闭、原子发布都成功才算完成", "written, checked, closed and published in one step"),
    "S0.44": ("默认不覆盖", "is not overwritten unless"),
}  # fmt: skip


def test_S0_1_to_44_every_clause_stands_in_both_languages() -> None:
    assert list(CLAUSES) == [f"S0.{n}" for n in range(1, 45)]
    zh, en = policy("documents", "zh").text, policy("documents", "en").text
    assert [clause for clause, (chinese, english) in CLAUSES.items() if chinese not in zh or english not in en] == []


@pytest.mark.parametrize("subject", VERSIONS)
def test_the_two_languages_say_as_much_and_name_the_same(subject: str) -> None:
    zh, en = policy(subject, "zh").text, policy(subject, "en").text
    shape = [[line[0] if line[:1] in ("#", "-") else bool(line) for line in text.splitlines()] for text in (zh, en)]
    assert shape[0] == shape[1]
    named = [set(re.findall(r"(?<![A-Za-z])(?:[a-z]+[A-Z][A-Za-z]+|[a-z]+_[a-z_]+)(?![A-Za-z])", text)) for text in (zh, en)]
    assert named[0] == named[1]
    assert subject != "documents" or {"partial_success", "commit_unknown", "revision_conflict"} <= set(KINDS) & named[0]


@pytest.mark.parametrize(("said", "digest"), SAID.items(), ids=[f"{i}-{v}-{lang}" for i, v, lang in SAID])
def test_a_text_changes_only_with_its_version(said: tuple[str, str, Any], digest: str) -> None:
    text = policy(said[0], said[2])
    assert (text.version, text.sha256) == (said[1], digest), "another text needs another version"


def test_every_policy_is_known_here_and_no_other_exists() -> None:
    assert {i for i, _, _ in SAID} == set(VERSIONS)
    with pytest.raises(ProblemError, match="not_found"):
        policy("cooking")


@pytest.mark.parametrize("lang", get_args(Lang))
@pytest.mark.parametrize("subject", VERSIONS)
def test_the_same_text_is_the_guide(subject: str, lang: Lang) -> None:
    text = policy(subject, lang)
    told = json.loads(CliRunner().invoke(app, ["guide", subject, "--lang", lang, "--json"]).stdout)
    assert (told["id"], told["lang"], told["sha256"], told["text"]) == (subject, lang, text.sha256, text.text)
    assert CliRunner().invoke(app, ["guide", subject, "--lang", lang]).stdout == text.text


def test_there_is_no_guide_to_cooking() -> None:
    assert CliRunner().invoke(app, ["guide", "cooking", "--json"]).exit_code == 2


# --- in runs ---------------------------------------------------------------------------------------------------------

REQUEST = """
run_id = "r1"
model = "script:replies.jsonl"
tools = [{tools}]
completes = ["submit"]
workspace = "ws"
{more}
[agent]
id = "a"
[budget]
max_valid_steps = 20
max_iterations = 30
[[segments]]
name = "task"
text = "Write."
"""


def lay(folder: Path, tools: str, more: str = "", lines: int = 1) -> tuple[str, ...]:
    (folder / "r.toml").write_text(REQUEST.format(tools=tools, more=more))
    (folder / "replies.jsonl").write_text((json.dumps({"text": json.dumps({"action": {"tool": "submit", "args": {"summary": "s"}}})}) + "\n") * lines)
    return "--store", str(folder / "s.db")


def polyloop(*words: str, changed: bool = False) -> tuple[int, Any]:
    """`changed` = by a build whose policy says something else."""
    change = "from polyloop.dialogue import policy as p; o=p.policy; import polyloop.app.policies as a; from msgspec.structs import replace\n"
    change += "a.policy = lambda i, lang='zh': replace(o(i, lang), text=o(i, lang).text + 'more\\n')\n"
    code = (change if changed else "") + "from polyloop.cli.main import main; main()"
    done = outside.run("-c", code, *words, "--json", capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def started(*store: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["log", "r1", "--jsonl", *store])
    return next(r for r in map(json.loads, done.stdout.splitlines()) if r["kind"] == "run_started")


@pytest.mark.parametrize(
    ("tools", "more", "brings"),
    [('"doc_*", "submit"', "", "zh"), ('"doc_fetch", "submit"', 'lang = "en"', "en"), ('"workspace_*", "submit"', "", ""), ('"*"', "", "zh")],
)
def test_a_run_with_the_tools_has_the_text(tmp_path: Path, tools: str, more: str, brings: str) -> None:
    lay(tmp_path, tools, more)
    request = request_for(load(tmp_path / "r.toml", {}))
    assert [s.name for s in request.segments] == (["policy.documents", "task"] if brings else ["task"])
    if brings:
        text = policy("documents", brings)  # type: ignore[arg-type]  # a parameter of this test
        assert (request.segments[0].role, request.segments[0].text) == ("system", text.text)
        assert request.assembly["policy.documents"] == text.mark
    assert with_policies(request, ["documents"] if brings else []) == request, "the same again changes nothing"


def test_S2_49_a_changed_policy_is_drift(tmp_path: Path) -> None:
    # One that waits, so that it can be resumed: the first write asks a person.
    store = lay(tmp_path, '"doc_*", "submit"', 'permission_mode = "request_approval"')
    (tmp_path / "replies.jsonl").write_text(json.dumps({"text": json.dumps({"action": {"tool": "doc_create", "args": {"title": "A"}}})}) + "\n")
    code, waiting = polyloop("run", str(tmp_path / "r.toml"), *store)
    assert (code, waiting["state"]) == (5, "waiting")
    start = started(*store)
    assert (start["assembly"]["policy.documents"], start["segments"][0]["sha256"]) == (policy("documents").mark, policy("documents").sha256)
    wanted = ["assembly.policy.documents", "segments.0.policy.documents"]
    code, told = polyloop("resume", "r1", *store, changed=True)
    assert (code, told["error"]["kind"], sorted(f["path"] for f in told["error"]["details"]["fields"])) == (7, "parameter_drift", wanted)
    code, told = polyloop("resume", "r1", "--request", str(tmp_path / "r.toml"), *store, changed=True)
    assert (code, sorted(f["path"] for f in told["error"]["details"]["fields"])) == (7, wanted)
    assert polyloop("resume", "r1", *store)[0] == 5, "unchanged, it waits on"


def test_a_policy_is_read_once() -> None:
    assert policies.policy("documents") is policies.policy("documents")
    assert isinstance(policies.policy("documents"), Policy)


def test_a_segment_of_a_request_does_not_take_the_name_of_a_policy(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    path = chain.lay("r1", DONE)
    path.write_text(path.read_text().replace('name = "t"', 'name = "policy.documents"'))
    with pytest.raises(ProblemError, match="validation"):
        chain.run(path)


def test_S0_24_a_reference_that_can_be_the_name_of_nothing_is_unknown(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    claim = {"summary": "x", "claims": [{"text": "t", "evidence": ["a\u0000b@1"]}]}
    assert chain.run(chain.lay("r1", ("submit", claim), DONE, tools='"doc_*", "submit"')).reason == "completed"
    refused = next(told["error"] for told in chain.heard("r1") if "error" in told)
    assert [one["issue"] for one in refused["details"]["refusals"]] == ["unknown_ref"]
