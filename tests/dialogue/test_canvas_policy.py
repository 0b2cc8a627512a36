"""The canvas' policy text: every clause of its seed stands in it, in both languages."""

from __future__ import annotations

from polyloop.dialogue.policy import policy

#: Clause -> what must stand in the Chinese text, and in the English one.
CLAUSES: dict[str, tuple[str, str]] = {
    "S1.1": (
        "它们不授予任何权限；真正算数的是这次会话里的工具和参数结构",
        "They grant nothing; what counts are the tools and argument schemas of this session",
    ),
    "S1.2": ("不按名字、旧文档或别人的描述去猜", "guess none from names, old documents or descriptions"),
    "S1.3": ("先读事实，再动手改", "Read facts first, then change"),
    "S1.4": ("先确认得到授权", "first be sure that it was authorised"),
    "S1.5": ("只说明那一步成功", "says that this step succeeded"),
    "S1.6": ("没确认、还在做、失败、取消，各说各的", "unconfirmed, under way, failed and cancelled are four different things"),
    "S1.7": ("三个条件同时成立才问", "Ask only when three things hold at once"),
    "S1.8": ("不拆成几轮单选；3 到 6 个字段", "not several rounds of single choices; 3 to 6 fields"),
    "S1.9": ("每个字段给 defaultValue 和少量候选", "Give each field a defaultValue and a few candidates"),
    "S1.10": ("已填的字段不再问", "never ask again for a field that was filled in"),
    "S1.11": ("都不是问人的理由", "are no reasons to ask"),
    "S1.12": ("人的确认代替不了服务的检查", "A person's confirmation replaces no check of the service"),
    "S1.13": ("已经答过的，不换个说法再问", "what was answered is not asked again in other words"),
    "S1.14": ("沿用已有的答案，或用安全的默认值继续", "keep the answer there is, or go on with a safe default"),
    "S1.15": ("第一轮先问目标、产出类型、主要对象", "in the first round goal, kind of output and main objects"),
    "S1.16": ("选项 2 到 4 个", "Offer 2 to 4 options"),
    "S1.17": ("跳不过权限、审批、预算、能力和快照的检查", "skips no check of permission, approval, budget, capability or snapshot"),
    "S1.18": ("round 和 maxRounds 由服务给出，不要编", "round and maxRounds come from the service; do not make them up"),
    "S1.19": ("同一条父子任务链最多问 2 轮", "One chain of parent and child tasks has at most 2 rounds"),
    "S1.20": ("不继承旧的轮数", "inherits none unless the one before ended while a question was waiting"),
    "S1.21": ("用合理的默认值继续", "go on with reasonable defaults"),
    "S1.22": ("在最后的答复里列出假设", "list the assumptions in the final answer"),
    "S1.23": ("它只收集创作决定", "it collects creative decisions"),
    "S1.24": ("参数是合法的 JSON 对象，严格合乎结构", "Arguments are a valid JSON object that keeps the schema strictly"),
    "S1.25": ("null、空字符串、自造的默认值都不当作“没有”", 'null, an empty text or a default of your own is not "absent"'),
    "S1.26": ("只照抄最近一次成功返回的值", "are copied from the latest successful answer"),
    "S1.27": ("add_node 要 nodeType，update_node 要 patch", "add_node needs nodeType, update_node needs patch"),
    "S1.28": ("同时用 channelId 和 channelModelKey，二选一", "by channelId together with channelModelKey, never both ways"),
    "S1.29": ("都按失败处理", "count as failure"),
    "S1.30": ("不用上下文、旧返回或推断去补缺的内容", "Fill in nothing from context, older answers or inference"),
    "S1.31": ("没有 snapshotHash 不写", "without snapshotHash nothing is written"),
    "S1.32": ("不把页码当 offset", "never with page numbers as offset"),
    "S1.33": ("没读全就接着读，不猜行号", "if it is not read whole, read on, and guess no row"),
    "S1.34": ("selection 不全", "without a complete selection"),
    "S1.35": ("缺能力或价格，就停下", "without capability or price: stop"),
    "S1.36": ("结果读得到，才叫完成", "whose result can be read"),
    "S1.37": ("都不叫完成", "neither is done"),
    "S1.38": ("就只说“未确认完成”", 'say only "not confirmed"'),
    "S1.39": ("depth 和 includeRelated 只配 focusNodeIds，两者不同用", "depth and includeRelated go only with focusNodeIds, and never together"),
    "S1.40": ("核对返回的范围就是要的范围", "see that the range that came is the one asked for"),
    "S1.41": ("必须给真实的 nodeId 和非负的 offset", "needs a real nodeId and an offset that is not negative"),
    "S1.42": (
        "每次最多 20 项，每项有 type 和 id，带最新的 snapshotHash",
        "at most 20 operations, each with type and id, and the latest snapshotHash",
    ),
    "S1.43": ("没有明确的写入结果和新的快照，就不再写", "without an express result and a new snapshot, write nothing more"),
    "S1.44": ("不用 Markdown 或普通文本冒充", "never Markdown or plain text dressed up"),
    "S1.45": ("referenceNodeIds 是这次真正引用的媒体节点", "referenceNodeIds are the media nodes really referred to"),
    "S1.46": (
        "generate_media 要有 mode、完整的 prompt、新的 nodeId、title、referenceNodeIds",
        "generate_media needs mode, the whole prompt, a new nodeId, title",
    ),
    "S1.47": ("没有任务 ID，只能说没提交或未确认", "Without a task id say only that it was not submitted, or not confirmed"),
    "S1.48": ("read_only 只读和分析，不改画布，不建任务", "read_only: read and analyse; change no canvas, make no task"),
    "S1.49": ("写、生成、收费都等人批准", "writing, generating and paying wait for a person"),
    "S1.50": (
        "auto 仍受权限、资源、模型、价格、预算和快照的约束",
        "auto is still bound by permissions, resources, models, prices, budgets and snapshots",
    ),
    "S1.51": ("没有开放的工具不能调", "a tool that is not offered is not called"),
    "S1.52": ("先 canvas_get_state，取得真实的节点", "First canvas_get_state: the real nodes"),
    "S1.53": ("建节点前先 canvas_list_node_types", "Before nodes are made: canvas_list_node_types"),
    "S1.54": ("先 canvas_read_storyboard 或 canvas_read_batch_table，用它给的 rowId 和 snapshotHash", "use the rowId and snapshotHash they give"),
    "S1.55": ("要生成时先 model_list", "Before something is generated: model_list"),
    "S1.56": ("不提交生成；只改坐标时", "submits nothing; to change coordinates"),
    "S1.57": (
        "用 canvas_create_storyboard 建，用 canvas_edit_storyboard 局部改",
        "made with canvas_create_storyboard and changed in parts with canvas_edit_storyboard",
    ),
    "S1.58": (
        "得到明确的对象、数量、模型、规格和费用授权，才调用",
        "only with an express authorisation of object, number, model, specification and cost",
    ),
    "S1.59": ("任务和资源都确认成功才说完成", "say done only when task and asset are confirmed"),
    "S1.60": (
        "人要求整理，或确有重叠的风险，才用 canvas_arrange_nodes",
        "Use canvas_arrange_nodes only when a person wants it or nodes really risk to overlap",
    ),
    "S1.61": ("整理后重新读画布", "read the canvas again afterwards"),
    "S1.62": ("分页读节点、连线、结构化内容和生成状态", "reads nodes, connections, structured contents and states of generation by pages"),
    "S1.63": ("目录不是正文", "A directory is not the text"),
    "S1.64": ("能建的类型、能改的字段、连接方向和生成模式", "which types can be made, which fields changed, how they connect and what they generate"),
    "S1.65": ("文生媒体给空的列表", "an empty list for media made from text alone"),
    "S1.66": ("不自己换模型", "do not change the model yourself"),
    "S1.67": ("task_get 只查当前用户的真实任务", "task_get asks for real tasks of the current user"),
    "S1.68": ("skill_search 和 skill_read_file 只读装好的技能", "skill_search and skill_read_file read installed skills only"),
    "S1.69": ("标题和提示词代替不了看图", "title and prompt are no substitute for looking"),
    "S1.70": ("image_text_detect 只为识别做准备，不改画布", "image_text_detect only prepares recognition and changes no canvas"),
    "S1.71": ("patch 只写能力登记允许的字段", "A patch holds only fields the registry allows"),
    "S1.72": ("connect_nodes 要合乎输入的类型和方向", "connect_nodes keeps input kinds and directions"),
    "S1.73": ("不删节点、不写外部 URL", "deletes no nodes, writes no outside URL"),
    "S1.74": ("只改坐标时用 canvas_arrange_nodes", "to change coordinates alone use canvas_arrange_nodes"),
    "S1.75": ("只填结构里有的字段", "with fields of the schema only"),
    "S1.76": (
        "append 不带 rowId；update 和 remove 用最近读到的真实 rowId",
        "append carries no rowId; update and remove use a real rowId of the latest reading",
    ),
    "S1.77": ("不写输出节点、任务状态、URL、资源 key 或别的 metadata", "writes no output node, task state, URL, resource key or other metadata"),
    "S1.78": ("新的 nodeId", "a new nodeId"),
    "S1.79": ("临时标注图只用 referenceTransientIds，不传 URL", "temporary annotations only into referenceTransientIds, never as URL"),
    "S1.80": ("已有的任务和成品不覆盖", "Tasks and finished works are not overwritten"),
    "S1.81": ("不自己重试、不换模型、不悄悄降级", "do not retry, change the model or lower the quality on your own"),
    "S1.82": ("再试要人重新授权", "another try needs a person's new authorisation"),
    "S1.83": (
        "只做临时的标注参考图，不改原图；坐标是 0 到 1",
        "only makes a temporary reference picture and changes no source; coordinates run from 0 to 1",
    ),
    "S1.84": ("标注只照人的要求画", "annotations are drawn only as the person asked"),
    "S1.85": ("image_layer_split 用真实的原图节点和当前的结构", "image_layer_split uses a real source picture and the current schema"),
    "S1.86": ("拆出来的都作为新节点留下", "what it takes apart stays as new nodes"),
    "S1.87": ("重新读最新状态，不重放旧的写", "read the latest state again, never replay the old write"),
    "S1.88": ("到了 maxAttempts 就停", "stop at maxAttempts"),
    "S1.89": ("queued 说“等待处理”，running 说“正在处理”", "queued is told as waiting, running as being worked on"),
    "S1.90": ("留下真实的原因", "keep the real reason"),
    "S1.91": ("不拿替代品冒充", "pass off no substitute"),
    "S1.92": ("先说结论，再说完成的范围、现在的状态、下一步", "First the conclusion, then what was finished, how things stand, what comes next"),
    "S1.93": ("默认简体中文", "Simplified Chinese by default"),
    "S1.94": ("把内部错误翻成人能懂的事实", "Turn internal errors into facts a person understands"),
    "S1.95": ("标题不跳级；步骤用有序列表，并列用无序列表", "heading levels without gaps; steps as ordered lists, parallel things as unordered ones"),
    "S1.96": ("段落要短、留白清楚", "short paragraphs with clear space"),
    "S1.97": ("不编造节点、任务、状态、错误原因、费用和结果", "Invent no nodes, tasks, states, causes, costs or results"),
}
#: What further stands in clauses of several parts.
PARTS: list[tuple[str, str, str]] = [
    ("S1.34", "候选要合这次的 mode 和参考素材", "A candidate fits the mode and the references of this time"),
    ("S1.35", "不拼凑能力", "piece no capability together"),
    ("S1.39", "分页的数都是非负整数", "its paging numbers are whole and not negative"),
    ("S1.39", "nodeIds 和 focusNodeIds 互斥", "nodeIds and focusNodeIds exclude each other"),
    ("S1.95", "代码格式只给要识别或复制的名字、命令和标识", "code marks only for names, commands and ids to recognise or copy"),
    ("S1.95", "真有比较才用表格", "tables only where something is compared"),
    ("S1.96", "不用没说明的 HTML，不层层嵌套", "no unexplained HTML, no deep nesting"),
    ("S1.96", "一行不挤几样事", "never several things on one line"),
]


def test_S1_34_S1_35_S1_39_S1_95_S1_96_every_part_of_a_clause_stands_in_both_languages() -> None:
    zh, en = policy("canvas", "zh").text, policy("canvas", "en").text
    assert [clause for clause, chinese, english in PARTS if chinese not in zh or english not in en] == []


def test_S1_1_to_97_every_clause_stands_in_both_languages() -> None:
    assert list(CLAUSES) == [f"S1.{n}" for n in range(1, 98)]
    zh, en = policy("canvas", "zh").text, policy("canvas", "en").text
    assert [clause for clause, (chinese, english) in CLAUSES.items() if chinese not in zh or english not in en] == []
