// The conversation that a client makes of an answer to `_acpbridge/events_since`.
// `rebuild.py` is the same in Python, and a test holds them to that.

const TEXTS = ["user_message_chunk", "agent_message_chunk", "agent_thought_chunk"];

/** Text in a row is one part; a tool call is one part, as its last update left it. */
export function rebuild({ frames, latestSeq, truncated, epoch, startsOver }, cursor) {
  const parts = [];
  const tools = new Map();
  // Where something is missing, nobody knows where the first frame begins.
  let before = startsOver ? 0 : cursor.seq;
  if (truncated) before = null;
  for (const { method, params } of frames) {
    const { seq, traceId } = params._meta.acpbridge;
    // A frame stands for every seq behind the frame before it: its text may be merged.
    const first = before === null ? null : before + 1;
    before = seq;
    if (method === "_acpbridge/turn_ended") {
      const reason = params.result?.stopReason ?? null;
      parts.push({ kind: "end", reason, seqs: [first, seq], traceId });
      continue;
    }
    const update = params.update;
    const kind = update.sessionUpdate;
    const last = parts.at(-1);
    if (TEXTS.includes(kind)) {
      if (last?.kind === kind && last.traceId === traceId) {
        last.text += update.content.text;
        last.seqs[1] = seq;
      } else {
        parts.push({ kind, text: update.content.text, seqs: [first, seq], traceId });
      }
    } else if (kind === "tool_call" || kind === "tool_call_update") {
      let tool = tools.get(update.toolCallId);
      if (tool === undefined) {
        tool = { kind: "tool", id: update.toolCallId, title: null, status: null };
        Object.assign(tool, { seqs: [first, seq], traceId });
        tools.set(tool.id, tool);
        parts.push(tool);
      }
      tool.title = update.title ?? tool.title;
      tool.status = update.status ?? tool.status;
      tool.seqs[1] = seq;
    } else {
      parts.push({ kind, seqs: [first, seq], traceId });
    }
  }
  return { parts, latestSeq, truncated, epoch, startsOver };
}
