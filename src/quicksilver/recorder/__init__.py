"""Groups on disk: logs of what was multicast, for replay, latecomers and Spark."""
