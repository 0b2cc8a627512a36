"""model_list, generate_media, image_layer_split: from a wish to one queued task, in the transaction that reserves what it costs.

Theory of operation. A wish is checked whole before anybody is asked: the canvas was read, the ids were given out, the references are files,
the model was listed for exactly this mode and these references and can do what is wanted at a known price. What a person approves is the
prepared plan: resolved prompt, model, size, length, files by their hashes, price. Then one commit makes the node, its connections, the task and
the reservation. The same wish while it lives, or once it is done, is the task there is (`existing`); after a failure the same intent needs a
person, in every mode (S1.81, S1.82). Seed: S1.34, S1.35, S1.45, S1.46, S1.55, S1.58, S1.65, S1.66, S1.78-S1.82, S1.85, S1.86.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from ..contract.leaf import Conclusion, Prepared
from ..contract.problem import FieldProblem, as_wire, problem
from ..contract.receipt import Compensation, compared
from ..contract.session import Issued, Need, Read
from ..contract.snapshot import digest
from ..contract.spend import Quote
from ..contract.task import PHASES
from ..db import tasks as rows
from ..journal import spending
from . import catalog, limits, store, tasks
from .catalog import Model, Wish
from .leaves import GENERATE, LAYER_SPLIT, MODEL_LIST, TASK_GET
from .looking import Recipe, drawn, recipe_of
from .same import folded
from .seam import CANVAS_READ, NODE, Asked, Placed, Plan, Seen, Tool
from .tasks import Body, Spec

#: Kind of the handles that selections are; given out for one mode and one set of references.
SELECTION: Final = "selection"
_DEAD: Final = frozenset({"failed", "cancelled", "unknown"})


class Given(Struct, frozen=True, kw_only=True):
    """The references of a call, as they stand: nodes with files, and annotations of some of them."""

    nodes: tuple[Seen, ...]
    recipes: tuple[Recipe, ...]
    problems: tuple[FieldProblem, ...]

    @property
    def kinds(self) -> list[str]:
        return [n.kind for n in self.nodes] + ["image"] * len(self.recipes)

    @property
    def files(self) -> tuple[str, ...]:
        """What an approval is bound to: the files by content, and what is drawn on them."""
        return (*(store.sha_of(n.asset) for n in self.nodes), *(digest(as_wire(r)) for r in self.recipes))


def given(asked: Asked) -> Given:
    nodes: list[Seen] = []
    problems: list[FieldProblem] = []
    for n, node_id in enumerate(asked.args["referenceNodeIds"]):
        field = f"referenceNodeIds[{n}]"
        if asked.session.lasting:
            problems += asked.session.handles.check(field, NODE, node_id, asked.canvas_id)
        seen = asked.node(field, node_id)
        nodes.append(seen)
        if seen.kind not in catalog.MODES:
            problems.append(FieldProblem(field, "not_media", "this node holds no media"))
        elif not store.kept(asked.tx, asked.tenant, store.sha_of(seen.asset)):
            problems.append(FieldProblem(field, "not_ready", "this node has no file yet"))
    recipes: list[Recipe] = []
    for n, transient in enumerate(asked.args.get("referenceTransientIds", ())):
        recipe, wrong = recipe_of(asked, transient)
        if recipe is None or (recipe.node, recipe.file) not in {(s.id, store.sha_of(s.asset)) for s in nodes}:
            problems.append(FieldProblem(f"referenceTransientIds[{n}]", wrong or "other_source", "no annotation of these references"))
        else:
            recipes.append(recipe)
    return Given(nodes=tuple(nodes), recipes=tuple(recipes), problems=tuple(problems))


# --- which models ----------------------------------------------------------------------------------------------------


def _models(asked: Asked) -> Plan:
    refs = given(asked)
    problems = refs.problems
    found = [catalog.told(m, issue) for m, issue in asked.catalog.candidates(asked.args["mode"], refs.kinds)] if not problems else []
    answer = {"source": "catalog", "intent": {"mode": asked.args["mode"], "referenceNodeIds": asked.args["referenceNodeIds"]}, "models": found}
    keys = tuple(digest(m["selection"]) for m in found if m["selectable"])
    facts = (Issued(SELECTION, keys, _under(asked, asked.args["mode"]), asked.catalog.hash),)
    return Plan(prepared=Prepared(problems=problems), act=lambda _: answer, end=lambda reply: Conclusion(data=reply, facts=facts))


def _under(asked: Asked, mode: str) -> str:
    return f"{asked.canvas_id} {digest([mode, sorted(asked.args['referenceNodeIds'])])[:32]}"


def chosen(asked: Asked, mode: str, refs: Given, *, splits: bool, listed: bool = True) -> tuple[Model | None, list[FieldProblem]]:
    """The model, if it may be chosen for this (S1.35, S1.66)."""
    name = "logicalModelId" if "logicalModelId" in asked.args else "channelModelKey"
    model = asked.catalog.chosen(asked.args)
    if model is None:
        return None, [FieldProblem(name, "unknown_model", "no model is selected so")]
    if (
        listed
        and asked.session.lasting
        and not asked.session.handles.knows(SELECTION, digest(model.selection), _under(asked, mode), asked.catalog.hash)
    ):
        return model, [FieldProblem(name, "not_issued", "list the models for this mode and these references first")]
    if model.mode != mode or bool(model.splits) != splits:
        return model, [FieldProblem(name, "unsupported", "this model does something else")]
    if kind := catalog.unfit(model, refs.kinds):
        return model, [FieldProblem("referenceNodeIds", "unsupported", f"this model takes fewer references of kind {kind}")]
    if issue := next((why for m, why in asked.catalog.candidates(model.mode, refs.kinds) if m == model), ""):
        return model, [FieldProblem(name, issue, "this model cannot be chosen")]
    return model, []


# --- one task --------------------------------------------------------------------------------------------------------


class Draft(Struct, frozen=True, kw_only=True):
    """A wish that could be queued: what it is, what it is made from, what it costs."""

    model: Model
    spec: Spec
    quote: Quote
    refs: Given
    sources: tuple[str, ...]
    maker: Mapping[str, str]

    @property
    def resolved(self) -> dict[str, Any]:
        """What a person is shown."""
        made_by = {"channel": self.spec.channel, "key": self.spec.key, **self.maker}  # whoever is meant by a name may change
        shown = {"mode": self.spec.mode, "prompt": self.spec.prompt, "model": self.model.name, "selection": self.model.selection, "provider": made_by}
        shape = {
            "width": self.spec.width,
            "height": self.spec.height,
            "seconds": self.spec.seconds,
            "sound": self.spec.sound,
            "quality": self.spec.quality,
        }
        wanted = {name: value for name, value in shape.items() if value}
        return {
            **shown,
            **wanted,
            "synthetic": self.model.synthetic,
            "credits": tasks.credits_of(self.quote.amount_micro),
            "sources": list(self.sources),
        }


def intent_of(mode: str, prompt: str, files: Sequence[str]) -> str:
    """What counts as the same wish after a failure: the model does not, nor how the words are written."""
    return digest([mode, folded(prompt), sorted(files)])


def drafted(asked: Asked) -> tuple[Draft | None, list[FieldProblem], Given]:
    """The wish of generate_media."""
    args, refs = asked.args, given(asked)
    problems = [*refs.problems, *new_node(asked)]
    sources = tuple(n.id for n in refs.nodes)
    if source := args.get("sourceNodeId"):
        seen = asked.node("sourceNodeId", source)
        if seen.kind != "text" or source in args["referenceNodeIds"]:
            problems.append(FieldProblem("sourceNodeId", "not_text", "a prompt comes from a text node that is no reference"))
        sources = (*sources, source)
    model, wrong = chosen(asked, args["mode"], refs, splits=False)
    if model is None or wrong:
        return None, [*problems, *wrong], refs
    wish, quote, unable = priced(model, args, args["prompt"])
    if quote is None:
        return None, [*problems, *unable], refs
    return Draft(
        model=model, spec=spec_of(model, wish, args["prompt"], refs), quote=quote, refs=refs, sources=sources, maker=maker_of(asked, model)
    ), problems, refs  # fmt: skip


def maker_of(asked: Asked, model: Model) -> Mapping[str, str]:
    return asked.catalog.makers.get(model.channel, {})


def priced(model: Model, arguments: Mapping[str, Any], prompt: str) -> tuple[Wish, Quote | None, list[FieldProblem]]:
    """The wish made whole, and what it costs; without a price, the problems say why."""
    wish, unable = catalog.wish(model, arguments)
    if len(prompt) > model.prompt_chars:
        unable.append(FieldProblem("prompt", "length", f"at most {model.prompt_chars} characters"))
    quote = catalog.quoted(model, wish) if not unable else None
    return wish, quote, unable if quote or unable else [FieldProblem("size", "price_missing", "there is no price for this")]


def spec_of(model: Model, wish: Wish, prompt: str, refs: Given) -> Spec:
    return Spec(
        mode=wish.mode, channel=model.channel, key=model.key, prompt=prompt, width=wish.width, height=wish.height, seconds=wish.seconds,
        sound=wish.sound, quality=wish.quality, references=tuple(store.sha_of(n.asset) for n in refs.nodes), synthetic=model.synthetic,
        method=model.splits,
    )  # fmt: skip


def new_node(asked: Asked, count: int = 1) -> list[FieldProblem]:
    """Whether there is a node already where one of so many results would come to."""
    taken = next((name for name in tasks.numbered(asked.args["nodeId"], count) if asked.surface.seen(name)), "")
    return [FieldProblem("nodeId", "exists", f"a result is a new node; nothing is written over {taken!r}")] if taken else []


def _about(asked: Asked) -> dict[str, Any]:
    """What every wish for a new node says of its canvas: where, that it was read, and whether it has changed since."""
    base = asked.surface.media_hash if "snapshotHash" in asked.args else None
    return {
        "target": {"canvasId": asked.canvas_id, "nodeId": asked.args["nodeId"]}, "target_id": asked.canvas_id,
        "needs": (Need("snapshotHash", CANVAS_READ, asked.canvas_id),),
        "current": base, "changed": asked.surface.changed_since(str(asked.args["snapshotHash"])) if base else {},
    }  # fmt: skip


def existing(asked: Asked, draft: Draft, intent: str) -> str:
    """The task that is this wish already, alive or done; "" = none. A person who says yes to another one gets it: as another node, or as the

    same where the result is not on it any more.
    """
    another, node = bool(asked.caller.approved_by or asked.caller.plan_id), asked.args["nodeId"]
    known = standing(asked, draft, intent)
    return next((task for task, body in known if not another or (body.node == node and not tasks.gone(body, asked.surface))), "")


def standing(asked: Asked, draft: Draft, intent: str) -> list[tuple[str, Body]]:
    """The tasks that are this wish, alive or done, the newest first."""
    wish, out = wish_of(draft), list[tuple[str, Body]]()
    for known, task_id in store.tasks_of_intent(asked.tx, asked.tenant, asked.canvas_id, intent):
        found = rows.find(asked.tx, asked.tenant, task_id)
        if known == wish and found and PHASES[found.state] in ("waiting", "running", "succeeded"):
            out.append((task_id, tasks.body_of(found)))
    return out


def wish_of(draft: Draft) -> str:
    return digest([msgspec.to_builtins(draft.spec), draft.refs.files])


def died(asked: Asked, intent: str) -> bool:
    """Whether the last task of this intent ended without a result, or is unknown: the next one is a person's to allow (S1.82)."""
    for _, task_id in store.tasks_of_intent(asked.tx, asked.tenant, asked.canvas_id, intent):
        found = rows.find(asked.tx, asked.tenant, task_id)
        return found is not None and PHASES[found.state] in _DEAD
    return False


