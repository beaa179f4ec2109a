"""An honest bridge between an ACP client and an ACP agent."""

__version__ = "0.1.0"
