"""What a tally says, counted anew over all pieces: what it must be at any time."""

from __future__ import annotations

from collections.abc import Iterable

from maxi_mlx.kv_cache.tree import Node


def recount(nodes: Iterable[Node]) -> tuple[int, int, int, int, int]:
    """Pieces, conversations, tokens, bytes, and bytes that sharing saves. ``nodes``: of one tree,
    parents before children."""
    num_pieces = num_conversations = num_tokens = num_bytes = 0
    unshared = 0.0
    num_ends: dict[Node, int] = {}  # conversations that end in a block or beyond
    for node in reversed([node for node in nodes if node.is_kept]):
        num_pieces += 1
        num_bytes += node.num_bytes
        if node.kind != "block":
            continue
        ways = [(child.start, num_ends[child]) for child in node.blocks.values() if child.is_kept]
        end = node.start + node.num_kept
        own = int(all(place < end for place, _ in ways))  # nothing goes on at its end
        num_ends[node] = own + sum(ends for _, ends in ways)
        num_conversations += own
        num_tokens += node.num_kept
        used = own * node.num_kept + sum((place - node.start) * ends for place, ends in ways)
        unshared += node.num_bytes * used / max(node.num_kept, 1)
        for place, checkpoint in node.checkpoints.items():
            ends = own + sum(ends for start, ends in ways if start >= place)
            unshared += checkpoint.num_bytes * ends
    shared = max(round(unshared) - num_bytes, 0)
    return num_pieces, num_conversations, num_tokens, num_bytes, shared
