"""What a hub knows: its clients, their open requests, and what became of each session."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from acpbridge.core import identity
from acpbridge.core.effects import Effect, ToClient, ToClients
from acpbridge.core.events import Event
from acpbridge.core.model import Bridge, Session
from acpbridge.core.ring import EventLog
from acpbridge.wire import codec
from acpbridge.wire.frame import Frame, RpcId

SOLO = 0
"""The one client of `run`."""


@define(eq=False)
class Client:
    """One client, from its connection to its end."""

    number: int
    has_greeted: bool = False
    """It said initialize; what it says behind that may not wait for the answer."""
    is_initialized: bool = False
    """Its initialize was answered with a result."""
    observes: bool = False
    """It said `_meta.acpbridge.observe`: it never answers and never prompts."""
    wants_events: bool = False
    """It said `_meta.acpbridge.events`: its frames carry their place in the log."""
    capabilities: dict[str, Any] = field(factory=dict)
    open: dict[RpcId, list[RpcId]] = field(factory=dict)
    """By its own id, the hub's ids of its requests at the bridge, oldest first."""
    open_count: int = 0
    """How many they are."""


@define(eq=False)
class Route:
    """A request of a client that the bridge has under the hub's id."""

    client: int
    id: RpcId
    """The id as the client wrote it."""
    method: str
    session: str = ""
    """`params.sessionId`, as the client wrote it."""
    trace: str = ""
    """The trace id of its turn, once its message went to the agent."""
    setting: bytes = b""
    """The JSON of the mode or model that it sets."""
    behind: list[bytes] = field(factory=list)
    """Answers to later requests under the same id, which wait for this one's (R26)."""


@define(eq=False)
class Ask:
    """A request of the agent that is open at clients, under the id that all of them see."""

    frame: Frame
    session: str
    shown: set[int] = field(factory=set)
    """Clients that have it and may answer it."""
    seen: set[int] = field(factory=set)
    """All that have it, observers too."""

    def drop(self, number: int) -> None:
        """A client has it no more: it has left, or knows no answer."""
        self.shown.discard(number)
        self.seen.discard(number)


@define(eq=False)
class Conversation:
    """What the clients share of a session."""

    id: str
    plain: tuple[int, ...] = ()
    """Clients that follow it and get the agent's bytes, in the order in which they came."""
    eventful: tuple[int, ...] = ()
    """Clients that follow it and get each frame with its place in the log."""
    result: bytes = b""
    """The JSON of the result with which it was opened or loaded; empty while nobody has seen one.
    Its modes, models and options are those of now."""
    history: list[bytes] | None = None
    """What the agent replayed at its load; None where that is not known, or was too much."""
    base_seq: int = 0
    """The log behind this seq and the history are all that there is."""
    seen_seq: int = 0
    """Up to here its events were given to clients that take part. Counts while none follows it."""
    loads: list[tuple[int, Frame, RpcId]] = field(factory=list)
    """Loads and resumes for the agent, each with its client and the hub's id of it: the first is
    there, the rest wait."""
    replay: list[bytes] | None = None
    """What the agent has replayed for the first of them; None where that was too much."""
    replay_bytes: int = 0
    load_seq: int = 0
    """The seq of the last event when the bridge was given the first of them."""
    window_seq: int | None = None
    """The seq of the last event before the first one that came while the agent was at it."""
    trace: str = ""
    """The trace id of its last turn."""
    is_orphaned: bool = False
    """Nobody who could answer follows it, and its grace is running."""

    @property
    def followers(self) -> tuple[int, ...]:
        """All who are told what happens in it."""
        return self.plain + self.eventful


