"""The tables from messages, timers and happenings to functions. Importing this module makes `CoddNode` complete."""

from __future__ import annotations

from twigcast.overlay.codd import join, leave, links, messages, node, reorganise
from twigcast.overlay.codd.node import CoddNode

CoddNode.handlers = {
    messages.Add: join.on_add,
    messages.AddChild: links.on_add_child,
    messages.AddResult: join.on_add_result,
    messages.AttachConfirmation: links.on_attached,
    messages.ChangeQueries: links.on_change_queries,
    messages.EndOfStream: links.on_end_of_stream,
    messages.Forward: node.on_forward,
    messages.GetOverhead: reorganise.on_get_overhead,
    messages.Grant: reorganise.on_grant,
    messages.Heartbeat: node.on_heartbeat,
    messages.Leave: links.on_leave,
    messages.Move: reorganise.on_move,
    messages.Moved: reorganise.on_moved,
    messages.NewParent: leave.on_new_parent,
    messages.Overhead: reorganise.on_overhead,
    messages.Reject: join.on_reject,
    messages.Reorganize: reorganise.on_reorganize,
    messages.Replay: links.on_replay,
    messages.ReplayDone: links.on_replay_done,
    messages.Replayed: node.on_replayed,
    messages.SearchDone: reorganise.on_search_done,
}

CoddNode.timer_handlers = {
    "beat": links.on_beat_timer,
    "attach": join.on_attach_timer,
    "grant": reorganise.on_grant_timer,
    "join": join.on_join_timer,
    "leaving": leave.send_children_on,
    "move": reorganise.on_move_timer,
    "moving": reorganise.on_moving_timer,
    "overhead": reorganise.on_overhead_timer,
    "replay": links.on_replay_timer,
    "watch": join.on_watch_timer,
}

CoddNode.hooks = {
    "child_gone": leave.on_child_gone,
    "covered": links.covered,
    "document": reorganise.after_document,
    "moved": reorganise.on_moved_hook,
    "link_lost": links.on_link_lost,
    "orphaned": join.orphaned,
    "refused": join.on_refused,
    "started": join.on_started,
    "stayed": reorganise.on_stayed,
}