def _generate(asked: Asked) -> Plan:
    draft, problems, refs = drafted(asked)
    about, intent = _about(asked), intent_of(asked.args["mode"], asked.args["prompt"], refs.files)
    if draft and not asked.caller.dry_run and (known := existing(asked, draft, intent)):
        return idle(Prepared(**about), known)
    if draft is None or problems:
        stale = about["current"] is not None and asked.args["snapshotHash"] != about["current"]
        return idle(Prepared(**about, problems=() if stale else tuple(problems)))
    texts = (digest([s.hash for s in (asked.surface.seen(i) for i in draft.sources) if s and s.kind == "text"]),)
    prepared = Prepared(**about, resolved=draft.resolved, quote=draft.quote, assets=(*refs.files, *texts), confirm=died(asked, intent))
    body = _body(asked, draft)

    def act(step_id: str) -> dict[str, Any]:
        return queued(asked, body, draft, intent, step_id)

    return Plan(prepared=prepared, act=act, end=lambda reply: concluded(asked, reply))


def idle(prepared: Prepared, known: str = "") -> Plan:
    """A plan that is not carried out: it is refused, or is the task `known` already."""

    def never(_: Any) -> Any:
        raise problem("conflict", "what was refused cannot be carried out", stage="plan")

    return Plan(prepared=prepared, act=never, end=never, known=known)


