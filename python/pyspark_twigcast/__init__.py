"""The module by which Spark finds the data source ``twigcast`` by itself.

Spark 4 imports each module on the path whose name begins with ``pyspark_`` and takes its ``DefaultSource``, so
``spark.read.format("twigcast")`` needs no registration where Twigcast is installed.
"""

from twigcast.spark.message_format import MessageFormat as DefaultSource

__all__ = ["DefaultSource"]
