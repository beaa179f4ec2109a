"""An ACP client on the Python SDK that does what it is told, one JSON object a line.

    python python_client.py COMMAND…                 an agent's command, over stdio
    python python_client.py --ws URL --token TOKEN   a daemon, over WebSocket

`tests/clients/client.py` has the words that it understands and says.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import acp
from acp import schema
from acp.client.connection import ClientSideConnection
from acp.ws.client import create_websocket_stream
from pydantic import BaseModel

from tests.clients.rebuild import rebuild

Words = dict[str, Any]
NO_MCP: list[
    schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio
] = []


def say(saw: str, **more: Any) -> None:
    print(json.dumps({"saw": saw, **more}), flush=True)  # noqa: T201 - the test reads it


def plain(model: BaseModel | dict[str, Any] | None) -> Any:
    """A value of the SDK as the JSON that it stands for."""
    if isinstance(model, BaseModel):
        return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)
    return model


class Client:
    """The agent's side of the conversation; what the protocol allows to be absent, is."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[str]] = []
        """Permission requests that nobody has answered, oldest first."""

    async def session_update(self, session_id: str, update: BaseModel, **meta: Any) -> None:
        params = {"sessionId": session_id, "update": plain(update)}
        say("update", params=params | ({"_meta": meta} if meta else {}))

    async def request_permission(
        self,
        session_id: str,
        tool_call: BaseModel,
        options: list[schema.PermissionOption],
        **meta: Any,
    ) -> schema.RequestPermissionResponse:
        params = {"sessionId": session_id, "toolCall": plain(tool_call)}
        params["options"] = [plain(option) for option in options]
        say("permission", params=params | ({"_meta": meta} if meta else {}))
        self.asked.append(asyncio.get_running_loop().create_future())
        chosen = await self.asked[-1]
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def ext_notification(self, method: str, params: Words) -> None:
        say("notification", method=f"_{method}", params=params)


class Verbs:
    """What is answered, by the word that asks for it."""

    def __init__(self, agent: ClientSideConnection) -> None:
        self.agent = agent

    async def initialize(self, told: Words) -> Any:
        capabilities = schema.ClientCapabilities(field_meta=told.get("meta"))
        info = schema.Implementation(name="python-sdk", version="0.12.1")
        return await self.agent.initialize(acp.PROTOCOL_VERSION, capabilities, info)

    async def new(self, told: Words) -> Any:
        return await self.agent.new_session(told["cwd"], mcp_servers=NO_MCP)

    async def load(self, told: Words) -> Any:
        return await self.agent.load_session(told["cwd"], told["session"], NO_MCP)

    async def resume(self, told: Words) -> Any:
        return await self.agent.resume_session(told["session"], told["cwd"], mcp_servers=NO_MCP)

    async def prompt(self, told: Words) -> Any:
        blocks = [acp.text_block(told["text"])]
        return await self.agent.prompt(told["session"], [*blocks], **(told.get("meta") or {}))

    async def request(self, told: Words) -> Any:
        return await self.agent.ext_method(told["method"].removeprefix("_"), told["params"])

    async def replay(self, told: Words) -> Any:
        params, cursor = {"sessionId": told["session"]}, told.get("cursor")
        if cursor is not None:
            params["cursor"] = cursor
        return rebuild(await self.agent.ext_method("acpbridge/events_since", params), cursor)


async def answered(name: str, asked: Awaitable[Any]) -> None:
    try:
        result = await asked
    except acp.RequestError as error:
        say("answer", name=name, error=error.to_error_obj())
    except ConnectionError:
        return
    else:
        say("answer", name=name, result=plain(result))


async def obey(client: Client, agent: ClientSideConnection) -> None:
    """Do what stdin says, until it ends."""
    stdin = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    verbs = Verbs(agent)
    async with asyncio.TaskGroup() as tasks:
        while line := await stdin.readline():
            told = json.loads(line)
            if told["do"] == "cancel":
                # As a task too: it does not overtake a prompt that was told of before it.
                tasks.create_task(agent.cancel(told["session"]))
            elif told["do"] == "answer":
                client.asked.pop(0).set_result(told["option"])
            else:
                verb: Callable[[Words], Awaitable[Any]] = getattr(verbs, told["do"])
                tasks.create_task(answered(told["name"], verb(told)))
        await agent.close()


@asynccontextmanager
async def connected(client: acp.Client, words: list[str]) -> AsyncIterator[ClientSideConnection]:
    if words[0] != "--ws":
        # Its own default is a pipe that nobody reads.
        how = {"stderr": None}
        spawned = acp.spawn_agent_process(
            client, *words, env=dict(os.environ), transport_kwargs=how
        )
        async with spawned as (agent, _):
            yield agent
        return
    headers = {"Authorization": f"Bearer {words[3]}"}
    stream = await create_websocket_stream(words[1], headers=headers)
    yield acp.connect_to_agent(client, stream)


async def main() -> None:
    client = Client()
    async with connected(cast("acp.Client", client), sys.argv[1:]) as agent:
        await obey(client, agent)


if __name__ == "__main__":
    asyncio.run(main())
