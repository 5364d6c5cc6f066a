"""OpenTelemetry: what ended turns become for a collector, made in a thread of its own.

The engine does not know of it: turns keep what they did (`bub/base/tracing/activity.py`), and a watcher hands them over
when they are over. Only `wanted.py` and `late.py` are imported if nobody wants telemetry.
"""
