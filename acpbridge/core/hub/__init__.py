"""Many clients at one bridge: who is told what, what was missed, who is owed which answer.

The rule of this package: the bridge behind it knows one client, and that is the hub. Every
request goes there under an id that names its client, every line that comes from there is given
to whom it concerns, and what happened is kept in the event log for those who were away.
"""

from acpbridge.core.hub.queries import gauges
from acpbridge.core.hub.state import Hub
from acpbridge.core.hub.step import begin, open_hub, step

__all__ = ["Hub", "begin", "gauges", "open_hub", "step"]
