"""One prompt of a tape: what it asked, what its answer is worth, what became of it. Pure.

What a receipt is, and what an empty answer, is the design's (R8, R10 to R12); the profiles have
the texts. No profile is chosen: a tape may not say whose it is, and the texts are whole sentences.
"""

from __future__ import annotations

from typing import Any

import orjson
from attrs import define, evolve

from acpbridge.core.answers import carries_usage, is_bare
from acpbridge.profiles import AGENTS
from acpbridge.store.diagnosis.finding import SWALLOWED_MS, Finding, Mark, span
from acpbridge.wire import acp

_RECEIPT_CHARS_MAX = 4_096
"""A longer chunk is no receipt: they quote at most a short text."""
_PROFILES = tuple(AGENTS.values())
_RECEIPT_HEADS = tuple(head for one in _PROFILES for head in one.receipt_heads)
_PLAIN_COMMANDS = frozenset(name for one in _PROFILES for name in one.plain_commands)
_COMMANDS = frozenset(name for one in _PROFILES for name in one.commands)
_ECHOES_WITHOUT_TEXT = frozenset(one.echo_without_text for one in _PROFILES) - {""}


@define(eq=False)
class Prompt:
    """One `session/prompt` of the client."""

    id: str
    """The id's own JSON text."""
    at_s: float
    session: str
    mark: Mark
    text: str
    """As the agent echoes it: text blocks joined, stripped, a plain command's argument."""
    is_command: bool
    is_blank: bool
    worked: bool = False
    """Output of the session has come since it was written."""
    cancelled: bool = False
    receipt: tuple[str, Mark] | None = None
    """Kind and line of a receipt text since it was written, until an answer uses it."""
    finding: Finding | None = None
    """Set once it is answered and its real answer is awaited."""
    answered_s: float = 0.0
    echo: Mark | None = None
    """Where a drained queue begins with it."""

    @property
    def awaits(self) -> str:
        """What its real answer begins with: "echo", or "work" of the session."""
        return "echo" if self.receipt is not None and self.receipt[0] == "queued" else "work"

    def came(self, at_s: float, mark: Mark) -> Finding:
        """Its real answer begins, after all."""
        assert self.finding is not None, "it is answered"
        later_s = at_s - self.answered_s
        if self.receipt is not None and self.receipt[0] == "redirected":
            answer = "in_turn"
            says = f"it went into the running turn, whose output went on {span(later_s)} later"
        else:
            answer = "later"
            says = f"its real answer began {span(later_s)} later"
        echo = () if self.echo is None else (self.echo,)
        return self._with(answer, says, (*echo, mark), later_s=round(later_s, 4))

    def never_came(self) -> Finding:
        """Nothing more can come of it."""
        assert self.finding is not None, "it is answered"
        if self.echo is not None:
            return self._with("never", "it ran, and nothing of it was streamed", (self.echo,))
        return self._with("never", "no answer was ever streamed", ())

    def _with(self, answer: str, says: str, marks: tuple[Mark, ...], **facts: Any) -> Finding:
        finding = self.finding
        assert finding is not None
        kind = finding.kind
        if kind == "late" and answer == "never":
            kind = "unstreamed"
        return evolve(
            finding,
            kind=kind,
            says=f"{finding.says}; {says}",
            marks=(*finding.marks, *marks),
            facts={**finding.facts, "answer": answer, **facts},
        )


def read_prompt(
    id_: str, at_s: float, params: dict[str, Any], mark: Mark, commands: frozenset[str]
) -> Prompt:
    """The prompt of a request's params; `commands` are those that the agent has advertised."""
    blocks = params.get("prompt")
    blocks = [one for one in blocks if isinstance(one, dict)] if isinstance(blocks, list) else []
    texts = [str(one.get("text", "")) for one in blocks if one.get("type") == "text"]
    text = "\n".join(texts).strip()
    word, _, rest = text.partition(" ")
    command = word[1:] if word.startswith("/") else ""
    return Prompt(
        id_,
        at_s,
        str(params.get("sessionId", "")),
        mark,
        text=rest.strip() if command in _PLAIN_COMMANDS else text,
        is_command=command in commands or command in _COMMANDS,
        is_blank=not text and len(texts) == len(blocks),
    )


def judge(prompt: Prompt, result: Any, at_s: float, mark: Mark) -> Finding | None:
    """What is wrong with this result of a prompt: None where nothing is.

    "late" stands for an answer without output until it is known whether any comes.
    """
    stop = result.get("stopReason") if isinstance(result, dict) else None
    took_ms = (at_s - prompt.at_s) * 1000
    if prompt.receipt is not None and not is_bare(result):
        # A model may say these words; what makes a receipt is the answer behind them.
        prompt.receipt, prompt.worked = None, True
    reason = _reason(prompt, result, stop, took_ms)
    if reason is None or prompt.cancelled:
        return None
    kind, why = reason
    facts: dict[str, Any] = {"duration_ms": round(took_ms, 3), "stop_reason": stop}
    marks = [prompt.mark, mark]
    if prompt.receipt is not None:
        facts["receipt"] = prompt.receipt[0]
        marks.insert(1, prompt.receipt[1])
    says = f"the send was answered after {span(took_ms / 1000)} {why}"
    at = f"{prompt.at_s:.4f} s"
    finding = Finding("swallowed", at, prompt.session, says, tuple(marks), facts)
    return finding if kind == "swallowed" else evolve(finding, kind="late")


def _reason(prompt: Prompt, result: Any, stop: Any, took_ms: float) -> tuple[str, str] | None:
    """("swallowed" or "late", the end of the sentence); None where the answer is honest."""
    at_once = took_ms < SWALLOWED_MS
    if prompt.receipt is not None:
        return "swallowed", f"by a receipt ({prompt.receipt[0]})"
    if prompt.is_command or prompt.is_blank:
        return None
    if stop == acp.REFUSAL and not prompt.worked and at_once:
        return "swallowed", "by a refusal without a word: the agent does not know the session"
    if stop == acp.CANCELLED and not prompt.worked and at_once:
        return "swallowed", "as cancelled, which nobody had asked for"
    if stop != acp.END_TURN:
        return None
    if prompt.worked:
        # A sentence that no profile knows yet, in place of a turn.
        is_suspect = at_once and not carries_usage(result)
        return (
            ("swallowed", "with output, but sooner than any model answers") if is_suspect else None
        )
    return ("swallowed" if at_once else "late"), "without any output"


def receipt_kind(text: str) -> str:
    """Which receipt of any agent that we know the whole text is; "" for none."""
    if not text.startswith(_RECEIPT_HEADS) or len(text) > _RECEIPT_CHARS_MAX:
        return ""
    return next((kind for one in _PROFILES if (kind := one.receipt_kind(text))), "")


def is_echo_of(text: str, prompt: Prompt) -> bool:
    """Whether a `user_message_chunk` of this text begins the run of this prompt."""
    if not prompt.text:
        return text in _ECHOES_WITHOUT_TEXT
    return text.strip() == prompt.text


def json_id(value: Any) -> str:
    """An id's own JSON text, as far as a tape has kept it."""
    return orjson.dumps(value).decode("utf-8")
