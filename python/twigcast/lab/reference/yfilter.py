"""YFilter: all paths in one nondeterministic automaton (Diao 2005, chapters 4 and 5).

The machine (:mod:`.nfa`) shares the common prefixes of all paths and runs over the message with a stack of active-state
sets. Value-based predicates are tested after structure (Selection Postponed), with or without predicate sorting; nested
paths are decomposed and put together by NP-Filter, at any depth. For predicates at the states themselves see
:mod:`.yfilter_inline`.

Not supported: nothing of the path-query language.
"""

from __future__ import annotations

from twigcast.lab.reference.events import Element
from twigcast.lab.reference.language import PathQuery
from twigcast.lab.reference.nfa import NFA, Run, State
from twigcast.lab.reference.path_algorithm import PathAlgorithm, StoredPath
from twigcast.lab.reference.selection import Selectivity
from twigcast.query import Query


class YFilter(PathAlgorithm):
    """The shared automaton with Selection Postponed and NP-Filter.

    Args:
        selectivity: Estimates for predicate sorting; without them predicates are tested as written.
        lazy_deletion: Removed queries are only struck from the results (section 4.4.6); :meth:`collect_garbage`
            takes them out of the machine.
    """

    title = "YFilter"
    source = "Diao 2005, chapters 4 and 5"

    def __init__(self, selectivity: Selectivity | None = None, *, lazy_deletion: bool = False) -> None:
        super().__init__(selectivity)
        self.nfa: NFA[StoredPath] = NFA()
        self._ends: dict[StoredPath, State[StoredPath]] = {}
        self._lazy_deletion = lazy_deletion
        self._deleted: set[str] = set()

    def add(self, query_id: str, query: Query | PathQuery) -> None:
        """Stores a query."""
        if query_id in self._deleted:
            self._deleted.discard(query_id)
            super().remove(query_id)
        super().add(query_id, query)

    def remove(self, query_id: str) -> None:
        """Drops a query; with lazy deletion, only from the results until :meth:`collect_garbage`."""
        if not self._lazy_deletion:
            super().remove(query_id)
        elif query_id in self:
            self._deleted.add(query_id)
        else:
            raise KeyError(query_id)

    def collect_garbage(self) -> int:
        """Carries out the deletions that were put off. Returns how many there were."""
        deleted = sorted(self._deleted)
        self._deleted.clear()
        for query_id in deleted:
            super().remove(query_id)
        return len(deleted)

    def __contains__(self, query_id: str) -> bool:
        return super().__contains__(query_id) and query_id not in self._deleted

    def __len__(self) -> int:
        return super().__len__() - len(self._deleted)

    def _insert_path(self, stored: StoredPath) -> None:
        end = self.nfa.insert(stored.steps)[-1]
        end.outputs.append(stored)
        self._ends[stored] = end

    def _delete_path(self, stored: StoredPath) -> None:
        end = self._ends.pop(stored)
        end.outputs.remove(stored)
        self.nfa.prune(end)

    def _size(self) -> int:
        return self.nfa.size

    def _begin(self, document: Element) -> None:
        self._run = Run(self.nfa, document, self.counters)

    def _open(self, element: Element) -> None:
        for entry in self._run.start_element(element):
            for stored in entry.state.outputs:
                self._visit(stored, entry.path_matches)

    def _close(self, element: Element) -> None:
        self._run.end_element()

    def _end_document(self, document: Element) -> set[str]:
        return super()._end_document(document) - self._deleted
