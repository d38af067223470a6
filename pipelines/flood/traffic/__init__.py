"""Made-up requests that know what they are: everyday ones, attacks of every kind, late ones and garbage.

Nothing here reads a clock or sends anything: a plan and a start give one and the same traffic, byte for byte.
"""

from pipelines.flood.traffic.made import FloodTraffic

__all__ = ["FloodTraffic"]
