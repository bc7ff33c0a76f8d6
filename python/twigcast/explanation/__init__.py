"""Explanations of why a query matches a message or not.

The engine itself takes the query apart and evaluates each part, so an explanation cannot disagree with a match.

- ``explainer``: asks for an explanation
- ``rendering``: writes it as text
"""

from twigcast.explanation.explainer import Explanation, Hint, NodeLocation, explain

__all__ = ["Explanation", "Hint", "NodeLocation", "explain"]
