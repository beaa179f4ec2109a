// An ACP client on the TypeScript SDK that does what it is told, one JSON object a line:
//
//     node typescript_client.mjs SDK COMMAND…
//
// SDK is the folder that .ci/clients installed the SDK in, COMMAND the agent's, spoken to over
// stdio. `tests/clients/client.py` has the words that it understands and says.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

import { rebuild } from "./rebuild.mjs";

const [folder, command, ...words] = process.argv.slice(2);
const entry = createRequire(`${folder}/`).resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(entry));
const { agent, client } = acp.methods;

/** Permission requests that nobody has answered, oldest first. */
const asked = [];

function say(saw, more) {
  process.stdout.write(`${JSON.stringify({ saw, ...more })}\n`);
}

/** Wait for the test's word, or for the agent's that it wants no answer any more. */
function askPermission({ params, signal }) {
  say("permission", { params });
  return new Promise((resolve, reject) => {
    const open = { resolve };
    asked.push(open);
    signal.addEventListener("abort", () => {
      asked.splice(asked.indexOf(open), 1);
      say("withdrawn", { toolCallId: params.toolCall.toolCallId });
      reject(acp.RequestError.requestCancelled());
    });
  });
}

const app = acp
  .client({ name: "typescript-sdk" })
  .onRequest(client.session.requestPermission, askPermission)
  .onNotification(client.session.update, ({ params }) => say("update", { params }))
  .onNotification("*", ({ method, params }) => say("notification", { method, params }));

const child = spawn(command, words, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const connection = app.connect(stream);

function initialize({ meta }) {
  const capabilities = { fs: { readTextFile: false, writeTextFile: false }, terminal: false };
  return connection.agent.request(agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientInfo: { name: "typescript-sdk", version: "2.4.0" },
    clientCapabilities: { ...capabilities, ...(meta && { _meta: meta }) },
  });
}

function prompt({ session, text, meta }) {
  return connection.agent.request(agent.session.prompt, {
    sessionId: session,
    prompt: [{ type: "text", text }],
    ...(meta && { _meta: meta }),
  });
}

async function replay({ session, cursor }) {
  const params = { sessionId: session, ...(cursor && { cursor }) };
  return rebuild(await connection.agent.request("_acpbridge/events_since", params), cursor);
}

/** What is answered, by the word that asks for it. */
const verbs = {
  initialize,
  prompt,
  replay,
  new: ({ cwd }) => connection.agent.request(agent.session.new, { cwd, mcpServers: [] }),
  load: ({ session, cwd }) =>
    connection.agent.request(agent.session.load, { sessionId: session, cwd, mcpServers: [] }),
  resume: ({ session, cwd }) =>
    connection.agent.request(agent.session.resume, { sessionId: session, cwd, mcpServers: [] }),
  request: ({ method, params }) => connection.agent.request(method, params),
};

function obey(told) {
  if (told.do === "cancel") {
    connection.agent.notify(agent.session.cancel, { sessionId: told.session });
  } else if (told.do === "answer") {
    asked.shift().resolve({ outcome: { outcome: "selected", optionId: told.option } });
  } else {
    verbs[told.do](told).then(
      (result) => say("answer", { name: told.name, result }),
      ({ code, message, data }) =>
        say("answer", { name: told.name, error: { code, message, data } }),
    );
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  obey(JSON.parse(line));
}
connection.close();
child.stdin.end();
