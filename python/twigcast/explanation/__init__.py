"""Why a query matches a message or not.

The engine itself takes the query apart and evaluates each part, so an explanation cannot disagree with a match.

What lives where: ``explainer``: asking for an explanation; ``rendering``: an explanation as text.
"""

from twigcast.explanation.explainer import Explanation, Hint, NodeLocation, explain

__all__ = ["Explanation", "Hint", "NodeLocation", "explain"]
