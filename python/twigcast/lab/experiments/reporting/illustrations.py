"""The figures and tables that show no measurement, and where Twigcast has what they show."""

from twigcast.lab.experiments.framework.model import Illustration

_DIAO = "Diao 2005, "
_DAI = "Dai 2009, "

ILLUSTRATIONS = (
    Illustration(
        "D-T2", "Parameters of path queries", _DIAO + "table 2", "twigcast generate queries; workload.path_queries"
    ),
    Illustration("D-F4.1", "Architecture of the filter", _DIAO + "figure 4.1", "docs: the published algorithms"),
    Illustration("D-F4.2", "The automaton of eight queries", _DIAO + "figure 4.2", "docs: YFilter; tests/reference"),
    Illustration("D-F4.3", "Fragments per location step", _DIAO + "figure 4.3", "reference.nfa; docs: YFilter"),
    Illustration("D-F4.4", "Merging fragments", _DIAO + "figure 4.4", "reference.nfa; docs: YFilter"),
    Illustration("D-F4.5", "Execution with the runtime stack", _DIAO + "figure 4.5", "docs: YFilter; tests/reference"),
    Illustration("D-F5.1", "Predicate tables, Inline", _DIAO + "figure 5.1", "reference.yfilter_inline"),
    Illustration("D-F5.2", "Predicates, Selection Postponed", _DIAO + "figure 5.2", "reference.selection"),
    Illustration("D-F5.3", "A query with predicates on a recursive message", _DIAO + "figure 5.3", "tests/reference"),
    Illustration("D-F5.7", "NP-Filter at work", _DIAO + "figure 5.7", "reference.np_filter; tests/reference"),
    Illustration("D-F6.1", "Architecture of the transformation", _DIAO + "figure 6.1", "docs: plans for rewriting"),
    Illustration("D-F6.2", "Path tuples", _DIAO + "figure 6.2", "tests/transform: streams"),
    Illustration("D-F6.3", "PathSharing-F", _DIAO + "figure 6.3", "transform.plans; tests/transform"),
    Illustration("D-F6.4", "PathSharing-FW", _DIAO + "figure 6.4", "transform.plans; tests/transform"),
    Illustration("D-F6.5", "PathSharing-FWR", _DIAO + "figure 6.5", "transform.plans; tests/transform"),
    Illustration("D-F6.6", "A shared plan", _DIAO + "figure 6.6", "transform.sharing; tests/transform"),
    Illustration(
        "D-T7",
        "Parameters of For-Where-Return queries",
        _DIAO + "table 7",
        "twigcast generate queries --flwr; workload.flwr_queries",
    ),
    Illustration("D-FA.1", "Path nodes and query index of XFilter", _DIAO + "figure A.1", "docs: XFilter"),
    Illustration(
        "D-FE.1-3", "Proofs of the claims on ordering", _DIAO + "appendix E", "transform.claims; tests/transform"
    ),
    Illustration("B-F2.6-7", "An automaton and its trace", _DAI + "figures 2.6, 2.7", "docs: YFilter; tests/reference"),
    Illustration("B-F2.8-9", "AxisView and StackBranch", _DAI + "figures 2.8, 2.9", "docs: AFilter; tests/reference"),
    Illustration("B-F2.10-12", "Tree patterns and TOP encoding", _DAI + "figures 2.10 to 2.12", "docs: GFilter"),
    Illustration(
        "B-F3.1-12",
        "Branch points, sub-queries, portions",
        _DAI + "figures 3.1 to 3.12",
        "docs: BFilter; tests/reference",
    ),
    Illustration(
        "B-A.1-6", "A query through three engines, step by step", _DAI + "appendix A", "tests/reference; docs: BFilter"
    ),
)
