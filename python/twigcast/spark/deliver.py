"""Tables with a row per match, delivery or rejected message, from the answers of ``match_messages``."""

from pyspark.sql import DataFrame


def matches(answers: DataFrame) -> DataFrame:
    """``message_id``, ``key``, ``nodes``: a row per message and subscription that matches it."""
    return answers.selectExpr("message_id", "inline(matches)")


def deliveries(answers: DataFrame) -> DataFrame:
    """``message_id``, ``key``, ``payload``: a row per message and subscription that rewrites it."""
    return answers.selectExpr("message_id", "inline(deliveries)")


def rejected(answers: DataFrame) -> DataFrame:
    """``message_id``, ``reason``, ``line``, ``column``, ``xml``: a row per message that could not be processed."""
    return answers.where("rejected is not null").selectExpr("message_id", "rejected.*")
