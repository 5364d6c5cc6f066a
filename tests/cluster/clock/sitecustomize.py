"""Lets a process believe that it is later: `CLUSTER_CLOCK` is by how many seconds, and may be negative.

Python loads a module of this name by itself if its folder is on PYTHONPATH. What counts seconds without a date
(`time.monotonic`) stays as it is, as on a machine whose clock is wrong.
"""

import datetime
import os
import time

if ahead := float(os.environ.get("CLUSTER_CLOCK", "0")):
    real_time, real_time_ns, real_datetime = time.time, time.time_ns, datetime.datetime

    class Moved(real_datetime):
        @classmethod
        def now(cls, tz=None):
            return real_datetime.now(tz) + datetime.timedelta(seconds=ahead)

        @classmethod
        def utcnow(cls):
            return real_datetime.utcnow() + datetime.timedelta(seconds=ahead)

    time.time = lambda: real_time() + ahead
    time.time_ns = lambda: real_time_ns() + int(ahead * 1e9)
    datetime.datetime = Moved
