"""Which traces are sent: the samplers that `OTEL_TRACES_SAMPLER` can name.

They decide as a turn begins, and are so simple that the package of OpenTelemetry need not be loaded for it. Their rules
are in the specification of the SDK, section Sampling: <https://opentelemetry.io/docs/specs/otel/trace/sdk/#sampling>.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bub.log import log_warning

SAMPLER, ARGUMENT = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"

_RATES = {"always_on": 1.0, "always_off": 0.0, "traceidratio": None}
_LOW_BITS = 2**64 - 1


class Sampler(msgspec.Struct, frozen=True):
    """Takes the share `rate` of the traces; if `heeds_parent`, of those that begin elsewhere what was taken there."""

    rate: float = 1.0
    heeds_parent: bool = True

    def takes(self, trace_id: str, flags: int | None) -> bool:
        """Whether a trace is sent; `flags` are those of whoever began it, None if it begins here."""
        if self.heeds_parent and flags is not None:
            return bool(flags & 1)
        return self.rate >= 1.0 or int(trace_id, 16) & _LOW_BITS < round(self.rate * (_LOW_BITS + 1))


def read_sampler(environ: Mapping[str, str]) -> Sampler:
    """Read which traces are sent: all but those that their sender has left out, unless the environment says so.

    What it cannot say is logged, and counts as not said.
    """
    asked = environ.get(SAMPLER, "").strip().lower()
    if not asked:
        return Sampler()
    base = asked.removeprefix("parentbased_")
    if base not in _RATES:
        log_warning("telemetry.unknown_sampler", sampler=asked)
        return Sampler()
    rate = _RATES[base]
    return Sampler(_read_rate(environ) if rate is None else rate, base != asked)


def _read_rate(environ: Mapping[str, str]) -> float:
    said = environ.get(ARGUMENT, "").strip()
    try:
        rate = float(said or 1.0)
    except ValueError:
        rate = -1.0
    if not 0.0 <= rate <= 1.0:
        log_warning("telemetry.unknown_sampler", argument=said)
        return 1.0
    return rate
