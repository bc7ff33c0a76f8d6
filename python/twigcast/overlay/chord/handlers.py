"""The tables from messages and timers to handlers. Importing this module makes `Peer` complete."""

from __future__ import annotations

from twigcast.overlay.chord import (
    indexing,
    iterative,
    maintenance,
    meeting,
    messages,
    publication,
    replication,
    shedding,
)
from twigcast.overlay.chord.peer import Peer, on_located, on_routed
from twigcast.overlay.core import KeyRoutedMessage

Peer.handlers = {
    KeyRoutedMessage: on_routed,
    messages.Branched: publication.on_branched,
    messages.Collected: iterative.on_collected,
    messages.Expanded: iterative.on_expanded,
    messages.SuccessorReply: maintenance.on_successor_reply,
    messages.GetNeighbours: maintenance.on_get_neighbours,
    messages.Indexed: indexing.on_indexed,
    messages.LeaveRing: maintenance.on_leave,
    messages.Located: on_located,
    messages.Neighbours: maintenance.on_neighbours,
    messages.Notify: publication.on_notify,
    messages.NotifyPredecessor: maintenance.on_notify,
    messages.PartMatch: meeting.on_part_match,
    messages.PredecessorPing: maintenance.ignore,
    messages.Pull: replication.on_pull,
    messages.Pulled: replication.on_pulled,
    messages.RangeDigest: replication.on_range_digest,
    messages.Refuse: maintenance.on_refuse,
    messages.Replicate: replication.on_replicate,
    messages.Stored: replication.on_stored,
    messages.Welcome: maintenance.on_welcome,
    messages.ReplicaInfo: shedding.on_replica_info,
}

Peer.keyed = {
    messages.CollectAccepted: iterative.on_collect,
    messages.CopyEdgeGone: indexing.on_copy_edge_gone,
    messages.EdgePruned: indexing.on_edge_pruned,
    messages.ExpandState: iterative.on_expand_state,
    messages.FindSuccessor: maintenance.on_find_successor,
    messages.IndexQuery: indexing.on_index_query,
    messages.Join: maintenance.on_join,
    messages.PartMatch: meeting.on_routed_part_match,
    messages.PruneEdge: indexing.on_prune_edge,
    messages.RecExpand: publication.on_rec_expand,
    messages.Replicate: replication.on_routed_replicate,
    messages.CopyRequest: shedding.on_copy_request,
    messages.Release: shedding.on_release,
    messages.Shed: shedding.on_shed,
}

Peer.timer_handlers = {
    "join": maintenance.try_join,
    "publication": publication.on_publication_timer,
    "repair": indexing.on_repair_timer,
    "stabilise": maintenance.on_stabilise_timer,
    "request": indexing.send_request,
}

Peer.on_lost_node = maintenance.on_lost_node  # type: ignore[assignment]

Peer.lost_handlers = {
    KeyRoutedMessage: maintenance.on_lost_routed,
    messages.PartMatch: meeting.on_lost_part_match,
    messages.Notify: meeting.on_lost_notify,
}