def _body(asked: Asked, draft: Draft) -> Body:
    return Body(
        canvas=asked.canvas_id, owner=asked.caller.owner, node=asked.args["nodeId"], title=asked.args["title"], operation=asked.call.operation_id,
        spec=draft.spec, at=asked.call.now_ms, maker=draft.maker,
    )  # fmt: skip


def queued(asked: Asked, body: Body, draft: Draft, intent: str, step_id: str) -> dict[str, Any]:
    """Node, connections and task, in this transaction. The charge was reserved by the intent of the same call."""
    task_id = f"task_{digest([asked.tenant, step_id])[:24]}"
    spec = body.spec
    if draft.refs.recipes and not spec.method:  # drawn now, so that what is sent is what was approved
        notes = tuple(drawn(asked, recipe).sha256 for recipe in draft.refs.recipes)
        spec = msgspec.structs.replace(spec, references=(*spec.references, *notes))
    placed = Placed(
        id=body.node, type=spec.mode, title=body.title, sources=draft.sources,
        body={"prompt": spec.prompt, "task": {"taskId": task_id, "status": "queued"}},
    )  # fmt: skip
    asked.surface.place([placed], actor=asked.actor, operation=body.operation, at=asked.call.now_ms)
    if asked.op.effect == "pay":  # reserved in this transaction, by the intent of this call
        reserved = spending.charges(asked.tx, asked.tenant, "order_id", f"{step_id.rpartition('/')[0]}/pay")[-1]
        body = msgspec.structs.replace(body, order=reserved.order, source=reserved.source, reserved=reserved.amount_micro)
    body = msgspec.structs.replace(body, spec=spec)
    tasks.add(asked.tx, asked.tenant, task_id, asked.caller.session, body)
    store.note_intent(asked.tx, asked.tenant, asked.canvas_id, intent, wish_of(draft), task_id)
    return {"taskId": task_id, "nodeId": body.node, "state": "queued", "snapshotHash": asked.surface.content_hash}


