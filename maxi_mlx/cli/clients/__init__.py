"""The clients that ``maxi-mlx connect`` knows: a small module for each kind of them."""

from __future__ import annotations

from maxi_mlx.cli.clients import agents, chats, editors, libraries
from maxi_mlx.cli.clients.guide import Client

__all__ = ["CLIENTS", "Client"]

CLIENTS = {
    client.name: client
    for client in (*agents.CLIENTS, *editors.CLIENTS, *chats.CLIENTS, *libraries.CLIENTS)
}
