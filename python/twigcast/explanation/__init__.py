"""Why a query matches a message or not.

What lives where: ``explainer``: the query taken apart, each part evaluated, hints where it fails; ``condition``: the
XPath conditions that a For-Where-Return query sets; ``names``: the names in a message.
"""

from twigcast.explanation.explainer import Explanation, Finding, explain

__all__ = ["Explanation", "Finding", "explain"]