def concluded(asked: Asked, reply: dict[str, Any]) -> Conclusion:
    """Read back: the task as it is stored, and the node that names it."""
    found = rows.find(asked.tx, asked.tenant, reply["taskId"])
    node = asked.surface.seen(reply["nodeId"])
    kept = [found.id, found.state, tasks.body_of(found).node] if found and node else []
    proof = compared("readback", digest([reply["taskId"], "queued", reply["nodeId"]]), digest(kept))
    data = {**reply, "canvasId": asked.canvas_id, "kind": found.kind if found else "", "mediaSnapshotHash": asked.surface.media_hash}
    facts = (Read(CANVAS_READ, asked.canvas_id, 1, asked.surface.content_hash), Issued(NODE, (reply["nodeId"],), asked.canvas_id))
    return Conclusion(data=data, proofs=(proof,), facts=facts, compensation=Compensation(reason="a task is cancelled, not taken back"))


# --- taking a picture apart ------------------------------------------------------------------------------------------


def _split(asked: Asked) -> Plan:
    refs = given(asked)
    problems = [*refs.problems, *new_node(asked, limits.LAYERS)]
    if any(n.kind != "image" for n in refs.nodes):
        problems.append(FieldProblem("referenceNodeIds[0]", "not_image", "only a picture is taken apart"))
    model, wrong = chosen(asked, "image", msgspec.structs.replace(refs, recipes=()), splits=True)
    problems += wrong
    if asked.args.get("quality") is not None:
        problems.append(FieldProblem("quality", "unsupported", "these methods have no qualities"))
    points = tuple((note.x, note.y) for recipe in refs.recipes for note in recipe.annotations)
    if model and model.splits == "point-cut" and not points:
        problems.append(FieldProblem("referenceTransientIds", "required", "an object is cut out around points: annotate it first"))
    about = _about(asked)
    if model is None or problems:
        return idle(Prepared(**about, problems=tuple(problems)))
    spec = msgspec.structs.replace(spec_of(model, Wish(mode="image"), asked.args["prompt"], refs), points=points)
    draft = Draft(model=model, spec=spec, quote=Quote(0), refs=refs, sources=tuple(n.id for n in refs.nodes), maker={})
    prepared = Prepared(**about, resolved=draft.resolved | {"method": model.splits}, assets=refs.files)
    intent = intent_of("layers", model.splits, refs.files)
    body = _body(asked, draft)
    return Plan(prepared=prepared, act=lambda step_id: queued(asked, body, draft, intent, step_id), end=lambda reply: concluded(asked, reply))


def _task(asked: Asked) -> Plan:
    task, body = tasks.find(asked.tx, asked.tenant, asked.caller.owner, asked.canvas_id, asked.args["taskId"])
    answer = as_wire(tasks.told(asked.tx, task, body, asked.surface))
    return Plan(prepared=Prepared(), act=lambda _: answer, end=lambda reply: Conclusion(data=reply))


TABLE: Final[tuple[Tool, ...]] = (
    Tool(op=MODEL_LIST, purpose="The models for a mode and these references, with what they can do and cost.", plan=_models),
    Tool(op=GENERATE, purpose="Have a picture, clip or sound made as a new node. It costs; the answer is a task.", plan=_generate),
    Tool(op=LAYER_SPLIT, purpose="Take a picture apart into layers, each a new node. The answer is a task.", plan=_split),
    Tool(op=TASK_GET, purpose="How a task stands: its state, its result, its node and its money.", plan=_task),
)
