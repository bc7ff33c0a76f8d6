"""Explanations of why a query matches a message or not.

The engine itself divides the query and evaluates each part, so an explanation cannot disagree with a match.

- ``explainer``: requests an explanation from the engine
- ``rendering``: writes it as text
"""

from twigcast.explanation.explainer import Explanation, Hint, NearMisses, NodeLocation, explain

__all__ = ["Explanation", "Hint", "NearMisses", "NodeLocation", "explain"]