@define(eq=False)
class Hub:
    """A bridge and all who stand before it."""

    bridge: Bridge
    log: EventLog
    is_shared: bool
    """Clients come and go (`serve`); else there is the one of `run`, number 0."""
    is_asleep: bool
    """The one client has not asked for events: everything passes."""
    out: list[Effect] = field(factory=list)
    clients: dict[int, Client] = field(factory=dict)
    routes: dict[RpcId, Route] = field(factory=dict)
    """The clients' open requests at the bridge, by the hub's id."""
    asks: dict[RpcId, Ask] = field(factory=dict)
    conversations: dict[str, Conversation] = field(factory=dict)
    initialized: bytes = b""
    """The JSON of the agent's initialize result; empty before it."""
    first: Client | None = None
    """Whose initialize the agent got, while that is open and afterwards."""
    late: list[tuple[int, Frame]] = field(factory=list)
    """Clients whose initialize waits for the answer to another one's."""
    more: list[Event] = field(factory=list)
    """What the bridge is to be told behind what it was just told."""
    strays: list[tuple[RpcId, int]] = field(factory=list)
    """Ids of refused lines that the bridge answers under the client's own id, oldest first."""
    last_id: int = 0

    # -- verbs ------------------------------------------------------------------------------
    def send(self, clients: tuple[int, ...], *lines: bytes) -> None:
        """Write lines to some clients; to nobody is no matter."""
        if not clients:
            return
        if self.is_shared:
            self.out.append(ToClients(clients, lines))
        else:
            self.out += [ToClient(line) for line in lines]

    def respond(self, client: int, id_: RpcId, result: Any) -> None:
        """Answer a client's request without the bridge."""
        self.answer(client, id_, codec.result(id_, result))

    def refuse(self, client: int, id_: RpcId, code: int, text: str) -> None:
        """Answer a client's request with a plain error."""
        self.answer(client, id_, codec.error(id_, code, text))

    def answer(self, client: int, id_: RpcId, line: bytes, own: RpcId | None = None) -> None:
        """Answer a client's request, behind older open ones that it wrote under the same id (R26).

        `own` is the hub's id of the request, where it still has one: from here on nothing waits
        for its answer, not even what is answered in the same step.
        """
        asker = self.clients.get(client)
        if asker is None:
            return
        lines, opened = [line], asker.open.get(id_, [])
        older = opened[: opened.index(own)] if own in opened else opened
        if own in self.routes:
            lines += self.end_route(own).behind
        if older and self.is_shared:
            self.routes[older[-1]].behind += lines
        else:
            self.send((client,), *lines)

    def begin_route(self, wire_id: RpcId, route: Route) -> None:
        """A request goes to the bridge under this id.

        The one client of `run` keeps its ids: of two under the same the first is answered first.
        """
        asker = self.clients[route.client]
        if wire_id not in self.routes:
            self.routes[wire_id] = route
            asker.open.setdefault(route.id, []).append(wire_id)
            asker.open_count += 1

    def end_route(self, wire_id: RpcId) -> Route:
        """It is answered."""
        route = self.routes.pop(wire_id)
        asker = self.clients.get(route.client)
        if asker is not None:
            asker.open_count -= 1
            opened = asker.open[route.id]
            opened.remove(wire_id)
            if not opened:
                del asker.open[route.id]
        return route

    def new_id(self, client: int) -> RpcId:
        """An id for a client's request, which names whose it is."""
        self.last_id += 1
        return RpcId(f'"acpbridge-{self.bridge.nonce}-c{client}-{self.last_id}"'.encode())

    def note(self, name: str, level: str = "info", **fields: Any) -> None:
        """Say one thing to the log and count it."""
        self.bridge.note(name, level, **fields)
        self.out += self.bridge.out
        self.bridge.out = []

    def count(self, name: str) -> None:
        """Count without a line in the log."""
        self.bridge.count(name)

    def session(self, name: str) -> Session | None:
        """The bridge's session of this id, as clients or as the agent know it."""
        return identity.of_client(self.bridge, name)

    def conversation(self, name: str) -> Conversation:
        """What is shared of a session; begun where nothing is."""
        session = self.session(name)
        id_ = session.id if session is not None else name
        found = self.conversations.get(id_)
        if found is None:
            self._forget_old()
            found = self.conversations[id_] = Conversation(id_)
            # Nobody is there yet: what came before is not missed by anyone.
            found.base_seq = found.seen_seq = self.log.latest_seq(id_)
            if not self.is_shared:
                found.eventful = (SOLO,)
        return found

    def known(self, name: str) -> Conversation | None:
        """What is shared of a session, if anything is."""
        session = self.session(name)
        return self.conversations.get(session.id if session is not None else name)

    def _forget_old(self) -> None:
        """Make room within `sessions_max`: the oldest that the bridge knows no more goes.

        Where all of those are followed, one that is: nothing is heard of it until it is loaded.
        """
        if len(self.conversations) < self.bridge.policy.sessions_max:
            return
        known = self.bridge.sessions
        old = [one for id_, one in self.conversations.items() if id_ not in known and not one.loads]
        found = next((one for one in old if not one.followers), old[0] if old else None)
        if found is not None:
            del self.conversations[found.id]

    def trace(self, conversation: Conversation) -> str:
        """The trace id of the turn that runs in it now; empty where none does."""
        session = self.bridge.sessions.get(conversation.id)
        if session is None or session.turn is None:
            return ""
        conversation.trace = self.bridge.trace(session.turn)
        return conversation.trace

    def is_participant(self, number: int) -> bool:
        """Whether a client is there and may answer and prompt."""
        client = self.clients.get(number)
        return client is not None and not client.observes

    def participants(self, conversation: Conversation) -> tuple[int, ...]:
        """Those who follow it and may answer what its agent asks."""
        return tuple(one for one in conversation.followers if self.is_participant(one))
